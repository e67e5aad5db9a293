"""Intent read by a language model beside the graph, checked against the sentence by the rules.

The model says what is meant of the whole picture, what must not be there, numbers, texts, doubts
and what it did not read. The rules hold it to the sentence: objects and passages must stand in it,
a number that it does not say is open, an attribute that it does not say is left out, and words,
wishes and exclusions that the reading lacks are added.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from scenewright.agents.parsers import tagging as lexicon
from scenewright.agents.parsers.rules import intent_of, is_foreign
from scenewright.agents.parsers.tagging import is_animate, rough
from scenewright.agents.parsers.unread import UNKNOWN, in_order, is_latin, stems_of
from scenewright.core.formats.base import explain
from scenewright.core.inflection import singular
from scenewright.core.intent import (
    Choice,
    Count,
    Doubt,
    DoubtKind,
    Exclusion,
    Global,
    Intent,
    Passage,
)
from scenewright.core.scene import Attributes, SceneError, SceneGraph, SceneObject

_SKIPPED = "not read by the language model"
_ENGLISH = frozenset({"", "en", "eng", "english"})
_PAIRS = {"both": 2, "pair": 2, "pairs": 2, "couple": 2, "duo": 2, "twin": 2, "twins": 2, "trio": 3,
          "triplets": 3, "quartet": 4}  # fmt: skip
_SOME = frozenset(["several", "few", "many", "some", "multiple", "various"])
_SMALL = frozenset(["a", "an", "the", "of", "in", "at", "on", "by", "with", "and", "very", "style"])
_EACH = re.compile(r"\b(?:each|every|apiece|per)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_PEOPLE = (
    lexicon.PEOPLE
    | lexicon.PEOPLE_PRONOUNS
    | lexicon.PLURAL_PRONOUNS
    | {"people", "who", "someone", "anyone"}
)
_BEFORE_NOUNS = frozenset({"noun", "adjective", "either", "weak", "ing", "participle", "number"})
_LONG = 4
"""Letters from which on a word that begins another is a form of it: wood, wooden."""

_Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Choice(BaseModel):
    label: _Words
    sentence: _Words


class _Doubt(BaseModel):
    kind: DoubtKind
    text: _Words
    question: _Words
    choices: Annotated[list[_Choice], Field(min_length=2)]


class _Reading(BaseModel):
    """The part of a reply that is not the graph; what is left out is empty."""

    language: str = ""
    english: str = ""
    globals: list[Global] = []
    exclusions: list[Exclusion] = []
    counts: list[Count] = []
    texts: list[str] = []
    unread: list[str] = []
    doubts: list[_Doubt] = []


def read_intent(
    data: Mapping[str, Any], sentence: str, scene: SceneGraph, ids: Mapping[str, str]
) -> SceneGraph:
    """Return ``scene`` with what ``data`` says of ``sentence`` beside it, checked by the rules.

    ``ids``: of the scene's objects by those in ``data``. Raises ``SceneError`` with the place for
    what cannot be, and for objects that the sentence does not name.
    """
    given = {name: data[name] for name in _Reading.model_fields if data.get(name) is not None}
    try:
        reading = _Reading.model_validate(given)
    except ValidationError as error:
        raise explain(error, "the reading") from None
    language, english = _translation(reading, sentence)
    said = english or sentence
    scene = _grounded(scene, said)
    intent = Intent(
        sentence=sentence,
        language=language,
        english=english,
        globals=tuple(
            dict.fromkeys(
                one.model_copy(update={"text": _words(said, one.text, f"globals[{at}]")})
                for at, one in enumerate(reading.globals)
            )
        ),
        exclusions=tuple(
            Exclusion(
                name=_named(one.name, f"exclusions[{at}]"),
                text=_words(said, one.text, f"exclusions[{at}]"),
                of=_object(one.of, ids, f"exclusions[{at}].of") if one.of else None,
            )
            for at, one in enumerate(reading.exclusions)
        ),
        counts=tuple(_counts(reading.counts, said, scene, ids)),
        texts=tuple(text for text in reading.texts if text.strip() and text in said),
        unread=tuple(
            _passage(sentence, text, f"unread[{at}]", _SKIPPED)
            for at, text in enumerate(reading.unread)
        ),
        doubts=tuple(_doubts(reading.doubts, sentence)),
    )
    return scene.said_as(_checked(intent, scene))


def _translation(reading: _Reading, sentence: str) -> tuple[str, str]:
    """Return the language of a sentence and its translation; both empty if it is English."""
    language = reading.language.strip().lower()
    english = " ".join(reading.english.split())
    same = english.casefold() == " ".join(sentence.split()).casefold()
    if (not english or same) and (language not in _ENGLISH or is_foreign(sentence)):
        raise SceneError(
            "english is empty, but the sentence is in another language: translate the whole "
            "sentence, and write names, attributes and relations in English"
        )
    if not english or same or language in _ENGLISH - {""}:
        return "", ""
    return language, english


def _grounded(scene: SceneGraph, said: str) -> SceneGraph:
    """Return ``scene`` without attributes that ``said`` does not state.

    Raises ``SceneError`` for objects that it does not name, and for words in other letters.
    """
    names = [item.name for item in scene.objects]
    other = [one for one in (*names, *(r.predicate for r in scene.relations)) if not is_latin(one)]
    if other:
        raise SceneError(f"{', '.join(map(repr, other[:6]))} is not English: translate it")
    # Words in all forms, numbers also as digits.
    known = stems_of([said, *said.replace("-", " ").split()]) | set(map(str, numbers_in(said)))
    people = any(word in _PEOPLE or is_animate(word) for word in known)
    unnamed = [
        name
        for name in dict.fromkeys(names)
        if not (_stands(name, known) or (people and singular(name.lower()) == "person"))
    ]
    if unnamed:
        raise SceneError(
            f"{', '.join(map(repr, unnamed[:6]))}: the sentence names no such object. List only "
            "what it names, in its own words"
        )
    objects = []
    for item in scene.objects:
        kept = {key: said for key, said in item.attributes.items() if _stands(said, known)}
        objects.append(item.model_copy(update={"attributes": Attributes(kept)}))
    return scene.model_copy(update={"objects": tuple(objects)})


def _stands(label: str, known: frozenset[str]) -> bool:
    """Return whether the words of a label are among ``known``, in any form."""
    words = [word.lower() for word in _WORD.findall(label.replace("-", " "))]
    telling = [word for word in words if word not in _SMALL] or words
    return all(
        stems_of([word]) & known
        or str(lexicon.NUMBERS.get(word, "")) in known
        or any(
            len(short) >= _LONG and long.startswith(short[:-1] if short[-1] in "ey" else short)
            for short, long in (sorted((word, one), key=len) for one in known)
        )
        for word in telling
    )


def _checked(intent: Intent, scene: SceneGraph) -> Intent:
    """Return ``intent`` with what only the rules found in its sentence."""
    said = intent.english or intent.sentence
    found = intent_of(said, scene, intent)
    # A medium or a light may be an object or an attribute to the model.
    labels = [one for item in scene.objects for one in (item.name, *item.attributes.values())]
    held = stems_of([*(one.text for one in intent.globals), *labels])
    more = [one for one in found.globals if not _content(one.text) <= held]
    excluded = stems_of(text for one in intent.exclusions for text in (one.name, one.text))
    denied = [
        one for one in found.exclusions if not stems_of([one.name.rpartition(" ")[2]]) & excluded
    ]
    if intent.english:
        # Words of the translation have no place of their own in the sentence.
        whole = {"start": 0, "end": len(intent.sentence)}
        lost = [one.model_copy(update=whole) for one in found.unread if one.reason == UNKNOWN]
    else:
        denials = [one.text for one in intent.exclusions if one.text in said]
        told = [*intent.unread, *(_passage(said, text, "exclusions", "") for text in denials)]
        lost = [
            one
            for one in found.unread
            if not any(two.start <= one.start and one.end <= two.end for two in told)
        ]
    return intent.model_copy(
        update={
            "globals": tuple(dict.fromkeys((*intent.globals, *more))),
            "exclusions": (*intent.exclusions, *denied),
            "unread": in_order([*intent.unread, *lost]),
        }
    )


def _content(text: str) -> frozenset[str]:
    """Return the words of a wish without its small ones."""
    return frozenset(text.lower().replace(",", " ").split()) - _SMALL


def _counts(
    given: Sequence[Count], said: str, scene: SceneGraph, ids: Mapping[str, str]
) -> Iterator[Count]:
    """Yield how numbers are meant: those that the sentence does not say are open."""
    known = numbers_in(said)
    counted: set[str] = set()
    for at, one in enumerate(given):
        where = f"counts[{at}]"
        if not one.objects:
            raise SceneError(f"{where}.objects is empty: write the ids that are counted")
        objects = tuple(dict.fromkeys(_object(id_, ids, f"{where}.objects") for id_ in one.objects))
        if counted & set(objects):
            raise SceneError(f"{where}.objects: {objects[0]!r} is counted twice: count it once")
        counted |= set(objects)
        number = one.number or len(objects)
        if one.kind != "open" and number < len(objects):
            raise SceneError(
                f"{where}: the number is {number}, but there are {len(objects)} objects: list as "
                "many objects as the sentence counts"
            )
        # "A few" and "a group of" say that there are several.
        vague = one.kind == "least" and any(
            word in _SOME or lexicon.GROUPS.get(word, 0) > 2
            for word in re.findall(r"[a-z]+", said.lower())
        )
        stated = vague or number in known
        if one.kind != "open" and stated:
            yield Count(objects=objects, kind=one.kind, number=number)
        elif len(objects) > 1:
            yield Count(objects=objects, kind="open", number=None)
    alike: dict[tuple[str, str], list[SceneObject]] = {}
    for item in scene.objects:
        if item.id not in counted:
            alike.setdefault((item.name, str(sorted(item.attributes.items()))), []).append(item)
    for items in alike.values():
        if (number := len(items)) > 1:
            exact = number in known and _says_number_of(said, number, items[0].name)
            yield Count(
                objects=tuple(item.id for item in items),
                kind="exact" if exact else "open",
                number=number if exact else None,
            )


def _says_number_of(text: str, number: int, name: str) -> bool:
    """Return whether ``text`` says the number before the plural of a name: "two black cats"."""
    head = singular(name.rpartition(" ")[2].lower())
    stated: list[str] = []
    for word in re.findall(r"[0-9]+|[a-z']+|[,.;]", text.lower()):
        if word in lexicon.NUMBERS or word in _PAIRS or word.isdigit():
            stated.append(word)
        elif number in numbers_in(" ".join(stated)) and singular(word) == head:
            return True
        elif word != "of" and rough(word) not in _BEFORE_NOUNS:
            stated = []
    return False


def numbers_in(text: str) -> frozenset[int]:
    """Return the numbers that an English text says; of "two of each", products too.

    >>> sorted(numbers_in("Two girls and a dog, 12 birds"))
    [1, 2, 12]
    """
    words = re.findall(r"[0-9]+|[a-z]+", text.lower())
    known = {**lexicon.NUMBERS, **_PAIRS}
    found = {int(word) if word.isdigit() else known.get(word, -1) for word in words} - {-1}
    for tens, one in itertools.pairwise(words):
        first, second = known.get(tens, 0), known.get(one, 0)
        if 20 <= first < 100 and 0 < second < 10:
            found.add(first + second)
        if first and second in (12, 100, 1000):
            found.add(first * second)
    if _EACH.search(text):
        found |= {one * other for one in found for other in found}
    return frozenset(found)


def _doubts(given: Sequence[_Doubt], sentence: str) -> Iterator[Doubt]:
    for at, one in enumerate(given):
        place = _passage(sentence, one.text, f"doubts[{at}]", "")
        yield Doubt(
            kind=one.kind,
            question=one.question,
            choices=tuple(Choice(**choice.model_dump()) for choice in one.choices),
            **place.model_dump(include={"start", "end", "text"}),
        )


def _named(name: str, where: str) -> str:
    if not name.strip():
        raise SceneError(f"{where} has no name: write what must not be there, in the singular")
    return name.strip()


def _words(said: str, text: str, where: str) -> str:
    """Return ``text``, whose words must be those of ``said``, in any order."""
    if _content(text) <= stems_of(_WORD.findall(said)):
        return text
    return _passage(said, text, where, "").text


def _passage(sentence: str, text: str, where: str, reason: str) -> Passage:
    """Return where ``text`` stands in ``sentence``, whatever its case and spaces."""
    words = text.split()
    found = re.search(r"\s+".join(map(re.escape, words)), sentence, re.IGNORECASE)
    if not words or found is None:
        raise SceneError(
            f"{where}: {text!r} is not a passage of the sentence: copy its words as they stand"
        )
    start, end = found.span()
    return Passage(start=start, end=end, text=sentence[start:end], reason=reason)


def _object(value: str, ids: Mapping[str, str], where: str) -> str:
    if value.strip() not in ids:
        raise SceneError(f"{where}: {value!r} is not an object: write one of its ids")
    return ids[value.strip()]

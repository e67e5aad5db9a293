"""Closed vocabularies: the words of a model that knows only a few.

A small judge answers any question, even about things that it never learned, and a detector of
eighty classes never finds the eighty-first. Both would say *no*, or worse *yes*, without knowing.
Such models name their words, and facts with other words are unscored without a call. So are
questions in free words that ask in no form of :mod:`scenewright.core.question_forms`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Fact
from scenewright.core.inflection import read_data, singular
from scenewright.core.question_forms import asked_form, examples
from scenewright.core.questions import NO_RELATION
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.user_files import read_user_text
from scenewright.core.validation import first_problem
from scenewright.core.vocabulary import converse, entailed, place_of, same_key, synonymous

FILE = "vocabulary.json"
"""File in a model's folder that names its words."""
Part = Literal["class", "attribute", "value", "predicate", "number", "word", "question"]
"""Kind of thing that an unknown word names; ``word``: it occurs in the question, not in a part of
the fact; ``question``: all words are known, but nothing was learnt about what asks so."""

_SHOWN = 12


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of a question's form. They name nothing that could be in a picture.
_FORM = _words(
    "a an the this that these those one ones other others of in on at to from for with by and or "
    "not is are was be been being there here has have do does did can could you see seen visible "
    "show shows shown look looks looking what which who how many much where when image picture "
    "photo figure scene color colour colors relationship relation relations related between holds "
    "hold least fewer than more number size any some each all every if so it its as yes no true "
    "false answer please thing things object objects"
)
_KINDS = {
    name: _words(listed) for name, listed in read_data("scenewright.core", "hypernyms.toml").items()
}
_AT_LEAST = re.compile(r"\bat least (\d+)\b")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


class VocabularyError(ScenewrightError, ValueError):
    """A vocabulary file that cannot be used."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A word that a model does not know."""

    part: Part
    """Which part of the fact it is."""
    word: str
    """The word."""
    key: str = ""
    """Of a value: the key of its attribute."""

    def __str__(self) -> str:
        """Return ``the class 'astronaut'``, ``the color 'pink'``."""
        if self.part == "value":
            return f"the {self.key} {self.word!r}"
        return f"the {self.part} {self.word!r}"


@dataclass(frozen=True, slots=True)
class ClosedVocabulary:
    """The words of a model; None stands for any."""

    classes: tuple[str, ...] | None = None
    """Class labels."""
    attributes: Mapping[str, tuple[str, ...] | None] | None = field(default=None, hash=False)
    """Attribute key → its values."""
    predicates: tuple[str, ...] | None = None
    """Predicates of relations, each in one form: synonyms of them are known as well."""
    synonyms: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Further predicates → the one of :attr:`predicates` that the model knows them as."""
    rivals: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Predicate → wrong options that its questions may offer in place of an unknown one."""
    choices: int | None = None
    """Number of predicates among the options of a relation question, if the model knows just one
    such number; "no visible relationship" is not counted.
    """
    soundness: bool = False
    """Whether the model was taught the questions of facts of soundness."""

    most: int | None = None
    """Largest number of things that the model counts to."""

    def unknown(self, fact: Fact) -> tuple[Unknown, ...]:
        """Return the words of ``fact`` outside of the vocabulary; empty if it can be asked.

        Wrong options that :meth:`worded` replaces are ignored.
        """
        found = [Unknown("class", name) for name in fact.classes if not self.knows_class(name)]
        if fact.kind == "soundness":
            return tuple(found) if self.soundness else (Unknown("question", fact.question),)
        # A fact that names no classes was not made of a scene: its key may be any word.
        if fact.classes and fact.kind == "attribute" and fact.key and fact.value:
            found += self.unknown_attribute(fact.key, fact.value)
        asked: tuple[str, ...] = (fact.predicate,) if fact.classes and fact.predicate else ()
        if _is_choice(fact):
            # Only known predicates can be said not to hold.
            asked = fact.options if fact.expected == NO_RELATION else (fact.expected,)
        found += [
            Unknown("predicate", word)
            for word in asked
            if word != NO_RELATION and not self.knows_predicate(word)
        ]
        found += [
            Unknown("number", number)
            for number in _AT_LEAST.findall(fact.question)
            if self.most is not None and int(number) > self.most
        ]
        if found or self._question(fact) is not None:
            return tuple(dict.fromkeys(found))
        unknown = self._unknown_words(fact)
        if unknown or fact.classes or self._values is None:
            return unknown
        return (Unknown("question", fact.question),)

    @property
    def _values(self) -> tuple[tuple[str, str], ...] | None:
        """Every attribute with its value; None if some words are open."""
        if self.classes is None or self.attributes is None or None in self.attributes.values():
            return None
        return tuple(
            (key, value) for key, values in self.attributes.items() for value in values or ()
        )

    def _question(self, fact: Fact) -> str | None:
        """Return the question of a scene that one in free words means; None if it means none."""
        if fact.classes or self.classes is None or (values := self._values) is None:
            return None
        if not fact.is_binary and not _is_choice(fact):
            return None
        return asked_form(fact.question, fact.options, self.classes, values)

    def unknown_object(self, item: SceneObject) -> tuple[Unknown, ...]:
        """Return words of an object outside of the vocabulary, its attributes among them."""
        found = [] if self.knows_class(item.name) else [Unknown("class", item.name)]
        for key, value in item.attributes.items():
            found += self.unknown_attribute(key, value)
        return tuple(found)

    def unknown_relation(self, relation: Relation, converses: bool) -> tuple[Unknown, ...]:
        """Return the predicate of ``relation`` if it is outside of the vocabulary.

        With ``converses`` it is known if its converse is.
        """
        turned = converse(relation.predicate) if converses else None
        if any(p is not None and self.knows_predicate(p) for p in (relation.predicate, turned)):
            return ()
        return (Unknown("predicate", relation.predicate),)

    def unknown_in(self, scene: SceneGraph, converses: bool) -> tuple[Unknown, ...]:
        """Return words of ``scene`` outside of the vocabulary, each once.

        ``converses``: as in :meth:`unknown_relation`.
        """
        found = [one for item in scene.objects for one in self.unknown_object(item)]
        found += [one for r in scene.relations for one in self.unknown_relation(r, converses)]
        return tuple(dict.fromkeys(found))

    def knows_class(self, name: str) -> bool:
        """Return whether ``name`` or its singular is one of the classes."""
        return self.classes is None or bool(_forms(name) & _all_forms(self.classes))

    def hypernym(self, name: str) -> str | None:
        """Return the class that is drawn in place of ``name``; None for a known or strange one.

        By the table of kinds (``hypernyms.toml``), then by the last word: a top hat is a hat.
        """
        if self.classes is None or self.knows_class(name):
            return None
        head = singular(name.rpartition(" ")[2].casefold())
        for word in (singular(name.casefold()), head):
            for known in self.classes:
                if word in _KINDS.get(known, ()) or (word == head and word == known):
                    return known
        return None

    def place(self, predicate: str) -> str | None:
        """Return the predicate that is drawn in place of ``predicate``; None for other ones.

        Who lies on a table is on it.
        """
        if self.predicates is None or self.knows_predicate(predicate):
            return None
        place = place_of(predicate)
        found = (self.known_predicate(one) for one in (place, *sorted(entailed(place))) if place)
        return next((known for known in found if known is not None), None)

    def knows_predicate(self, predicate: str) -> bool:
        """Return whether ``predicate`` or a synonym of it is one of the predicates."""
        return self.predicates is None or self.known_predicate(predicate) is not None

    def known_predicate(self, predicate: str) -> str | None:
        """Return the vocabulary's own word for ``predicate``; None if it has none."""
        for known in self.predicates or ():
            if synonymous(predicate, known):
                return known
        for other, known in self.synonyms.items():
            if synonymous(predicate, other):
                return known
        return None

    def reason(self, unknown: Sequence[Unknown]) -> str:
        """Return why a fact with these unknown words is unscored, with the words that are known."""
        if any(one.part == "question" for one in unknown):
            some = " or ".join(
                f"{one!r}" for one in examples(self.classes or (), self._values or ())
            )
            return f"cannot say: it answers questions such as {some}, and no other forms"
        said = " and ".join(str(one) for one in unknown)
        verb = "is" if len(unknown) == 1 else "are"
        known = "; ".join(dict.fromkeys(self._listed(one) for one in unknown))
        return f"{said} {verb} outside its vocabulary ({known})"

    def worded(self, fact: Fact) -> tuple[Fact, Mapping[str, str]]:
        """Return ``fact`` with its relation's options in known words, asked as scenes ask.

        The second value leads back: option as asked → option of ``fact``.

        A synonym is asked in the vocabulary's own word. A wrong option that is unknown, or that
        reads like another one then, gives its place to one of the asked predicate's rivals.
        ``fact`` must have no :meth:`unknown` words.
        """
        if (question := self._question(fact)) is not None:
            fact = fact.model_copy(update={"question": question})
        if self.predicates is None or not _is_choice(fact):
            return fact, {}
        back = {NO_RELATION: NO_RELATION}
        # The expected option first: what reads like it is dropped, and not it.
        for option in (fact.expected, *fact.options):
            if (known := self._asked_as(option)) is not None:
                back.setdefault(known, option)
        # Predicates that may take an option's place.
        asked = next((word for word in back if word != NO_RELATION), "")
        spare = iter([other for other in self.rivals.get(asked, ()) if other not in back])
        offered: list[str] = []
        for option in fact.options:
            known = self._asked_as(option)
            if known == NO_RELATION:
                continue
            if known is None or known in offered:
                known = next(spare, None)
            if known is not None:
                offered.append(known)
        offered += islice(spare, max(0, (self.choices or 0) - len(offered)))
        if NO_RELATION in fact.options:
            last = fact.options[-1] == NO_RELATION
            offered.insert(len(offered) if last else fact.options.index(NO_RELATION), NO_RELATION)
        expected = self._asked_as(fact.expected) or fact.expected
        return fact.model_copy(update={"options": tuple(offered), "expected": expected}), back

    def _asked_as(self, option: str) -> str | None:
        return option if option == NO_RELATION else self.known_predicate(option)

    def as_json(self) -> dict[str, Any]:
        """Return the content of :data:`FILE`."""
        # No words of a kind is something else than any.
        kept = ("classes", "attributes", "predicates")
        return {
            name: value
            for name, value in asdict(self).items()
            if value or (name in kept and value is not None)
        }

    def unknown_attribute(self, key: str, value: str) -> tuple[Unknown, ...]:
        """Return the attribute, or its value, if it is outside of the vocabulary."""
        if self.attributes is None:
            return ()
        for known, words in self.attributes.items():
            if same_key(key, known):
                told = words is None or _plain(value) in map(_plain, words)
                return () if told else (Unknown("value", value, known),)
        return (Unknown("attribute", f"{key}: {value}"),)

    def _unknown_words(self, fact: Fact) -> tuple[Unknown, ...]:
        """Return the words of question and options that the model does not know.

        Left out are words of a question's form, the options yes and no, and those of a relation.
        """
        if self.classes is None or self.attributes is None:
            return ()
        text = fact.question
        if not fact.is_binary and not _is_choice(fact):
            text = f"{text} {' '.join(fact.options)}"
        values = (word for words in self.attributes.values() for word in words or ())
        spoken = (*self.classes, *self.attributes, *values, *(self.predicates or ()))
        known = _spoken(*spoken, *self.synonyms)
        found = [
            Unknown("word", word)
            for word in _WORD.findall(text)
            if not word.isdecimal() and not _forms(word) & known
        ]
        return tuple(dict.fromkeys(found))

    def _listed(self, unknown: Unknown) -> str:
        match unknown.part:
            case "class":
                return f"it knows {listed(self.classes or ())}"
            case "value":
                return f"it knows {listed((self.attributes or {}).get(unknown.key) or ())}"
            case "attribute":
                return f"it knows the attributes {listed(self.attributes or ())}"
            case "predicate":
                return f"it knows {listed(self.predicates or ())}"
            case "number":
                return f"it counts to {self.most}"
        return "it knows questions about its own classes and attributes alone"


def listed(words: Iterable[str]) -> str:
    """Return ``person, dog, cat``, of many the first ones and how many more there are; ``none``."""
    every = tuple(words)
    rest = len(every) - _SHOWN
    return (", ".join(every[:_SHOWN]) or "none") + (f" and {rest} more" if rest > 0 else "")


def read_vocabulary(folder: Path) -> ClosedVocabulary | None:
    """Return the vocabulary that a model's folder names; None if it names none.

    Raises ``VocabularyError`` for a file that cannot be read.
    """
    path = folder / FILE
    if not path.exists():
        return None
    text = read_user_text(path, VocabularyError)
    try:
        return _VOCABULARY.validate_json(text)
    except ValidationError as error:
        raise VocabularyError(
            f"{path} names no vocabulary ({first_problem(error, 'the file')}): write an object "
            'such as {"classes": ["dog"], "attributes": {"color": ["red"]}, "predicates": ["on"]}'
        ) from error


def write_vocabulary(folder: Path, vocabulary: ClosedVocabulary) -> None:
    """Write ``vocabulary`` to a model's folder."""
    text = json.dumps(vocabulary.as_json(), indent=1, ensure_ascii=False)
    (folder / FILE).write_text(f"{text}\n", encoding="utf-8")


_VOCABULARY: TypeAdapter[ClosedVocabulary] = TypeAdapter(ClosedVocabulary)


def _is_choice(fact: Fact) -> bool:
    """Return whether the options of ``fact`` are predicates."""
    return not fact.is_binary and (fact.kind == "relation" or NO_RELATION in fact.options)


def _plain(word: str) -> str:
    return " ".join(word.casefold().split())


def _forms(word: str) -> frozenset[str]:
    """Return ``word`` and its singular."""
    plain = _plain(word)
    return frozenset({plain, singular(plain)})


@lru_cache(maxsize=32)
def _all_forms(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(form for word in words for form in _forms(word))


@lru_cache(maxsize=32)
def _spoken(*words: str) -> frozenset[str]:
    """Return the single words of ``words`` in all forms, and those of a question's form."""
    parts = {part for word in words for part in _WORD.findall(_plain(word))}
    return _FORM | _all_forms(tuple(parts))

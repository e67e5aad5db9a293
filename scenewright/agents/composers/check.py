"""Checks of a prompt, by words and without a model: against its scene, and the person's sentence.

A text that no image model could use is found first: ids in place of labels, tokens of a chat
format, repeating words (:func:`unusable_reason`).

Text is read with the caption parser's tagger, so nouns match in singular and plural, verbs in every
form, and predicates by the vocabulary: by a synonym, by an entailing predicate, or reversed by the
converse. An object is stated if its class is named as often as the scene has it; an attribute if
its words are with the class; a relation if its predicate, or entailing words, relate the two
classes in the right direction: by a verb, a preposition, a passive, "with" or a possessive. Objects
of one class are distinguished only by number, and additional statements are ignored.

:func:`dropped_facts` finds facts in the part of a prompt that the image model does not read.

:func:`compared` compares a prompt with the person's sentence. Whoever wrote the prompt (the
sentence itself, a grammar or a language model), each content word and number of the sentence is in
it or told as lost, and each that the sentence does not have is told as added. Words are compared by
their stems, so that "dogs" is "dog" and "is wearing" is "wearing".
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scenewright.agents.composers.reading import (
    MULTIPLE,
    SMALL,
    Mention,
    Sentence,
    Text,
    said_values,
    words_of,
)
from scenewright.agents.composers.relations import times_joined
from scenewright.agents.composers.sentences import sentences
from scenewright.agents.parsers.tagging import NUMBERS, OWN_PRONOUNS, WRITINGS, rough, words
from scenewright.agents.parsers.unread import SMALL_TAGS, traces, traces_of
from scenewright.core.english import NO, YES
from scenewright.core.facts import Fact
from scenewright.core.inflection import plural, stems
from scenewright.core.intent import Passage
from scenewright.core.ports.composer import LostFact
from scenewright.core.referring import relation_statement
from scenewright.core.scene import SceneGraph
from scenewright.core.wishes import exclusion_phrase

CHECK_VERSION = 6
"""Version of the check."""
_CONTROL = re.compile(
    r"<\|[^<>|\n]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|"
    r"</?(?:bos|eos|pad|unk|think|thinking|tool_call|tool_response|start_of_turn|end_of_turn)>|"
    r"^#{2,} ?(?:Instruction|Response|User|Assistant)\b:?",
    re.IGNORECASE | re.MULTILINE,
)
"""Tokens that separate turns in models' chat formats."""
_LONGEST_CYCLE = 40
_MOST_CYCLES = 5
"""Allowed repetitions of the same words in a row, beyond the number of equal objects."""
_SIGNS = re.compile(r"[\d._#:|]")


def lost_facts(scene: SceneGraph, text: str) -> tuple[LostFact, ...]:
    """Return the facts of ``scene`` that are not stated in ``text``, in the order of facts."""
    return tuple(_lost(scene, _Reading.of(text, [item.name for item in scene.objects])))


def unusable_reason(scene: SceneGraph, text: str) -> str:
    """Return why ``text`` is unusable as a prompt; empty if it is usable."""
    values = ((item.name, *itertools.chain(*item.attributes.items())) for item in scene.objects)
    own = " ".join((*itertools.chain(*values), *(one.predicate for one in scene.relations)))
    found = next((token for token in _CONTROL.findall(text) if token not in own), None)
    if found is not None:
        return f"it holds {found!r}, which belongs to the format of a conversation."
    for item in scene.objects:
        id_ = item.id.casefold()
        # An id that cannot occur in a text as a word.
        handle = id_ not in item.name.casefold() and re.search(r"[^\W\d_]", id_)
        if (handle and _SIGNS.search(id_)) and re.search(
            rf"(?<![\w.]){re.escape(item.id)}(?![\w])(?!\.\w)", text, re.IGNORECASE
        ):
            return f"it holds the id {item.id!r}: call the object {item.name!r}."
    words = re.findall(r"\w+", text.casefold())
    alike = Counter(item.name.casefold() for item in scene.objects)
    most = max(_MOST_CYCLES, 1 + max(alike.values(), default=0))
    for length in range(1, min(_LONGEST_CYCLE, len(words) // most) + 1):
        same = 0
        for at in range(length, len(words)):
            same = same + 1 if words[at] == words[at - length] else 0
            if same >= length * (most - 1):
                said = " ".join(words[at - length + 1 : at + 1])
                return f"it repeats itself: {said!r}."
    return ""


def _lost(scene: SceneGraph, read: _Reading) -> Iterator[LostFact]:
    items = {item.id: item for item in scene.objects}
    labels = {item.name.casefold(): item.name for item in reversed(scene.objects)}
    counted = {id_ for one in scene.intent.counts if one.kind != "exact" for id_ in one.objects}
    loose = Counter(item.name.casefold() for item in scene.objects if item.id in counted)
    for name, count in Counter(item.name.casefold() for item in scene.objects).items():
        # A bare plural is read as two; so it says any number that nobody said.
        number = count - max(0, loose[name] - 2)
        found = read.times(name)
        if found < number:
            label = labels[name]
            said = label if number == 1 else f"{number} {plural(label)}"
            yield LostFact("object", said if not found else f"{said} (only {found} said)")
    wanted: Counter[tuple[str, ...]] = Counter()
    shown: dict[tuple[str, ...], LostFact] = {}
    for item in scene.objects:
        values = {value.casefold(): value for value in _values(item.name, item.attributes)}
        for low, value in values.items():
            wanted[item.name.casefold(), low] += 1
            shown[item.name.casefold(), low] = LostFact("attribute", f"{item.name} is {value}")
    for relation in scene.relations:
        source, target = items[relation.source], items[relation.target]
        key = (source.name.casefold(), relation.predicate.casefold(), target.name.casefold())
        wanted[key] += 1
        statement = relation_statement(source, relation.predicate, target)
        shown.setdefault(key, LostFact("relation", statement))
    yield from (shown[key] for key, count in wanted.items() if read.times(*key) < count)


def _values(name: str, attributes: Mapping[str, str]) -> Iterator[str]:
    """Return the required words of an object's attributes; its ``name`` may contain a value."""
    label = words_of(name)
    for key, value in attributes.items():
        said = key if value.casefold() in YES | NO else value
        # "Black and cute" is two values, "black and white" too.
        for part in said.split(" and "):
            if part.strip() and not all(word in label for word in words_of(part)):
                yield part


def _said_of(text: Text, name: str, value: str) -> float:
    """Count the objects of the class that are said to be ``value``.

    A plural counts as any number.
    """
    content = [word for word in words_of(value) if word not in SMALL] or list(words_of(value))
    if not content:
        return float("inf")
    forms = [frozenset().union(*map(stems, said_values(word))) for word in content]
    # A long value need not be said in all its words.
    least = len(content) if len(content) < 3 else (2 * len(content) + 2) // 3
    found = 0.0
    before: Sequence[Mention] = ()
    for sentence in text.sentences:
        places = [
            [at for at, here in enumerate(sentence.words) if stems(here.text) & form]
            for form in forms
        ]
        if sum(map(bool, places)) >= least:
            bearers = _bearers(sentence, places, name, before)
            if any(mention.many for mention in bearers):
                found = float("inf")
            elif bearers:
                found += max(1, min(len(some) for some in places if some))
        before = sentence.mentions or before
    return found


def _bearers(
    sentence: Sentence, places: Sequence[Sequence[int]], name: str, before: Sequence[Mention]
) -> list[Mention]:
    """Return the objects of the class that a sentence gives a value."""
    earlier = before if sentence.has_pronoun or not sentence.mentions else ()
    for at in itertools.chain(*places):
        # "A red ball" says nothing of what else is there, "a ball, red and shiny" does.
        near = sentence.bearer(at) or sentence.of(name) or earlier
        if same := [mention for mention in near if mention.name == name]:
            return same
    return []


def dropped_facts(
    scene: SceneGraph,
    facts: Sequence[Fact],
    prompt: str,
    read: int | None,
    unsaid: Collection[tuple[str, ...]] = (),
) -> tuple[str, ...]:
    """Return the ids of facts cut off by the image model, and of facts left out by the composer.

    The first are stated by the whole ``prompt``, or depend on a dropped object, but are not stated
    in its first ``read`` characters (none where ``read`` is None: all of it is read); the second
    are those in ``unsaid``. In a prompt that is not English sentences only words are compared.
    Facts that the prompt never stated are not dropped.
    """
    stated = [fact for fact in facts if fact.of_graph]
    if read is None:
        return tuple(fact.id for fact in stated if _parts_of(fact) in unsaid)
    parts = _parts(scene)
    names = [item.name for item in scene.objects]
    every, kept = _Reading.of(prompt, names), _Reading.of(prompt[:read], names)
    dropped: dict[str, None] = {}
    for fact in stated:
        if _parts_of(fact) in unsaid:
            dropped[fact.id] = None
            continue
        part = parts.get((fact.subject,) if fact.kind == "object" else _parts_of(fact))
        if fact.kind == "attribute" and fact.subject in scene and fact.key and fact.value:
            item = scene.object(fact.subject)
            if item.attributes.get(fact.key) != fact.value:
                part = _with_value(item.name, fact.key, fact.value, 1)
        if part is None or kept.states(part):
            continue
        said = every.states(part) or any(parent in dropped for parent in fact.depends_on)
        if said or (part.words <= every.words and not part.words <= kept.words):
            dropped[fact.id] = None
    return tuple(dropped)


def _parts_of(fact: Fact) -> tuple[str, ...]:
    """Return the fact in the form of ``Wording.unsaid``."""
    parts = (fact.subject, fact.key, fact.predicate, fact.target)
    return tuple(part for part in parts if part is not None)


def _words(*texts: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d_]+", " ".join(texts).casefold()))


@dataclass(frozen=True, slots=True)
class _Part:
    """Statements that a text must make for one fact.

    Equally worded objects before it count too, so that the second of two dogs needs two.
    """

    times: Mapping[tuple[str, ...], int]
    """Number of times that a class, a value of one or a relation is stated, all in small letters.
    """
    words: frozenset[str]
    """All words of the fact."""


def _with_value(name: str, key: str, value: str, times: int) -> _Part:
    """Return the part of the ``times``-th object of the class ``name`` with a value."""
    label = name.casefold()
    values = Counter((label, said.casefold()) for said in _values(name, {key: value}))
    needed: dict[tuple[str, ...], int] = {(label,): times}
    needed |= {said: times * count for said, count in values.items()}
    return _Part(needed, _words(name, value))


def _parts(scene: SceneGraph) -> dict[tuple[str, ...], _Part]:
    """Return the parts of all facts: by the object's id, with an attribute's key, and by relation.

    The last are named by source, predicate and target.
    """
    found: dict[tuple[str, ...], _Part] = {}
    names = {item.id: item.name for item in scene.objects}
    numbers: Counter[tuple[str, ...]] = Counter()
    for item in scene.objects:
        numbers[item.name,] += 1
        found[item.id,] = _Part({(item.name.casefold(),): numbers[item.name,]}, _words(item.name))
        for key, value in item.attributes.items():
            same = (item.name, key, value)
            numbers[same] += 1
            found[item.id, key] = _with_value(item.name, key, value, numbers[same])
    ends: dict[tuple[str, str, str], dict[str, None]] = {}
    for one in scene.relations:
        label = (names[one.source], one.predicate, names[one.target])
        numbers["", *label] += 1
        upto = ends.setdefault(label, {})
        upto |= {one.source: None, one.target: None}
        needed = Counter[tuple[str, ...]]((names[end].casefold(),) for end in upto)
        needed[tuple(part.casefold() for part in label)] = numbers["", *label]
        found[one.source, one.predicate, one.target] = _Part(needed, _words(*label))
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text read once for all facts of a scene."""

    text: Text
    words: frozenset[str]
    found: dict[tuple[str, ...], float] = field(default_factory=dict)
    """Number of times that a class, a value of one or a relation is said, as far as it was asked.
    """

    @classmethod
    def of(cls, text: str, names: Sequence[str]) -> _Reading:
        return cls(Text.of(text, names), _words(text))

    def states(self, part: _Part) -> bool:
        """Return whether the text says all of a part."""
        return all(self.times(*said) >= times for said, times in part.times.items())

    def times(self, *asked: str) -> float:
        """Return how often a class, a value of one or a relation is said."""
        if asked not in self.found:
            match asked:
                case (name,):
                    self.found[asked] = self.text.count(name)
                case (name, value):
                    self.found[asked] = _said_of(self.text, name, value)
                case (source, predicate, target):
                    self.found[asked] = times_joined(self.text, source, predicate, target)
        return self.found[asked]


LOST = "not in the prompt"
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
_AMOUNTS = frozenset(
    ["several", "many", "few", "multiple", "various", "different", "more", "most", "plenty"]
)
"""Determiners that say how many there are, or that they are not alike."""
_SILENT = frozenset(
    {"image", "picture", "scene", "there", "made", "which", "who", "of", "with", "to", "on", "one",
     "as", "than", "in", "at", "by", "from", "for", "also", "too", "just", "see", "seen", "visible",
     "color", "colour", "colors", "colours"}
)  # fmt: skip
"""Words that say only that there is a picture, or that join others."""
_ORDINALS = words("numbers", "ordinals")
"""Words that a prompt adds to tell things of one class apart."""
_PEOPLE = frozenset({"people", "persons", "human", "humans"})
"""Words for which a reading says "person"."""
_DENIALS = words("negation", "words") | {"instead"}
_WRITTEN = WRITINGS | {"say", "read", "write", "spell", "label"}
"""Words that only say that there is a text."""
_DENIED = re.compile(r"\bno\s+$", re.IGNORECASE)
_DIGITS = {word: str(number) for word, number in NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class PromptChanges:
    """The difference between a sentence and a prompt."""

    lost: tuple[Passage, ...] = ()
    """Passages of the sentence that the prompt does not say."""
    added: tuple[str, ...] = ()
    """Words of the prompt that the sentence does not say, in its order."""

    @property
    def text(self) -> str:
        """Lost and added words in one line; empty if there are none."""
        parts = []
        if self.lost:
            parts.append(f"not drawn: {', '.join(one.text for one in self.lost)}")
        if self.added:
            parts.append(f"added: {', '.join(self.added)}")
        return "; ".join(parts)


def changes_of(scene: SceneGraph, prompt: str, negative: str = "") -> PromptChanges:
    """Return what ``prompt`` lost of the sentence of ``scene`` and added to it.

    After an edit of the graph, what the edit took out of the sentence is not lost, and what it
    brought in is not added. A sentence in another language is compared in that language or in
    English, whichever the prompt is in.
    """
    if not scene.edited:
        found = compared(scene.sentence, prompt, negative)
        if scene.english == scene.sentence:
            return found
        english = compared(scene.english, prompt, negative)
        if len(found.lost) + len(found.added) <= len(english.lost) + len(english.added):
            return found
        # Words of the translation have no place of their own in the sentence.
        whole = {"start": 0, "end": len(scene.sentence)}
        return replace(english, lost=tuple(one.model_copy(update=whole) for one in english.lost))
    intent = scene.intent
    counts = tuple(one for one in intent.counts if one.number in (None, len(one.objects)))
    numbers = Counter(item.name for item in scene.objects).values()
    beside = [*map(str, numbers), *(passage.text for passage in intent.unread)]
    if any(count.kind != "exact" for count in counts):
        beside += _AMOUNTS
    held = traces(scene) | traces_of(intent.model_copy(update={"counts": counts}))
    return compared(
        intent.english or intent.sentence, prompt, negative, held | _stems(" ".join(beside))
    )


def compared(
    sentence: str, prompt: str, negative: str = "", held: frozenset[str] | None = None
) -> PromptChanges:
    """Return what ``prompt`` lost of ``sentence`` and added to it.

    A word in the ``negative`` prompt is not lost, nor is the "without" before it. Nothing without a
    sentence. ``held``: stems of what is still to be drawn, and of what was never said; None: all
    of the sentence.
    """
    if not sentence:
        return PromptChanges()
    said = _stems(sentence) | (held or frozenset())
    kept = _stems(prompt) | _stems(negative)
    lost: list[Passage] = []
    for match in _content(sentence):
        if _in(match[0], kept) or (negative and match[0].lower() in _DENIALS):
            continue
        if held is not None and not _in(match[0], held):
            continue
        between = sentence[lost[-1].end : match.start()] if lost else "."
        start = match.start()
        if re.fullmatch(r"\s+", between):
            start = lost.pop().start
        denied = _DENIED.search(sentence, 0, start)
        start = denied.start() if denied is not None else start
        text = sentence[start : match.end()]
        lost.append(Passage(start=start, end=match.end(), text=text, reason=LOST))
    new = (match[0] for match in _content(prompt) if not _in(match[0], said | _WRITTEN))
    added = (word for word in new if word.lower() not in _ORDINALS)
    return PromptChanges(tuple(lost), tuple(dict.fromkeys(added)))


def without_excluded(prompt: str, scene: SceneGraph, avoids: bool) -> str:
    """Return ``prompt`` without what must not be there, where a negative prompt says that.

    ``avoids``: whether the image model takes one. What an object is to be without ("a man without a
    hat") stays: a negative prompt is about the whole picture.
    """
    if not avoids:
        return prompt
    for one in scene.intent.exclusions:
        if one.of is None:
            for text in (one.text, exclusion_phrase(one)):
                prompt = re.sub(rf"(?:,\s*)?{re.escape(text)}", "", prompt)
    return " ".join(prompt.split()) or sentences(scene)


def _content(text: str) -> Iterator[re.Match[str]]:
    """Yield the words that say something to draw."""
    for match in _WORD.finditer(text):
        low = match[0].lower()
        said = low in _AMOUNTS or low == "how" or rough(low) not in SMALL_TAGS
        if said and low not in OWN_PRONOUNS and low not in _SILENT:
            yield match


def _stems(text: str) -> frozenset[str]:
    return frozenset().union(*(_stems_of(match[0]) for match in _WORD.finditer(text)))


def _in(word: str, known: frozenset[str]) -> bool:
    """Return whether ``word`` or all parts of a compound are among the stems ``known``."""
    return all(_stems_of(part) & known for part in re.split(r"[-.]", word) if part)


def _stems_of(word: str) -> frozenset[str]:
    low = word.lower().replace("’", "'").removesuffix("'s")
    parts = [part for part in re.split(r"[-'.]", low) if part]
    if low in _PEOPLE:
        return frozenset({low, "person"})
    known = {_DIGITS.get(one, one) for one in (low, *(parts if len(parts) > 1 else ()))}
    if low in MULTIPLE:
        known.add(str(MULTIPLE[low]))
    found = frozenset().union(known, *map(stems, known))
    return found | {"text"} if found & _WRITTEN else found

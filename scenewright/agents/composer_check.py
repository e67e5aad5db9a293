"""Whether a composed text still says every fact of its scene: by words, without a model.

Text is read with the caption parser's tagger, so nouns match in singular and plural, verbs in every
form, and predicates by the vocabulary: by a synonym, by what entails them, or turned round by their
converse. An object is said if its class is named as often as the scene has it; an attribute if its
words stand with the class; a relation if its predicate, or words that entail it, join the two
classes the right way round: by a verb, a preposition, a passive, "with" or a possessive. Objects
of one class are told apart by number alone, and what the text says besides is not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenewright.agents.composer_nouns import SMALL, said_values
from scenewright.agents.composer_reading import (
    Mention,
    Sentence,
    Text,
    lemmas,
    words_of,
)
from scenewright.agents.composer_relations import times_joined
from scenewright.facts import FactKind
from scenewright.plurals import plural
from scenewright.questions import noun_phrase
from scenewright.scene import SceneGraph, SceneObject

CHECK_VERSION = 3
"""Raised when the check finds other facts lost."""
_YES = frozenset({"yes", "true"})
_NO = frozenset({"no", "false"})


@dataclass(frozen=True, slots=True)
class LostFact:
    """A fact of the scene that a text does not say."""

    kind: FactKind
    """What it is about."""
    statement: str
    """The fact in words: ``red ball on blue table``."""


def lost_facts(scene: SceneGraph, text: str) -> tuple[LostFact, ...]:
    """The facts of ``scene`` that ``text`` does not say: objects, attributes, then relations."""
    read = Text.of(text, (item.name for item in scene.objects))
    return (*_objects(scene, read), *_attributes(scene, read), *_relations(scene, read))


def _objects(scene: SceneGraph, text: Text) -> Iterator[LostFact]:
    labels: dict[str, str] = {}
    for item in scene.objects:
        labels.setdefault(item.name.casefold(), item.name)
    counts = Counter(item.name.casefold() for item in scene.objects)
    for name, wanted in counts.items():
        found = text.count(name)
        if found >= wanted:
            continue
        label = labels[name]
        said = label if wanted == 1 else f"{wanted} {plural(label)}"
        yield LostFact("object", said if not found else f"{said} (only {found} said)")


# Attributes


def _attributes(scene: SceneGraph, text: Text) -> Iterator[LostFact]:
    wanted: Counter[tuple[str, str]] = Counter()
    shown: dict[tuple[str, str], LostFact] = {}
    for item in scene.objects:
        for value in _values(item):
            key = (item.name.casefold(), value.casefold())
            wanted[key] += 1
            shown[key] = LostFact("attribute", f"{item.name} is {value}")
    for (name, value), count in wanted.items():
        if _said_of(text, name, value) < count:
            yield shown[name, value]


def _values(item: SceneObject) -> Iterator[str]:
    """The words that an object's attributes need; a value that the label says needs none."""
    label = words_of(item.name)
    for key, value in item.attributes.items():
        said = key if value.casefold() in _YES | _NO else value
        # "Black and cute" is two values, "black and white" too.
        for part in said.split(" and "):
            if part.strip() and not all(word in label for word in words_of(part)):
                yield part


def _said_of(text: Text, name: str, value: str) -> float:
    """How many objects of the class are said to be ``value``; many at once count as any number."""
    content = [word for word in words_of(value) if word not in SMALL] or list(words_of(value))
    if not content:
        return float("inf")
    found = 0.0
    before: list[Mention] = []
    for sentence in text.sentences:
        places = [_places(sentence, word) for word in content]
        said = sum(bool(found_at) for found_at in places)
        if said >= _enough(len(content)):
            bearers = _bearers(sentence, places, name, before)
            if bearers:
                found += float("inf") if any(m.many for m in bearers) else _times(places)
        if sentence.mentions:
            before = list(sentence.mentions)
    return found


def _enough(words: int) -> int:
    """How many words of a value must be said: of a long one not all."""
    return words if words < 3 else (2 * words + 2) // 3


def _times(places: Sequence[Sequence[int]]) -> int:
    return max(1, min((len(found) for found in places if found), default=1))


def _places(sentence: Sentence, word: str) -> list[int]:
    """Where a word of a value stands, in whatever form or by another word for it."""
    wanted = said_values(word)
    forms = frozenset().union(*(lemmas(other) for other in wanted))
    return [at for at, here in enumerate(sentence.words) if lemmas(here.text) & forms]


def _bearers(
    sentence: Sentence, places: Sequence[Sequence[int]], name: str, before: Sequence[Mention]
) -> list[Mention]:
    """The objects of the class of which a sentence says a value."""
    for found in places:
        for at in found:
            own = sentence.bearer(at)
            if own:
                same = [m for m in own if m.name == name]
                # "A red ball" says nothing of what else is there, "a ball, red and shiny" does.
                if not same:
                    continue
                return same
            same = sentence.of(name)
            if same:
                return same
            if sentence.has_pronoun or not sentence.mentions:
                same = [m for m in before if m.name == name]
                if same:
                    return same
    return []


def _relations(scene: SceneGraph, text: Text) -> Iterator[LostFact]:
    items = {item.id: item for item in scene.objects}
    wanted: Counter[tuple[str, str, str]] = Counter()
    shown: dict[tuple[str, str, str], LostFact] = {}
    for relation in scene.relations:
        source, target = items[relation.source], items[relation.target]
        key = (source.name.casefold(), relation.predicate.casefold(), target.name.casefold())
        wanted[key] += 1
        said = f"{noun_phrase(source)} {relation.predicate} {noun_phrase(target)}"
        shown.setdefault(key, LostFact("relation", said))
    for (source_name, predicate, target_name), count in wanted.items():
        if times_joined(text, source_name, predicate, target_name) < count:
            yield shown[source_name, predicate, target_name]

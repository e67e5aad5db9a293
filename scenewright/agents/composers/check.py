"""Whether a composed text still says every fact of its scene: by words, without a model.

A text that no reader of prompts would take is found first: ids in place of labels, tokens of a
chat's format, words that go round in circles (:func:`unfit`).

Text is read with the caption parser's tagger, so nouns match in singular and plural, verbs in every
form, and predicates by the vocabulary: by a synonym, by what entails them, or turned round by their
converse. An object is said if its class is named as often as the scene has it; an attribute if its
words stand with the class; a relation if its predicate, or words that entail it, join the two
classes the right way round: by a verb, a preposition, a passive, "with" or a possessive. Objects
of one class are told apart by number alone, and whatever else the text says is not looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from scenewright.agents.composers.nouns import SMALL, said_values
from scenewright.agents.composers.reading import (
    Mention,
    Sentence,
    Text,
    lemmas,
    words_of,
)
from scenewright.agents.composers.relations import times_joined
from scenewright.core.plurals import plural
from scenewright.core.ports.composer import LostFact
from scenewright.core.questions import noun_phrase
from scenewright.core.scene import SceneGraph, SceneObject

CHECK_VERSION = 5
"""Raised when the check finds other facts lost, or other texts unfit."""
_CONTROL = re.compile(
    r"<\|[^<>|\n]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|"
    r"</?(?:bos|eos|pad|unk|think|thinking|tool_call|tool_response|start_of_turn|end_of_turn)>|"
    r"^#{2,} ?(?:Instruction|Response|User|Assistant)\b:?",
    re.IGNORECASE | re.MULTILINE,
)
"""Tokens by which models' formats divide a conversation."""
_LONGEST_CYCLE = 40
_MOST_CYCLES = 5
"""Times in a row that a text may say the same words, beyond as many objects as are alike."""
_SIGNS = re.compile(r"[\d._#:|]")
_YES = frozenset({"yes", "true"})
_NO = frozenset({"no", "false"})


def lost_facts(scene: SceneGraph, text: str) -> tuple[LostFact, ...]:
    """The facts of ``scene`` that ``text`` does not say: objects, attributes, then relations."""
    read = Text.of(text, (item.name for item in scene.objects))
    return (*_objects(scene, read), *_attributes(scene, read), *_relations(scene, read))


def unfit(scene: SceneGraph, text: str) -> str:
    """Return why ``text`` is no description that could be drawn from; empty if it is one."""
    own = " ".join(_own_words(scene))
    found = next((token for token in _CONTROL.findall(text) if token not in own), None)
    if found is not None:
        return f"it holds {found!r}, which belongs to the format of a conversation."
    for item in scene.objects:
        if _is_handle(item) and re.search(
            rf"(?<![\w.]){re.escape(item.id)}(?![\w])(?!\.\w)", text, re.IGNORECASE
        ):
            return f"it holds the id {item.id!r}: call the object {item.name!r}."
    said = _in_circles(text, scene)
    return f"it says the same again and again: {said!r}." if said else ""


def _own_words(scene: SceneGraph) -> Iterator[str]:
    for item in scene.objects:
        yield item.name
        for key, value in item.attributes.items():
            yield from (key, value)
    for relation in scene.relations:
        yield relation.predicate


def _is_handle(item: SceneObject) -> bool:
    """Whether an object's id is no word that a text could hold by itself."""
    id, name = item.id.casefold(), item.name.casefold()
    return id not in name and re.search(r"[^\W\d_]", id) is not None and bool(_SIGNS.search(id))


def _in_circles(text: str, scene: SceneGraph) -> str:
    """The words that a text repeats in a row; empty if it does not go round in circles."""
    words = re.findall(r"\w+", text.casefold())
    alike = Counter(item.name.casefold() for item in scene.objects)
    most = max(_MOST_CYCLES, 1 + max(alike.values(), default=0))
    for length in range(1, min(_LONGEST_CYCLE, len(words) // most) + 1):
        same = 0
        for at in range(length, len(words)):
            same = same + 1 if words[at] == words[at - length] else 0
            if same >= length * (most - 1):
                return " ".join(words[at - length + 1 : at + 1])
    return ""


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

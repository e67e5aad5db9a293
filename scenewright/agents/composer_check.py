"""Whether a composed text still says every fact of its scene: by words, without a model.

An object is said if its class is named as often as the scene has it; an attribute if its value
stands with the class; a relation if its predicate or a known paraphrase joins the two classes
the right way round. Nouns match in singular and plural, verbs in every form. Objects of one
class are told apart by number alone, and what the text says besides is not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from scenewright.agents.composer_text import Sentence, Text, class_of, words_of
from scenewright.agents.composer_words import (
    EVERY,
    POSTURE_STEMS,
    PREPOSITIONS,
    Place,
    place_of,
    same_values,
    same_verbs,
    stem,
)
from scenewright.facts import FactKind
from scenewright.placement import canonical_predicate
from scenewright.plurals import plural
from scenewright.questions import noun_phrase
from scenewright.scene import SceneGraph, SceneObject

CHECK_VERSION = 1
"""Raised when the check finds other facts lost."""
_YES = frozenset({"yes", "true"})
_NO = frozenset({"no", "false"})
_NEXT_VERB = 3
"""Words after a verb among which "by" turns it into a passive."""


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
        labels.setdefault(class_of(item.name), item.name)
    counts = Counter(class_of(item.name) for item in scene.objects)
    for name, wanted in counts.items():
        found = text.count(name)
        if found >= wanted:
            continue
        label = labels[name]
        said = label if wanted == 1 else f"{wanted} {plural(label)}"
        yield LostFact("object", said if not found else f"{said} (only {found} said)")


def _attributes(scene: SceneGraph, text: Text) -> Iterator[LostFact]:
    wanted: Counter[tuple[str, str]] = Counter()
    shown: dict[tuple[str, str], LostFact] = {}
    for item in scene.objects:
        for value in _values(item):
            key = (class_of(item.name), value.casefold())
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
        if not all(word in label for word in words_of(said)):
            yield said


def _said_of(text: Text, name: str, value: str) -> float:
    """How many objects of the class are said to be ``value``; many at once count as any number."""
    wanted = words_of(value)
    if not wanted:
        return float("inf")
    found = 0.0
    before: Sentence | None = None
    for sentence in text.sentences:
        for at in range(len(sentence.words) - len(wanted) + 1):
            here = sentence.words[at : at + len(wanted)]
            if not all(word in same_values(want) for word, want in zip(here, wanted, strict=True)):
                continue
            noun = sentence.modified(at + len(wanted))
            if noun is not None:
                bearers = [noun]
            else:
                bearers = [m for m in sentence.mentions if m.head < at]
                if not bearers and before is not None and sentence.has_pronoun:
                    bearers = list(before.mentions)
            same = [m for m in bearers if m.name == name]
            if same:
                found += float("inf") if any(m.many for m in same) else 1
        if sentence.mentions:
            before = sentence
    return found


def _relations(scene: SceneGraph, text: Text) -> Iterator[LostFact]:
    items = {item.id: item for item in scene.objects}
    wanted: Counter[tuple[str, str, str]] = Counter()
    shown: dict[tuple[str, str, str], LostFact] = {}
    for relation in scene.relations:
        source, target = items[relation.source], items[relation.target]
        key = (class_of(source.name), relation.predicate.casefold(), class_of(target.name))
        wanted[key] += 1
        said = f"{noun_phrase(source)} {relation.predicate} {noun_phrase(target)}"
        shown.setdefault(key, LostFact("relation", said))
    for (source_name, predicate, target_name), count in wanted.items():
        if _joined(text, source_name, predicate, target_name) < count:
            yield shown[source_name, predicate, target_name]


def _joined(text: Text, source: str, predicate: str, target: str) -> float:
    """How often the text joins the two classes by the predicate; many at once: any number."""
    found = 0.0
    seen: set[str] = set()
    for sentence in text.sentences:
        ends = _Ends(sentence, source, target, seen)
        times = _said_in(ends, predicate)
        if times:
            several = any(m.many for m in sentence.mentions if m.name in (source, target))
            found += float("inf") if several or EVERY & {*sentence.words} else times
        seen |= {mention.name for mention in sentence.mentions}
    return found


@dataclass(frozen=True, slots=True)
class _Ends:
    """A sentence that may join two classes, and what a pronoun in it may mean."""

    sentence: Sentence
    source: str
    target: str
    seen: set[str]
    """Classes named in the sentences before."""

    def has(self, name: str) -> bool:
        """Whether the class is named here, or a pronoun may stand for it."""
        if self.source == self.target:
            named = [m for m in self.sentence.mentions if m.name == name]
            if len(named) > 1 or any(m.many for m in named):
                return True
            return bool(named or name in self.seen) and self.sentence.has_pronoun
        if self.sentence.names(name):
            return True
        return name in self.seen and self.sentence.has_pronoun

    def follows(self, name: str, end: int) -> bool:
        """Whether the class is what the words before ``end`` lead to."""
        after = self.sentence.after(end)
        if after:
            return any(mention.name == name for mention in after)
        return name in self.seen | {m.name for m in self.sentence.mentions}

    def both(self) -> bool:
        """Whether both classes are here, one of them perhaps as a pronoun."""
        named = self.sentence.names(self.source) or self.sentence.names(self.target)
        return named and self.has(self.source) and self.has(self.target)

    def nearest(self, name: str, start: int) -> bool:
        """Whether the class is named nearest to ``start``."""
        gaps = [
            (min(abs(m.head - start), abs(m.start - start)), m.name) for m in self.sentence.mentions
        ]
        return bool(gaps) and name in {n for gap, n in gaps if gap == min(gaps)[0]}


def _said_in(ends: _Ends, predicate: str) -> int:
    """How often the sentence says ``predicate`` of the two ends."""
    words = [w for w in words_of(predicate) if w not in ("is", "are", "being")]
    plain = canonical_predicate(" ".join(words))
    place = place_of(plain) or place_of(" ".join(words))
    if not ends.both():
        # "On the left, a dog waits": of what was named before.
        known = ends.target in ends.seen and ends.sentence.names(ends.source)
        return _placed(ends, Place(beside_source=place.beside_source)) if place and known else 0
    literal = sum(
        ends.follows(ends.target, end)
        for _, end in ends.sentence.find(" ".join(words_of(predicate)))
    )
    if literal:
        return literal
    if place is not None and not (words and words[0].endswith("ing")):
        return _placed(ends, place)
    tail = " ".join(words[1:])
    if words and stem(words[0]) in POSTURE_STEMS and tail:
        where = place_of(canonical_predicate(tail)) or Place((tail,))
        return min(len(_verbs(ends, words[0])), _placed(ends, where))
    verb = next((w for w in words if w not in PREPOSITIONS), words[0] if words else "")
    times = sum(_right_way(ends, at) for at in _verbs(ends, verb))
    if not times and stem(verb) == stem("wearing"):
        # A man in a hat wears it.
        return _placed(ends, Place(("in",)))
    return times


def _placed(ends: _Ends, place: Place) -> int:
    """How often a place is said of the two ends."""
    found: set[int] = set()
    sentence = ends.sentence
    for phrase in place.before_target:
        found |= {start for start, end in sentence.find(phrase) if ends.follows(ends.target, end)}
    for phrase in place.before_source:
        found |= {start for start, end in sentence.find(phrase) if ends.follows(ends.source, end)}
    for phrase in place.either:
        found |= {start for start, _ in sentence.find(phrase)}
    for phrase in place.beside_source:
        for start, end in sentence.find(phrase):
            leads = end < len(sentence.words) and sentence.words[end] in ("of", "side", "hand")
            if not leads and ends.nearest(ends.source, start):
                found.add(start)
    return len(found)


def _verbs(ends: _Ends, verb: str) -> list[int]:
    """Where the sentence says the verb, in whatever form."""
    wanted = same_verbs(verb)
    return [at for at, word in enumerate(ends.sentence.words) if stem(word) in wanted]


def _right_way(ends: _Ends, at: int) -> bool:
    """Whether source and target stand about a verb as who does and to whom it is done."""
    sentence = ends.sentence
    source_after = any(m.name == ends.source and m.start > at for m in sentence.mentions)
    source_before = any(m.name == ends.source and m.head < at for m in sentence.mentions)
    target_before = any(m.name == ends.target and m.head < at for m in sentence.mentions)
    target_after = any(m.name == ends.target and m.start > at for m in sentence.mentions)
    if "by" in sentence.words[at + 1 : at + 1 + _NEXT_VERB]:
        return source_after or not source_before
    turned = source_after and not source_before and target_before and not target_after
    return not turned

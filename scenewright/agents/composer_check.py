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

from scenewright.agents.composer_nouns import OWNING, SMALL, same_values, same_verbs
from scenewright.agents.composer_reading import (
    Mention,
    Sentence,
    Text,
    Word,
    alike,
    is_part,
    is_worn,
    lemmas,
    words_of,
)
from scenewright.agents.parser.lexicon import FRAME_NOUNS, PARTICLES
from scenewright.facts import FactKind
from scenewright.inflection import ing_form, verb_base
from scenewright.plurals import plural
from scenewright.questions import noun_phrase
from scenewright.scene import SceneGraph, SceneObject
from scenewright.vocabulary import canonical, converse, entails, holds_with

CHECK_VERSION = 2
"""Raised when the check finds other facts lost."""
_YES = frozenset({"yes", "true"})
_NO = frozenset({"no", "false"})
_EVERY = frozenset({"each", "both", "all", "every"})
_HAVING = frozenset(map(canonical, ("has", "with", "of")))
_WORN = frozenset({"in", "on"})
"""The same of clothes: "a man in a hat"."""
_PARTS_OF = frozenset({"of", "on", "in", "from", "by", "inside", "at"})
_HELD = frozenset({"on", "inside", "at", "part of", "attached to", "in the middle of", "along"})
"""What may be true of a thing that another "has"."""
_BEARING = {"supporting": "on", "bearing": "on", "topping": "under"}
"""Verbs of what lies below → where the other thing is."""
_DIRECTIONS = frozenset({"above", "below"})
_SIDES = {
    "top": "above",
    "bottom": "below",
    "left": "left of",
    "right": "right of",
    "front": "in front of",
    "foreground": "in front of",
    "background": "behind",
    "back": "behind",
    "distance": "behind",
}
"""A side of the picture → how what is there stands to the rest."""
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
    wanted = same_values(word)
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


# Relations


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
        if _joined(text, source_name, predicate, target_name) < count:
            yield shown[source_name, predicate, target_name]


def _joined(text: Text, source: str, predicate: str, target: str) -> float:
    """How often the text joins the two classes by the predicate; many at once: any number."""
    asked = _Asked.of(predicate)
    found = 0.0
    seen: set[str] = set()
    named = frozenset(m.name for sentence in text.sentences for m in sentence.mentions)
    if asked.name in _HAVING and is_part(target) and {source, target} <= named:
        return float("inf")
    for sentence in text.sentences:
        ends = _Ends(sentence, source, target, frozenset(seen), named)
        times = _said_in(ends, asked)
        if times:
            several = any(m.many for m in sentence.mentions if m.name in (source, target))
            every = any(word.text in _EVERY for word in sentence.words)
            found += float("inf") if several or every else times
        seen |= {mention.name for mention in sentence.mentions}
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """A predicate, taken apart."""

    name: str
    """Canonical."""
    verb: str
    """Its verb in the ``-ing`` form; empty without one."""
    rest: str
    """What follows the verb."""
    words: tuple[str, ...]
    """As the scene has it."""

    @classmethod
    def of(cls, predicate: str) -> _Asked:
        name = canonical(predicate)
        words = tuple(w for w in words_of(predicate) if w not in ("is", "are", "being"))
        first = name.split()[0] if name else ""
        base = verb_base(first) if first not in ("left", "like", "close", "next") else None
        verb = ing_form(base) if base is not None and name != "has" else ""
        return cls(name, verb, " ".join(name.split()[1:]) if verb else "", words)


@dataclass(frozen=True, slots=True)
class _Ends:
    """A sentence that may join two classes, and what a pronoun in it may mean."""

    sentence: Sentence
    source: str
    target: str
    seen: frozenset[str]
    """Classes named in the sentences before."""
    all: frozenset[str]
    """Classes named anywhere in the text."""

    def has(self, name: str) -> bool:
        """Whether the class is named here, or a pronoun may stand for it."""
        named = self.sentence.of(name)
        if self.source == self.target:
            if len(named) > 1 or any(m.many for m in named):
                return True
            return bool(named or name in self.seen) and self.sentence.has_pronoun
        return bool(named) or (name in self.seen and self.sentence.has_pronoun)

    def both(self) -> bool:
        """Whether both classes are here, one of them perhaps as a pronoun."""
        named = self.sentence.of(self.source) or self.sentence.of(self.target)
        return bool(named) and self.has(self.source) and self.has(self.target)

    def leads_to(self, name: str, end: int) -> bool:
        """Whether the class is what the words before ``end`` lead to."""
        words = self.sentence.words[end : end + 2]
        if any(word.tag == "pronoun" for word in words[:1]) or any(
            word.text in ("them", "it", "other", "one") for word in words
        ):
            # "On top of it": not what stands next before, but something named earlier.
            before = [m.name for m in self.sentence.mentions if m.head < end]
            return name in self.seen or name in before[:-1]
        return any(mention.name == name for mention in self.sentence.after(end))

    def begins(self, name: str, start: int) -> bool:
        """Whether the class may be the subject of what begins at ``start``."""
        if any(m.head < start for m in self.sentence.of(name)):
            return True
        if name in self.seen and self.sentence.has_pronoun:
            return True
        # "On the table lies a ball", "…, behind the door there is a board".
        fresh = not any(m.head < start for m in self.sentence.mentions) or (
            self.sentence.words[start - 1].tag in ("comma", "clause", "and")
        )
        return fresh and bool(self.sentence.of(name))


def _said_in(ends: _Ends, asked: _Asked) -> int:
    """How often the sentence says the predicate of the two ends."""
    having = asked.name in _HAVING
    if not ends.both():
        return _in_the_picture(ends, asked)
    if having:
        return int(_owned(ends, ends.source, ends.target)) or _by_verb(ends, asked)
    found = _literally(ends, asked) or (_by_verb(ends, asked) if asked.verb else 0)
    found = found or _by_place(ends, asked) or _in_the_picture(ends, asked)
    if not found and asked.name in _HELD:
        # "A tree with lights": they are on it.
        found = int(_owned(ends, ends.target, ends.source, loosely=False))
    return found


def _literally(ends: _Ends, asked: _Asked) -> int:
    words = ends.sentence.words
    size = len(asked.words)
    return sum(
        ends.leads_to(ends.target, at + size) and ends.begins(ends.source, at)
        for at in range(len(words) - size + 1)
        if all(alike(words[at + n].text, asked.words[n]) for n in range(size))
    )


def _in_the_picture(ends: _Ends, asked: _Asked) -> int:
    """ "On the left, a dog waits", "a wall in the background": of what the text names besides."""
    sentence = ends.sentence
    for start, end, said in _places_in(sentence):
        near = sentence.around(start, end)
        turned = converse(said)
        if ends.source in near and ends.target in ends.all and holds_with(said, asked.name):
            return 1
        if (
            turned is not None
            and ends.target in near
            and ends.source in ends.all
            and holds_with(turned, asked.name)
        ):
            return 1
    return 0


def _places_in(sentence: Sentence) -> Iterator[tuple[int, int, str]]:
    """(start, end, predicate) of phrases that say where in the picture something is."""
    words = sentence.words
    for phrase, start, end in _phrases(sentence):
        side = next((_SIDES[w.text] for w in words[start:end] if w.text in _SIDES), "")
        follows = words[end : end + 2]
        framed = any(word.text in FRAME_NOUNS for word in follows)
        if side and (words[start].tag == "place" or framed):
            yield start, end, side
        elif words[start].tag == "place":
            yield start, end, phrase
    for at, word in enumerate(words[1:], 1):
        # "To its left".
        if words[at - 1].tag == "possessive" and word.tag == "noun" and word.text in _SIDES:
            yield at - 1, at + 1, _SIDES[word.text]


def _owned(ends: _Ends, owner: str, owned: str, loosely: bool = True) -> bool:
    """Whether the owner has the other: by a verb, "with", a possessive; ``loosely`` also as its
    part, or by what stands on it."""
    sentence = ends.sentence
    words = sentence.words
    owners = sentence.of(owner)
    for mention in sentence.of(owned):
        start = _phrase_start(words, mention)
        for at in range(start, mention.start):
            if words[at].tag == "owner" and any(m.end == at for m in owners):
                return True
            known = owner in ends.seen or any(m.head < at for m in owners)
            if words[at].tag == "possessive" and known:
                return True
    for mention in sentence.of(owned):
        if any(m.end == mention.start or (m.start == mention.end + 1 and
               words[mention.end].text == "of") for m in owners):  # fmt: skip
            # "A wooden table leg", "kitchen cabinets", "the leg of the table".
            return True
    for at, word in enumerate(words):
        cue = word.text in OWNING or (word.text in _WORN and is_worn(owned))
        if cue and ends.leads_to(owned, at + 1) and ends.begins(owner, at):
            return True
        if loosely and word.text in _PARTS_OF and ends.leads_to(owner, at + 1):
            before = [m for m in sentence.mentions if m.head < at]
            if before and before[-1].name == owned:
                return True
    return False


def _phrase_start(words: Sequence[Word], mention: Mention) -> int:
    """Where the noun phrase of a mention begins."""
    start = mention.start
    while start and words[start - 1].tag in (
        *("adjective", "noun", "number", "possessive", "owner", "participle", "adverb", "and"),
        *("comma", "ing"),
    ):
        start -= 1
        if words[start].tag in ("possessive", "owner"):
            break
    return start


def _by_place(ends: _Ends, asked: _Asked) -> int:
    """How often a preposition, or a verb that entails it, joins the two, or its converse does."""
    found: set[int] = set()
    for phrase, start, end in _phrases(ends.sentence):
        if _tells(phrase, asked.name) and (
            ends.leads_to(ends.target, end) and ends.begins(ends.source, start)
        ):
            found.add(start)
        inside = any(start <= m.head < end for m in ends.sentence.of(ends.target))
        if inside and phrase.split()[0] in asked.words:
            # "In the background there are trees", where the background is an object.
            found.add(start)
        turned = _BEARING.get(phrase) or converse(phrase)
        if (
            turned is not None
            and _tells(turned, asked.name)
            and (ends.leads_to(ends.source, end) and ends.begins(ends.target, start))
        ):
            found.add(start)
    return len(found)


def _tells(said: str, asked: str) -> bool:
    """Whether ``said`` means or entails ``asked``; a direction also stands for a closer one."""
    return entails(said, asked) or (canonical(said) in _DIRECTIONS and entails(asked, said))


def _by_verb(ends: _Ends, asked: _Asked) -> int:
    """How often the verb, or one that entails it, is said; with the place that it needs."""
    sentence = ends.sentence
    found = 0
    for at, word in enumerate(sentence.words):
        if _says_verb(word, asked) and _right_way(ends, at):
            found += 1
    if asked.name == canonical("wearing") and is_worn(ends.target):
        # A man in a hat wears it.
        found += sum(
            word.text == "in"
            and ends.leads_to(ends.target, at + 1)
            and ends.begins(ends.source, at)
            for at, word in enumerate(sentence.words)
        )
    if found and asked.rest and not set(asked.rest.split()) <= PARTICLES:
        return min(found, _by_place(ends, _Asked.of(asked.rest)))
    return found


def _says_verb(word: Word, asked: _Asked) -> bool:
    wanted = same_verbs(asked.verb)
    if word.text in wanted:
        return True
    base = verb_base(word.text)
    if base is None:
        return bool(asked.words) and alike(word.text, asked.words[0])
    said = ing_form(base)
    if said in wanted:
        return True
    if word.tag not in ("ing", "participle", "verb"):
        return False
    return any(entails(said, name) for name in (asked.verb, asked.name) if name)


def _right_way(ends: _Ends, at: int) -> bool:
    """Whether source and target stand about a verb as who does and to whom it is done."""
    sentence = ends.sentence
    source_after = any(m.start > at for m in sentence.of(ends.source))
    source_before = any(m.head < at for m in sentence.of(ends.source))
    target_before = any(m.head < at for m in sentence.of(ends.target))
    target_after = any(m.start > at for m in sentence.of(ends.target))
    if any(word.text == "by" for word in sentence.words[at + 1 : at + 1 + _NEXT_VERB]):
        return source_after or not source_before
    turned = source_after and not source_before and target_before and not target_after
    return not turned


def _phrases(sentence: Sentence) -> Iterator[tuple[str, int, int]]:
    """(predicate, start, end) of every preposition and verb of a sentence, verbs also with the
    preposition that follows."""
    words = sentence.words
    at = 0
    while at < len(words):
        end = at + 1
        while end < len(words) and words[end].phrase == words[at].phrase:
            end += 1
        text = " ".join(word.text for word in words[at:end])
        if words[at].tag in ("preposition", "place"):
            yield text, at, end
        elif words[at].tag in ("ing", "participle", "verb") or _is_verb(words, at):
            base = verb_base(words[at].text)
            yield (ing_form(base) if base else text), at, end
            last = end
            while last < len(words) and words[last].tag in ("preposition", "adverb"):
                last += 1
            if last > end:
                joined = " ".join(word.text for word in words[end:last])
                yield f"{text} {joined}", at, last
        at = end


def _is_verb(words: Sequence[Word], at: int) -> bool:
    """Whether a word that the tagger took for a noun is a verb after all: "a table, old, supports a
    ball"."""
    word = words[at].text
    base = verb_base(word)
    third = base is not None and base != word and word.endswith("s")
    follows = words[at + 1].tag if at + 1 < len(words) else "and"
    return third and at > 0 and words[at - 1].tag in ("comma", "noun") and follows == "article"

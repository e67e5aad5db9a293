"""What people read of 120 prompts (``intent_truth.toml``), and whether a scene says the same.

A reading is right if a person would accept every fact of it and it misses nothing that matters.
What it tells as unread is abstained from: neither right nor wrong, as long as it is not more than
half of what there is to read.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from scenewright.agents.parsers.tagging import PREPOSITIONS
from scenewright.core.inflection import singular, verb_base
from scenewright.core.layout import canonical_predicate
from scenewright.core.scene import Relation, SceneGraph, SceneObject

PATH = Path(__file__).with_name("intent_truth.toml")
Half = Literal["tuned", "held"]
ANY = "any"
_SMALL = frozenset(
    ["a", "an", "the", "is", "are", "be", "am", "was", "it", "this", "that", "their", "his", "her",
     "them", "they", "of", "to", "and", "with", "have", "hav", "one"]
)  # fmt: skip
"""In their base forms."""
_SAME = {
    **{"has": "have", "goes": "go", "were": "be", "its": "it", "these": "this", "those": "that"},
    **{"wooden": "wood", "grey": "gray", "colour": "color", "colored": "color"},
    **{
        "colourful": "colorful",
        "people": "person",
        "human": "person",
        "humans": "person",
        "photograph": "photo",
        "doughnut": "donut",
    },
}
_PLACED = re.compile(r"^(?:in|on|at|to)\s(?:the\s)?")
_POSTURES = frozenset({"stand", "sit", "li", "lie", "be", "plac", "locat", "rest", "lay"})
_NUMBERS: dict[int | None, str] = {2: "two", 3: "three", 4: "four", 5: "five"}
_ALIKE = (
    {"medium", "style", "artist", "quality", "view"},
    {"light", "time", "weather", "mood", "style"},
    {"view", "aspect"},
)
"""Kinds of wishes that people do not keep apart."""
_MOST_ASSIGNMENTS = 5000

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Thing:
    """An object as a person reads it."""

    key: str
    labels: tuple[Words, ...]
    names: frozenset[Words]
    """Labels that are names: all their words must be in the label."""
    number: str
    """"1", "3", "3+", "*", "2*" or "~"."""
    optional: bool


@dataclass(frozen=True, slots=True)
class Said:
    """An attribute, relation, global, exclusion or text, with what is as good."""

    bearers: tuple[str, ...]
    ways: tuple[str, ...]
    targets: tuple[str, ...] = ()
    optional: bool = False
    of_one: bool = False
    """Of a relation: true of one of several."""

    @property
    def words(self) -> list[Words]:
        """The words of each way to say it."""
        return [content(way) for way in self.ways]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a person reads of a prompt."""

    source: str
    """``parti``, ``tifa`` or ``dsg``."""
    item: str
    half: Half
    things: tuple[Thing, ...]
    attributes: tuple[Said, ...]
    relations: tuple[Said, ...]
    globals: tuple[Said, ...]
    exclusions: tuple[Said, ...]
    texts: tuple[Said, ...]


@dataclass(slots=True)
class Verdict:
    """How a reading compares with the truth."""

    faults: list[str] = field(default_factory=list)
    """What it misses without a word, and what it adds."""
    abstained: list[str] = field(default_factory=list)
    """What it misses and tells as unread."""
    asked: int = 0
    """How much there was to read."""

    @property
    def right(self) -> bool:
        """Whether a person would accept it."""
        return not self.faults and 2 * len(self.abstained) <= self.asked


def load(path: Path = PATH) -> list[Truth]:
    """Return the truths of the file; ``ValueError`` for a key that no object has."""
    found = []
    for source, items in tomllib.loads(path.read_text()).items():
        for item, said in items.items():
            truth = Truth(
                source, item, said["half"],
                tuple(_things(said.get("objects", ""))),
                tuple(_attributes(said.get("attributes", ""))),
                tuple(_relations(said.get("relations", ""))),
                tuple(_attributes(said.get("globals", ""))),
                tuple(Said((), ways, (), optional) for ways, optional in
                      _entries(said.get("exclusions", ""))),
                tuple(Said((), ways, (), optional) for ways, optional in
                      _entries(said.get("texts", ""))),
            )  # fmt: skip
            keys = {ANY, *(thing.key for thing in truth.things)}
            for one in (*truth.attributes, *truth.relations):
                if unknown := {*one.bearers, *one.targets} - keys:
                    raise ValueError(f"{source}.{item}: no object {', '.join(sorted(unknown))}")
            found.append(truth)
    return found


def _entries(line: str) -> Iterator[tuple[tuple[str, ...], bool]]:
    for entry in filter(None, map(str.strip, line.split(";"))):
        yield _ways(entry.removesuffix("?")), entry.endswith("?")


def _ways(text: str) -> tuple[str, ...]:
    return tuple(way.strip() for way in text.split("|"))


def _things(line: str) -> Iterator[Thing]:
    for entry in filter(None, map(str.strip, line.split(";"))):
        match = re.fullmatch(r"(?:([0-9]+[+*]?|[*~])\s+)?([^=?]+)(?:=([^?]+))?(\?)?", entry)
        if match is None:
            raise ValueError(f"{entry!r} is no object: write NUMBER KEY=LABEL|LABEL")
        number, key, labels, optional = match.groups()
        ways = _ways(labels or key)
        names = frozenset(_canonical(way) for way in ways if way != way.lower())
        known = tuple(map(_canonical, ways))
        yield Thing(key.strip(), known, names, number or "1", optional is not None)


def _attributes(line: str) -> Iterator[Said]:
    for entry in filter(None, map(str.strip, line.split(";"))):
        bearers, _, values = entry.partition(":")
        for ways, optional in _entries(values.replace(",", ";")):
            yield Said(_ways(bearers), ways, (), optional)


def _relations(line: str) -> Iterator[Said]:
    for ways, optional in _entries(line):
        source, predicate, target = map(str.strip, "|".join(ways).split("/"))
        of_one = source.startswith("1 ")
        yield Said(
            _ways(source.removeprefix("1 ")), _ways(predicate), _ways(target), optional, of_one
        )


@lru_cache(maxsize=65536)
def base(word: str) -> str:
    """Return the base form of a word in lower case, the same of all its forms."""
    one = _SAME.get(word) or singular(word)
    one = _SAME.get(one) or verb_base(one) or one
    for ending in ("ing", "ed"):
        stem = one.removesuffix(ending)
        if stem != one and len(stem) > 2 and re.search("[aeiouy]", stem):
            one = stem[:-1] if stem[-1] == stem[-2] and stem[-1] not in "ls" else stem
    return one.rstrip("e") if len(one) > 3 else one


@lru_cache(maxsize=65536)
def _canonical(text: str) -> Words:
    words = re.findall(r"[^\W_]+(?:['’](?!s\b)[^\W_]+)*", text.casefold())
    return tuple(base(word) for word in words if word != "s")


def content(text: str) -> Words:
    """Return the words of ``text`` in their base forms, without small ones."""
    words = _canonical(text)
    return tuple(word for word in words if word not in _SMALL) or words


@lru_cache(maxsize=65536)
def _parts(predicate: str) -> tuple[frozenset[str], str]:
    """Return the verb's words and the preposition of a predicate, as the planner calls it."""
    words = re.findall(r"[\w'-]+", predicate.casefold())
    for size in range(len(words), 0, -1):
        if tuple(words[-size:]) in PREPOSITIONS:
            phrase = " ".join(words[-size:]).replace("the ", "")
            phrase = canonical_predicate(phrase.removeprefix("to "))
            return frozenset(_canonical(" ".join(words[:-size]))) - {"be", "ar", "is"}, phrase
    return frozenset(content(predicate)), ""


def _same_predicate(said: str, true: str, known: Set[str] = frozenset()) -> bool:
    """Return whether two predicates say the same; ``known`` words may be said besides."""
    said, true = (re.sub(r"^(?:with|has|having)$", "have", one) for one in (said, true))
    if _canonical(said) == _canonical(true):
        return True
    (verb, place), (true_verb, true_place) = _parts(said), _parts(true)
    return true_verb <= verb <= true_verb | known | _POSTURES and place == true_place


class _Comparison:
    """A scene with each instance taken for one thing of the truth, by its key; "" for none."""

    def __init__(self, scene: SceneGraph, truth: Truth, chosen: Mapping[str, str]) -> None:
        intent = scene.intent
        self._scene, self._truth, self._chosen = scene, truth, chosen
        self._things = {thing.key: thing for thing in truth.things}
        self._of = {
            key: [item for item, one in chosen.items() if one == key] for key in self._things
        }
        self._bags = {item.id: _bag(item) for item in scene.objects}
        self._unread = frozenset(content(" ".join(one.text for one in intent.unread)))
        self._wished = frozenset().union(*(content(one.text) for one in intent.globals))
        self._texts = [*intent.texts, *(o.attributes.get("text", "") for o in scene.objects)]
        self._everything = self._wished.union(
            *self._bags.values(),
            *(content(one.predicate) for one in scene.relations),
            *map(content, self._texts),
            *(content(one.text) for one in intent.exclusions),
            *({str(one.number), _NUMBERS.get(one.number, "")} for one in intent.counts),
        )
        self.verdict = Verdict()

    def judge(self) -> Verdict:
        """Return the verdict."""
        truth = self._truth
        for thing in truth.things:
            if self._of[thing.key]:
                self.verdict.asked += 1
                if not self._number_right(thing):
                    self.verdict.faults.append(f"number of {thing.key} is not {thing.number}")
            elif not thing.optional:
                self._ask(f"object {thing.key}", False, self._told([thing.key]))
        for one in filter(_required, truth.attributes):
            self._attribute(one)
        for one in filter(_required, truth.relations):
            self._relation(one)
        for one in filter(_required, truth.globals):
            self._global(one)
        excluded = {_canonical(one.name)[-1] for one in self._scene.intent.exclusions}
        for one in filter(_required, truth.exclusions):
            found = any(_canonical(way)[-1] in excluded for way in one.ways)
            self._ask(f"exclusion {one.ways[0]}", found, self._is_unread(one))
        texts = [_canonical(text) for text in self._texts]
        for one in filter(_required, truth.texts):
            found = any(_canonical(way) in texts for way in one.ways)
            self._ask(f"text {one.ways[0]}", found, self._is_unread(one))
        self.verdict.faults += self._added()
        return self.verdict

    def _ask(self, what: str, found: bool, told: bool) -> None:
        self.verdict.asked += 1
        if not found:
            (self.verdict.abstained if told else self.verdict.faults).append(f"missed {what}")

    def _is_unread(self, one: Said) -> bool:
        return any(set(words) <= self._unread for words in one.words)

    def _told(self, keys: Iterable[str]) -> bool:
        """Return whether one of these objects is missed and told as unread."""
        missed = (self._things[key] for key in keys if key != ANY and not self._of[key])
        return any(label[-1] in self._unread for thing in missed for label in thing.labels)

    def _number_right(self, thing: Thing) -> bool:
        items = self._of[thing.key]
        counts = [c for c in self._scene.intent.counts if set(c.objects) & set(items)]
        counted = {item for count in counts for item in count.objects}
        total = 0
        for count in counts:
            # Three plates that are told one by one are one, one and one.
            mine = set(count.objects) & set(items)
            whole = len(mine) == len(count.objects)
            total += (count.number if whole else None) or len(mine)
        total += sum(item not in counted for item in items)
        kinds = {count.kind for count in counts}
        if thing.number == "~":
            return True
        if thing.number.isdecimal():
            return kinds <= {"exact"} and total == int(thing.number)
        if thing.number == "2*" and kinds <= {"exact"}:
            return total == 2
        least = int(thing.number[:-1]) if thing.number.endswith("+") else 3
        return bool(kinds & {"open", "least"}) and (kinds <= {"open"} or total <= least)

    def _attribute(self, one: Said) -> None:
        named = [key for key in one.bearers if key != ANY]
        groups = [[self._around(item) for item in self._of[key]] for key in named if self._of[key]]
        if ANY in one.bearers:
            groups.append([self._everything])
        elif not groups and all(self._things[key].optional for key in named):
            return
        found = any(
            all(any(set(words) <= bag | self._wished for words in one.words) for bag in group)
            for group in groups
        )
        near = self._unread.union(*(bag for group in groups for bag in group))
        told = any(set(words) <= near and set(words) & self._unread for words in one.words)
        told = told or (not groups and self._told(named))
        self._ask(f"attribute {'|'.join(one.bearers)}: {'|'.join(one.ways)}", found, told)

    def _around(self, item: str) -> frozenset[str]:
        """Return the words of an instance, and of what its relations say of it."""
        return self._bags[item].union(
            *(
                self._bags[one.target].union(content(one.predicate))
                for one in self._scene.relations
                if one.source == item
            )
        )

    def _relation(self, one: Said) -> None:
        found = any(
            self._between(one, source, target)
            for source, target in itertools.product(one.bearers, one.targets)
        )
        told = any(set(_canonical(way)) <= self._unread for way in one.ways)
        told = told or self._told([*one.bearers, *one.targets])
        what = f"relation {'|'.join(one.bearers)} {one.ways[0]} {'|'.join(one.targets)}"
        self._ask(what, found, told)

    def _between(self, one: Said, source: str, target: str) -> bool:
        """Return whether all instances of ``source`` have the relation, or one if it is of one."""
        sources = self._bags if source == ANY else self._of[source]
        ends = {
            (said.target, said.source) if way.startswith("<") else (said.source, said.target)
            for said in self._scene.relations
            for way in one.ways
            if _same_predicate(said.predicate, way.removeprefix("<"), self._besides(one))
        }
        having = {item for item, other in ends if item in sources and other in self._of[target]}
        if one.of_one:
            return len(having) == 1 < len(sources)
        return bool(having) and (source == ANY or len(having) == len(sources))

    def _besides(self, true: Said) -> frozenset[str]:
        """Return the words that may stand in a predicate besides: its other ways, and states."""
        states = (a for a in self._truth.attributes if set(a.bearers) & {*true.bearers, ANY})
        return _words([true, *states])

    def _global(self, one: Said) -> None:
        said = {content(wish.text): wish.kind for wish in self._scene.intent.globals}
        # Words of an object's name are no wish: "photo" must not be a thing to draw.
        names = frozenset().union(*(_canonical(o.name) for o in self._scene.objects))
        known = self._wished.union(*self._bags.values()) - (names - self._wished)
        found = any(
            set(words) <= known and _alike(said.get(words, one.bearers[0]), one.bearers)
            for words in one.words
        )
        told = any(
            set(words) <= known | self._unread and set(words) & self._unread for words in one.words
        )
        self._ask(f"{one.bearers[0]}: {one.ways[0]}", found, told)

    def _added(self) -> Iterator[str]:
        truth, scene = self._truth, self._scene
        wishes = _words(truth.globals)
        common = _words([*truth.texts, *(a for a in truth.attributes if ANY in a.bearers)])
        for item in scene.objects:
            key = self._chosen[item.id]
            if not key:
                yield f"added object {item.id}"
                continue
            states = _words(a for a in truth.attributes if key in a.bearers)
            named = _SMALL.union(common, states, *self._things[key].labels)
            mine = [one for one in truth.relations if key in one.bearers and not one.optional]
            ends = (self._things[end] for one in mine for end in one.targets)
            # A state may repeat a relation's verb; a wish is no part of a name.
            known = named.union(wishes, _words(mine), *(w for end in ends for w in end.labels))
            extra = (self._bags[item.id] - known) | (frozenset(_canonical(item.name)) - named)
            if extra:
                yield f"added {' '.join(sorted(extra))} of {item.id}"
        for said in scene.relations:
            ends_of = self._chosen[said.source], self._chosen[said.target]
            if all(ends_of) and not any(self._allows(r, *ends_of, said) for r in truth.relations):
                yield f"added {said}"
        known = common | wishes | _words(truth.attributes)
        for wish in scene.intent.globals:
            if not (known - _SMALL) & set(content(wish.text)):
                yield f"added {wish.kind} {wish.text!r}"
        excluded = {_canonical(way)[-1] for one in truth.exclusions for way in one.ways}
        for denied in scene.intent.exclusions:
            if _canonical(denied.name)[-1] not in excluded:
                yield f"added exclusion {denied.name}"

    def _allows(self, true: Said, source: str, target: str, said: Relation) -> bool:
        besides = self._besides(true)
        for way in true.ways:
            a, b = (target, source) if way.startswith("<") else (source, target)
            ends = (a in true.bearers or ANY in true.bearers) and b in true.targets
            if ends and _same_predicate(said.predicate, way.removeprefix("<"), besides):
                return True
        return False


def _required(one: Said) -> bool:
    return not one.optional


def _alike(kind: str, kinds: Iterable[str]) -> bool:
    """Return whether people would take ``kind`` of a wish for one of ``kinds``."""
    return any(kind == one or {kind, one} <= group for one in kinds for group in _ALIKE)


def _fits(item: SceneObject, thing: Thing) -> bool:
    name, bag = _canonical(item.name) or ("",), _bag(item)
    return name[-1] in {word for label in thing.labels for word in label} and any(
        label[-1] in name
        and set(label) <= set(name).union(frozenset() if label in thing.names else bag)
        for label in thing.labels
    )


def _words(said: Iterable[Said]) -> frozenset[str]:
    return frozenset(word for one in said for words in one.words for word in words)


def _bag(item: SceneObject) -> frozenset[str]:
    # "In middle" is no more than "middle".
    values = (
        content(_PLACED.sub("", value) if key == "place" else value)
        for key, value in item.attributes.items()
        if key != "text"
    )
    return frozenset(content(item.name)).union(*values)


def judged(scene: SceneGraph | None, truth: Truth) -> Verdict:
    """Return how a reading compares with what a person reads; None is a refusal."""
    if scene is None or not scene.objects:
        return Verdict(faults=["refused"], asked=1)
    choices = [
        [thing.key for thing in truth.things if _fits(item, thing)] or [""]
        for item in scene.objects
    ]
    ids = [item.id for item in scene.objects]
    verdicts = (
        _Comparison(scene, truth, dict(zip(ids, keys, strict=True))).judge()
        for keys in itertools.islice(itertools.product(*choices), _MOST_ASSIGNMENTS)
    )
    return min(verdicts, key=lambda one: (len(one.faults), len(one.abstained)))

"""How well the rules parser reads captions, on human-checked facts of DSG-1k and FACTUAL.

``python -m benchmarks.parser [--quick] [--data FOLDER] [--factual FOLDER]``. Micro-averaged
precision, recall and F1 of :func:`scenewright.agents.parsers.rules.parse_caption` over the prompts
of the release, compared by the rules below.

The rules were written with the prompts of even item number in view; the headline figures are on
the other half. (To learn the form of the facts, some fifty prompts of both halves were read
before the first rule.) Captions of FACTUAL are divided by the number of their region: even ones
were in view.

- ``f1.KIND``, ``precision.KIND``, ``recall.KIND`` (objects, attributes, relations): the headline,
  by the ``headline`` rule, on the held-out half.
- ``tuned.…``, ``all.…``: the same on the half in view, and on all prompts.
- ``refused``: captions without a scene. One in which the parser finds no object counts as saying
  nothing. One that it declines, because it only denies something (``refused.negation``) or is not
  English (``refused.language``), is unscored; in ``strict.…`` it counts as saying nothing too.
- ``doubts``: share of captions with a doubt; ``unread``: with a passage that was not read.
- ``short.…``, ``long.…``: held-out prompts of fewer than :data:`LONG` words, and the others.
- ``exact.…``: labels, values and predicates equal; held-out half.
- ``pairs.….relations``: relations whatever their predicate; ``parts.….relations``: what DSG
  states as a part counts as a relation; held-out half.
- ``prose.….relations``: held-out half without ``vrd``, whose captions are lists of triplets; also
  by the exact rule and of the baseline.
- ``baseline.…``: every noun-like word is an object, neighbours are related; held-out half.
- ``gain.f1.KIND``: the parser's F1 less the baseline's on the same resamples.
- ``SPLIT.f1.KIND``: by the data set that a prompt comes from, all prompts.
- ``counts.right``: share of exact numbers that are right, of objects both sides name.
- ``aside.held_out_relations``: relations said that the headline rule sets aside as parts.
- ``negation.…``: of the ``captions`` of :mod:`benchmarks._negations`, each of which denies an
  object, an attribute or a relation, how many are ``refused``, read with the denial ``told``,
  read without (``silent``), and ``inverted``: the scene holds what is denied.
  ``negation.affirmed.refused``: captions that deny nothing and are refused all the same;
  ``negation.baseline.inverted``: share of denied objects that the baseline states.
- ``factual.LENGTH.set_match``, ``factual.LENGTH.f1.KIND``: with ``--factual``, on held-out captions
  of FACTUAL of fewer than ten words (``short``) and the others (``long``); a set match has all
  facts right and none too many. ``….spice.…`` is the parser of SPICE and ``….beside_spice.…``
  ours on the captions for which the release tells it; ``factual.tuned.…`` the captions in view.
  ``factual.random_dev.…``, ``factual.length_dev.…`` the development splits, all in view, and
  ``factual.dev_long.…`` their captions of ten words or more; ``f1.macro`` is the mean of kinds.
- ``captions_per_second``: of one process, best of three passes over all captions.

Intervals are 95% percentile intervals of a bootstrap over prompts.

**Facts.** The release of Cho et al., "Davidsonian Scene Graph" (ICLR 2024), is read where it lies:
``dsg-1k-anns.csv`` holds one fact a row, such as ``entity - part (man's hat)``,
``attribute - color (hat, red)`` or ``relation - spatial (man, bench, on)``. Here they become
labels, (label, value) pairs and (label, predicate, label) triples, each once a prompt.

- Owners are left off labels: ``man's hat`` is ``hat``, and that the man has it is kept as a part.
- An action without an object (``relation - action (dog, run)``) is an attribute: a scene graph
  has no relation of one thing.
- Left aside, for they are no facts of an object: ``global``, ``other`` (counts are kept apart),
  and attributes that say how the picture is made or that repeat a count (``ASIDE`` of
  :mod:`scenewright.core.formats.published_questions`).

**Baseline.** Every noun-like word is an object. It knows the lexicon and no grammar: an adjective
belongs to the next noun-like word, and two neighbours in a sentence are related by what stands
between them.

**Comparison.** Words are compared in lower case as singulars and base forms. Every fact is matched
with one other at most; equal ones first, then in the order of the caption. Two rules:

``exact``
    Labels, values and predicates must be equal.
``headline``
    - A label also matches a longer one that ends in it (*building*, *bricked building*): DSG
      itself puts the same adjective into the label of one caption and into an attribute of another.
    - A value also matches one that holds all its words (*bent*, *bent at the knee*).
    - A predicate also matches one with the same verb or the same preposition, where DSG does not
      keep to one of them (*standing on top of*, *on top of*, *on*); synonyms are those of the
      planner (:func:`scenewright.core.layout.canonical_predicate`). Its direction must be right.
    - Left aside on both sides, neither right nor wrong: an attribute that the other side says
      within a label; a relation between an owner and its part, which DSG states as a part.

``pairs`` is the headline rule for relations with the predicate left out.
"""

from __future__ import annotations

import re
import timeit
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from benchmarks._factual import Caption, Graph
from benchmarks._factual import load as load_captions
from benchmarks._harness import RESAMPLES, benchmark, folder, micro, ratio, release, spread
from benchmarks._negations import Denial, affirmations, denials
from scenewright.agents.parsers.rules import CaptionError, parse_caption
from scenewright.agents.parsers.tagging import GROUPS, NUMBERS, PREPOSITIONS, rough
from scenewright.agents.parsers.unread import FOREIGN, NEGATED
from scenewright.core.formats.published_questions import ASIDE, label, owner, read_tuple
from scenewright.core.inflection import singular, verb_base
from scenewright.core.layout import canonical_predicate
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.reading import rows_of

TABLE = "dsg-1k-anns.csv"
LONG = 25
"""A prompt of this many words is a long one."""

Pair = tuple[str, str]
Triple = tuple[str, str, str]


@dataclass(slots=True)
class Facts:
    """What a caption says, by class label; each once."""

    objects: dict[str, None] = field(default_factory=dict)
    attributes: dict[Pair, None] = field(default_factory=dict)
    """(label, value)."""
    relations: dict[Triple, None] = field(default_factory=dict)
    """(label, predicate, label)."""
    parts: dict[Pair, None] = field(default_factory=dict)
    """(owner, part)."""
    counts: dict[str, int] = field(default_factory=dict)
    """Label → exact number."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A caption and its human-checked facts."""

    id: str
    text: str
    facts: Facts

    @property
    def category(self) -> str:
        """The data set it comes from, such as ``tifa160`` or ``stanford_paragraph``."""
        return self.id.rpartition("_")[0]

    @property
    def held_out(self) -> bool:
        """Odd item numbers were not looked at while the rules were written."""
        return int(self.id.rpartition("_")[2]) % 2 == 1

    @property
    def long(self) -> bool:
        """Whether it has :data:`LONG` words or more."""
        return len(re.findall(r"\w+", self.text)) >= LONG


def load(folder: Path) -> list[Prompt]:
    """Return all prompts, in the order of the table.

    Raises ``DatasetError`` for a table of another form.
    """
    path = folder / TABLE
    prompts: dict[str, Prompt] = {}
    for place, row in rows_of(path, ("item_id", "text", "tuple")):
        name = row["item_id"]
        if not re.fullmatch(r".+_[0-9]+", name):
            raise DatasetError(f"{place}: item id {name!r} does not end in a number")
        add_tuple(prompts.setdefault(name, Prompt(name, row["text"], Facts())).facts, row["tuple"])
    if not prompts:
        raise DatasetError(f"{path} holds no prompts")
    return list(prompts.values())


def add_tuple(facts: Facts, text: str) -> None:
    """Add one fact of the release, such as ``attribute - color (hat, red)``; others are left out.

    Facts that are not of the form of their kind, a handful, are left out too.
    """
    said = read_tuple(text)
    if said is None:
        return
    broad, kind, parts = said.broad, said.kind, said.parts
    if broad == "entity" and kind in ("whole", "part") and parts:
        _add_object(facts, ", ".join(parts))
    elif broad == "attribute" or (broad == "entity" and len(parts) > 1):
        if kind not in ASIDE and len(parts) > 1:
            _add_attribute(facts, parts[0], ", ".join(parts[1:]))
    elif broad == "relation" and len(parts) == 2 and kind == "action":
        _add_attribute(facts, parts[0], parts[1])
    elif broad == "relation" and len(parts) >= 3:
        facts.relations[(label(parts[0]), ", ".join(parts[2:]), label(parts[1]))] = None
    elif broad == "other" and kind == "count" and len(parts) == 2:
        number = parts[1].lstrip("= ").lower()
        if number.isdecimal() or number in NUMBERS:
            facts.counts[label(parts[0])] = NUMBERS.get(number) or int(number)


def _add_object(facts: Facts, name: str) -> None:
    facts.objects[label(name)] = None
    holder = owner(name)
    if holder:
        facts.parts[(holder, label(name))] = None


def _add_attribute(facts: Facts, owner: str, value: str) -> None:
    for part in re.split(r"\s+and\s+|\s*,\s*", value):
        if part:
            facts.attributes[(label(owner), part)] = None


_BETWEEN = frozenset({"preposition", "verb", "ing", "participle"})


def nearest_pairs(text: str) -> Facts:
    """Return what the baseline says of a caption."""
    facts = Facts()
    for sentence in re.split(r"[.;:!?\n]", text.lower()):
        before, between, values = "", "", []
        for word in re.findall(r"\w+(?:[-']\w+)*", sentence):
            kind = rough(word)
            if kind == "adjective":
                values.append(word)
            elif kind in ("noun", "either", "weak"):
                name = singular(word)
                facts.objects[name] = None
                for value in values:
                    facts.attributes[(name, value)] = None
                if before and between and before != name:
                    facts.relations[(before, between.strip(), name)] = None
                before, between, values = name, "", []
            elif kind in _BETWEEN:
                between += f" {word}"
    return facts


Rule = Literal["exact", "headline", "pairs"]
Count = tuple[int, int, int]
"""How many are right, said, and true."""
KINDS = ("objects", "attributes", "relations")
_T = TypeVar("_T")
_SMALL = frozenset(["a", "an", "the", "very", "is", "are", "be", "was", "of", "slightly", "being"])
_SAME_WORD = {
    **{"wooden": "wood", "metallic": "metal", "grey": "gray", "colour": "color"},
    **{"colourful": "colorful", "golden": "gold", "laying": "lie", "lay": "lie"},
    **{"woolen": "wool", "bricked": "brick", "people": "person"},
}


def said_by(scene: SceneGraph) -> Facts:
    """Return the facts of a scene graph by class label.

    Its ``place`` and its counts become DSG's form.

    DSG states a place in the picture as a relation to it: ``relation - spatial (tree,
    background, in)``; a text to be rendered is no attribute there, so ``text`` is left out.
    """
    facts = Facts()
    names = {item.id: item.name for item in scene.objects}
    for item in scene.objects:
        facts.objects[item.name] = None
        facts.counts[item.name] = facts.counts.get(item.name, 0) + 1
        for key, value in item.attributes.items():
            if key == "place":
                preposition, _, place = value.partition(" ")
                facts.relations[(item.name, preposition, place)] = None
            elif key != "text":
                for part in value.split(" and "):
                    facts.attributes[(item.name, part)] = None
    for r in scene.relations:
        facts.relations[(names[r.source], r.predicate, names[r.target])] = None
    return facts


def compare(said: Facts, true: Facts, rule: Rule = "headline") -> dict[str, Count]:
    """Return kind → how many facts are right, said and true."""
    if rule == "exact":
        parts = (said.attributes, true.attributes)
        relations = _count(said.relations, true.relations, _same_relation)
        same_label, same_attribute = _same_label, _same_attribute
    else:
        parts = _attributes(said, true)
        matched, kept = _without_parts(
            said, true, _close_relation if rule == "headline" else _close_ends
        )
        relations = (matched, kept, len(true.relations))
        same_label, same_attribute = _close_label, _close_attribute
    return {
        "objects": _count(said.objects, true.objects, same_label),
        "attributes": _count(*parts, same_attribute),
        "relations": relations,
    }


def _without_parts(
    said: Facts, true: Facts, close: Callable[[Triple, Triple], bool]
) -> tuple[int, int]:
    """Return how many relations are right, and how many count as said."""
    relations = list(said.relations)
    matched = _matching(relations, list(true.relations), close)
    kept = [r for at, r in enumerate(relations) if at in matched or not _is_part(r, true)]
    return len(matched), len(kept)


def aside(said: Facts, true: Facts) -> int:
    """Return how many relations the headline rule sets aside, for DSG states them as parts."""
    return len(said.relations) - _without_parts(said, true, _close_relation)[1]


def with_parts(said: Facts, true: Facts) -> Count:
    """Return relations by the headline rule, where a part counts as the relation ``has``."""
    parts = [(owner, "has", part) for owner, part in true.parts]

    def close(said: Triple, true: Triple) -> bool:
        if true in parts:
            return _is_pair(said, true[0], true[2])
        return _close_relation(said, true)

    return _count(said.relations, [*true.relations, *parts], close)


def right_counts(said: Facts, true: Facts) -> Count:
    """Return numbers of the objects that both name: how many are right, given, and given again."""
    found = [
        (number, counted)
        for name, number in true.counts.items()
        for counted in [
            next((n for other, n in said.counts.items() if _close_label(other, name)), None)
        ]
        if counted is not None
    ]
    return sum(number == counted for number, counted in found), len(found), len(found)


def _attributes(said: Facts, true: Facts) -> tuple[list[Pair], list[Pair]]:
    """Return the attributes of both sides without those that the other side says within a label."""

    def in_label(pair: Pair, labels: Iterable[str]) -> bool:
        words = set(_value(pair[1]))
        head = _label(pair[0])[-1:]
        return any(
            _label(name)[-1:] == head and words and words <= set(map(_word, _label(name)[:-1]))
            for name in labels
        )

    return (
        [p for p in said.attributes if p in true.attributes or not in_label(p, true.objects)],
        [p for p in true.attributes if p in said.attributes or not in_label(p, said.objects)],
    )


def _is_part(relation: Triple, true: Facts) -> bool:
    return any(_is_pair(relation, owner, part) for owner, part in true.parts)


def _is_pair(relation: Triple, owner: str, part: str) -> bool:
    source, _, target = relation
    straight = _close_label(source, owner) and _close_label(target, part)
    return straight or (_close_label(target, owner) and _close_label(source, part))


def _matching(said: Sequence[_T], true: Sequence[_T], same: Callable[[_T, _T], bool]) -> set[int]:
    """Return places in ``said`` that have a partner in ``true``, each partner once.

    Equal ones first.
    """
    free = dict(enumerate(true))
    found: set[int] = set()
    for test in (lambda a, b: a == b, same):
        for at, one in enumerate(said):
            if at in found:
                continue
            partner = next((place for place, other in free.items() if test(one, other)), None)
            if partner is not None:
                del free[partner]
                found.add(at)
    return found


def _count(said: Iterable[_T], true: Iterable[_T], same: Callable[[_T, _T], bool]) -> Count:
    one, other = list(said), list(true)
    return len(_matching(one, other, same)), len(one), len(other)


@lru_cache(maxsize=65536)
def _label(name: str) -> tuple[str, ...]:
    words = singular(" ".join(name.casefold().replace("-", " ").split())).split()
    return tuple(_SAME_WORD.get(word, word) for word in words if word not in ("a", "an", "the"))


def _word(word: str) -> str:
    return _SAME_WORD.get(word) or _SAME_WORD.get(verb_base(word) or "") or verb_base(word) or word


@lru_cache(maxsize=65536)
def _value(text: str) -> tuple[str, ...]:
    words = re.findall(r"[\w']+", text.casefold())
    kept = [word for word in words if word not in _SMALL] or words
    return tuple(_word(singular(word) if word.endswith("s") else word) for word in kept)


@lru_cache(maxsize=65536)
def _predicate(text: str) -> tuple[str, ...]:
    words = [word for word in text.casefold().split() if word not in _SMALL - {"of"}]
    return tuple(_word(word) for word in words)


@lru_cache(maxsize=65536)
def _senses(text: str) -> frozenset[str]:
    """Return the verb and the preposition of a predicate, the latter as the planner calls it."""
    words = text.casefold().split()
    found = set()
    for size in range(len(words), 0, -1):
        ending = tuple(words[-size:])
        if ending in PREPOSITIONS:
            phrase = " ".join(ending)
            short = phrase.replace("the ", "").removeprefix("to ")
            found.add(
                canonical_predicate(canonical_predicate(phrase) if short == phrase else short)
            )
            break
    first = next((word for word in words if word not in _SMALL), "")
    if verb_base(first) and (first,) not in PREPOSITIONS:
        found.add(f"to {_word(first)}")
    return frozenset(found) or frozenset({text.casefold()})


def _same_label(a: str, b: str) -> bool:
    return _label(a) == _label(b)


def _close_label(a: str, b: str) -> bool:
    one, other = _label(a), _label(b)
    short, long = sorted((one, other), key=len)
    return bool(short) and long[-len(short) :] == short


def _same_attribute(a: Pair, b: Pair) -> bool:
    return _same_label(a[0], b[0]) and _value(a[1]) == _value(b[1])


def _close_attribute(a: Pair, b: Pair) -> bool:
    one, other = set(_value(a[1])), set(_value(b[1]))
    return _close_label(a[0], b[0]) and bool(one and other) and (one <= other or other <= one)


def _same_relation(a: Triple, b: Triple) -> bool:
    ends = _same_label(a[0], b[0]) and _same_label(a[2], b[2])
    return ends and _predicate(a[1]) == _predicate(b[1])


def _close_ends(a: Triple, b: Triple) -> bool:
    return _close_label(a[0], b[0]) and _close_label(a[2], b[2])


def _close_relation(a: Triple, b: Triple) -> bool:
    if not _close_ends(a, b):
        return False
    return _predicate(a[1]) == _predicate(b[1]) or bool(_senses(a[1]) & _senses(b[1]))


_OWNING = frozenset({"have", "with", "in", "wear", "dress in"})
"""Predicates that FACTUAL exchanges: "a man in a hat" wears it, "a car with a top" has it."""
_SIDE = re.compile(
    r"\b(?:on|at|in|to) (?:the )?"
    r"(top|bottom|middle|back|front|left|right|side|center|corner|end|edge)(?: side)? of$"
)
_PASSIVE = re.compile(r"(cover|surround)(?:ed)?(?: in| with| by)?")


def stated_by(graph: Graph) -> Facts:
    """Return the facts of a graph of FACTUAL or of SPICE; a number is a count."""
    facts = Facts(objects=dict.fromkeys(graph.objects))
    for source, predicate, value in graph.facts:
        if predicate != "is":
            facts.relations[(source, predicate, value)] = None
        elif value.isdecimal() or value in NUMBERS:
            facts.counts[source] = NUMBERS.get(value) or int(value)
        else:
            facts.attributes[(source, value)] = None
    return facts


def _as_factual(facts: Facts) -> Facts:
    """Return the facts as FACTUAL states them, of whichever parser.

    What covers and surrounds is the source, an owner *has* what is *of* it, *at the bottom of* and
    *on bottom of* are one, a verb is said once (who sits on a bench is not called sitting besides),
    and a piece of pizza is pizza.
    """
    relations: dict[Triple, None] = {}
    done: set[Pair] = set()
    for source, predicate, target in facts.relations:
        done.add((source, predicate.split()[0]))
        predicate = _SIDE.sub(r"\1 of", predicate).replace("in between", "between")
        predicate = {"top of": "on", "has": "have"}.get(predicate, predicate)
        if predicate == "of":
            relations[(target, "have", source)] = None
        elif _PASSIVE.fullmatch(predicate) and " " in predicate:
            relations[(target, predicate.split()[0], source)] = None
        else:
            relations[(source, predicate, target)] = None
    kept = {
        (name, value): None
        for name, value in facts.attributes
        if (name, value) not in done and value.removesuffix(" of") not in GROUPS
    }
    return Facts(facts.objects, kept, relations, facts.parts, facts.counts)


def compare_captions(said: Facts, true: Facts) -> dict[str, Count]:
    """Return kind → how many facts are right, said and true of a caption of FACTUAL.

    By the headline rule, with the predicates that FACTUAL exchanges taken for one.
    """
    one, other = _as_factual(said), _as_factual(true)

    def close(a: Triple, b: Triple) -> bool:
        if _close_relation(a, b):
            return True
        owning = all(" ".join(_predicate(r[1])) in _OWNING for r in (a, b))
        return owning and _close_ends(a, b)

    return {
        "objects": _count(one.objects, other.objects, _close_label),
        "attributes": _count(*_attributes(one, other), _close_attribute),
        "relations": _count(one.relations, other.relations, close),
    }


def set_match(counted: Mapping[str, Count]) -> bool:
    """Return whether all that is said is right, and all that is true is said."""
    return all(right == said == true for right, said, true in counted.values())


QUICK_RESAMPLES = 200


def read(text: str) -> Facts | None:
    """Return what the rules parser says of a caption; None if it finds no object in it."""
    try:
        return said_by(parse_caption(text))
    except CaptionError:
        return None


def measure(prompts: Sequence[Prompt], resamples: int) -> dict[str, Any]:
    """Return all figures but the speed."""
    said = [read(prompt.text) for prompt in prompts]
    facts = [one if one is not None else Facts() for one in said]
    counted = [compare(one, p.facts) for one, p in zip(facts, prompts, strict=True)]
    why = [_why_refused(prompt.text) for prompt in prompts]
    # What the parser declines for a reason is unscored; a caption in which it finds nothing is not.
    taken = [at for at, reason in enumerate(why) if reason in (None, "empty")]
    held = [at for at in taken if prompts[at].held_out]
    figures: dict[str, Any] = {}

    base = {at: compare(nearest_pairs(prompts[at].text), prompts[at].facts) for at in held}

    def put(prefix: str, rows: Sequence[Mapping[str, Count]]) -> None:
        for kind in rows[0] if rows else ():
            for name, values in micro([row[kind] for row in rows], resamples).items():
                figures[f"{prefix}{name}.{kind}"] = spread(values)

    def of(
        places: Sequence[int], compared: Callable[[Facts, Facts], Mapping[str, Count]]
    ) -> list[Mapping[str, Count]]:
        return [compared(facts[at], prompts[at].facts) for at in places]

    def relations(rows: Iterable[Mapping[str, Count]]) -> list[Mapping[str, Count]]:
        return [{"relations": row["relations"]} for row in rows]

    put("", [counted[at] for at in held])
    put("baseline.", list(base.values()))
    for kind in KINDS:
        ours, theirs = (
            micro([row[kind] for row in half], resamples)["f1"]
            for half in ([counted[at] for at in held], base.values())
        )
        figures[f"gain.f1.{kind}"] = spread(ours - theirs)
    put("exact.", of(held, lambda a, b: compare(a, b, "exact")))
    put("pairs.", relations(of(held, lambda a, b: compare(a, b, "pairs"))))
    put("parts.", of(held, lambda a, b: {"relations": with_parts(a, b)}))
    if prose := [at for at in held if prompts[at].category != "vrd"]:
        put("prose.", relations(counted[at] for at in prose))
        put("prose.exact.", relations(of(prose, lambda a, b: compare(a, b, "exact"))))
        put("prose.baseline.", relations(base[at] for at in prose))
    put("tuned.", [counted[at] for at in taken if not prompts[at].held_out])
    put("all.", [counted[at] for at in taken])
    put("strict.", [counted[at] for at, prompt in enumerate(prompts) if prompt.held_out])
    for length, is_long in (("short", False), ("long", True)):
        some = [at for at in held if prompts[at].long == is_long]
        put(f"{length}.", [counted[at] for at in some])
        figures[f"{length}.captions"] = len(some)
    for split in sorted({prompt.category for prompt in prompts}):
        some = [counted[at] for at in taken if prompts[at].category == split]
        for kind in KINDS if some else ():
            figures[f"{split}.f1.{kind}"] = spread(
                micro([row[kind] for row in some], resamples)["f1"]
            )
    numbers = np.sum([right_counts(facts[at], prompts[at].facts) for at in held], axis=0)
    figures["counts.right"] = float(numbers[0] / max(numbers[1], 1))
    figures["counts.asked"] = int(numbers[1])
    figures["refused"] = sum(one is None for one in said)
    figures["doubts"], figures["unread"] = _told(prompts)
    for reason in ("negation", "language"):
        figures[f"refused.{reason}"] = why.count(reason)
    figures["held_out"] = len(held)
    figures["aside.held_out_relations"] = sum(aside(facts[at], prompts[at].facts) for at in held)
    figures["resamples"] = resamples
    return figures


def captions_per_second(prompts: Sequence[Prompt], passes: int = 3) -> float:
    """Return captions read in a second by one process: the best of ``passes``."""
    took = timeit.repeat(lambda: [read(prompt.text) for prompt in prompts], number=1, repeat=passes)
    return len(prompts) / min(took)


def measure_negations() -> dict[str, Any]:
    """Return how captions that deny something are read, and captions that deny nothing."""
    cases = list(denials())
    fates = [_fate(case) for case in cases]
    said = [nearest_pairs(case.text) for case in cases if not case.value and not case.other]
    denied = [case.thing for case in cases if not case.value and not case.other]
    plain = list(affirmations())
    return {
        "negation.captions": len(cases),
        **{f"negation.{fate}": fates.count(fate) for fate in ("inverted", "refused", "told")},
        "negation.silent": fates.count("silent"),
        "negation.baseline.inverted": float(
            np.mean([thing in facts.objects for thing, facts in zip(denied, said, strict=True)])
        ),
        "negation.affirmed.captions": len(plain),
        "negation.affirmed.refused": sum(_why_refused(text) is not None for text in plain),
    }


def _fate(case: Denial) -> str:
    try:
        found = parse_caption(case.text)
    except CaptionError as error:
        return "refused" if error.passages else "silent"
    if case.inverted_by(found):
        return "inverted"
    return "told" if found.intent.unread or found.intent.exclusions else "silent"


def _told(prompts: Sequence[Prompt]) -> tuple[float, float]:
    """Return the shares of captions with a doubt, and with a passage that was not read."""
    told = []
    for prompt in prompts:
        try:
            intent = parse_caption(prompt.text).intent
        except CaptionError:
            continue
        told.append((bool(intent.doubts), bool(intent.unread)))
    return float(np.mean([d for d, _ in told] or [0])), float(np.mean([u for _, u in told] or [0]))


def _why_refused(text: str) -> str | None:
    """Return why a caption is refused, in one word; None for one that is read."""
    try:
        parse_caption(text)
    except CaptionError as error:
        reasons = {passage.reason for passage in error.passages}
        return "negation" if NEGATED in reasons else "language" if FOREIGN in reasons else "empty"
    return None


FEWEST_BESIDE = 20
"""Captions that the parser of SPICE must have for a comparison."""


def measure_factual(captions: Sequence[Caption], resamples: int) -> dict[str, Any]:
    """Return set match and F1 on the held-out captions of FACTUAL, short and long ones apart.

    ``spice.…`` is the parser of SPICE and ``beside_spice.…`` ours on the captions that it has.
    """
    figures: dict[str, Any] = {}
    for split in sorted({c.split for c in captions if c.split}):
        whole = [(read(c.text), c) for c in captions if c.split == split]
        figures |= _matched(f"factual.{split}_dev.", whole, resamples)
    if development := [c for c in captions if c.split and c.long]:
        prefix = "factual.dev_long."
        figures[f"{prefix}captions"] = len(development)
        figures |= _matched(prefix, [(read(c.text), c) for c in development], resamples)
    captions = [c for c in captions if not c.split]
    for half, held in (("", True), ("tuned.", False)):
        for length, long in (("short", False), ("long", True)):
            some = [c for c in captions if c.held_out == held and c.long == long]
            prefix = f"factual.{half}{length}."
            figures[f"{prefix}captions"] = len(some)
            figures |= _matched(prefix, [(read(c.text), c) for c in some], resamples)
            both = [c for c in some if c.spice is not None]
            if held:
                figures[f"{prefix}spice.captions"] = len(both)
            if held and len(both) >= FEWEST_BESIDE:
                theirs = [(stated_by(c.spice), c) for c in both if c.spice is not None]
                figures |= _matched(f"{prefix}spice.", theirs, resamples)
                ours = [(read(c.text), c) for c in both]
                figures |= _matched(f"{prefix}beside_spice.", ours, resamples)
    return figures


def _matched(
    prefix: str, said: Sequence[tuple[Facts | None, Caption]], resamples: int
) -> dict[str, Any]:
    if not said:
        return {}
    rows = [compare_captions(facts or Facts(), stated_by(c.graph)) for facts, c in said]
    right = np.array([[set_match(row), 1] for row in rows])
    return {
        f"{prefix}set_match": ratio(right, resamples),
        **{
            f"{prefix}f1.{kind}": spread(micro([row[kind] for row in rows], resamples)["f1"])
            for kind in KINDS
        },
        f"{prefix}f1.macro": spread(
            np.mean([micro([row[kind] for row in rows], resamples)["f1"] for kind in KINDS], axis=0)
        ),
    }


@benchmark(
    f"{QUICK_RESAMPLES} resamples",
    measures=("scenewright.agents.parsers",),
    refused=(DatasetError,),
    data=folder("folder of the DSG release, if not beside the repository"),
    factual=folder("folder of the FACTUAL release, or of a part of it; none: not measured"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the parser, its baseline and the parser of SPICE."""
    prompts = load(release(options, "dsg"))
    resamples = QUICK_RESAMPLES if options.quick else RESAMPLES
    figures = measure(prompts, resamples) | measure_negations()
    if options.factual is not None:
        figures |= measure_factual(load_captions(options.factual), resamples)
    figures["captions_per_second"] = captions_per_second(prompts)
    return len(prompts), figures


if __name__ == "__main__":
    main()

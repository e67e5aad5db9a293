"""Statistics of which predicates join which classes, for the wrong options of questions.

A wrong option tests something only if it could be true. So the wrong options of "man … bench" are
predicates that a data set has between a man and a bench, then those of either class, then those of
the whole set (Scene-Bench, Sec. 3.2); never one that may hold as well
(:func:`scenewright.core.vocabulary.holds_with`). A direction is offered against its opposite.

``general`` ships with the package: counts over DSG-1k and the SG2Im scenes, made by
``scripts/predicate_statistics.py``. An evaluation adds the counts of its own set
(:mod:`scenewright.evals.runner.dataset_predicates`). ``miniature`` is a fixed table: the painted
world's predicates exclude each other exactly.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from scenewright.core.errors import ScenewrightError
from scenewright.core.inflection import read_data, singular
from scenewright.core.scene import SceneGraph
from scenewright.core.user_files import UserFileError, read_user_text
from scenewright.core.vocabulary import (
    DIRECTIONS,
    canonical,
    contrasts,
    entails,
    holds_with,
    is_weak,
    is_wording,
    opposite,
)

BUILT_IN: dict[str, str] = {
    "general": "core/predicates.json",
    "miniature": "miniature/predicates.toml",
}
"""Name → file in the package."""
DEFAULT = "general"
WRONG_OPTIONS = 2
"""Wrong predicates of a question (Scene-Bench, Sec. 3.2: three predicates and none)."""
LEAST_SEEN = 2
"""Fewest times that a predicate must have been seen to be offered."""
_LEVELS = (10.0, 5.0, 5.0, 2.0)
"""Observations that a coarser estimate of a predicate's chance weighs as much as: in that of the
single categories, of the pair of categories, of the single classes and of the pair of classes."""
_AS_PLAUSIBLE = math.log(8.0)
"""Largest distance in log probability of a wrong option from the right one."""
_EQUAL = math.log(1.25)
"""Distance below which the wrong option counts as at least as plausible."""
_JITTER = 0.2
_LEAST = 1e-6

_CATEGORIES = {
    word: f"#{category}"
    for category, words in read_data(__package__, "categories.toml").items()
    for word in words.split()
}

Triple = tuple[str, str, str]
"""Class of the source, canonical predicate, class of the target."""


class PredicateError(ScenewrightError, ValueError):
    """Statistics that cannot be read; names the file and the remedy."""


def class_of(name: str) -> str:
    """Return the class under which an object's label is counted: small letters, singular."""
    return singular(" ".join(name.casefold().split()))


@lru_cache(maxsize=2**14)
def category_of(name: str) -> str:
    """Return the category of a class (``categories.toml``), marked with ``#``; empty if unknown.

    The last word of a label that is listed decides.

    >>> category_of("fire truck"), category_of("zork")
    ('#vehicle', '')
    """
    named = (_CATEGORIES.get(singular(word)) for word in reversed(name.split()))
    return next((one for one in (_CATEGORIES.get(name), *named) if one), "")


def triples_of(scene: SceneGraph) -> list[Triple]:
    """Return the relations of ``scene`` as they are counted."""
    names = {item.id: class_of(item.name) for item in scene.objects}
    return [
        (names[relation.source], canonical(relation.predicate), names[relation.target])
        for relation in scene.relations
    ]


class WrongOptions(NamedTuple):
    """Wrong options of a question."""

    predicates: tuple[str, ...]
    """Canonical predicates."""
    matched: bool
    """Whether each is about as plausible as the right one, and one of them at least as plausible.
    """


@dataclass(frozen=True)
class PredicateStatistics:
    """Counts of (class, predicate, class), or a fixed table of wrong options."""

    counts: Mapping[Triple, int] = field(default_factory=dict)
    """Counts of each relation; an empty class stands for all rare ones."""
    fixed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Predicate → its fixed wrong options, used instead of counts."""
    name: str = ""
    """Name in manifests."""

    @classmethod
    def of(cls, scenes: Iterable[SceneGraph], name: str = "") -> PredicateStatistics:
        """Return the counts of ``scenes``."""
        counts = Counter(triple for scene in scenes for triple in triples_of(scene))
        return cls(counts=dict(sorted(counts.items())), name=name)

    def __hash__(self) -> int:
        """Return the hash of the fingerprint, because the tables are not hashable."""
        return hash(self.fingerprint)

    def __add__(self, other: PredicateStatistics) -> PredicateStatistics:
        """Return both counts together; fixed tables of ``self`` win."""
        counts = Counter(self.counts)
        counts.update(other.counts)
        names = "+".join(filter(None, (self.name, other.name)))
        return PredicateStatistics(dict(counts), {**other.fixed, **self.fixed}, names)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that options depend on."""
        data = [sorted(self.counts.items()), sorted(self.fixed.items())]
        return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:12]

    @cached_property
    def _seen(self) -> dict[tuple[str, str], Counter[str]]:
        """Classes or categories of source and target → counts of predicates; empty: any."""
        seen: dict[tuple[str, str], Counter[str]] = {("", ""): Counter()}
        for (source, predicate, target), n in self.counts.items():
            for ends in {*itertools.chain(*_levels(source, target)), ("", "")}:
                seen.setdefault(ends, Counter())[predicate] += n
        return seen

    @property
    def totals(self) -> Counter[str]:
        """Canonical predicate → how often it was seen."""
        return self._seen["", ""]

    @cached_property
    def _offered(self) -> tuple[str, ...]:
        """Predicates that may be wrong options, in a stable order."""
        return tuple(
            sorted(
                predicate
                for predicate, n in self.totals.items()
                if n >= LEAST_SEEN
                and is_wording(predicate)
                and (not is_weak(predicate) or predicate == "next to")
            )
        )

    def knows(self, triple: Triple) -> bool:
        """Return whether the relation was counted, or its predicate has fixed wrong options."""
        return triple in self.counts or triple[1] in self.fixed

    def pair_counts(self, source: str, target: str) -> Counter[str]:
        """Return how often each predicate joins the two classes (labels in any form)."""
        return self._seen.get((class_of(source), class_of(target)), Counter())

    def likelihood(self, source: str, predicate: str, target: str) -> float:
        """Return P(predicate | the two classes).

        Estimated for the whole, then for the category of either class, for both categories, for
        either class and for both classes: each time with additive smoothing by the estimate
        before.
        """
        name = canonical(predicate)
        return self._likelihoods(class_of(source), class_of(target), (name,))[0]

    def _likelihoods(
        self, source: str, target: str, names: Iterable[str], held_out: bool = False
    ) -> list[float]:
        """Return :meth:`likelihood` of canonical predicates ``names`` between two classes.

        ``held_out``: as if one such relation had not been counted.
        """
        found = []
        levels = []
        for some, weight in zip(_levels(source, target), _LEVELS, strict=True):
            known = [self._seen[ends] for ends in some if ends in self._seen]
            levels.append((known, weight, sum(counter.total() for counter in known)))
        every, total = self.totals, self.totals.total()
        for name in names:
            less = held_out and (source, name, target) in self.counts
            chance = (every[name] - less) / max(1, total - less)
            for known, weight, seen in levels:
                here = sum(counter[name] for counter in known) - less * len(known)
                chance = (here + weight * chance) / (seen - less * len(known) + weight)
            found.append(chance)
        return found

    # Of hundreds of things that no words tell apart, all questions share what holds of them.
    @lru_cache(maxsize=512)  # noqa: B019
    def _offered_with(self, true: frozenset[str]) -> tuple[str, ...]:
        """Return the offered predicates that cannot hold where ``true`` do."""
        return tuple(other for other in self._offered if _admissible(other, true))

    def wrong_options(
        self,
        source: str,
        predicate: str,
        target: str,
        rng: random.Random,
        holding: Collection[str] = (),
    ) -> WrongOptions:
        """Return two canonical predicates that are wrong where ``predicate`` holds.

        ``source`` and ``target`` are class labels; ``holding`` are predicates that hold of the
        same two things. Of those that cannot be true in one picture with any of them
        (:func:`~scenewright.core.vocabulary.contrasts`) the ones are taken that are as plausible
        for the two classes as ``predicate``: ``rng`` decides how many of them are more plausible
        than it, so that neither the most nor the least plausible option is the right one more
        often than another. A direction is offered against its opposite. Where the data knows too
        few such predicates, the nearest ones that cannot hold as well stand in, and ``matched`` is
        false.
        Fewer than two only where the statistics know no more.
        """
        true = holding if isinstance(holding, frozenset) else frozenset(holding)
        true = true if predicate in true else true | {predicate}
        name = canonical(predicate)
        if name in self.fixed:
            left = [other for other in self.fixed[name] if not _follows(other, true)]
            first = [other for other in left if other == opposite(name)]
            rest = [other for other in left if other not in first]
            rng.shuffle(rest)
            taken = tuple([*first, *rest][:WRONG_OPTIONS])
            return WrongOptions(taken, matched={name, *taken} <= {*DIRECTIONS})
        turned = opposite(name)
        offered = dict.fromkeys(self._offered_with(true))
        if turned is not None and _admissible(turned, true):
            offered[turned] = None
        ends = (class_of(source), class_of(target))
        own = self._likelihoods(*ends, (name,), held_out=True)[0]
        sides: dict[str, float] = {
            other: math.log(max(chance, _LEAST) / max(own, _LEAST)) + rng.gauss(0.0, _JITTER)
            for other, chance in zip(offered, self._likelihoods(*ends, offered), strict=True)
        }
        clear = [other for other in sides if all(contrasts(one, other) for one in true)]
        if turned in clear and turned in ("left of", "right of"):
            # No data says on which side of another a thing is.
            sides[turned] = 0.0
        near = sorted(
            (other for other in clear if abs(sides[other]) <= _AS_PLAUSIBLE),
            key=lambda other: abs(sides[other]),
        )
        above = [other for other in near if sides[other] >= -_EQUAL]
        below = [other for other in near if other not in above]
        wanted = rng.choice((0, 1, 2))
        ranked = [*above[:wanted], *below[: WRONG_OPTIONS - wanted], *above[wanted:], *below]
        found = [turned] if turned is not None and turned in offered else []
        others = sorted(offered, key=lambda other: (other not in clear, abs(sides[other])))
        for other in [*ranked, *others]:
            if len(found) == WRONG_OPTIONS:
                break
            if _admissible(other, found) and not any(holds_with(other, one) for one in found):
                found.append(other)
        spread = [0.0, *(sides[other] for other in found if other in clear)]
        whole = len(spread) == WRONG_OPTIONS + 1
        matched = whole and max(spread) - min(spread) <= _AS_PLAUSIBLE
        return WrongOptions(tuple(found), matched)


def _levels(source: str, target: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return the keys under which a pair of classes is counted, from coarse to fine."""
    kinds = (category_of(source), category_of(target))
    found = (
        ((kinds[0], ""), ("", kinds[1])),
        (kinds,),
        ((source, ""), ("", target)),
        ((source, target),),
    )
    return tuple(
        tuple(ends for ends in some if all(ends) or (len(some) > 1 and any(ends))) for some in found
    )


def _follows(other: str, true: Collection[str]) -> bool:
    """Return whether ``other`` means, follows from or entails one of ``true``.

    Weak predicates such as *near* follow from too many others to count.
    """
    return any(entails(one, other) or (entails(other, one) and not is_weak(one)) for one in true)


def _admissible(other: str, true: Collection[str]) -> bool:
    return not any(holds_with(one, other) for one in true)


@lru_cache(maxsize=16)
def _built_in(name: str) -> PredicateStatistics:
    return _read((files("scenewright") / BUILT_IN[name]).read_text(encoding="utf-8"), name)


# Every scene of an evaluation asks for the counts; a file that changed is another one.
@lru_cache(maxsize=16)
def _of_file(path: Path, changed: int) -> PredicateStatistics:
    return _read(read_user_text(path), path.name)


def load_predicates(name: str = DEFAULT) -> PredicateStatistics:
    """Return the statistics of a name (``general``, ``miniature``) or a JSON or TOML file.

    Raises ``PredicateError`` for a file that cannot be read.
    """
    if name in BUILT_IN:
        return _built_in(name)
    path = Path(name).expanduser()
    try:
        return _of_file(path, path.stat().st_mtime_ns)
    except (OSError, UserFileError) as error:
        known = ", ".join(BUILT_IN)
        why = f" ({error})" if isinstance(error, UserFileError) else ""
        raise PredicateError(
            f"cannot read predicate statistics from '{name}'{why}: name one of {known}, or a file "
            "of them"
        ) from error


def _read(text: str, name: str) -> PredicateStatistics:
    try:
        data: Any = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
        counts = {
            (str(source), str(predicate), str(target)): int(n)
            for predicate, rows in data.get("counts", {}).items()
            for source, target, n in rows
        }
        fixed = {str(key): tuple(map(str, row)) for key, row in data.get("fixed", {}).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise PredicateError(
            f"'{name}' holds no predicate statistics: it needs a table counts (predicate → list of "
            "[source class, target class, times]) or a table fixed (predicate → wrong options)"
        ) from error
    return PredicateStatistics(counts, fixed, name)


def as_json(statistics: PredicateStatistics, about: Mapping[str, object] | None = None) -> str:
    """Return ``statistics`` as the text of a file for :func:`load_predicates`.

    ``about`` has further keys for people, such as the counted sets.
    """
    table: dict[str, list[list[object]]] = {}
    for (source, predicate, target), n in sorted(statistics.counts.items()):
        table.setdefault(predicate, []).append([source, target, n])
    rows = ",\n".join(
        f"    {json.dumps(predicate)}: {json.dumps(ends, separators=(',', ':'))}"
        for predicate, ends in sorted(table.items())
    )
    fixed = {key: list(row) for key, row in sorted(statistics.fixed.items())}
    more = {**(about or {}), **({"fixed": fixed} if fixed else {})}
    head = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in more.items())
    return f'{{\n{head}  "counts": {{\n{rows}\n  }}\n}}\n'

"""Figures on rated objects: agreement of raters, re-evaluation, scores by group.

Objects of one picture depend on each other, so pictures are drawn with replacement for the
intervals (:class:`~scenewright.evals.figures.Bootstrap`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.figures import Array, Bootstrap, Figure
from scenewright.evals.rating.correlation import figure_of, resamples_of, spearman
from scenewright.evals.rating.measures import Places, cohen, sameness
from scenewright.evals.rating.objects.judged import Judged, Said
from scenewright.evals.rating.study import ASPECTS, POINTS, Aspect, Rule

Both = dict[Aspect, Figure]
"""A figure for shape and one for texture."""


class AspectAgreement(BaseModel):
    """How far two raters of the same object agree."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kappa: Figure
    """Cohen's κ, as the paper has it. ``n`` counts pairs of ratings."""
    weighted: Figure
    """Cohen's κ with quadratic weights."""
    same: Figure
    """Share of the pairs that gave the same score."""
    distance: Figure
    """Mean absolute difference of a pair."""


class RaterPair(BaseModel):
    """Two raters who share objects."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: str
    """One rater."""
    second: str
    """The other."""
    kappa: Both
    """Cohen's κ of each aspect; ``n`` counts objects that both rated."""


class ObjectRater(BaseModel):
    """One rater."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rater: str
    """Name."""
    objects: int = Field(ge=0)
    """Objects rated, or taken out."""
    taken_out: int = Field(ge=0)
    """Objects that the rater took out."""
    changed: int = Field(ge=0)
    """Objects of which an answer was changed."""
    median_seconds: float | None
    """Median of the seconds that an object took."""
    mean: Both
    """Mean score that the rater gives."""
    bias: Both
    """Mean of the rater's score minus the mean of the others' on the same object."""
    agreement: Both
    """Quadratically weighted κ with the mean of the others."""


class Group(BaseModel):
    """The objects of one source or category."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Which one."""
    mean: Both
    """Mean score of each aspect (Figs. 4 and 6); ``n`` counts objects."""
    ocr: Figure
    """Mean of the two."""
    discrepancy: tuple[float, ...]
    """Share of objects whose shape and texture differ by 0 to below 1, 1 to below 2, 2 to below 3,
    and 3 or more (Fig. 5)."""
    high: Figure
    """Share of objects with a difference of 2 or more."""


def pairs_of(judged: Sequence[Judged]) -> list[tuple[int, Said, Said]]:
    """(number of the object, one rater, another) for all pairs among the raters that every object
    gets. A re-evaluation is no such pair: it is asked for because the others differ."""
    found: list[tuple[int, Said, Said]] = []
    for number, one in enumerate(judged):
        # By name, so that a pair of raters always stands in the same order.
        first = sorted(one.known[: one.rule.raters], key=lambda said: said.rater)
        found.extend((number, a, b) for a, b in combinations(first, 2))
    return found


def aspect_agreement(
    boot: Bootstrap, items: Places, judged: Sequence[Judged], at: int
) -> AspectAgreement:
    """Agreement in question ``at``, over the pairs of all objects; ``items`` (objects,) are the
    numbers of their pictures."""
    pairs = pairs_of(judged)
    if not pairs:
        empty = Figure(value=None)
        return AspectAgreement(kappa=empty, weighted=empty, same=empty, distance=empty)
    where = items[[number for number, _, _ in pairs]]
    a = np.array([_score(first, at) for _, first, _ in pairs])
    b = np.array([_score(second, at) for _, _, second in pairs])
    return AspectAgreement(
        kappa=cohen(boot, where, a, b),
        weighted=cohen(boot, where, a, b, "quadratic"),
        same=sameness(boot, where, np.stack([a, b], axis=1)),
        distance=boot.share(where, np.abs(a - b)),
    )


def rater_pairs(boot: Bootstrap, items: Places, judged: Sequence[Judged]) -> tuple[RaterPair, ...]:
    """κ of each pair of raters on the objects that both were given first."""
    together: dict[tuple[str, str], list[tuple[int, Said, Said]]] = {}
    for number, a, b in pairs_of(judged):
        together.setdefault((a.rater, b.rater), []).append((number, a, b))
    found = []
    for (first, second), rows in sorted(together.items()):
        where = items[[number for number, _, _ in rows]]
        found.append(
            RaterPair(
                first=first,
                second=second,
                kappa={
                    aspect: cohen(
                        boot, where, [_score(a, at) for _, a, _ in rows],
                        [_score(b, at) for _, _, b in rows],
                    )
                    for at, aspect in enumerate(ASPECTS)
                },
            )
        )  # fmt: skip
    return tuple(found)


def object_raters(
    boot: Bootstrap, items: Places, judged: Sequence[Judged]
) -> tuple[ObjectRater, ...]:
    """Each rater, by name."""
    names = sorted({said.rater for one in judged for said in one.said})
    found = []
    for name in names:
        own = [
            (number, said)
            for number, one in enumerate(judged)
            for said in one.said
            if said.rater == name
        ]
        seconds = [said.seconds for _, said in own if said.seconds is not None]
        scored = [(number, said) for number, said in own if said.scores is not None]
        mean, bias, agreement = {}, {}, {}
        for at, aspect in enumerate(ASPECTS):
            given = np.array([_score(said, at) for _, said in scored])
            others = np.array([_others(judged[number], name, at) for number, _ in scored])
            where = items[[number for number, _ in scored]] if scored else items[:0]
            both = ~np.isnan(others)
            mean[aspect] = _mean(boot, where, given)
            bias[aspect] = _mean(boot, where[both], given[both] - others[both])
            agreement[aspect] = cohen(boot, where, given, others, "quadratic")
        found.append(
            ObjectRater(
                rater=name,
                objects=len(own),
                taken_out=len(own) - len(scored),
                changed=sum(said.changes > 0 for _, said in own),
                median_seconds=statistics.median(seconds) if seconds else None,
                mean=mean,
                bias=bias,
                agreement=agreement,
            )
        )
    return tuple(found)


def groups_of(
    boot: Bootstrap, items: Places, judged: Sequence[Judged], name: Callable[[Judged], str]
) -> tuple[Group, ...]:
    """The objects with scores by ``name``; the most real ones first."""
    members: dict[str, list[int]] = {}
    for number, one in enumerate(judged):
        if one.means:
            members.setdefault(name(one), []).append(number)
    found = [group_of(boot, items, judged, rows, label) for label, rows in members.items()]
    return tuple(sorted(found, key=lambda group: (-(group.ocr.value or 0.0), group.name)))


def group_of(
    boot: Bootstrap, items: Places, judged: Sequence[Judged], rows: Sequence[int], name: str
) -> Group:
    """The objects with the numbers ``rows``, all of which have scores."""
    means = np.array([judged[row].means for row in rows]).reshape(-1, len(ASPECTS))
    where = items[list(rows)]
    gaps = np.abs(means[:, 0] - means[:, 1])
    bins = Counter(min(int(gap + 1e-9), 3) for gap in gaps)
    return Group(
        name=name,
        mean={aspect: _mean(boot, where, means[:, at]) for at, aspect in enumerate(ASPECTS)},
        ocr=_mean(boot, where, means.mean(1)),
        discrepancy=tuple(bins[n] / max(1, len(gaps)) for n in range(4)),
        high=_mean(boot, where, (gaps >= 2.0 - 1e-9).astype(np.float64)),
    )


def reevaluation(boot: Bootstrap, items: Places, judged: Sequence[Judged], rule: Rule) -> Figure:
    """Share of the objects rated by all first raters of which a further rating was needed."""
    rows = [number for number, one in enumerate(judged) if len(one.first) == rule.raters]
    return _mean(boot, items[rows], np.array([float(judged[row].apart) for row in rows]))


def histogram(judged: Sequence[Judged], at: int) -> tuple[int, ...]:
    """How many objects have a mean score of 1, 2, … 5 in question ``at``, halves rounded up
    (Fig. 3)."""
    counts = Counter(math.floor(one.means[at] + 0.5) for one in judged if one.means)
    return tuple(counts[score] for score in range(1, POINTS + 1))


def ranks(items: Places, a: Array, b: Array, *, resamples: int, seed: int) -> Figure:
    """Spearman's rank correlation of ``a`` and ``b``, both (n,), with its interval over the items
    that ``items`` (n,) numbers."""
    names, at = np.unique(items, return_inverse=True)
    # Means of the same ratings differ in their last bit.
    first, second = np.round(a, 9), np.round(b, 9)
    drawn = resamples_of(at, len(names), resamples, seed)
    return figure_of(lambda p: spearman(first[p], second[p]), np.arange(len(at)), drawn, len(at))


def _mean(boot: Bootstrap, where: Places, values: Array) -> Figure:
    return boot.share(where, values) if len(values) else Figure(value=None)


def _score(said: Said, at: int) -> float:
    assert said.scores is not None
    return float(said.scores[at])


def _others(one: Judged, rater: str, at: int) -> float:
    """Mean of the others' scores; NaN without any."""
    given = [_score(said, at) for said in one.known if said.rater != rater]
    return statistics.fmean(given) if given else float("nan")

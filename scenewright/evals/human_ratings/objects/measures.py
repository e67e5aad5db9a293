"""Figures on the raters of objects: pairs of them, each by themselves, and how scores are spread.

What does not hang on who rated is in :mod:`scenewright.evals.human_ratings.objects.analysis`.
Objects of one picture depend on each other, so pictures are drawn with replacement for the
intervals (:class:`~scenewright.evals.statistics.figures.Bootstrap`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.human_ratings.measures import Places, cohen
from scenewright.evals.human_ratings.objects.analysis import FIRST, pairs_of
from scenewright.evals.human_ratings.objects.data import GivenRating, RatedObject
from scenewright.evals.human_ratings.objects.judged import RatedUnit, RaterAnswer
from scenewright.evals.human_ratings.study import ASPECTS, POINTS, Aspect
from scenewright.evals.statistics.figures import Array, Bootstrap, Figure

Both = dict[Aspect, Figure]
"""A figure for shape and one for texture."""


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


def rater_pairs(
    boot: Bootstrap, items: Places, objects: Sequence[RatedObject], first: int = FIRST
) -> tuple[RaterPair, ...]:
    """κ of each pair of raters on the objects that both were given first."""
    together: dict[tuple[str, str], list[tuple[int, GivenRating, GivenRating]]] = {}
    for number, a, b in pairs_of(objects, first):
        together.setdefault((a.rater, b.rater), []).append((number, a, b))
    found = []
    for (one, other), rows in sorted(together.items()):
        where = items[[number for number, _, _ in rows]]
        kappa: Both = {
            aspect: cohen(
                boot,
                where,
                [getattr(a, aspect) for _, a, _ in rows],
                [getattr(b, aspect) for _, _, b in rows],
            )
            for aspect in ASPECTS
        }
        found.append(RaterPair(first=one, second=other, kappa=kappa))
    return tuple(found)


def object_raters(
    boot: Bootstrap, items: Places, judged: Sequence[RatedUnit]
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


def histogram(judged: Sequence[RatedUnit], at: int) -> tuple[int, ...]:
    """How many objects have a mean score of 1, 2, … 5 in question ``at``, halves rounded up
    (Fig. 3)."""
    counts = Counter(math.floor(one.means[at] + 0.5) for one in judged if one.means)
    return tuple(counts[score] for score in range(1, POINTS + 1))


def _mean(boot: Bootstrap, where: Places, values: Array) -> Figure:
    return boot.share(where, values) if len(values) else Figure(value=None)


def _score(said: RaterAnswer, at: int) -> float:
    assert said.scores is not None
    return float(said.scores[at])


def _others(one: RatedUnit, rater: str, at: int) -> float:
    """Mean of the others' scores; NaN without any."""
    given = [_score(said, at) for said in one.known if said.rater != rater]
    return statistics.fmean(given) if given else float("nan")

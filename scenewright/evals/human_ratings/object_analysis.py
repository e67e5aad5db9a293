"""Analysis of rated objects: agreement of raters, pictures, categories (Liang et al., Sec. 3).

Serves both sets of rated objects and studies in which people rate them. Intervals are 95 %
bootstraps over pictures, because objects of one picture depend on each other
(:class:`~scenewright.evals.statistics.figures.Bootstrap`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from scenewright.core.ports.vision import RealismError
from scenewright.core.validation import FrozenModel
from scenewright.evals.human_ratings.rated_objects import GivenRating, RatedObject
from scenewright.evals.human_ratings.study import (
    ASPECTS,
    Aspect,
)
from scenewright.evals.statistics.agreement import Places, cohen, sameness
from scenewright.evals.statistics.figures import RESAMPLES, Array, Bootstrap, Figure
from scenewright.tools.vision.realism.pictures import box_area

ScoredAspect = Literal["shape", "texture", "joint"]
SCORED_ASPECTS: tuple[ScoredAspect, ...] = get_args(ScoredAspect)
Objects = Literal["all", "largest", "smallest", "average", "largest_five"]
OBJECTS: tuple[Objects, ...] = get_args(Objects)
"""Rows of Table 2: every object, the largest or smallest of each picture, the mean of all; and the
mean of the five largest, which stands for a picture (Sec. 3.3.3)."""
FIRST = 2
"""So many rate every object; a further one is asked where these differ (Sec. 3.2)."""
REVIEWED = 3
"""Two raters who differ by so much call for a third (Sec. 3.2)."""
DISCREPANT = 2.0
"""Least difference of shape and texture that counts as high (Sec. 3.3.2)."""
_FIVE = 5
_DECIMALS = 9


class AspectAgreement(FrozenModel):
    """Agreement of two raters of the same object."""

    kappa: Figure
    """Cohen's κ, as the paper has it. ``n`` counts pairs of ratings."""
    weighted: Figure
    """Cohen's κ with quadratic weights."""
    same: Figure
    """Share of the pairs that gave the same score."""
    distance: Figure
    """Mean absolute difference of a pair."""


class Group(FrozenModel):
    """The objects of one source or category."""

    name: str
    objects: int = Field(default=0, ge=0)
    mean: dict[Aspect, Figure]
    """Mean score of each aspect (Figs. 4 and 6); ``n`` counts objects."""
    ocr: Figure
    """Mean of the two."""
    counts: tuple[int, ...] = ()
    """Objects whose shape and texture differ by 0 to below 1, 1 to below 2, 2 to below 3, and 3 or
    more (Fig. 5); of whole ratings these are 0, 1, 2 and at least 3."""
    discrepancy: tuple[float, ...]
    """The same as shares."""
    high: Figure
    """Share of objects with a difference of 2 or more."""
    correlation: Figure = Figure(value=None)
    """Spearman's between shape and texture (Sec. 3.3.2)."""


class Raters(FrozenModel):
    """Agreement of the first two raters of the same objects (Sec. 3.2)."""

    objects: int = Field(ge=0)
    """Objects with two ratings or more."""
    kappa: dict[Aspect, Figure]
    """Cohen's κ."""
    weighted: dict[Aspect, Figure]
    """The same with quadratic weights."""
    same: dict[Aspect, Figure]
    """Share of the objects that both gave the same score."""
    distance: dict[Aspect, Figure]
    """Mean absolute difference."""
    reviewed: Figure
    """Share of objects on whose shape or texture they differ by :data:`REVIEWED` or more."""
    third: int = Field(ge=0)
    """How many of these a third rater has seen."""


def in_order(item: RatedObject) -> tuple[GivenRating, ...]:
    """Return the ratings of an object as they came: by time where all tell it, else as listed."""
    if all(rating.when for rating in item.ratings):
        return tuple(sorted(item.ratings, key=lambda rating: rating.when))
    return item.ratings


def places_of(objects: Sequence[RatedObject]) -> Places:
    """Return the number of each object's picture, from 0."""
    numbers = {name: at for at, name in enumerate(dict.fromkeys(o.image for o in objects))}
    return np.array([numbers[item.image] for item in objects], np.intp)


def pairs_of(
    objects: Sequence[RatedObject], first: int = FIRST
) -> list[tuple[int, GivenRating, GivenRating]]:
    """Return (number of the object, one rating, another) for all pairs among the first raters.

    Every object gets ``first`` raters. Later ratings are in no pair: they were requested because
    the first ones differ.
    """
    found: list[tuple[int, GivenRating, GivenRating]] = []
    for number, item in enumerate(objects):
        # By name, so that a pair of raters always stands in the same order.
        chosen = sorted(in_order(item)[:first], key=lambda rating: rating.rater)
        found.extend((number, a, b) for a, b in combinations(chosen, 2))
    return found


def agreement(
    boot: Bootstrap, places: Places, objects: Sequence[RatedObject], first: int = FIRST
) -> dict[Aspect, AspectAgreement]:
    """Return the agreement over :func:`pairs_of`; ``places`` (objects,) number their pictures."""
    pairs = pairs_of(objects, first)
    where = places[[number for number, _, _ in pairs]] if pairs else places[:0]
    found = {}
    for aspect in ASPECTS:
        a, b = (
            np.array([getattr(pair[side], aspect) for pair in pairs], np.float64) for side in (1, 2)
        )
        found[aspect] = AspectAgreement(
            kappa=cohen(boot, where, a, b),
            weighted=cohen(boot, where, a, b, "quadratic"),
            same=sameness(boot, where, np.stack([a, b], axis=1)),
            distance=boot.share(where, np.abs(a - b)),
        )
    return found


def reevaluation(
    boot: Bootstrap,
    places: Places,
    objects: Sequence[RatedObject],
    first: int = FIRST,
    apart: int = REVIEWED,
) -> Figure:
    """Return the share of objects whose first raters differ by ``apart`` or more.

    Only objects rated by all ``first`` raters count.
    """
    rows = [number for number, item in enumerate(objects) if len(item.ratings) >= first]
    where = places[rows] if rows else places[:0]
    return boot.share(where, [_apart(objects[row], first) >= apart for row in rows])


def raters(objects: Sequence[RatedObject], *, seed: int = 0) -> Raters:
    """Return the agreement of the first two raters of each object that has two.

    Raises ``RealismError`` if none has.
    """
    both = [item for item in objects if len(item.ratings) >= FIRST]
    if not both:
        raise RealismError("no object has two ratings: agreement needs two raters of an object")
    places = places_of(both)
    boot = Bootstrap(int(places.max()) + 1, seed)
    found = agreement(boot, places, both)
    return Raters(
        objects=len(both),
        **{
            name: {aspect: getattr(found[aspect], name) for aspect in ASPECTS}
            for name in AspectAgreement.model_fields
        },
        reviewed=reevaluation(boot, places, both),
        third=sum(len(o.ratings) > FIRST and _apart(o, FIRST) >= REVIEWED for o in both),
    )


def groups_of(
    boot: Bootstrap,
    places: Places,
    objects: Sequence[RatedObject],
    name: Callable[[RatedObject], str],
) -> tuple[Group, ...]:
    """Return the objects grouped by ``name``, the most realistic groups first."""
    members: dict[str, list[int]] = {}
    for number, item in enumerate(objects):
        members.setdefault(name(item), []).append(number)
    found = [
        group_of(boot, places[rows], [objects[row] for row in rows], label)
        for label, rows in members.items()
    ]
    return tuple(sorted(found, key=lambda group: (-(group.ocr.value or 0.0), group.name)))


def group_of(boot: Bootstrap, places: Places, objects: Sequence[RatedObject], name: str) -> Group:
    """Return the figures of the objects of a group."""
    shape = np.array([item.shape for item in objects], np.float64)
    texture = np.array([item.texture for item in objects], np.float64)
    gaps = np.round(np.abs(shape - texture), _DECIMALS)
    counts = np.bincount(np.minimum(gaps, 3).astype(int), minlength=4)
    return Group(
        name=name,
        objects=len(objects),
        mean={"shape": boot.share(places, shape), "texture": boot.share(places, texture)},
        ocr=boot.share(places, (shape + texture) / 2),
        counts=tuple(int(count) for count in counts),
        discrepancy=tuple(float(count) / max(1, len(gaps)) for count in counts),
        high=boot.share(places, gaps >= DISCREPANT),
        correlation=boot.spearman(places, (shape, texture)),
    )


def discrepancy(
    objects: Sequence[RatedObject],
    *,
    by: Callable[[RatedObject], str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Group]:
    """Return the groups of objects for each value of ``by``, sorted by name (Fig. 5, Sec. 3.3.2).

    Without ``by`` there is one group, named ``all``.
    """
    if not objects:
        return {}
    places = places_of(objects)
    boot = Bootstrap(int(places.max()) + 1, seed, resamples)
    found = groups_of(boot, places, objects, by or (lambda _: "all"))
    return {group.name: group for group in sorted(found, key=lambda group: group.name)}


def by_picture(objects: Sequence[RatedObject]) -> dict[str, list[RatedObject]]:
    """Return the objects of each picture by the area of their boxes, largest first; ties by id."""
    found: dict[str, list[RatedObject]] = {}
    for item in objects:
        found.setdefault(item.image, []).append(item)
    for members in found.values():
        members.sort(key=lambda o: (-box_area(o.detection), o.id))
    return found


def pictures_rated(objects: Sequence[RatedObject]) -> list[tuple[float, list[RatedObject]]]:
    """Return the realism of each picture that people rated as a whole, and its objects by size.

    Raises ``RealismError`` if there is none, or if objects of one picture have different values.
    """
    found = []
    for image, members in by_picture(objects).items():
        said = {o.image_realism for o in members if o.image_realism is not None}
        if len(said) > 1:
            raise RealismError(
                f"{image} has the image realism {' and '.join(map(str, sorted(said)))}: give all "
                "objects of a picture the same"
            )
        found += [(whole, members) for whole in said]
    if not found:
        raise RealismError(
            "no picture is rated as a whole: give the objects an image_realism (a study of objects "
            "asks for it)"
        )
    return found


def image_correlations(
    objects: Sequence[RatedObject], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[Objects, dict[ScoredAspect, Figure]]:
    """Return Spearman's correlations of the realism of objects and of their picture (Table 2).

    Raises as :func:`pictures_rated`.
    """
    rated = pictures_rated(objects)
    boot = Bootstrap(len(rated), seed, resamples)
    found: dict[Objects, dict[ScoredAspect, Figure]] = {}
    for which in OBJECTS:
        found[which] = {}
        for aspect in SCORED_ASPECTS:
            pictures, said, wholes = _rows(rated, which, aspect)
            found[which][aspect] = boot.spearman(pictures, (said, wholes))
    return found


def _rows(
    rated: Sequence[tuple[float, list[RatedObject]]], which: Objects, aspect: ScoredAspect
) -> tuple[NDArray[np.intp], Array, Array]:
    """Return (picture, score of the objects, score of the picture), each (n,)."""
    rows: list[tuple[int, float, float]] = []
    for at, (whole, members) in enumerate(rated):
        scores = [float(getattr(item, aspect)) for item in members]
        taken: Mapping[Objects, list[float]] = {
            "all": scores,
            "largest": scores[:1],
            "smallest": scores[-1:],
            "average": [sum(scores) / len(scores)],
            "largest_five": [sum(scores[:_FIVE]) / len(scores[:_FIVE])],
        }
        rows += [(at, score, whole) for score in taken[which]]
    pictures, said, wholes = zip(*rows, strict=True)
    return np.array(pictures, np.intp), np.array(said), np.array(wholes)


def _apart(item: RatedObject, first: int) -> int:
    """Return the largest difference of the first raters in any aspect."""
    given = in_order(item)[:first]
    said: list[list[int]] = [[r.shape for r in given], [r.texture for r in given]]
    return max(max(scores) - min(scores) for scores in said)

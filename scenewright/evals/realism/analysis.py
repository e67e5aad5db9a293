"""What the realism of objects says of pictures, and of each other (Liang et al., Sec. 3.2 and 3.3).

Intervals are of 95 %, over pictures: objects of one picture depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from scenewright.agents.realism.base import RealismError
from scenewright.agents.realism.objects import box_area
from scenewright.evals.figures import RESAMPLES, Array, Bootstrap, Figure
from scenewright.evals.rating.correlation import figure_of, resamples_of, spearman
from scenewright.evals.rating.measures import cohen
from scenewright.evals.realism.data import RatedObject

Aspect = Literal["shape", "texture", "joint"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
Objects = Literal["all", "largest", "smallest", "average"]
OBJECTS: tuple[Objects, ...] = get_args(Objects)
"""Rows of Table 2: every object, the largest or smallest of each picture, the mean of all."""
REVIEWED = 3
"""Two raters who differ by so much call for a third (Sec. 3.2)."""
DISCREPANT = 2.0
"""Least difference of shape and texture that counts as high (Sec. 3.3.2)."""
_DECIMALS = 9


class Discrepancy(BaseModel):
    """How far shape and texture of the same objects are apart (Fig. 5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objects: int
    """How many objects."""
    counts: tuple[int, int, int, int]
    """Those whose difference is in [0, 1), [1, 2), [2, 3), [3, 4]; of whole ratings these are 0,
    1, 2 and at least 3."""
    high: Figure
    """Share of objects with a difference of at least 2."""
    correlation: Figure
    """Spearman's between shape and texture."""


class Raters(BaseModel):
    """How far the first two raters of the same objects agree (Sec. 3.2)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objects: int = Field(ge=0)
    """Objects with two ratings or more."""
    kappa: dict[Literal["shape", "texture"], Figure]
    """Cohen's κ."""
    weighted: dict[Literal["shape", "texture"], Figure]
    """The same with quadratic weights."""
    reviewed: Figure
    """Share of objects on whose shape or texture they differ by :data:`REVIEWED` or more."""


def by_picture(objects: Sequence[RatedObject]) -> dict[str, list[RatedObject]]:
    """Picture → its objects by the area of their boxes, largest first; ties by id."""
    found: dict[str, list[RatedObject]] = {}
    for item in objects:
        found.setdefault(item.image, []).append(item)
    for members in found.values():
        members.sort(key=lambda o: (-box_area(o.detection), o.id))
    return found


def pictures_rated(objects: Sequence[RatedObject]) -> list[tuple[float, list[RatedObject]]]:
    """The realism of each picture that people rated as a whole, and its objects by size.

    Raises ``RealismError`` if there is none, or if objects of one picture say different things of
    it.
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
) -> dict[Objects, dict[Aspect, Figure]]:
    """Table 2: Spearman's between the realism of objects and that of their picture.

    Raises as :func:`pictures_rated`.
    """
    rated = pictures_rated(objects)
    return {
        which: {
            aspect: _correlation(*_rows(rated, which, aspect), resamples, seed)
            for aspect in ASPECTS
        }
        for which in OBJECTS
    }


def discrepancy(
    objects: Sequence[RatedObject],
    *,
    by: Callable[[RatedObject], str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Discrepancy]:
    """Fig. 5 and Sec. 3.3.2, for each value of ``by`` (source, category …) in the order of the
    alphabet; without ``by`` one entry for all, of the name ``all``."""
    groups: dict[str, list[RatedObject]] = {}
    for item in objects:
        groups.setdefault("all" if by is None else by(item), []).append(item)
    return {name: _discrepancy(groups[name], resamples, seed) for name in sorted(groups)}


def raters(objects: Sequence[RatedObject], *, seed: int = 0) -> Raters:
    """Agreement of the first two raters of each object that has two. Raises ``RealismError`` if
    none has."""
    both = [item for item in objects if len(item.ratings) >= 2]
    if not both:
        raise RealismError("no object has two ratings: agreement needs two raters of an object")
    pictures = _pictures(both)
    boot = Bootstrap(int(pictures.max()) + 1, seed)
    said = {
        "shape": np.array([[r.shape for r in o.ratings[:2]] for o in both], np.float64),
        "texture": np.array([[r.texture for r in o.ratings[:2]] for o in both], np.float64),
    }
    apart = np.max([np.abs(pair[:, 0] - pair[:, 1]) for pair in said.values()], axis=0)

    def kappas(weights: Literal["same", "quadratic"]) -> dict[Literal["shape", "texture"], Figure]:
        return {
            "shape": cohen(boot, pictures, *_pair(said["shape"]), weights),
            "texture": cohen(boot, pictures, *_pair(said["texture"]), weights),
        }

    return Raters(
        objects=len(both),
        kappa=kappas("same"),
        weighted=kappas("quadratic"),
        reviewed=boot.share(pictures, apart >= REVIEWED),
    )


def _pair(said: Array) -> tuple[Array, Array]:
    return said[:, 0], said[:, 1]


def _rows(
    rated: Sequence[tuple[float, list[RatedObject]]], which: Objects, aspect: Aspect
) -> tuple[NDArray[np.intp], Array, Array]:
    """(picture, score of the objects, score of the picture), each (n,)."""
    rows: list[tuple[int, float, float]] = []
    for at, (whole, members) in enumerate(rated):
        scores = [float(getattr(item, aspect)) for item in members]
        taken: Mapping[Objects, list[float]] = {
            "all": scores,
            "largest": scores[:1],
            "smallest": scores[-1:],
            "average": [sum(scores) / len(scores)],
        }
        rows += [(at, score, whole) for score in taken[which]]
    pictures, said, wholes = zip(*rows, strict=True)
    return np.array(pictures, np.intp), np.array(said), np.array(wholes)


def _correlation(
    pictures: NDArray[np.intp], a: Array, b: Array, resamples: int, seed: int
) -> Figure:
    # Means of the same ratings may differ in their last bit, and are ties all the same.
    a, b = np.round(a, _DECIMALS), np.round(b, _DECIMALS)
    drawn = resamples_of(pictures, int(pictures.max()) + 1, resamples, seed)
    return figure_of(lambda at: spearman(a[at], b[at]), np.arange(len(a)), drawn, len(a))


def _discrepancy(objects: Sequence[RatedObject], resamples: int, seed: int) -> Discrepancy:
    shape = np.array([item.shape for item in objects])
    texture = np.array([item.texture for item in objects])
    apart = np.round(np.abs(shape - texture), _DECIMALS)
    pictures = _pictures(objects)
    counts = np.bincount(np.minimum(apart, 3).astype(int), minlength=4)
    return Discrepancy(
        objects=len(objects),
        counts=(int(counts[0]), int(counts[1]), int(counts[2]), int(counts[3])),
        high=Bootstrap(int(pictures.max()) + 1, seed).share(pictures, apart >= DISCREPANT),
        correlation=_correlation(pictures, shape, texture, resamples, seed),
    )


def _pictures(objects: Sequence[RatedObject]) -> NDArray[np.intp]:
    """Number of each object's picture."""
    numbers = {name: at for at, name in enumerate(dict.fromkeys(o.image for o in objects))}
    return np.array([numbers[item.image] for item in objects], np.intp)

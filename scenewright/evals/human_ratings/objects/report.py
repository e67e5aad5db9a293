"""What a study of objects says: agreement, re-evaluation, raters, scores by source and category."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.human_ratings.objects.analysis import (
    AspectAgreement,
    Group,
    agreement,
    group_of,
    groups_of,
    image_correlations,
    reevaluation,
)
from scenewright.evals.human_ratings.objects.data import RatedObject
from scenewright.evals.human_ratings.objects.export import rated_object
from scenewright.evals.human_ratings.objects.judged import RatedUnit, judged_of
from scenewright.evals.human_ratings.objects.measures import (
    ObjectRater,
    RaterPair,
    histogram,
    object_raters,
    rater_pairs,
)
from scenewright.evals.human_ratings.study import ASPECTS, Aspect, RatingError, RatingStudy, Rule
from scenewright.evals.human_ratings.table import Rating
from scenewright.evals.statistics.figures import RESAMPLES, Bootstrap, Figure

PAPER: Mapping[str, float] = {
    "kappa_shape": 0.40,
    "kappa_texture": 0.34,
    "reevaluation": 0.10,
    "shape_and_texture": 0.52,
    "high_discrepancy": 0.08,
}
"""The paper's own figures on its 15K objects (Liang et al., Secs. 3.2 and 3.3.2), to compare with:
Cohen's κ of two annotators, rate of re-evaluation, Spearman's correlation of shape and texture,
share of objects where these differ by 2 or more."""
Tick = Callable[[str], None]
"""Told what is worked out next."""


class ObjectCounts(BaseModel):
    """How far the study is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objects: int = Field(ge=0)
    """All objects of the study."""
    finished: int = Field(ge=0)
    """Rated by as many as the rule asks for."""
    once: int = Field(ge=0)
    """Begun, but in need of a further first rater."""
    waiting: int = Field(ge=0)
    """In the queue for a re-evaluation."""
    reevaluated: int = Field(ge=0)
    """Given to a further rater, since the first differ."""
    excluded: int = Field(ge=0)
    """Taken out by a rater."""
    excluded_by_category: dict[str, int]
    """Category → how many of these."""
    untouched: int = Field(ge=0)
    """Rated by nobody yet."""
    pictures: int = Field(ge=0)
    """Pictures of which an object has scores."""
    wholes: int = Field(ge=0)
    """Pictures with a score as a whole."""


class ObjectReport(BaseModel):
    """Everything that the ratings of a study of objects say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str
    """Where the ratings come from."""
    rule: Rule
    """How many raters an object gets."""
    counts: ObjectCounts
    """How far the study is."""
    agreement: dict[Aspect, AspectAgreement]
    """Between the first raters of an object."""
    reevaluation: Figure
    """Share of the objects with all first ratings on which these differ too widely."""
    pairs: tuple[RaterPair, ...]
    """All pairs of raters who share objects."""
    raters: tuple[ObjectRater, ...]
    """The raters, by name."""
    histogram: dict[Aspect, tuple[int, ...]]
    """Objects with a mean score of 1, 2, … 5 (Fig. 3)."""
    overall: Group
    """All objects with scores."""
    sources: tuple[Group, ...]
    """By what made the picture (Figs. 4 and 5)."""
    categories: tuple[Group, ...]
    """By category (Fig. 6)."""
    shape_and_texture: Figure
    """Spearman's rank correlation of the two over objects (Sec. 3.3.2)."""
    object_and_image: Figure
    """Spearman's of a picture's own score and the mean OcR of its five largest rated objects
    (Sec. 3.3.3); ``n`` counts pictures."""
    paper: dict[str, float]
    """The paper's own figures, :data:`PAPER`."""
    resamples: int
    """Behind each interval."""
    seed: int
    """Of the resamples."""


def object_report(
    ratings: Sequence[Rating],
    study: RatingStudy,
    *,
    about: str = "",
    resamples: int = RESAMPLES,
    seed: int = 0,
    tick: Tick | None = None,
) -> ObjectReport:
    """The report on the ``ratings`` of ``study``.

    Objects that a rater took out count for nothing but their number. Scores of an object are the
    means of all its raters. Intervals are 95 % percentile bootstraps over pictures. Raises
    ``RatingError`` for a study of another kind and for no finished ratings.
    """
    tell = tick or (lambda _: None)
    if study.kind != "objects":
        raise RatingError(f"this study asks for {study.kind}, not for objects")
    everything = judged_of(study, ratings)
    objects = [one for one in everything if one.task.thing is not None]
    kept = [one for one in objects if not one.excluded]
    rated = [one for one in kept if one.means]
    wholes = [one for one in everything if one.task.thing is None and one.means]
    if not any(one.said for one in everything):
        raise RatingError("there are no ratings yet")
    numbers = {name: at for at, name in enumerate(dict.fromkeys(map(_picture, objects)))}
    items = np.array([numbers[_picture(one)] for one in rated], np.intp)
    boot = Bootstrap(len(numbers), seed, resamples)
    own = {_picture(one): one for one in wholes}
    things = [rated_object(one, own.get(_picture(one))) for one in rated]
    sources = {
        thing.id: one.task.candidates[0].arm for thing, one in zip(things, rated, strict=True)
    }
    first, apart = study.rule.raters, study.rule.apart
    overall = group_of(boot, items, things, "all objects")
    tell("agreement of raters")
    return ObjectReport(
        about=about,
        rule=study.rule,
        counts=_counts(objects, rated, wholes),
        agreement=agreement(boot, items, things, first),
        reevaluation=reevaluation(boot, items, things, first, apart),
        pairs=rater_pairs(boot, items, things, first),
        # Who takes objects out is a matter of the rater too.
        raters=object_raters(
            boot, np.array([numbers[_picture(one)] for one in objects], np.intp), objects
        ),
        histogram={aspect: histogram(rated, at) for at, aspect in enumerate(ASPECTS)},
        overall=overall,
        sources=groups_of(boot, items, things, lambda one: sources[one.id]),
        categories=groups_of(boot, items, things, lambda one: one.category),
        shape_and_texture=overall.correlation,
        object_and_image=_images(things, resamples, seed),
        paper=dict(PAPER),
        resamples=resamples,
        seed=seed,
    )


def _picture(one: RatedUnit) -> str:
    return one.task.candidates[0].image


def _category(one: RatedUnit) -> str:
    assert one.task.thing is not None
    return one.task.thing.category


def _counts(
    objects: Sequence[RatedUnit], rated: Sequence[RatedUnit], wholes: Sequence[RatedUnit]
) -> ObjectCounts:
    out = [one for one in objects if one.excluded]
    return ObjectCounts(
        objects=len(objects),
        finished=sum(not one.needed for one in rated),
        once=sum(len(one.first) < one.rule.raters for one in rated),
        waiting=sum(one.apart and one.needed > 0 for one in rated),
        reevaluated=sum(one.apart and not one.needed for one in rated),
        excluded=len(out),
        excluded_by_category=dict(sorted(Counter(map(_category, out)).items())),
        untouched=sum(not one.said for one in objects),
        pictures=len(set(map(_picture, rated))),
        wholes=len(wholes),
    )


def _images(things: Sequence[RatedObject], resamples: int, seed: int) -> Figure:
    known = [thing for thing in things if thing.image_realism is not None]
    if not known:
        return Figure(value=None)
    return image_correlations(known, resamples=resamples, seed=seed)["largest_five"]["joint"]

"""Report on a study of objects: agreement, re-evaluation, raters, sources and categories.

Also its page, the plots of Liang et al., Figs. 3 to 6, and the export of rated objects.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from scenewright.core.validation import FrozenModel
from scenewright.evals.human_ratings.object_analysis import (
    AspectAgreement,
    Group,
    ObjectRater,
    RatedUnit,
    RaterPair,
    agreement,
    group_of,
    groups_of,
    histogram,
    image_correlations,
    judged_of,
    object_raters,
    rater_pairs,
    reevaluation,
)
from scenewright.evals.human_ratings.plots import COLORS, Plot, bars, chart, write_files
from scenewright.evals.human_ratings.rated_objects import (
    FILE,
    GivenRating,
    RatedObject,
    write_objects,
)
from scenewright.evals.human_ratings.sources import UNKNOWN
from scenewright.evals.human_ratings.study import (
    ASPECTS,
    IMAGES,
    POINTS,
    Aspect,
    RatingError,
    RatingStudy,
    Rule,
    StudyFolder,
)
from scenewright.evals.human_ratings.table import Rating, ratings_of
from scenewright.evals.human_ratings.view import TITLES
from scenewright.evals.statistics.answers import PlainAnswer, agreement_answer, highest_answer
from scenewright.evals.statistics.figures import RESAMPLES, Bootstrap, Figure


@dataclass(frozen=True, slots=True)
class Exported:
    """Numbers of an export."""

    objects: int
    """Objects in the set."""
    pictures: int
    """Pictures in its folder."""
    excluded: int
    """Left out since a rater took them out."""
    unfinished: int
    """Left out since they need more raters."""


def export_objects(study: StudyFolder, out: Path, fewest: int | None = None) -> Exported:
    """Write the rated objects of ``study`` and their pictures into the folder ``out``.

    Exports the objects that need no further rater, or with ``fewest`` all that have so many
    ratings. The same ratings give the same files. Raises ``RatingError`` for a study of another
    kind or without such an object, a folder that holds another set, and files that cannot be
    written.
    """
    if study.study.kind != "objects":
        raise RatingError(
            f"{study.folder} asks for {study.study.kind}: rated objects come from a study that "
            "`scenewright rate objects` made; name a CSV file to export this one"
        )
    judged = judged_of(study.study, ratings_of(study))
    objects = [one for one in judged if one.task.thing is not None]
    whole = {one.task.candidates[0].image: one for one in judged if one.task.thing is None}
    taken, excluded = [], 0
    for one in objects:
        if one.excluded:
            excluded += 1
        elif len(one.known) >= fewest if fewest is not None else not one.needed:
            told = whole.get(one.task.candidates[0].image)
            taken.append(rated_object(one, told if _enough(told, fewest) else None))
    if not taken:
        raise RatingError(
            f"{study.folder} has no object that is rated enough ({excluded} were taken out): rate "
            "on, or ask for objects with fewer ratings (--fewest 1)"
        )
    images = sorted({one.image for one in taken})
    try:
        (out / IMAGES).mkdir(parents=True, exist_ok=True)
        for name in images:
            _copy(study.folder / name, out / name)
        write_objects(out, taken)
    except OSError as error:
        raise RatingError(f"{out / FILE} cannot be written: {error.strerror or error}") from error
    return Exported(len(taken), len(images), excluded, len(objects) - len(taken) - excluded)


def _enough(whole: RatedUnit | None, fewest: int | None) -> bool:
    """Return whether the picture as a whole has enough ratings."""
    if whole is None:
        return False
    return not whole.needed if fewest is None else len(whole.known) >= fewest


def rated_object(one: RatedUnit, whole: RatedUnit | None = None) -> RatedObject:
    """Return an object with scores as one of a set; ``whole``: the ratings of its picture."""
    thing, candidate = one.task.thing, one.task.candidates[0]
    assert thing is not None
    shape, texture = one.means
    return RatedObject(
        id=thing.id,
        image=f"{IMAGES}/{candidate.image}.png",
        category=thing.category,
        box=thing.box,
        shape=shape,
        texture=texture,
        ratings=tuple(
            GivenRating(
                rater=said.rater, shape=said.scores[0], texture=said.scores[1], when=said.when
            )
            for said in one.known
            if said.scores is not None
        ),
        source="" if candidate.arm == UNKNOWN else candidate.arm,
        image_realism=whole.means[0] if whole is not None and whole.means else None,
    )


def _copy(file: Path, place: Path) -> None:
    # The name is the hash of the content: what is there is the same.
    if place.exists():
        return
    beside = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    try:
        shutil.copyfile(file, beside)
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)


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


class ObjectCounts(FrozenModel):
    """Progress of the study."""

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


class ObjectReport(FrozenModel):
    """All figures on the ratings of a study of objects."""

    about: str
    """Where the ratings come from."""
    rule: Rule
    """How many raters an object gets."""
    counts: ObjectCounts
    agreement: dict[Aspect, AspectAgreement]
    """Between the first raters of an object."""
    reevaluation: Figure
    """Share of the objects with all first ratings on which these differ too widely."""
    pairs: tuple[RaterPair, ...]
    """All pairs of raters who share objects."""
    raters: tuple[ObjectRater, ...]
    """Sorted by name."""
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
    answers: tuple[PlainAnswer, ...]
    """What the ratings say in sentences, the most important first."""
    paper: dict[str, float]
    """The paper's own figures, :data:`PAPER`."""
    resamples: int
    """Bootstrap resamples behind each interval."""
    seed: int


def object_report(
    ratings: Sequence[Rating],
    study: RatingStudy,
    *,
    about: str = "",
    resamples: int = RESAMPLES,
    seed: int = 0,
    tick: Tick | None = None,
) -> ObjectReport:
    """Return the report on the ``ratings`` of ``study``.

    Objects that a rater took out are only counted. Scores of an object are the means of all its
    raters. Intervals are 95 % percentile bootstraps over pictures. Raises ``RatingError`` for a
    study of another kind and for no finished ratings.
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
    sides = groups_of(boot, items, things, lambda one: sources[one.id])
    agreed = agreement(boot, items, things, first)
    return ObjectReport(
        about=about,
        rule=study.rule,
        counts=_counts(objects, rated, wholes),
        agreement=agreed,
        reevaluation=reevaluation(boot, items, things, first, apart),
        pairs=rater_pairs(boot, items, things, first),
        # Who takes objects out is a matter of the rater too.
        raters=object_raters(
            boot, np.array([numbers[_picture(one)] for one in objects], np.intp), objects
        ),
        histogram={aspect: histogram(rated, at) for at, aspect in enumerate(ASPECTS)},
        overall=overall,
        sources=sides,
        categories=groups_of(boot, items, things, lambda one: one.category),
        shape_and_texture=overall.correlation,
        object_and_image=_images(things, resamples, seed),
        answers=_answers(sides, overall, agreed),
        paper=dict(PAPER),
        resamples=resamples,
        seed=seed,
    )


def _answers(
    sources: Sequence[Group], overall: Group, agreed: Mapping[Aspect, AspectAgreement]
) -> tuple[PlainAnswer, ...]:
    """Return whose objects look most real, and whether raters agree on it."""
    return (
        highest_answer(
            {group.name: group.ocr for group in sources},
            "realism of objects (OcR, 1 to 5)",
            noun="source",
            n=overall.ocr.n,
            unit="object",
            digits=2,
        ),
        *(
            agreement_answer(
                f"raters of {aspect}", "agree with each other", found.weighted, "weighted κ",
                n=found.kappa.n, unit="pair of ratings",
            )
            for aspect, found in agreed.items()
        ),
    )  # fmt: skip


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


GAPS = ("0 to <1", "1 to <2", "2 to <3", "3 or more")
"""How far shape and texture of an object are apart."""
MOST_CATEGORIES = 40


def _plots(report: ObjectReport) -> Iterator[Plot]:
    """Yield the plots that ``report`` has figures for (Liang et al., Figs. 3 to 6)."""
    if not report.counts.pictures:
        return
    made, axes = chart((5.6, 3.2), "mean score of the raters, halves rounded up")
    for at, aspect in enumerate(ASPECTS):
        places = [score + 0.36 * (at - 0.5) for score in range(1, POINTS + 1)]
        axes.bar(places, report.histogram[aspect], width=0.34, color=COLORS[at], label=aspect)
    axes.set_ylabel("objects")
    axes.legend()
    yield "distribution", "Objects by score (Fig. 3)", made
    for name, title, groups in (
        ("sources", "source of the picture (Fig. 4)", report.sources),
        ("categories", "category (Fig. 6)", report.categories[:MOST_CATEGORIES]),
    ):
        means: dict[str, Sequence[Figure]] = {
            aspect: [group.mean[aspect] for group in groups] for aspect in ASPECTS
        }
        made, axes = bars([group.name for group in groups], means, "mean score")
        axes.set_xlim(1, POINTS)
        yield name, f"Shape and texture by {title}", made
    shares = {
        gap: [Figure(value=group.discrepancy[at], n=1) for group in report.sources]
        for at, gap in enumerate(GAPS)
    }
    about = "Difference of shape and texture of an object, by source of the picture (Fig. 5)"
    yield (
        "discrepancy",
        about,
        bars([g.name for g in report.sources], shares, "share of objects")[0],
    )


def write_object_report(report: ObjectReport, folder: Path) -> Path:
    """Write the page, ``report.json`` and the plots into ``folder``, and return the page's path.

    Raises ``RatingError`` if they cannot be written.
    """
    template = "object_report.html.j2"
    return write_files(report, folder, _plots(report), template, titles=TITLES, gaps=GAPS)

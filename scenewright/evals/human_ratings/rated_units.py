"""Objects of a study with all their answers, and their export as a set of rated objects."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scenewright.core.flushing import replacing
from scenewright.evals.human_ratings.rated_objects import (
    FILE,
    GivenRating,
    RatedObject,
    write_objects,
)
from scenewright.evals.human_ratings.sources import UNKNOWN
from scenewright.evals.human_ratings.study import (
    IMAGES,
    RatingError,
    RatingStudy,
    Rule,
    Scores,
    StudyFolder,
    Task,
    far_apart,
    still_needed,
)
from scenewright.evals.human_ratings.table import Rating, ratings_of


@dataclass(frozen=True, slots=True)
class RaterAnswer:
    """One rater's answer for one object, or for a picture as a whole."""

    rater: str
    scores: Scores | None
    """Shape and texture, or the one score; none: it is to be left out."""
    when: str
    """When it was shown, else when it was rated, ISO 8601 in UTC."""
    seconds: float | None
    """Time that all its answers took; none if it is not known of each."""
    changes: int
    """How often an answer was changed."""


@dataclass(frozen=True, slots=True)
class RatedUnit:
    """An object, or a picture as a whole, with all answers."""

    task: Task
    said: tuple[RaterAnswer, ...]
    """By finished raters, in the order in which they came."""
    rule: Rule
    """How many raters it gets."""

    @property
    def known(self) -> tuple[RaterAnswer, ...]:
        """Return the answers with scores."""
        return tuple(one for one in self.said if one.scores is not None)

    @property
    def excluded(self) -> bool:
        """Return whether a rater took it out."""
        return len(self.known) < len(self.said)

    @property
    def first(self) -> tuple[Scores, ...]:
        """Return the scores of the first raters, without those of a re-evaluation."""
        return tuple(one.scores for one in self.known[: self.rule.raters] if one.scores is not None)

    @property
    def apart(self) -> bool:
        """Return whether the first raters differ so much that it is evaluated again."""
        return len(self.first) == self.rule.raters and far_apart(self.first, self.rule)

    @property
    def needed(self) -> int:
        """Return the number of raters that it still needs."""
        return still_needed([one.scores for one in self.said], self.rule)

    @property
    def means(self) -> tuple[float, ...]:
        """Return the mean of all raters for each question; empty without ratings."""
        scores = [one.scores for one in self.known if one.scores is not None]
        return tuple(statistics.fmean(column) for column in zip(*scores, strict=True))


def judged_of(study: RatingStudy, ratings: Iterable[Rating]) -> tuple[RatedUnit, ...]:
    """Return the tasks of ``study`` with their ``ratings``, in the study's order.

    Unfinished answers of a rater are ignored.
    """
    tasks = {task.id: task for task in study.tasks}
    together: dict[tuple[str, str], list[Rating]] = {}
    for rating in ratings:
        if rating.task in tasks:
            together.setdefault((rating.task, rating.rater), []).append(rating)
    said: dict[str, list[RaterAnswer]] = {}
    for (task, rater), rows in together.items():
        values = {row.fact: row.value for row in rows}
        try:
            scores = study.form(tasks[task]).scores(values)
        except ValueError:
            continue
        times = [row.seconds for row in rows if row.seconds is not None]
        said.setdefault(task, []).append(
            RaterAnswer(
                rater=rater,
                scores=scores,
                when=min(row.shown_at or row.rated_at for row in rows),
                seconds=sum(times) if len(times) == len(rows) else None,
                changes=sum(row.changes for row in rows),
            )
        )
    return tuple(
        RatedUnit(
            task,
            tuple(sorted(said.get(task.id, ()), key=lambda one: (one.when, one.rater))),
            study.rule,
        )
        for task in study.tasks
    )


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
            # The name is the hash of the content: what is there is the same.
            if not (out / name).exists():
                with replacing(out / name) as draft:
                    shutil.copyfile(study.folder / name, draft)
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

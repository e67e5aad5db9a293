"""A rated study as a set of rated objects: what OLIP is trained on."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from scenewright.evals.human_ratings.objects.data import (
    FILE,
    GivenRating,
    RatedObject,
    write_objects,
)
from scenewright.evals.human_ratings.objects.judged import RatedUnit, judged_of
from scenewright.evals.human_ratings.objects.sources import UNKNOWN
from scenewright.evals.human_ratings.study import IMAGES, RatingError, StudyFolder
from scenewright.evals.human_ratings.table import ratings_of


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    objects: int
    """Objects in the set."""
    pictures: int
    """Pictures in its folder."""
    excluded: int
    """Left out since a rater took them out."""
    unfinished: int
    """Left out since they need more raters."""


def export_objects(study: StudyFolder, out: Path, fewest: int | None = None) -> Exported:
    """Write the rated objects of ``study`` into the folder ``out``, with their pictures.

    Those are taken that need no further rater, or with ``fewest`` all that have so many ratings.
    The same ratings give the same files. Raises ``RatingError`` for a study of another kind, one
    without such an object, a folder that holds a set of others, and what cannot be written.
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
    """Whether the picture as a whole is rated by as many as are wanted."""
    if whole is None:
        return False
    return not whole.needed if fewest is None else len(whole.known) >= fewest


def rated_object(one: RatedUnit, whole: RatedUnit | None = None) -> RatedObject:
    """Return an object with scores as one of a set; ``whole``: what was said of its picture."""
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

"""Makes a study of objects: filters and draws them, lays pictures and crops into its folder."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from scenewright.core.images import ImageError, load_image
from scenewright.core.ports.vision import Box, Detection
from scenewright.core.validation import first_problem
from scenewright.evals.human_ratings.files import put_file
from scenewright.evals.human_ratings.objects.sources import ObjectSource, Pictured, Tick
from scenewright.evals.human_ratings.objects.view import ANCHORS
from scenewright.evals.human_ratings.pictures import Pictures
from scenewright.evals.human_ratings.study import (
    STUDY,
    Candidate,
    RatingError,
    RatingStudy,
    Rule,
    Task,
    Thing,
)
from scenewright.tools.vision.detection.boxes import clipped
from scenewright.tools.vision.realism.pictures import (
    LEAST_SCORE,
    LEAST_SHARE,
    object_crop,
    scored_objects,
)


@dataclass(frozen=True, slots=True)
class ObjectStudySpec:
    """What a study of objects is to be."""

    n: int | None = None
    """Objects; none: as many as there are."""
    whole_share: float = 0.0
    """Share of the pictures that are also rated as a whole."""
    least_share: float = LEAST_SHARE
    """Least share of the picture that an object covers."""
    least_score: float = LEAST_SCORE
    """Least confidence of its detection."""
    rule: Rule = field(default_factory=Rule)
    """How many raters an object gets."""
    seed: int = 0
    """Seed of the draw and of all orders."""
    question: str = ""
    """What is asked; empty: the usual question."""
    name: str = "Rating objects"
    """What raters see as the title: it must not tell the sources."""
    side: int | None = None
    """Pixels of the longest side that all pictures are scaled to; boxes and crops with them."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    picture: Pictured
    thing: Detection
    box: Box
    id: str


def make_object_study(
    source: ObjectSource, wish: ObjectStudySpec, folder: Path, tick: Tick | None = None
) -> RatingStudy:
    """Make the study in ``folder`` and return it.

    Objects are filtered as in the paper
    (:func:`~scenewright.tools.vision.realism.pictures.scored_objects`) and drawn in an order of the
    seed; what is left out is counted. Raises ``RatingError`` for a wish that cannot be had and a
    folder that holds a study.
    """
    _check(wish, folder)
    left_out = Counter(source.left_out)
    found = [drawn for picture in source.pictures for drawn in _fit(picture, wish, left_out)]
    random.Random(f"objects {wish.seed}").shuffle(found)
    found = found[: wish.n]
    pictures = Pictures(folder, wish.side)
    tasks: list[Task] = []
    for done, drawn in enumerate(found, start=1):
        try:
            tasks.append(_task(drawn, pictures, f"t{done}", wish.side))
        except ImageError:
            left_out["the picture cannot be read"] += 1
        if tick is not None:
            tick(done, len(found))
    if not tasks:
        why = "; ".join(f"{n} × {reason}" for reason, n in left_out.items())
        raise RatingError(
            f"{source.about}: no object can be rated{f' ({why})' if why else ''}: lower "
            "--least-share or --least-score, or name another detector"
        )
    tasks += _wholes(tasks, wish)
    try:
        study = RatingStudy(
            name=wish.name,
            kind="objects",
            arms=tuple(dict.fromkeys(picture.source for picture in source.pictures)),
            question=wish.question,
            scale=(ANCHORS[0], ANCHORS[-1]),
            seed=wish.seed,
            rule=wish.rule,
            source=source.about,
            left_out=dict(left_out),
            tasks=tuple(tasks),
        )
    except ValidationError as error:
        raise RatingError(first_problem(error)) from error
    put_file(folder / STUDY, study.model_dump_json(indent=1) + "\n")
    return study


def _check(wish: ObjectStudySpec, folder: Path) -> None:
    if (folder / STUDY).exists():
        raise RatingError(
            f"{folder} holds a study already, and ratings may belong to it: name another --out"
        )
    if wish.n is not None and wish.n < 1:
        raise RatingError(f"{wish.n} objects cannot be rated: ask for one or more")
    if wish.side is not None and not 16 <= wish.side <= 4096:
        raise RatingError(f"a side of {wish.side} pixels: give one from 16 to 4096")
    for name, share in (
        ("a share of whole pictures", wish.whole_share),
        ("a least share of the picture", wish.least_share),
        ("a least confidence", wish.least_score),
    ):
        if not 0.0 <= share <= 1.0:
            raise RatingError(f"{name} of {share}: give a number from 0 to 1")


def _fit(picture: Pictured, wish: ObjectStudySpec, left_out: Counter[str]) -> Iterator[_Drawn]:
    ids = {id(thing): name for thing, name in zip(picture.things, picture.ids, strict=False)}
    kept = scored_objects(
        picture.things,
        picture.size,
        least_share=wish.least_share,
        least_score=wish.least_score,
    )
    lost = len(picture.things) - len(kept)
    if lost:
        left_out[
            f"objects below {wish.least_share:.2%} of the picture or a confidence of "
            f"{wish.least_score:g}, and regions without instances"
        ] += lost
    for number, thing in enumerate(kept, start=1):
        box = clipped(thing.box, picture.size)
        if box is None:
            left_out["the box is no part of the picture"] += 1
            continue
        name = ids.get(id(thing), f"{picture.source}/{picture.item}#{number}")
        yield _Drawn(picture, thing, box, name)


def _task(drawn: _Drawn, pictures: Pictures, name: str, side: int | None) -> Task:
    picture = drawn.picture
    image = load_image(picture.file)
    shown = pictures.put(picture.file)
    size, box = image.size, drawn.box
    if side is not None and max(size) != side:
        from scenewright.runs.report.parts import fit

        image = fit(image, side)
        across, down = image.width / size[0], image.height / size[1]
        box = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
        size = image.size
    try:
        return Task(
            id=name,
            item=picture.item,
            candidates=(Candidate(arm=picture.source, image=shown),),
            thing=Thing(
                id=drawn.id,
                category=drawn.thing.name,
                box=box,
                size=size,
                crop=pictures.put_image(object_crop(image, box)),
                score=drawn.thing.score,
            ),
        )
    except ValidationError as error:
        raise RatingError(f"{picture.file}: {first_problem(error)}") from error


def _wholes(tasks: list[Task], wish: ObjectStudySpec) -> list[Task]:
    """The tasks that ask for a picture as a whole."""
    by_picture = {task.candidates[0].image: task for task in tasks}
    count = round(wish.whole_share * len(by_picture))
    names = random.Random(f"wholes {wish.seed}").sample(sorted(by_picture), count)
    return [
        by_picture[name].model_copy(update={"id": f"p{number}", "thing": None})
        for number, name in enumerate(names, start=1)
    ]

"""Small studies of objects, and raters of known habits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from scenewright.evals.human_ratings.making import RatingStudySpec, make_study
from scenewright.evals.human_ratings.rated_objects import RatedObject, write_objects
from scenewright.evals.human_ratings.sources import read_rated
from scenewright.evals.human_ratings.store import Rater, RatingStore, Showing
from scenewright.evals.human_ratings.study import (
    ASPECTS,
    UNFIT,
    WHOLE,
    StudyFolder,
    Task,
    Thing,
)
from scenewright.evals.human_ratings.table import Rating

SOURCES = ("sdxl", "flux")
CATEGORIES = ("dog", "table", "lamp")
Scores = tuple[int, int]
Habit = Callable[[Task], Scores | None]
"""What a rater says of a task; none takes the object out. Of a whole picture the first counts."""


def rated_set(folder: Path, pictures: int = 4, each: int = 2) -> Path:
    """A set of rated objects: ``each`` objects on every one of ``pictures`` pictures, the first
    half of them by the first source."""
    (folder / "images").mkdir(parents=True)
    found = []
    for p in range(pictures):
        image = Image.new("RGB", (96, 64), (20 + p % 200, 90, 60 + p // 200))
        for k in range(each):
            box = (4 + 30 * k, 8, 24 + 30 * k, 40 + 4 * k)
            ImageDraw.Draw(image).rectangle((*box[:2], box[2] - 1, box[3] - 1), fill=(250, p, k))
            found.append(
                RatedObject(
                    id=f"object-{p}-{k}",
                    image=f"images/{p}.png",
                    category=CATEGORIES[(p + k) % len(CATEGORIES)],
                    box=box,
                    shape=3,
                    texture=3,
                    source=SOURCES[2 * p // pictures],
                )
            )
        image.save(folder / f"images/{p}.png")
    write_objects(folder, found)
    return folder


def objects_study(folder: Path, pictures: int = 4, each: int = 2, **wish: Any) -> StudyFolder:
    """A study of the objects of :func:`rated_set`."""
    source = rated_set(folder / "set", pictures, each)
    make_study(read_rated(source), RatingStudySpec(kind="objects", **wish), folder / "study")
    return StudyFolder(folder / "study")


def thing_of(task: Task) -> Thing:
    """The object of ``task``."""
    assert task.thing is not None
    return task.thing


def rate(store: RatingStore, rater: Rater, showing: Showing, scores: Scores | None) -> None:
    """Answer one showing as the page would."""
    kind = store.study.form(showing.task).kind
    said: Mapping[str, str]
    if scores is None:
        said = {WHOLE: UNFIT}
    elif kind == "score":
        said = {WHOLE: str(scores[0])}
    else:
        said = {a: str(n) for a, n in zip(ASPECTS, scores, strict=True)}
    for fact, value in said.items():
        store.keep(
            rater,
            showing.number,
            fact,
            value,
            seconds=1.5,
        )


def rate_next(store: RatingStore, rater: Rater, habit: Habit) -> Task | None:
    """Rate what the rater is given next; none: nothing needs them."""
    number = store.open_after(rater)
    if number is None:
        return None
    showing = store.showing(rater, number)
    assert showing is not None
    rate(store, rater, showing, habit(showing.task))
    return showing.task


def said(rater: str, task: Task, scores: Scores | None, minute: int = 0) -> list[Rating]:
    """Rows of a table: what one rater says of one object."""
    answers = (
        {WHOLE: UNFIT}
        if scores is None
        else {a: str(n) for a, n in zip(ASPECTS, scores, strict=True)}
    )
    arm = task.candidates[0].arm
    when = f"2026-01-01T00:{minute:02d}:00.000+00:00"
    return [
        Rating(
            rater, task.id, "objects", task.item, (arm,), arm, fact, value, 2.0, when, when
        )
        for fact, value in answers.items()
    ]  # fmt: skip

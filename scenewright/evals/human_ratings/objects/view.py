"""What a rater's page shows of one object beside the words that all pages have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scenewright.evals.human_ratings.asking import WHOLE
from scenewright.evals.human_ratings.store import Showing
from scenewright.evals.human_ratings.study import ASPECTS, POINTS, UNFIT, Aspect
from scenewright.evals.human_ratings.view import Choice, TaskView, pictures_of

TITLES: dict[Aspect, str] = {
    "shape": "Shape and structure",
    "texture": "Texture, color and shade",
}
"""What each aspect means, in the words of the paper's prompts (Liang et al., Sec. 4)."""
ANCHORS = ("not real at all", "mostly wrong", "partly right", "nearly real", "as in a photo")
"""What the scores from 1 to 5 mean."""
UNFIT_KEYS = ("x", "0", "?")
"""Keys that take an object out; the first is shown."""


@dataclass(frozen=True, slots=True)
class AspectView:
    """One of the two questions."""

    number: int
    """From 1."""
    title: str
    """What it is about."""
    current: bool
    """Whether keys answer it."""
    choices: tuple[Choice, ...]
    """The scores; those of the current question alone have keys."""


@dataclass(frozen=True, slots=True)
class ObjectView:
    """An object on a page."""

    category: str
    """Class label."""
    crop: str
    """Address of the square around it."""
    size: tuple[int, int]
    """Width and height of the picture."""
    box: tuple[float, float, float, float]
    """Left, top, width and height of its box in the picture."""
    aspects: tuple[AspectView, ...]
    """The questions."""
    anchors: tuple[str, ...]
    """What the scores mean."""
    unfit: Choice
    """Takes it out."""
    previous: str
    """Address of the question before, else of the place before; empty at the very first."""


def object_view(
    showing: Showing, values: Mapping[str, str], current: int | None, view: TaskView
) -> ObjectView:
    """The object of ``showing``, of which the rater said ``values``; ``current`` is the index of
    the question that keys answer. A place that is done shows its last question first, which is
    what a slip of the finger is put right in."""
    thing = showing.task.thing
    assert thing is not None
    if current is None:
        current = len(ASPECTS) - 1 if view.done else 0
    out = values.get(WHOLE) == UNFIT
    aspects = tuple(
        AspectView(
            number=n + 1,
            title=TITLES[aspect],
            current=n == current,
            choices=tuple(
                Choice(
                    value=f"{n + 1}:{score}",
                    label=str(score),
                    keys=(str(score),) if n == current else (),
                    chosen=not out and values.get(aspect) == str(score),
                )
                for score in range(1, POINTS + 1)
            ),
        )
        for n, aspect in enumerate(ASPECTS)
    )
    left, top, right, bottom = thing.box
    return ObjectView(
        category=thing.category,
        crop=pictures_of(showing)[-1],
        size=thing.size,
        box=(left, top, right - left, bottom - top),
        aspects=aspects,
        anchors=ANCHORS,
        unfit=Choice(f"0:{UNFIT}", "Not this object, or cannot tell", UNFIT_KEYS, chosen=out),
        previous=f"{view.address}?fact={current}" if current else view.previous,
    )

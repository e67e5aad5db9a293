"""Views of rating pages: pictures by opaque addresses, texts and keys, without arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scenewright.evals.human_ratings.store import Progress, Rater, Showing
from scenewright.evals.human_ratings.study import (
    ASPECTS,
    FACT_VALUES,
    POINTS,
    UNFIT,
    WHOLE,
    Aspect,
    Kind,
    RatingStudy,
    void_facts,
)

FactState = Literal["open", "answered", "void"]
ORIGINAL, CROP = "original", "crop"
FACT_KEYS = {"yes": ("y", "1"), "no": ("n", "2"), "cannot tell": ("?", "c", "3")}
"""What a rater may say of a fact → keys that say it, the one that the page shows first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A button for raters."""

    value: str
    """Value of the form."""
    label: str
    keys: tuple[str, ...]
    """Keys that press it; the first is shown."""
    picture: str = ""
    """Address of its picture."""
    chosen: bool = False
    """Whether it is what was said before."""


@dataclass(frozen=True, slots=True)
class FactView:
    """A statement in the list of a picture."""

    number: int
    """From 1."""
    statement: str
    state: FactState
    """Whether it was answered, or is not asked."""
    current: bool
    """Whether keys answer it."""
    choices: tuple[Choice, ...]
    """yes, no, cannot tell; those of the current one alone have keys."""


@dataclass(frozen=True, slots=True)
class TaskView:
    """One page."""

    kind: Kind
    """How the task is asked."""
    question: str
    number: int
    """Place in the rater's order, from 1."""
    progress: Progress
    address: str
    """Where answers are sent."""
    previous: str
    """Address of the place before; empty at the first."""
    following: str
    """Address of the place after, or of the end."""
    original: str
    """Address of the original; empty if there is none."""
    picture: str
    """Address of the one picture; empty for a choice."""
    prompt: str
    """The text that was asked for."""
    phrases: tuple[str, ...]
    """The scene in words."""
    choices: tuple[Choice, ...]
    """Candidates or scores; none for facts."""
    facts: tuple[FactView, ...]
    """The statements; none for others."""
    scale: tuple[str, str]
    """Meanings of the first and the last score."""
    preload: tuple[str, ...]
    """Pictures of the next place."""
    done: bool
    """Whether all of it was answered before."""


def address_of(rater: Rater, number: int | None = None) -> str:
    """Return the address of place ``number``; without one, of the next open task."""
    return f"/r/{rater.key}" if number is None else f"/r/{rater.key}/{number}"


def end_of(rater: Rater) -> str:
    """Return the address of the page after the last place."""
    return f"/r/{rater.key}/end"


def pictures_of(showing: Showing) -> tuple[str, ...]:
    """Return the addresses of the candidates in their order, then of the original and the crop."""
    places = [f"/picture/{showing.token}/{at}" for at in range(1, len(showing.slots) + 1)]
    if showing.task.original is not None:
        places.append(f"/picture/{showing.token}/{ORIGINAL}")
    if showing.task.thing is not None:
        places.append(f"/picture/{showing.token}/{CROP}")
    return tuple(places)


def picture_at(showing: Showing, slot: str) -> str | None:
    """Return the content hash of the picture at the address that ends in ``slot``, or None."""
    if slot == ORIGINAL:
        return showing.task.original
    if slot == CROP:
        return None if showing.task.thing is None else showing.task.thing.crop
    if not slot.isascii() or not slot.isdecimal() or not 1 <= int(slot[:9]) <= len(showing.slots):
        return None
    return showing.task.candidates[showing.slots[int(slot) - 1]].image


def task_view(
    study: RatingStudy,
    rater: Rater,
    showing: Showing,
    progress: Progress,
    values: Mapping[str, str],
    *,
    current: int | None = None,
    following: Showing | None = None,
    done: bool = False,
) -> TaskView:
    """Return the page of ``showing``.

    ``values`` are the rater's answers there; ``current`` is the index of the fact that keys answer;
    ``following`` is the next place, whose pictures are preloaded.
    """
    task, number = showing.task, showing.number
    pictures = pictures_of(showing)
    choice = study.kind == "choice"
    # Words that are not needed to choose would slow the rater down.
    worded = not (choice and task.original is not None) and study.kind != "facts"
    return TaskView(
        kind=study.kind_of(task),
        question=study.asked(task),
        number=number,
        progress=progress,
        address=address_of(rater, number),
        previous=address_of(rater, number - 1) if number > 1 else "",
        following=end_of(rater) if following is None else address_of(rater, number + 1),
        original=pictures[-1] if task.original is not None else "",
        picture="" if choice else pictures[0],
        prompt=task.prompt if worded else "",
        phrases=task.phrases if worded and not task.prompt else (),
        choices=_choices(study, showing, values.get(WHOLE)),
        facts=_facts(study, showing, values, current),
        scale=study.scale,
        preload=() if following is None else pictures_of(following),
        done=done,
    )


def _choices(study: RatingStudy, showing: Showing, said: str | None) -> tuple[Choice, ...]:
    kind = study.kind_of(showing.task)
    if kind in ("facts", "objects"):
        return ()
    pictures = pictures_of(showing) if kind == "choice" else ()
    most = len(showing.slots) if kind == "choice" else POINTS
    return tuple(
        Choice(
            value=str(n),
            label=f"Candidate {n}" if pictures else str(n),
            keys=(str(n),),
            picture=pictures[n - 1] if pictures else "",
            chosen=said == str(n),
        )
        for n in range(1, most + 1)
    )


def _facts(
    study: RatingStudy, showing: Showing, values: Mapping[str, str], current: int | None
) -> tuple[FactView, ...]:
    if study.kind != "facts":
        return ()
    void = void_facts(showing.task.facts, values)
    found = []
    for at, fact in enumerate(showing.task.facts):
        said = values.get(fact.id)
        state: FactState = "void" if fact.id in void else "open" if said is None else "answered"
        choices = tuple(
            Choice(
                value=f"{at + 1}:{value}",
                label=value,
                keys=FACT_KEYS[value] if at == current else (),
                chosen=said == value and state != "void",
            )
            for value in FACT_VALUES
        )
        found.append(FactView(at + 1, fact.statement, state, at == current, choices))
    return tuple(found)


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
    current: bool
    """Whether keys answer it."""
    choices: tuple[Choice, ...]
    """The scores; those of the current question alone have keys."""


@dataclass(frozen=True, slots=True)
class ObjectView:
    """An object on a page."""

    category: str
    crop: str
    """Address of the square around it."""
    size: tuple[int, int]
    """Width and height of the picture."""
    box: tuple[float, float, float, float]
    """Left, top, width and height of its box in the picture."""
    aspects: tuple[AspectView, ...]
    anchors: tuple[str, ...]
    """Meanings of the scores."""
    unfit: Choice
    """Takes it out."""
    previous: str
    """Address of the question before, else of the place before; empty at the very first."""


def object_view(
    showing: Showing, values: Mapping[str, str], current: int | None, view: TaskView
) -> ObjectView:
    """Return the view of the object of ``showing``, with the rater's ``values``.

    ``current`` is the index of the question that keys answer. A finished place shows its last
    question first, so that a wrong key can be corrected.
    """
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

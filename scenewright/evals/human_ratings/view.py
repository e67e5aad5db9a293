"""What a rater's page shows of a task: pictures by opaque addresses, words, keys. No arm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scenewright.evals.human_ratings.asking import WHOLE, void_facts
from scenewright.evals.human_ratings.store import Progress, Rater, Showing
from scenewright.evals.human_ratings.study import FACT_VALUES, POINTS, Kind, RatingStudy

FactState = Literal["open", "answered", "void"]
ORIGINAL, CROP = "original", "crop"
FACT_KEYS = {"yes": ("y", "1"), "no": ("n", "2"), "cannot tell": ("?", "c", "3")}
"""What a rater may say of a fact → keys that say it, the one that the page shows first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that a rater can press."""

    value: str
    """What is sent."""
    label: str
    """What it says."""
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
    """What it says."""
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
    """What is asked."""
    number: int
    """Place in the rater's order, from 1."""
    progress: Progress
    """How far the rater is."""
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
    """What the first and the last score mean."""
    preload: tuple[str, ...]
    """Pictures of the next place."""
    done: bool
    """Whether all of it was answered before."""


def address_of(rater: Rater, number: int | None = None) -> str:
    """The page of place ``number``; without one that which leads on."""
    return f"/r/{rater.key}" if number is None else f"/r/{rater.key}/{number}"


def end_of(rater: Rater) -> str:
    """The page after the last place."""
    return f"/r/{rater.key}/end"


def pictures_of(showing: Showing) -> tuple[str, ...]:
    """Addresses of the candidates as they are shown, then of the original and of the crop."""
    places = [f"/picture/{showing.token}/{at}" for at in range(1, len(showing.slots) + 1)]
    if showing.task.original is not None:
        places.append(f"/picture/{showing.token}/{ORIGINAL}")
    if showing.task.thing is not None:
        places.append(f"/picture/{showing.token}/{CROP}")
    return tuple(places)


def picture_at(showing: Showing, slot: str) -> str | None:
    """Content hash of the picture at the address that ends in ``slot``; none: no such picture."""
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
    """The page of ``showing``.

    ``values`` are what the rater said there; ``current`` is the index of the fact that keys
    answer; ``following`` is the place after, whose pictures are loaded ahead.
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

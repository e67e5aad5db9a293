"""Where a run stands, told from its events alone: over or waiting, what is asked, what is kept.

What a run has spent, counted from its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import (
    Answered,
    Composed,
    Drafted,
    Edited,
    Event,
    Finished,
    Generated,
    Paused,
    Proposed,
    Resumed,
    RunStarted,
    Selected,
    ToolCalled,
    Warned,
)


@dataclass(frozen=True, slots=True)
class RequestedScene:
    """What a run asks for, from one of its rounds on."""

    round: int
    """The first round of it."""
    scene: SceneGraph
    """The scene."""
    facts: tuple[Fact, ...]
    """Its facts."""


def end_of(events: Sequence[Event]) -> Finished | None:
    """Return the end of a run that is over; none while it goes on, also after an edit."""
    for event in reversed(events):
        if isinstance(event, Finished):
            return event
        if isinstance(event, Edited):
            return None
    return None


def is_paused(events: Sequence[Event]) -> bool:
    """Whether nothing has happened since the run began to wait for a person."""
    last = next((event for event in reversed(events) if not isinstance(event, Resumed)), None)
    return isinstance(last, Paused)


def scenes_of(events: Iterable[Event]) -> tuple[RequestedScene, ...]:
    """Return the requested scenes, oldest first: one more for every edit that changed the scene."""
    found: list[RequestedScene] = []
    for event in events:
        if isinstance(event, RunStarted):
            found.append(RequestedScene(0, event.scene, event.facts))
        elif isinstance(event, Edited) and (not found or event.scene != found[-1].scene):
            found.append(RequestedScene(event.round, event.scene, event.facts))
    return tuple(found)


def scene_in_round(scenes: Sequence[RequestedScene], round: int) -> RequestedScene:
    """Return the scene requested in ``round``; ``scenes`` are those of :func:`scenes_of`."""
    return next((asked for asked in reversed(scenes) if asked.round <= round), scenes[0])


def facts_ever(scenes: Sequence[RequestedScene]) -> tuple[Fact, ...]:
    """All facts that were ever asked, each id once: those of the newest scene first."""
    found: dict[str, Fact] = {}
    for asked in reversed(scenes):
        for fact in asked.facts:
            found.setdefault(fact.id, fact)
    return tuple(found.values())


def correction_of(events: Iterable[Event], round: int) -> Edited | None:
    """Return the edit that began ``round``; none if its candidate was drawn."""
    return next(
        (e for e in events if isinstance(e, Edited) and e.corrects and e.round == round), None
    )


def finished_key(state: Mapping[str, Any]) -> str:
    """Key of the event that tells the end after the edits taken in so far."""
    edits = state.get("edits", 0)
    return f"finished:{edits}" if edits else "finished"


def warnings_of(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the warnings that still apply.

    Warnings about its words apply to the current scene, warnings about models to the whole run.
    Warnings of kind ``independence`` are reported by :mod:`scenewright.graphs.reporting`.
    """
    found: list[Warned] = []
    for event in events:
        if isinstance(event, RunStarted | Edited):
            found = [warned for warned in found if warned.about == "version"]
        elif isinstance(event, Warned) and event.about != "independence":
            found.append(event)
    return tuple(warned.text for warned in found)


def active_seconds(events: Iterable[Event]) -> float:
    """Seconds in which a process drove the run: gaps before each ``Resumed`` do not count."""
    total = 0.0
    last: float | None = None
    for event in events:
        if last is not None and not isinstance(event, Resumed):
            total += max(0.0, event.at - last)
        last = event.at
    return total


def work_of(pictures: Iterable[Generated | None]) -> float | None:
    """Return the work of the denoiser for ``pictures``, in full-picture steps.

    None if there is a drawn one of which it is not known. Pictures that were found, given or put
    together took none.
    """
    drawn = [g.work for g in pictures if g is not None and g.drawn]
    return None if None in drawn else sum(work or 0.0 for work in drawn)


def totals_of(events: Iterable[Event]) -> dict[str, float]:
    """Return what a run has spent.

    These are ``images``, ``seconds``, ``tokens_in``, ``tokens_out``, ``usd``, ``work``,
    ``judge_calls`` and ``cached``. ``images`` and ``judge_calls`` count what was really drawn and
    called, ``cached`` what was found instead. ``seconds`` is wall time in which the run was driven,
    ``work`` that of the denoiser in full-picture steps, as far as backends tell it.
    """
    events = list(events)
    drawn = [event for event in events if isinstance(event, Generated) and not event.pasted]
    asked = [event for event in events if isinstance(event, Answered)]
    chosen = [event for event in events if isinstance(event, Drafted | Proposed | Selected)]
    read = (event.reading for event in events if isinstance(event, RunStarted))
    thought = [
        *chosen,
        *(event for event in events if isinstance(event, Composed | ToolCalled)),
        *(reading for reading in read if reading is not None),
    ]
    answers = [answer for event in asked for answer in event.answers]
    return {
        "images": float(sum(not event.cached for event in drawn)),
        "seconds": active_seconds(events),
        "tokens_in": float(sum(paid.tokens_in for paid in (*answers, *thought))),
        "tokens_out": float(sum(paid.tokens_out for paid in (*answers, *thought))),
        "usd": sum(paid.usd for paid in (*drawn, *answers, *thought)),
        "work": sum(event.work or 0.0 for event in drawn if not event.cached),
        "judge_calls": float(
            sum(not event.cached for event in asked) + sum(e.judge_calls for e in chosen)
        ),
        "cached": float(sum(e.cached for e in drawn) + sum(e.cached for e in asked)),
    }

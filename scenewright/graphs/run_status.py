"""Where a run stands, told from its events alone: over or waiting, what is asked, what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import (
    Edited,
    Event,
    Finished,
    Paused,
    Resumed,
    RunStarted,
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
    """The end of a run that is over; none while it goes on, also after an edit."""
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
    """What was asked, oldest first: one more for every edit that changed the scene."""
    found: list[RequestedScene] = []
    for event in events:
        if isinstance(event, RunStarted):
            found.append(RequestedScene(0, event.scene, event.facts))
        elif isinstance(event, Edited) and (not found or event.scene != found[-1].scene):
            found.append(RequestedScene(event.round, event.scene, event.facts))
    return tuple(found)


def scene_in_round(scenes: Sequence[RequestedScene], round: int) -> RequestedScene:
    """What was asked of the candidate of ``round``; ``scenes`` as :func:`scenes_of` gives them."""
    return next((asked for asked in reversed(scenes) if asked.round <= round), scenes[0])


def facts_ever(scenes: Sequence[RequestedScene]) -> tuple[Fact, ...]:
    """All facts that were ever asked, each id once: those of the newest scene first."""
    found: dict[str, Fact] = {}
    for asked in reversed(scenes):
        for fact in asked.facts:
            found.setdefault(fact.id, fact)
    return tuple(found.values())


def correction_of(events: Iterable[Event], round: int) -> Edited | None:
    """The edit that began ``round``; none if its candidate was drawn."""
    return next(
        (e for e in events if isinstance(e, Edited) and e.corrects and e.round == round), None
    )


def finished_key(state: Mapping[str, Any]) -> str:
    """Key of the event that tells the end after the edits taken in so far."""
    edits = state.get("edits", 0)
    return f"finished:{edits}" if edits else "finished"


def warnings_of(events: Iterable[Event]) -> tuple[str, ...]:
    """What was warned of: of words since the scene is as it is now, of models ever. Who reports
    (``independence``) is told by :mod:`scenewright.graphs.reporting`."""
    found: list[Warned] = []
    for event in events:
        if isinstance(event, RunStarted | Edited):
            found = [warned for warned in found if warned.about == "version"]
        elif isinstance(event, Warned) and event.about != "independence":
            found.append(event)
    return tuple(warned.text for warned in found)

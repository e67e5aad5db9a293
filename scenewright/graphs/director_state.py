"""What the director's run knows: its context, and what its event log says of where it stands.

Nothing else is remembered. A run that was cut off therefore decides as it would have: the past
ends with the last reply or call that was told, and what the log holds after that belongs to the
call at work, which finds it as done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel

from scenewright.graphs.accounts import totals_of
from scenewright.graphs.candidates import over_budget
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import Event, Generated, Planned, Replied, StopReason, ToolCalled
from scenewright.graphs.state import Candidate, RefineContext

DRAWING = ("generate_image", "refine_with_reference", "inpaint")
"""Tools that make a new candidate."""
ACCEPT = "accept"
"""The tool that ends the run."""
SILENCE = 3
"""Turns in a row without a tool after which the director has given up."""


@dataclass(frozen=True, kw_only=True)
class DirectorContext(RefineContext):
    """What the director needs besides: runtime context of ``graphs/director.py``."""

    chat: BaseChatModel
    """The language model that directs; it must take tools."""
    previews: bool = True
    """Whether tools show it pictures; off for a language model that takes none."""


def past_of(log: EventLog) -> Sequence[Event]:
    """The events up to the last told reply or call."""
    events = log.events
    for at in range(len(events), 0, -1):
        if isinstance(events[at - 1], Replied | ToolCalled):
            return events[:at]
    return ()


def candidates_of(events: Sequence[Event]) -> list[Candidate]:
    """All pictures of the whole scene, oldest first."""
    return [
        Candidate(round=event.round, image=event.image)
        for event in events
        if isinstance(event, Generated) and event.purpose == "candidate"
    ]


def next_round(events: Sequence[Event]) -> int:
    """The number of the next candidate; one that could not be drawn keeps its own."""
    begun = (event.round for event in events if isinstance(event, Planned | Generated))
    return max(begun, default=-1) + 1


def calls_of(events: Sequence[Event]) -> int:
    """How many tools were called, whatever came of it."""
    return sum(isinstance(event, ToolCalled) and bool(event.tool) for event in events)


def left_of(context: DirectorContext, events: Sequence[Event]) -> dict[str, int | None]:
    """``rounds``, ``images`` and ``calls`` that the limits still allow; None: no limit."""
    options = context.options
    images = options.budget.images
    return {
        "rounds": max(0, options.rounds - len(candidates_of(events))),
        "images": None if images is None else max(0, images - int(totals_of(events)["images"])),
        "calls": max(0, options.budget.tool_calls - calls_of(events)),
    }


def why_over(context: DirectorContext, events: Sequence[Event]) -> StopReason | None:
    """Why the run ends before its next step; None if it goes on.

    A limit of rounds or images ends it when the director asks for a picture beyond it.
    """
    calls = [event for event in events if isinstance(event, ToolCalled)]
    replies = [event for event in events if isinstance(event, Replied)]
    if any(call.tool == ACCEPT and call.ok for call in calls):
        return "accepted"
    if replies and replies[-1].refused:
        return "gave_up"
    if len(calls) >= SILENCE and not any(call.tool for call in calls[-SILENCE:]):
        return "gave_up"
    left = left_of(context, events)
    if calls and calls[-1].tool in DRAWING and not calls[-1].ok:
        if left["rounds"] == 0:
            return "rounds"
        if left["images"] == 0:
            return "budget"
    if left["calls"] == 0:
        return "budget"
    return over_budget(context, 0, events)

"""What a run has spent, counted from its events."""

from __future__ import annotations

from collections.abc import Iterable

from scenewright.graphs.eventlog import active_seconds
from scenewright.graphs.events import Answered, Composed, Event, Generated, ToolCalled


def totals_of(events: Iterable[Event]) -> dict[str, float]:
    """``images``, ``seconds``, ``tokens_in``, ``tokens_out``, ``usd``, ``judge_calls``, ``cached``.

    ``images`` and ``judge_calls`` count what was really drawn and called, ``cached`` what was
    found instead. ``seconds`` is wall time in which the run was driven.
    """
    events = list(events)
    drawn = [event for event in events if isinstance(event, Generated)]
    asked = [event for event in events if isinstance(event, Answered)]
    thought = [event for event in events if isinstance(event, Composed | ToolCalled)]
    answers = [answer for event in asked for answer in event.answers]
    return {
        "images": float(sum(not event.cached for event in drawn)),
        "seconds": active_seconds(events),
        "tokens_in": float(sum(paid.tokens_in for paid in (*answers, *thought))),
        "tokens_out": float(sum(paid.tokens_out for paid in (*answers, *thought))),
        "usd": sum(paid.usd for paid in (*drawn, *answers, *thought)),
        "judge_calls": float(sum(not event.cached for event in asked)),
        "cached": float(sum(e.cached for e in drawn) + sum(e.cached for e in asked)),
    }

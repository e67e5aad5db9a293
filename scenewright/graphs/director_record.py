"""State of a director's run: its context, its pictures by their ids, and its limits.

Ids are ``r0``, ``r1``, … for the candidates and ``r1-reference`` for a reference image. The event
log is the only memory, so a run that was cut off decides as it would have: the past ends with the
last stored reply or call, and later events belong to the call at work, which finds them as done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.runtime import Runtime

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import cut_short
from scenewright.graphs.candidates import emit_missing, judge
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import Event, Generated, Planned, Replied, StopReason, ToolCalled
from scenewright.graphs.limits import limit_reached
from scenewright.graphs.run_status import totals_of
from scenewright.graphs.state import Candidate, RefineContext, improves, round_seed
from scenewright.providers.usage import Usage
from scenewright.tools.director import ToolError

DRAWING = ("generate_image", "refine_with_reference", "inpaint")
"""Tools that make a new candidate."""
ACCEPT = "accept"
"""The tool that ends the run."""
SILENCE = 3
"""Turns in a row without a tool, or with one mistake, after which the director has given up."""


@dataclass(frozen=True, kw_only=True)
class DirectorContext(RefineContext):
    """What the director needs besides: runtime context of ``graphs/director.py``."""

    chat: BaseChatModel
    """The language model that directs; it must take tools."""
    previews: bool = True
    """Whether tools show it pictures; off for a language model that takes none."""


def replayable_events(log: EventLog) -> Sequence[Event]:
    """Return the events up to the last told reply or call."""
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
    """Return the number of the next candidate; one that could not be drawn keeps its own."""
    begun = (event.round for event in events if isinstance(event, Planned | Generated))
    return max(begun, default=-1) + 1


def calls_of(events: Sequence[Event]) -> int:
    """How many tools were called, whatever came of it."""
    return sum(isinstance(event, ToolCalled) and bool(event.tool) for event in events)


def left_of(context: DirectorContext, events: Sequence[Event]) -> dict[str, int | None]:
    """Return ``rounds``, ``images`` and ``calls`` that the limits still allow; None: no limit."""
    options = context.options
    images = options.budget.images
    return {
        "rounds": max(0, options.rounds - len(candidates_of(events))),
        "images": None if images is None else max(0, images - int(totals_of(events)["images"])),
        "calls": max(0, options.budget.tool_calls - calls_of(events)),
    }


def stop_reason(
    context: DirectorContext, scene: SceneGraph, events: Sequence[Event]
) -> tuple[StopReason | None, str]:
    """Why the run ends before its next step, and the limit that it met; None if it goes on.

    A limit of rounds or images ends it when the director asks for a picture beyond it.
    """
    calls = [event for event in events if isinstance(event, ToolCalled)]
    replies = [event for event in events if isinstance(event, Replied)]
    if any(call.tool == ACCEPT and call.ok for call in calls):
        return "accepted", ""
    if replies and replies[-1].refused:
        return "gave_up", ""
    if len(calls) >= SILENCE and not any(call.tool for call in calls[-SILENCE:]):
        return "gave_up", ""
    if _repeats_itself(calls):
        return "gave_up", ""
    left, budget = left_of(context, events), context.options.budget
    # What it calls beside a picture that it asked for beyond a limit changes nothing.
    last = max((at for at, e in enumerate(events) if isinstance(e, Generated)), default=0)
    since = [event for event in events[last:] if isinstance(event, ToolCalled)]
    if any(call.tool in DRAWING and not call.ok for call in since):
        if left["rounds"] == 0:
            return "rounds", ""
        if left["images"] == 0:
            return "budget", f"all of {budget.images} images are drawn"
        if reached := limit_reached(context, scene, 1, 1, events):
            return "budget", reached
    if left["calls"] == 0:
        return "budget", f"all of {budget.tool_calls} tool calls are made"
    reached = limit_reached(context, scene, events=events)
    return ("budget" if reached else None), reached


def _repeats_itself(calls: Sequence[ToolCalled]) -> bool:
    """Whether the last :data:`SILENCE` turns did nothing, and were told the same thing."""
    turns: dict[int, list[ToolCalled]] = {}
    for call in calls:
        turns.setdefault(call.turn, []).append(call)
    latest = [*turns.values()][-SILENCE:]
    told = {tuple((call.tool, call.outcome) for call in turn) for turn in latest}
    idle = not any(call.ok for turn in latest for call in turn)
    return len(latest) == SILENCE and len(told) == 1 and idle


_ID = re.compile(r"r(\d{1,6})(-reference)?")
_NOTHING = "there is no picture yet: call generate_image first"
_SHORT = 80


class DirectorRecord:
    """The state of one run, read from its event log."""

    def __init__(self, scene: SceneGraph, runtime: Runtime[DirectorContext]) -> None:
        """``runtime`` is that of the node that drives the director."""
        self.scene = scene
        # Of any context: LangGraph's type allows none of a kind in place of another.
        self.runtime: Runtime[Any] = runtime
        self.context = runtime.context
        options = self.context.options
        self.facts = options.form.facts(scene)
        self.begin("", "")

    def begin(self, origin: str, said: str) -> None:
        """Start a call: ``origin`` names and prices it, ``said`` is the text beside it."""
        self.origin = origin
        self.said = said
        self.asked = Usage()
        """Tokens of the questions that the call at work asked a judge."""
        self.asked_usd = 0.0
        """Their price in US dollars."""

    @property
    def past(self) -> Sequence[Event]:
        """What was told before the call at work."""
        return replayable_events(self.context.log)

    def over(self) -> tuple[StopReason | None, str]:
        """Why the run ends before its next step, and the limit that it met; None if it goes on."""
        return stop_reason(self.context, self.scene, self.past)

    def task(self) -> dict[str, Any]:
        """Return the scene, its facts, planned places and limits, as JSON data for the director."""
        options, budget = self.context.options, self.context.options.budget
        seed = round_seed(options.seed, 0, "candidate")
        places = self.context.composer.places(self.scene, seed)
        boxes = {
            key: [round(side, 3) for side in (at.left, at.top, at.right, at.bottom)]
            for key, at in places.items()
        }
        limits = left_of(self.context, ()) | {"usd": budget.usd, "seconds": budget.seconds}
        return {
            "scene": self.scene.model_dump(mode="json"),
            "facts": [
                {"id": fact.id, "says": fact.statement, "objects": _objects(fact)}
                for fact in self.facts
            ],
            "places": boxes,
            "limits": limits,
        }

    def best(self, events: Sequence[Event] | None = None) -> Candidate | None:
        """Return the best judged candidate of ``events``, by default the past.

        None if none is judged.
        """
        found: Candidate | None = None
        for candidate in candidates_of(self.past if events is None else events):
            if not self.is_judged(candidate):
                continue
            card = self.context.card(candidate["round"])
            if found is None or improves(card, self.context.card(found["round"]), self.facts):
                found = candidate
        return found

    async def settle(self) -> list[Candidate]:
        """All candidates, each judged; draws round 0 if there is none. For the end of a run."""
        log = self.context.log
        if not candidates_of(log.events):
            prompt = await compose(self.scene, None, 0, "candidate", self.runtime)
            await draw(prompt, 0, "candidate", None, self.runtime)
        found = candidates_of(log.events)
        for candidate in found:
            await self.judge(candidate)
        return found

    def room(self, images: int) -> None:
        """``ToolError`` unless the limits allow one more candidate of that many images."""
        past, options = self.past, self.context.options
        left = left_of(self.context, past)
        if left["rounds"] == 0:
            raise ToolError(
                f"all {options.rounds} rounds are drawn: accept the best of the pictures"
            )
        if left["images"] is not None and left["images"] < images:
            raise ToolError(
                f"that takes {images} images, and the budget of {options.budget.images} has "
                f"{left['images']} left: do something smaller, or accept the best of the pictures"
            )
        if reached := limit_reached(self.context, self.scene, images, 1, past):
            raise ToolError(f"{reached}: accept the best of the pictures")

    async def judge(self, candidate: Candidate) -> None:
        """Let the judges of the loop look at it, at most once in a run, and tell what it lacks."""
        if not self.is_judged(candidate):
            await judge(self.scene.model_dump(mode="json"), candidate, "loop", self.context)
        emit_missing(self.scene, candidate, self.runtime)

    def is_judged(self, candidate: Candidate) -> bool:
        """Whether the judges of the loop have looked at it."""
        return f"r{candidate['round']}:loop:judged" in self.context.log

    async def best_of_all(self) -> Candidate:
        """Return the best candidate of the past, all of them judged.

        ``ToolError`` if there is none.
        """
        for candidate in candidates_of(self.past):
            await self.judge(candidate)
        best = self.best()
        if best is None:
            raise ToolError(_NOTHING)
        return best

    def candidate(self, name: str) -> Candidate:
        """Return the candidate of an id, ``best`` or ``newest``; ``ToolError`` if there is none."""
        found = candidates_of(self.past)
        if not found:
            raise ToolError(_NOTHING)
        if name == "newest":
            return found[-1]
        if name == "best":
            return self.best() or found[-1]
        for candidate in found:
            if name == f"r{candidate['round']}":
                return candidate
        known = ", ".join(f"r{candidate['round']}" for candidate in found)
        raise ToolError(
            f"there is no picture {short(name)!r} of the whole scene: there are {known}"
        )

    def picture(self, name: str) -> tuple[str, str]:
        """Id and content hash of a candidate or a reference."""
        if name.endswith("-reference"):
            return name, self.stored(name)
        candidate = self.candidate(name)
        return f"r{candidate['round']}", candidate["image"]

    def stored(self, name: str) -> str:
        """Content hash of the picture of an id; ``ToolError`` if there is none."""
        matched = _ID.fullmatch(name)
        purpose = "reference" if matched and matched[2] else "candidate"
        key = f"r{int(matched[1])}:{purpose}:generated" if matched else ""
        event = self.context.log.get(key, Generated)
        if event is None:
            raise ToolError(
                f"there is no picture {short(name)!r}: name a round that has a reference"
            )
        return event.image

    def named(self, names: Sequence[str]) -> tuple[Fact, ...]:
        """Return the facts of these ids; ``ToolError`` for an unknown one."""
        known = {fact.id: fact for fact in self.facts}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ToolError(
                f"there is no fact {short(unknown[0])!r}: take ids from the task's facts"
            )
        return tuple(known[name] for name in names)


def _objects(fact: Fact) -> list[str]:
    return [key for key in (fact.subject, fact.target) if key]


def short(text: str) -> str:
    """``text``, its end cut off where it is long."""
    return cut_short(text, _SHORT)

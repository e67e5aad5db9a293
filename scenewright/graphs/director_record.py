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
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.events import (
    Generated,
    Planned,
    Purpose,
    Replied,
    StopReason,
    ToolCalled,
)
from scenewright.graphs.judging import emit_missing, judge_candidate
from scenewright.graphs.limits import limit_reached
from scenewright.graphs.record import Candidate, LoopRecord, image_key, totals_of
from scenewright.graphs.state import RefineContext, round_seed
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
    """Further needs of the director: runtime context of ``graphs/director.py``."""

    chat: BaseChatModel
    """The language model that directs; it must take tools."""
    previews: bool = True
    """Whether tools show it pictures; off for a language model that takes none."""


def replayable(record: LoopRecord) -> LoopRecord:
    """Return the record up to the last stored reply or call."""
    events = record.events
    for at in range(len(events), 0, -1):
        if isinstance(events[at - 1], Replied | ToolCalled):
            return record if at == len(events) else LoopRecord(events[:at])
    return LoopRecord()


def next_round(record: LoopRecord) -> int:
    """Return the number of the next candidate; one that could not be drawn keeps its own."""
    rounds = (event.round for event in record.events if isinstance(event, Planned | Generated))
    return max(rounds, default=-1) + 1


def left_of(context: DirectorContext, record: LoopRecord) -> dict[str, int | None]:
    """Return ``rounds``, ``images`` and ``calls`` that the limits still allow; None: no limit."""
    options = context.options
    images = options.budget.images
    spent = totals_of(record.events)
    calls = sum(bool(call.tool) for call in record.all(ToolCalled))
    return {
        "rounds": max(0, options.rounds - len(record.candidates)),
        "images": None if images is None else max(0, images - int(spent["images"])),
        "calls": max(0, options.budget.tool_calls - calls),
    }


def stop_reason(
    context: DirectorContext, scene: SceneGraph, record: LoopRecord
) -> tuple[StopReason | None, str]:
    """Why the run ends before its next step, and the limit that it met; None if it goes on.

    A limit of rounds or images ends it when the director asks for a picture beyond it.
    """
    calls, replies = record.all(ToolCalled), record.all(Replied)
    if any(call.tool == ACCEPT and call.ok for call in calls):
        return "accepted", ""
    if replies and replies[-1].refused:
        return "gave_up", ""
    if len(calls) >= SILENCE and not any(call.tool for call in calls[-SILENCE:]):
        return "gave_up", ""
    if _repeats_itself(calls):
        return "gave_up", ""
    left, budget = left_of(context, record), context.options.budget
    events = record.events
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
    outcomes = {tuple((call.tool, call.outcome) for call in turn) for turn in latest}
    idle = not any(call.ok for turn in latest for call in turn)
    return len(latest) == SILENCE and len(outcomes) == 1 and idle


_ID = re.compile(r"r(\d{1,6})(-reference)?")
_NOTHING = "there is no picture yet: call generate_image first"
_SHORT = 80


class DirectorRecord:
    """The state of one run, read from its event log."""

    def __init__(self, scene: SceneGraph, runtime: Runtime[RefineContext]) -> None:
        """``runtime`` is that of the node that drives the director."""
        assert isinstance(runtime.context, DirectorContext)
        self.scene = scene
        self.runtime = runtime
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
    def past(self) -> LoopRecord:
        """The record before the call at work."""
        return replayable(self.context.record)

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
        limits: dict[str, float | None] = {**left_of(self.context, LoopRecord())}
        limits |= {"usd": budget.usd, "seconds": budget.seconds}
        return {
            "scene": self.scene.model_dump(mode="json"),
            "facts": [
                {"id": fact.id, "says": fact.statement, "objects": _objects(fact)}
                for fact in self.facts
            ],
            "places": boxes,
            "limits": limits,
        }

    def best(self, record: LoopRecord | None = None) -> Candidate | None:
        """Return the best judged candidate of ``record``, by default the past.

        None if none is judged. A candidate of the past may have been judged by the call at work.
        """
        drawn = {candidate.round for candidate in (record or self.past).candidates}
        best = self.context.record.kept_round(self.facts, rounds=drawn)
        return None if best is None else self.context.record.candidate(best)

    async def settle(self) -> list[Candidate]:
        """Return all candidates, each judged; draw round 0 if there is none. Ends a run."""
        record = self.context.record
        if not record.candidates:
            prompt = await compose(self.scene, None, 0, "candidate", self.runtime)
            await draw(prompt, 0, "candidate", None, self.runtime)
        for candidate in record.candidates:
            await self.judge(candidate)
        return record.candidates

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
        if reached := limit_reached(self.context, self.scene, images, 1, past.events):
            raise ToolError(f"{reached}: accept the best of the pictures")

    async def judge(self, candidate: Candidate) -> None:
        """Let the judges of the loop look at it, at most once in a run; emit what it lacks."""
        await judge_candidate(self.scene, candidate, "loop", self.runtime)
        emit_missing(self.scene, candidate.round, self.runtime)

    async def best_of_all(self) -> Candidate:
        """Return the best candidate of the past, all of them judged.

        ``ToolError`` if there is none.
        """
        for candidate in self.past.candidates:
            await self.judge(candidate)
        best = self.best()
        if best is None:
            raise ToolError(_NOTHING)
        return best

    def candidate(self, name: str) -> Candidate:
        """Return the candidate of an id, ``best`` or ``newest``; ``ToolError`` if there is none."""
        found = self.past.candidates
        if not found:
            raise ToolError(_NOTHING)
        if name == "newest":
            return found[-1]
        if name == "best":
            return self.best() or found[-1]
        for candidate in found:
            if name == f"r{candidate.round}":
                return candidate
        known = ", ".join(f"r{candidate.round}" for candidate in found)
        raise ToolError(
            f"there is no picture {short(name)!r} of the whole scene: there are {known}"
        )

    def picture(self, name: str) -> tuple[str, str]:
        """Id and content hash of a candidate or a reference."""
        if name.endswith("-reference"):
            return name, self.stored(name)
        candidate = self.candidate(name)
        return f"r{candidate.round}", candidate.image

    def stored(self, name: str) -> str:
        """Content hash of the picture of an id; ``ToolError`` if there is none."""
        matched = _ID.fullmatch(name)
        purpose: Purpose = "reference" if matched and matched[2] else "candidate"
        key = image_key(int(matched[1]), purpose) if matched else ""
        event = self.context.record.get(key, Generated)
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

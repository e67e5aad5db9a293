"""What lies on the director's desk: the pictures of its run by their ids, judged as needed.

Ids are ``r0``, ``r1``, … for the candidates and ``r1-reference`` for what was drawn to lead one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph
from scenewright.graphs.candidates import judge, over_budget, tell_missing
from scenewright.graphs.director_state import (
    DirectorContext,
    candidates_of,
    left_of,
    past_of,
    why_over,
)
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.events import Event, Generated, StopReason
from scenewright.graphs.state import Candidate, improves, round_seed
from scenewright.providers.usage import Usage
from scenewright.tools.replies import ToolError

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
        """A call begins: ``origin`` names it and pays for its questions, ``said`` is beside it."""
        self.origin = origin
        self.said = said
        self.asked = Usage()
        """Tokens of the questions that the call at work asked a judge."""
        self.asked_usd = 0.0
        """Their price in US dollars."""

    @property
    def past(self) -> Sequence[Event]:
        """What was told before the call at work."""
        return past_of(self.context.log)

    def over(self) -> StopReason | None:
        """Why the run ends before its next step; None if it goes on."""
        return why_over(self.context, self.past)

    def task(self) -> dict[str, Any]:
        """The scene, its facts, planned places and limits, as JSON data for the director."""
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
        """The best judged candidate of ``events``, by default the past; None if none is judged."""
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
        if over_budget(self.context, 0, past):
            raise ToolError("the budget is spent: accept the best of the pictures")

    async def judge(self, candidate: Candidate) -> None:
        """Let the judges of the loop look at it, at most once in a run, and tell what it lacks."""
        if not self.is_judged(candidate):
            await judge(self.scene.model_dump(mode="json"), candidate, "loop", self.context)
        tell_missing(self.scene, candidate, self.runtime)

    def is_judged(self, candidate: Candidate) -> bool:
        """Whether the judges of the loop have looked at it."""
        return f"r{candidate['round']}:loop:judged" in self.context.log

    async def best_of_all(self) -> Candidate:
        """The best candidate of the past, all of them judged; ``ToolError`` if there is none."""
        for candidate in candidates_of(self.past):
            await self.judge(candidate)
        best = self.best()
        if best is None:
            raise ToolError(_NOTHING)
        return best

    def candidate(self, name: str) -> Candidate:
        """The candidate of an id, ``best`` or ``newest``; ``ToolError`` if there is none."""
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
        """The facts of these ids; ``ToolError`` for an unknown one."""
        known = {fact.id: fact for fact in self.facts}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ToolError(
                f"there is no fact {short(unknown[0])!r}: take ids from the task's facts"
            )
        return tuple(known[name] for name in names)


def _objects(fact: Fact) -> list[str]:
    return [key for key in (fact.subject, fact.target) if key is not None]


def short(text: str) -> str:
    """``text``, its end cut off where it is long."""
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"

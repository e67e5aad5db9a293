"""One step of the loop: what a node reads, and the adapter that makes a LangGraph node of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from langgraph.runtime import Runtime
from langgraph.types import Command

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import Edited
from scenewright.graphs.record import Candidate, LoopRecord
from scenewright.graphs.state import RefineContext, RefineState, scene_of

NodeName = Literal["compose", "reuse", "plan"]
"""Nodes that a person's review leads to."""


@dataclass(frozen=True, slots=True)
class LoopStep:
    """The place where a node begins.

    A run that comes here again through its log has later events in its record: a node reads those
    of rounds up to its own.
    """

    state: RefineState
    runtime: Runtime[RefineContext]
    scene: SceneGraph
    """The scene as it is now."""

    @property
    def context(self) -> RefineContext:
        """The dependencies of the loop."""
        return self.runtime.context

    @property
    def record(self) -> LoopRecord:
        """The run so far."""
        return self.runtime.context.record

    @property
    def round(self) -> int:
        """The round at work."""
        return self.state.get("round", 0)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts of the scene."""
        return self.context.options.form.facts(self.scene)

    @property
    def edit(self) -> Edited | None:
        """The newest edit that was taken in."""
        edits = self.state.get("edits", 0)
        return self.record.edits[edits - 1] if edits else None

    def best(self, last: int) -> Candidate:
        """Return the candidate that is kept after round ``last``."""
        kept = self.record.kept_round(self.facts, last)
        if kept is None:
            raise LookupError(f"no judged candidate up to round {last} in the event log")
        return self.record.candidate(kept)


Result = RefineState | Command[NodeName] | None
Node = Callable[[LoopStep], Awaitable[Result]]


class StateNode(Protocol):
    """A node as LangGraph calls it."""

    def __call__(
        self, state: RefineState, runtime: Runtime[RefineContext]
    ) -> Awaitable[RefineState | Command[NodeName]]:
        """Run the node."""
        ...


def as_node(node: Node, done: Callable[[int], str] | None = None) -> StateNode:
    """Return ``node`` as a node of LangGraph.

    ``done`` is the key of the event that ends it, by round: a node that was interrupted after that
    event finds it in the record and does nothing.
    """

    # LangGraph would read edges of every node from a return type that has a Command.
    async def run(state: RefineState, runtime: Runtime[RefineContext]) -> Any:
        if done is not None and done(state.get("round", 0)) in runtime.context.record:
            return {}
        return await node(LoopStep(state, runtime, await scene_of(state))) or {}

    return run

"""The loop as LangGraph Studio and the LangGraph server load it (``langgraph.json``).

A server passes plain JSON and brings its own checkpointer; the models of a run cannot
travel that way. So the graph here takes a scene and the name of a profile and drives a
run, which keeps its own checkpoints in its folder: a node that the server starts again
goes on where the run was cut off. Runs write to the disk from the event loop, so
``langgraph dev`` needs ``--allow-blocking``.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from scenewright.graphs.events import Event
from scenewright.runs import refine


class StudioInput(TypedDict):
    """What a person enters."""

    scene: str
    """A scene in any text form that is read, or the path of a file."""
    profile: NotRequired[str]
    """Name of a profile; by default that of the settings."""
    rounds: NotRequired[int]
    """Most candidates drawn; 3 if not given."""
    seed: NotRequired[int]
    """Seed of the run; 0 if not given."""


class StudioOutput(TypedDict):
    """What a person gets."""

    image: str | None
    """Path of the kept image."""
    folder: str
    """The run folder."""
    stop_reason: str | None
    """Why the loop stopped."""
    best_round: int | None
    """Round of the kept image."""
    loop_score: float | None
    """SGScore by the judges of the loop."""
    report_score: float | None
    """SGScore by judges that the loop never saw."""


class StudioState(StudioInput, StudioOutput):
    """Input and output together."""


def build_studio() -> StateGraph[StudioState, None, StudioInput, StudioOutput]:
    """One node that runs the whole loop and streams its events in the ``custom`` mode."""
    graph: StateGraph[StudioState, None, StudioInput, StudioOutput] = StateGraph(
        StudioState, input_schema=StudioInput, output_schema=StudioOutput
    )
    graph.add_node("refine", _refine, input_schema=StudioInput)
    graph.add_edge(START, "refine")
    graph.add_edge("refine", END)
    return graph


async def _refine(state: StudioInput, runtime: Runtime[None]) -> StudioOutput:
    def tell(event: Event) -> None:
        runtime.stream_writer(event.model_dump(mode="json"))

    options: dict[str, Any] = {key: state[key] for key in ("rounds", "seed") if key in state}
    result = await refine(state["scene"], state.get("profile"), on_event=tell, **options)
    return StudioOutput(
        image=str(result.image) if result.image is not None else None,
        folder=str(result.folder),
        stop_reason=result.stop_reason,
        best_round=result.best_round,
        loop_score=result.loop_card.sgscore if result.loop_card is not None else None,
        report_score=result.report_card.sgscore if result.report_card is not None else None,
    )

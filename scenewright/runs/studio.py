"""The loop as LangGraph Studio and the LangGraph server load it (``langgraph.json``).

A server passes plain JSON and brings its own checkpointer; the models of a run cannot
travel that way. So the graph here takes a scene and the name of a profile, tells which
words of a sentence it did not read, and drives a run, which keeps its own checkpoints in
its folder: a node that the server starts again goes on where the run was cut off. With
``review`` the graph stops with an interrupt after every run and is resumed with an edit as
JSON. Runs write to the disk from the event loop, so ``langgraph dev`` needs
``--allow-blocking``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import ValidationError
from typing_extensions import TypedDict

from scenewright.config.options import RunOptions
from scenewright.config.settings import find_profile, load_settings
from scenewright.core.formats import dump_scene, loads_scene
from scenewright.core.suggestions import suggestion
from scenewright.core.validation import first_problem
from scenewright.graphs.errors import EditError, RunError
from scenewright.graphs.events import Edit, Event
from scenewright.runs.api import execute, refine
from scenewright.runs.plan import plan_again
from scenewright.runs.reading import ReadScene, read_scene
from scenewright.runs.result import RunResult

EDIT_HELP = (
    'Resume with an edit to go on, for example {"missing": "hat on dog", "rounds": 2} or '
    '{"verdicts": {"FACT ID": "no"}}; with null to end here.'
)
"""Answers that a person may give."""


class StudioInput(TypedDict):
    """Input by a person."""

    scene: str
    """A scene as a sentence or in any text format. The path of a file is none: a server opens no
    file that a client names."""
    profile: NotRequired[str]
    """Name of a profile; by default that of the settings."""
    review: NotRequired[bool]
    """Whether a person is asked at the end and may go on with an edit; False if not given."""


# A person may give any option of a run; a state of another type could not say what was left out.
StudioInput.__annotations__ |= {
    name: NotRequired[Annotated[field.annotation, field]]
    for name, field in RunOptions.model_fields.items()
}
StudioInput.__optional_keys__ |= set(RunOptions.model_fields)


class UnreadPassage(TypedDict):
    """A passage of the sentence that the scene does not hold, as ``POST /v1/parse`` tells it."""

    start: int
    """Place of its first character, from 0."""
    end: int
    """Place after its last character."""
    text: str
    """The passage."""
    reason: str
    """Why it was not read."""


class StudioOutput(TypedDict):
    """Output for a person."""

    unread: list[UnreadPassage]
    """Passages of the sentence that are not part of the scene; told before anything is drawn."""
    doubts: list[dict[str, Any]]
    """Other meanings of the sentence, as ``POST /v1/parse`` tells it: the ``sentence`` of
    a choice is a scene that can be read in one way only."""
    warning: str
    """Both in one line, and why a language model did not read it; empty if all is sure."""

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
    """SGScore by the judges of the report."""
    reporting: str
    """Whether these are other models than the loop's: ``independent``, ``self`` or ``none``."""
    missing: str
    """Facts missing in the kept image, as triplets; empty if nothing is missing."""


class StudioState(StudioInput, StudioOutput):
    """Input and output together, what was read, and what a person said."""

    read: dict[str, Any]
    """The scene and how its sentence was read, as JSON data."""
    edit: dict[str, Any] | None
    """The edit with which the run is to go on, as JSON data; None where there is none."""
    edits: int
    """Number of edits so far."""
    problem: str
    """Why the last edit cannot be done; empty if it was."""


def build_studio() -> StateGraph[StudioState, None, StudioInput, StudioOutput]:
    """Build the graph for LangGraph Studio.

    One node reads the scene, one runs the loop, one asks a person. The second streams the loop's
    events in the mode ``custom``.
    """
    graph: StateGraph[StudioState, None, StudioInput, StudioOutput] = StateGraph(
        StudioState, input_schema=StudioInput, output_schema=StudioOutput
    )
    graph.add_node("read", _read)
    graph.add_node("refine", _refine)
    graph.add_node("review", _review)
    graph.add_edge(START, "read")
    graph.add_edge("read", "refine")
    graph.add_conditional_edges(
        "refine", lambda state: "review" if state.get("review") else END, ["review", END]
    )
    graph.add_conditional_edges(
        "review", lambda state: END if state.get("edit") is None else "refine", ["refine", END]
    )
    return graph


async def _read(state: StudioState) -> dict[str, Any]:
    settings = load_settings()
    profile = find_profile(state.get("profile") or settings.profile, settings)
    reader = _options(state).reader
    read = await read_scene(state["scene"], profile, settings, reader=reader, is_text=True)
    found = read.scene
    return {
        "read": read.model_dump(mode="json"),
        "unread": [passage.model_dump() for passage in found.intent.unread],
        "doubts": [doubt.model_dump(mode="json") for doubt in found.doubts],
        "warning": "; ".join((*read.warnings, *found.warnings)),
    }


async def _refine(state: StudioState, runtime: Runtime[None]) -> dict[str, Any]:
    def stream(event: Event) -> None:
        runtime.stream_writer(event.model_dump(mode="json"))

    edit = state.get("edit")
    if edit is None:
        options = _options(state)
        read = ReadScene.model_validate(state["read"])
        profile = state.get("profile")
        return _output(
            await refine(
                read.scene, profile, on_event=stream, options=options, reading=read.reading
            )
        )
    try:
        result = await execute(plan_again(state["folder"], edit=_edit(edit)), on_event=stream)
    except EditError as error:
        return {"problem": str(error), "edit": None}
    return _output(result) | {"edit": None}


def _options(state: StudioState) -> RunOptions:
    """Return the options of a run that a person entered; ``RunError`` for a wrong one."""
    given = {name: value for name, value in state.items() if name in RunOptions.model_fields}
    try:
        return RunOptions.model_validate(given)
    except ValidationError as error:
        raise RunError(f"{first_problem(error)}{suggestion(error, RunOptions)}") from error


async def _review(state: StudioState) -> dict[str, Any]:
    shown = {name: state.get(name) for name in StudioOutput.__annotations__}
    reply = interrupt({**shown, "problem": state.get("problem", ""), "how": EDIT_HELP})
    if not reply:
        return {"edit": None, "problem": ""}
    if not isinstance(reply, Mapping):
        reply = {"missing": str(reply)}
    edits = state.get("edits", 0)
    # The same answer gives the same key if the server starts the node again.
    digest = hashlib.sha256(json.dumps([edits, reply], sort_keys=True).encode()).hexdigest()
    return {"edit": {"key": digest[:16], **reply}, "edits": edits + 1, "problem": ""}


def _edit(reply: Mapping[str, Any]) -> Edit:
    read = dict(reply)
    try:
        for name in ("missing", "scene"):
            if isinstance(read.get(name), str):
                read[name] = loads_scene(read[name])
        return Edit.model_validate(read)
    except ValidationError as error:
        raise EditError(f"the edit is wrong: {first_problem(error)}. {EDIT_HELP}") from error
    except ValueError as error:
        raise EditError(f"the edit cannot be read: {error}") from error


def _output(result: RunResult) -> dict[str, Any]:
    missing = result.best.missing if result.best is not None else None
    return {
        "image": str(result.image) if result.image is not None else None,
        "folder": str(result.folder),
        "stop_reason": result.stop_reason,
        "best_round": result.best_round,
        "loop_score": result.score("loop"),
        "report_score": result.score("report"),
        "reporting": result.reporting.kind,
        "missing": dump_scene(missing.graph, "triplets").strip() if missing else "",
    }

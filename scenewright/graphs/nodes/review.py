"""Node ``review``: the loop waits for a person, and goes on as the person says.

The node stops the machine with LangGraph's ``interrupt``; it is resumed with an edit as JSON data,
or with :data:`GO_ON`. An edit is an event before it takes effect, so a process that is killed
afterwards takes it from the log and asks nobody again.
"""

from __future__ import annotations

from collections.abc import Callable

from langgraph.types import Command, interrupt
from pydantic import ValidationError

from scenewright.core.validation import first_problem
from scenewright.graphs.correcting import edited
from scenewright.graphs.errors import EditError
from scenewright.graphs.events import Edit, Edited
from scenewright.graphs.nodes.step import LoopStep, NodeName
from scenewright.graphs.record import LoopRecord, edit_key, end_key, plan_key
from scenewright.graphs.state import RefineState, emit

GO_ON = "go on"
"""Resume value that continues a paused loop unchanged."""


def pause_key(round: int) -> str:
    """Return the key of a pause after ``round``."""
    return f"paused:{round}"


def edit_to_take_in(record: LoopRecord, state: RefineState) -> Edited | None:
    """Return the next edit in the log, if it was made where the loop stands."""
    event = record.get(edit_key(state.get("edits", 0)), Edited)
    if event is None or event.round != state.get("round", 0) + event.corrects:
        return None
    return event


def should_pause(record: LoopRecord, state: RefineState, wanted: Callable[[], bool]) -> bool:
    """Return whether a person is to look before the next plan.

    A loop that comes here again through its log pauses only where nothing came after.
    """
    round = state.get("round", 0)
    if edit_to_take_in(record, state) is not None:
        return True
    if plan_key(round + 1) in record or end_key(state.get("edits", 0)) in record:
        return False
    return pause_key(round) in record or wanted()


async def review(step: LoopStep) -> Command[NodeName]:
    """Wait for a person; then begin the round of their correction, or make the next plan."""
    context, record, edits = step.context, step.record, step.state.get("edits", 0)
    over = step.state.get("reason") is not None
    event = edit_to_take_in(record, step.state)
    if event is None:
        answer = interrupt(
            {
                "waits": "finished" if over else "paused",
                "round": step.round,
                "best": step.best(step.round).round,
            }
        )
        if answer == GO_ON:
            if over:
                raise EditError("the run is over: give an edit to go on with it")
            return Command(goto="plan")
        try:
            edit = Edit.model_validate(answer)
        except ValidationError as error:
            raise EditError(f"the edit cannot be read: {first_problem(error)}") from error
        event = edited(edit, record, context.options.form, edits, context.log.now())
        emit(step.runtime, event)
    update: RefineState = {"edits": edits + 1, "reason": None, "limit_reached": ""}
    if not event.corrects:
        return Command(update=update, goto="plan")
    update["round"] = event.round
    scene = event.scene.model_dump(mode="json")
    if scene == step.state["scene"]:
        return Command(update=update, goto="reuse")
    update["scene"] = scene
    return Command(update=update, goto="compose")

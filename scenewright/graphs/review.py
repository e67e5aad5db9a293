"""Where a loop waits for a person, and goes on as the person says.

The node ``review`` stops the machine with LangGraph's ``interrupt``; it is resumed with an edit as
JSON data, or with :data:`GO_ON`. What a person said is an event before it takes effect, so a
process that is killed afterwards takes it from the log and asks nobody again.
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from scenewright.core.validation import first_problem
from scenewright.graphs.correcting import edited
from scenewright.graphs.errors import EditError
from scenewright.graphs.events import Edit, Edited, Finished, Generated, Paused, Planned
from scenewright.graphs.run_status import correction_of, finished_key
from scenewright.graphs.state import RefineContext, RefineState, emit

GO_ON = "go on"
"""What a paused loop is resumed with that goes on as it would have without the pause."""


def edit_here(state: RefineState, context: RefineContext) -> Edited | None:
    """Return the next edit in the log, if it was made where the loop stands.

    It goes on from there.
    """
    event = context.log.get(f"edit:{state.get('edits', 0)}", Edited)
    if event is None or event.round != state["round"] + event.corrects:
        return None
    return event


def waits(state: RefineState, runtime: Runtime[RefineContext]) -> bool:
    """Whether a person is to look before the next plan; tells of a pause that begins.

    A loop that comes here again through its log waits only where nothing came after.
    """
    context, round = runtime.context, state["round"]
    if edit_here(state, context) is not None:
        return True
    log = context.log
    if log.get(f"r{round + 1}:planned", Planned) or log.get(finished_key(state), Finished):
        return False
    key = f"paused:{round}"
    if key not in log and not context.pause():
        return False
    emit(runtime, Paused(key=key, at=log.now(), round=round))
    return True


async def review(
    state: RefineState, runtime: Runtime[RefineContext]
) -> Command[Literal["compose", "generate", "plan"]]:
    """Wait for a person; then begin the round of their correction, or make the next plan."""
    context, over = runtime.context, bool(state.get("reason"))
    event = edit_here(state, context)
    if event is None:
        said = interrupt(
            {
                "waits": "finished" if over else "paused",
                "round": state["round"],
                "best": state["best"]["round"],
            }
        )
        if said == GO_ON:
            if over:
                raise EditError("the run is over: give an edit to go on with it")
            return Command(goto="plan")
        event = edited(
            _read(said),
            context.log.events,
            context.options.form,
            state.get("edits", 0),
            context.log.now(),
        )
        emit(runtime, event)
    update: RefineState = {
        "edits": state.get("edits", 0) + 1,
        "limit": event.round + 1 + event.rounds,
        "looked": True,
        "stale": 0,
        "reason": "",
        "limit_reached": "",
    }
    if not event.corrects:
        return Command(update=update, goto="plan")
    update["round"] = event.round
    update["reference"] = None
    scene = event.scene.model_dump(mode="json")
    if scene == state["scene"]:
        return Command(update=update, goto="generate")
    update["scene"] = scene
    update["since"] = event.round
    return Command(update=update, goto="compose")


def _read(said: Any) -> Edit:
    try:
        return Edit.model_validate(said)
    except ValidationError as error:
        raise EditError(f"the edit cannot be read: {first_problem(error)}") from error


def reuse_edited_picture(state: RefineState, runtime: Runtime[RefineContext]) -> str | None:
    """Return the picture of a round that an edit began, told as this round's.

    None if it is to be drawn.

    Nothing is drawn: it is the picture of another round as a person sees it.
    """
    log, round = runtime.context.log, state["round"]
    edit = correction_of(log.events, round)
    if edit is None:
        return None
    base = log.get(f"r{edit.base}:candidate:generated", Generated)
    if base is None:
        raise LookupError(f"no picture of round {edit.base} in the event log")
    emit(
        runtime,
        Generated(
            key=f"r{round}:candidate:generated",
            at=log.now(),
            round=round,
            purpose="candidate",
            image=base.image,
            request=base.request,
            seconds=0.0,
            cached=True,
            changed=base.changed,
        ),
    )
    return base.image


def corrections_in_round(round: int, context: RefineContext) -> dict[str, str]:
    """Return a person's corrections of a round's candidate, by fact id."""
    edit = correction_of(context.log.events, round)
    return {} if edit is None else dict(edit.verdicts)

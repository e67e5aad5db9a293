"""The solver: draws a sample as an evaluation would, and puts the picture into the output."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ContentImage,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from scenewright.config.accounts import AccountSpec
from scenewright.evals.errors import EvalError
from scenewright.evals.inspect_ai.context import (
    FOLDER,
    InspectContext,
    OncePerLoop,
    condition_fields,
    config_of,
    open_context,
    told_plainly,
)
from scenewright.evals.inspect_ai.items import SceneFrom, item_of
from scenewright.evals.inspect_ai.pictures import data_uri
from scenewright.evals.runner.arms import Arm
from scenewright.evals.runner.drawing import ImageGenerator, draw_key
from scenewright.evals.runner.drawing import draw as drawn_unit
from scenewright.evals.runner.independence import steering_of
from scenewright.evals.runner.measuring import error_text
from scenewright.evals.store.journal import Unit

DRAWING = "scenewright_drawing"
"""Key of a sample's store: how its picture came about, or why there is none."""


@solver  # type: ignore[untyped-decorator]
def draw(
    backend: str = "miniature",
    condition: str | dict[str, Any] = "composition",
    seed: int = 0,
    size: list[int] | None = None,
    timeout: float | None = None,
    scene_from: SceneFrom = "metadata",
    embed: bool = True,
    folder: str = FOLDER,
    models: str | None = None,
) -> Solver:
    """Draws each sample in the arm ``backend/condition/seed`` of an evaluation.

    ``backend`` is a profile; ``condition`` is one of
    :data:`~scenewright.evals.runner.config.CONDITIONS` or the fields of one; epoch n draws with
    ``seed`` + n − 1. ``size``: (width, height) in pixels. ``timeout``: seconds a picture, loop
    included. ``embed``: whether the output holds the picture itself or names its file in
    ``folder``, which keeps all pictures. ``models``: ``module:function`` that returns a
    :class:`~scenewright.evals.runner.model_setup.EvalModelOverrides`.

    A picture that cannot be drawn is an error of its sample; the sample's store tells why.
    """
    with told_plainly():
        config = config_of(
            {
                "backends": [backend],
                **condition_fields(condition),
                "seeds": [seed],
                "size": size,
                "timeout": timeout,
            }
        )
    desks = OncePerLoop(lambda: open_context(config, folder, models, measuring=False))

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        try:
            context = await desks.get()
            arm = replace(context.eval_models.arms[0], seed=seed + state.epoch - 1)
            generator = context.eval_models.generators[context.eval_models.arms[0].name]
            unit = await _drawn(context, arm, generator, state, scene_from)
        except Exception as error:
            state.store.set(DRAWING, {"state": "failed", "reason": error_text(error)})
            raise
        rows = unit.rows["rounds"]
        kept = next(row for row in rows if row["kept"])
        model = f"{backend}/{condition}" if isinstance(condition, str) else f"{backend}/own"
        file = context.generation.images.path(kept["image"])
        shown = data_uri(await asyncio.to_thread(file.read_bytes)) if embed else str(file.resolve())
        state.output = _output(model, shown, rows, kept)
        state.messages.append(state.output.message)
        accounts = context.generation.settings.accounts
        state.store.set(DRAWING, _told_of(unit, arm, generator, accounts))
        return state

    return solve


async def _drawn(
    context: InspectContext,
    arm: Arm,
    generator: ImageGenerator | None,
    state: TaskState,
    scene_from: SceneFrom,
) -> Unit:
    item = item_of(
        str(state.sample_id), state.input_text, state.target.text, state.metadata, scene_from
    )
    key = draw_key(item, arm, generator, context.generation)
    seconds = context.config.timeout
    try:
        async with asyncio.timeout(seconds) as limit:
            return await drawn_unit(key, item, arm, generator, context.generation)
    except TimeoutError as error:
        if limit.expired():
            raise EvalError(f"no picture within {seconds:g} s") from error
        raise


def _output(
    model: str, shown: str, rows: Sequence[Mapping[str, Any]], kept: Mapping[str, Any]
) -> ModelOutput:
    tokens_in = sum(row["tokens_in"] for row in rows)
    tokens_out = sum(row["tokens_out"] for row in rows)
    message = ChatMessageAssistant(
        content=[ContentImage(image=shown)], model=model, source="generate"
    )
    return ModelOutput(
        model=model,
        choices=[ChatCompletionChoice(message=message, stop_reason="stop")],
        usage=ModelUsage(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            total_tokens=tokens_in + tokens_out,
            total_cost=sum(row["usd"] for row in rows),
        ),
        time=sum(row["seconds"] for row in rows),
        metadata={"prompt": kept["prompt"], "image": kept["image"]},
    )


def _told_of(
    unit: Unit, arm: Arm, generator: ImageGenerator | None, accounts: Mapping[str, AccountSpec]
) -> dict[str, Any]:
    return {
        "state": "done",
        "arm": arm.name,
        "image": unit.facts["kept"],
        "steering": steering_of(arm, generator, accounts),
        "rounds": [dict(row) for row in unit.rows["rounds"]],
    }

"""Node ``generate``: the round's candidate, drawn as the strategy wants it."""

from __future__ import annotations

from scenewright.core.ports.backend import BatchingBackend
from scenewright.graphs.drawing import draw
from scenewright.graphs.initial_image import within_mask
from scenewright.graphs.nodes.plan import load_plan, most_rounds
from scenewright.graphs.nodes.step import LoopStep
from scenewright.graphs.record import totals_of
from scenewright.graphs.round_context import make_round_context
from scenewright.graphs.strategies.base import GenerationOverrides
from scenewright.graphs.strategies.registry import strategy_of
from scenewright.graphs.strategies.repairs import BestOfN

AHEAD = 3
"""Most candidates that are drawn with another one, as one batch."""


async def generate(step: LoopStep) -> None:
    """Draw this round's candidate; from round 1 on with the changes of its strategy."""
    round, redrawn = step.round, None
    if round > 0:
        repair_plan = load_plan(step.record, round)
        round_context = make_round_context(step.scene, step.best(round - 1), round, step.context)
        shown = step.record.image(round, "reference")
        redrawn = within_mask(
            strategy_of(repair_plan.strategy).redraw(
                round_context, repair_plan, None if shown is None else shown.image
            ),
            round_context,
        )
    alike = redrawn in (None, GenerationOverrides())
    ahead = _images_ahead(step) if alike else 0
    await draw(step.record.prompt(round), round, "candidate", redrawn, step.runtime, ahead)


def _images_ahead(step: LoopStep) -> int:
    """Return how many later candidates are certain to be drawn from the same prompt.

    None where a limit may end the run before them.
    """
    options, budget = step.context.options, step.context.options.budget
    limits = (budget.seconds, budget.tokens, budget.usd, budget.work, budget.judge_calls)
    batches = isinstance(step.context.backend, BatchingBackend)
    strategy = strategy_of(options.strategy)
    if not (batches and isinstance(strategy, BestOfN)) or any(one is not None for one in limits):
        return 0
    left = most_rounds(step) - step.round - 1
    if budget.images is not None:
        left = min(left, budget.images - int(totals_of(step.record.events)["images"]) - 1)
    return max(0, min(AHEAD, left))

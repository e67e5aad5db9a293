"""All strategies by name: those that come along, and those of entry points.

The router: which strategy suits this failure, this backend, and what is left of the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points

from scenewright.config.profiles import DIRECTOR
from scenewright.config.removed import REMOVED_STRATEGIES
from scenewright.core.error_text import error_text
from scenewright.core.errors import ScenewrightError
from scenewright.core.ports.backend import BackendFeatures
from scenewright.core.suggestions import did_you_mean
from scenewright.graphs.strategies.base import (
    KINDS,
    GenerationOverrides,
    RepairPlan,
    RepairStrategy,
    RoundContext,
    failed_regions,
    kind_of_failure,
)
from scenewright.graphs.strategies.feedback import Feedback
from scenewright.graphs.strategies.payoff import Payoff, payoffs
from scenewright.graphs.strategies.repairs import (
    BestOfN,
    ComposeEdit,
    Edit,
    Inpaint,
    Resample,
)
from scenewright.graphs.strategies.tournament import Tournament

EVEN = 1e-9
"""Rates closer than this are equal."""


class Router:
    """Picks a strategy for every round, by what it pays for the kind of failure.

    The kinds of failure have an order of repairs each: a picture in which most is wrong is drawn
    afresh; what is absent or wrong is told to an edit model, repaired by a tournament or drawn anew
    in its place. Of those that the backend can do and the budget allows it takes the one that
    gains most facts for a picture's worth of work
    (:mod:`scenewright.graphs.strategies.payoff`), of equal ones the earlier in the order.
    """

    name = "router"
    about = "Pick the strategy that pays most each round: by failure, backend, what was tried."
    stops_when_satisfied = True
    uses_detector = True

    def __init__(self) -> None:
        feedback, inpaint, edit = Feedback(), Inpaint(), Edit()
        compose, resample = ComposeEdit(), Resample()
        tournament = Tournament()
        self._orders: dict[str, tuple[RepairStrategy, ...]] = {
            KINDS[0]: (resample, feedback, tournament),
            KINDS[1]: (compose, edit, tournament, feedback, inpaint, resample),
            KINDS[2]: (compose, edit, tournament, inpaint, feedback, resample),
            KINDS[3]: (compose, edit, tournament, inpaint, feedback, resample),
        }

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Nothing: it takes what there is."""
        return None

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """Return the move of the strategy that it picks."""
        kind = kind_of_failure(round_context.facts, round_context.card)
        able = list(self._able(round_context, kind))
        paid = payoffs(round_context.backend, kind, (one.name for one in able), round_context.tried)
        most = max(one.rate for one in paid)
        at = next(at for at, one in enumerate(paid) if one.rate >= most - EVEN)
        repair_plan = able[at].plan_repair(round_context)
        paying = f"facts a picture: {self._compared(paid, at)}"
        return replace(repair_plan, why=f"{kind}; {paying}. {repair_plan.why}")

    @staticmethod
    def _compared(paid: Sequence[Payoff], at: int) -> str:
        """Return what the chosen repair pays, and the best of the others."""
        others = [one for one in paid if one is not paid[at]]
        words = paid[at].words()
        if not others:
            return words
        return f"{words}, next {max(others, key=lambda one: one.rate).words()}"

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Never asked: the strategy that a move names draws it."""
        raise AssertionError("the router's moves name the strategy that acts")

    def _able(self, round_context: RoundContext, kind: str) -> Iterator[RepairStrategy]:
        """Yield the repairs that backend, plan and budget allow; resampling always is."""
        features, left = round_context.features, round_context.images_left
        for strategy in self._orders[kind]:
            if strategy.unsupported_reason(features):
                continue
            # Without a place the whole picture would be drawn from under noise.
            if strategy.name == Inpaint.name and failed_regions(round_context) is None:
                continue
            if left is not None and left < 2 and strategy.name == Feedback.name:
                continue
            # It does the same and more.
            if strategy.name == Edit.name and features.edit_references:
                continue
            yield strategy


GROUP = "scenewright.strategies"
"""Group of the entry points."""


class StrategyError(ScenewrightError, ValueError):
    """A strategy that does not exist or cannot be loaded; says which there are."""


@cache
def strategies() -> Mapping[str, RepairStrategy]:
    """Every strategy by name; ``StrategyError`` if an entry point names something else."""
    found: dict[str, RepairStrategy] = {
        strategy.name: strategy
        for strategy in (
            Feedback(),
            Tournament(),
            Inpaint(),
            Edit(),
            ComposeEdit(),
            Resample(),
            BestOfN(),
            Router(),
        )
    }
    for point in entry_points(group=GROUP):
        try:
            made = point.load()()
        except Exception as error:
            raise StrategyError(
                f"the strategy {point.name!r} of {point.value} cannot be loaded "
                f"({error_text(error)}): repair or uninstall its package"
            ) from error
        if not isinstance(made, RepairStrategy) or made.name != point.name:
            raise StrategyError(
                f"{point.value} is not a strategy named {point.name!r}: it needs name, about, "
                "stops_when_satisfied, unsupported_reason, plan_repair and redraw"
            )
        if point.name in found:
            raise StrategyError(f"there are two strategies {point.name!r}: uninstall a package")
        found[point.name] = made
    return found


def uses_detector(name: str) -> bool:
    """Whether the strategy of that name asks where objects were seen; false for the director."""
    return bool(getattr(strategies().get(name), "uses_detector", False))


def strategy_of(name: str) -> RepairStrategy:
    """Return the strategy of that name; ``StrategyError`` lists what there is."""
    found = strategies().get(name)
    if found is None:
        if name in REMOVED_STRATEGIES:
            raise StrategyError(f"strategy {name!r} was removed: {REMOVED_STRATEGIES[name]}")
        names = sorted(strategies())
        raise StrategyError(
            f"no strategy {name!r}{did_you_mean(name, (*names, DIRECTOR))}: there are "
            f"{', '.join(names)} and {DIRECTOR}"
        )
    return found

"""All strategies by name: those that come along, and those of entry points.

The router: which strategy suits this failure, this backend, and what is left of the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points

from scenewright.config.profiles import RealismRepair
from scenewright.core.ports.backend import BackendFeatures
from scenewright.graphs.strategies.base import (
    GenerationOverrides,
    RepairPlan,
    RepairStrategy,
    RoundContext,
    failed_facts,
    failed_regions,
)
from scenewright.graphs.strategies.feedback import Feedback, MaskedFeedback, ScheduledFeedback
from scenewright.graphs.strategies.repairs import (
    BestOfN,
    ComposeEdit,
    Edit,
    Emphasize,
    Inpaint,
    Resample,
    only_unreal,
    region_of_worst,
)
from scenewright.graphs.strategies.tournament import Tournament

HOPELESS = 0.5
"""Share of the facts that must fail for a fresh sample to be better than a repair."""

UNREAL = "objects do not look real"
"""The kind of failure in which nothing is missing."""


class Router:
    """Picks a strategy for every round.

    By the kind of failure: a picture in which most is wrong is drawn afresh; an absent object needs
    a picture of it; wrong attributes and relations are told to an edit model, drawn anew in their
    places, or weighed more; where nothing is missing and objects do not look real, the picture or
    the least real object is drawn anew, in the order of the run's options. Among those that suit,
    the backend can do and the budget allows, the one that failed least often since the best picture
    was found is taken, the earlier in the order first.
    """

    name = "router"
    about = "Pick a strategy each round: by failure, backend, what was tried, and budget."
    stops_when_satisfied = True
    uses_detector = True

    def __init__(self) -> None:
        feedback, inpaint, edit = Feedback(), Inpaint(), Edit()
        compose, emphasis, resample = ComposeEdit(), Emphasize(), Resample()
        self._orders: dict[str, tuple[RepairStrategy, ...]] = {
            "most of it is wrong": (resample, feedback),
            "objects are absent": (compose, edit, feedback, inpaint, emphasis, resample),
            "only attributes are wrong": (compose, edit, inpaint, feedback, emphasis, resample),
            "relations are wrong": (compose, edit, inpaint, feedback, emphasis, resample),
            UNREAL: (resample, inpaint),
        }

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Nothing: it takes what there is."""
        return None

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """Return the move of the strategy that it picks."""
        kind = kind_of_failure(round_context)
        able = list(self._able(round_context, kind))
        fewest = min(round_context.failures_of(strategy.name) for strategy in able)
        picked = next(s for s in able if round_context.failures_of(s.name) == fewest)
        why = kind
        if fewest or picked is not able[0]:
            tried = [s.name for s in able if round_context.failures_of(s.name) > fewest]
            why += f"; did not help here: {', '.join(tried)}" if tried else "; all were tried"
        repair_plan = picked.plan_repair(round_context)
        if kind == UNREAL:
            why = why.removeprefix(UNREAL).removeprefix("; ")
            return replace(repair_plan, why="; ".join(filter(None, (repair_plan.why, why))))
        return replace(repair_plan, why=f"{why}. {repair_plan.why}")

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Never asked: the strategy that a move names draws it."""
        raise AssertionError("the router's moves name the strategy that acts")

    def _able(self, round_context: RoundContext, kind: str) -> Iterator[RepairStrategy]:
        """Those of the order that backend, plan and budget allow; resampling always is."""
        features, left = round_context.features, round_context.images_left
        order = self._orders[kind]
        if kind == UNREAL and round_context.options.realism_repair == Inpaint.name:
            order = order[::-1]
        for strategy in order:
            if strategy.unsupported_reason(features):
                continue
            # Without a place the whole picture would be drawn from under noise.
            if strategy.name == Inpaint.name and not _placed(round_context):
                continue
            if left is not None and left < 2 and strategy.name == Feedback.name:
                continue
            # It does the same and more.
            if strategy.name == Edit.name and features.edit_references:
                continue
            yield strategy


def kind_of_failure(round_context: RoundContext) -> str:
    """Return the kind of what failed in the best picture, in words.

    A key of the router's orders.
    """
    if only_unreal(round_context):
        return UNREAL
    lost = failed_facts(round_context)
    states = {verdict.fact_id: verdict.state for verdict in round_context.card.stated}
    wrong = sum(state in ("no", "void") for state in states.values())
    if len(states) >= 2 and wrong / len(states) > HOPELESS:
        return "most of it is wrong"
    kinds = {fact.kind for fact in lost}
    if "object" in kinds:
        return "objects are absent"
    return "relations are wrong" if "relation" in kinds else "only attributes are wrong"


def _placed(round_context: RoundContext) -> bool:
    if only_unreal(round_context):
        return region_of_worst(round_context) is not None
    return failed_regions(round_context) is not None


GROUP = "scenewright.strategies"
"""Group of the entry points."""


class StrategyError(ValueError):
    """A strategy that does not exist or cannot be loaded; says which there are."""


@cache
def strategies() -> Mapping[str, RepairStrategy]:
    """Every strategy by name; ``StrategyError`` if an entry point names something else."""
    found: dict[str, RepairStrategy] = {
        strategy.name: strategy
        for strategy in (
            Feedback(),
            ScheduledFeedback(),
            MaskedFeedback(),
            Tournament(),
            Inpaint(),
            Edit(),
            ComposeEdit(),
            Emphasize(),
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
                f"({type(error).__name__}: {error}): repair or uninstall its package"
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


def realism_strategy(
    wanted: RepairStrategy, features: BackendFeatures, repair: RealismRepair = "resample"
) -> RepairStrategy:
    """Return the strategy that repairs realism in a run of the strategy ``wanted``.

    That is ``wanted`` itself where it has a way of its own, else what ``repair`` says. Drawing the
    whole picture again is the default because it gains more (``benchmarks/realism_loop.py``), and
    it is what is left where ``features`` keep no part of a picture.
    """
    if isinstance(wanted, Resample | Router):
        return wanted
    if features.edit and (isinstance(wanted, Inpaint) or repair == "inpaint"):
        return Inpaint()
    return Resample()


def uses_detector(name: str) -> bool:
    """Whether the strategy of that name asks where objects were seen; false for the director."""
    return bool(getattr(strategies().get(name), "uses_detector", False))


def strategy_of(name: str) -> RepairStrategy:
    """Return the strategy of that name; ``StrategyError`` lists what there is."""
    found = strategies().get(name)
    if found is None:
        raise StrategyError(
            f"no strategy {name!r}: there are {', '.join(sorted(strategies()))} and director"
        )
    return found

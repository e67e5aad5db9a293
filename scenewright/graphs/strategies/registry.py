"""All strategies by name: those that come along, and those of entry points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from scenewright.config.profiles import RealismRepair
from scenewright.core.ports.backend import BackendFeatures
from scenewright.graphs.strategies.base import RepairStrategy
from scenewright.graphs.strategies.control import BestOfN, Resample
from scenewright.graphs.strategies.feedback import Feedback, MaskedFeedback, ScheduledFeedback
from scenewright.graphs.strategies.repairs import Edit, Emphasize, Inpaint
from scenewright.graphs.strategies.router import Router

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
            Inpaint(),
            Edit(),
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
                f"{point.value} is no strategy of the name {point.name!r}: it needs name, about, "
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


def strategy_of(name: str) -> RepairStrategy:
    """The strategy of that name; ``StrategyError`` lists what there is."""
    found = strategies().get(name)
    if found is None:
        raise StrategyError(
            f"no strategy {name!r}: there are {', '.join(sorted(strategies()))} and director"
        )
    return found

"""The controls: pictures without feedback."""

from __future__ import annotations

from scenewright.core.ports.backend import BackendFeatures
from scenewright.graphs.strategies.base import GenerationOverrides, RepairPlan, RoundContext
from scenewright.graphs.strategies.realism import only_unreal, said_of_worst


class Resample:
    """The same prompt from another seed, until nothing is missing."""

    name = "resample"
    about = "Draw the same prompt from another seed until nothing is missing."
    stops_when_satisfied = True

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Nothing: a backend without seeds gives another picture each time by itself."""
        return None

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """A new seed."""
        why = (
            said_of_worst(round_context)
            if only_unreal(round_context)
            else "it looks at no feedback"
        )
        return RepairPlan(self.name, "draws the same prompt from another seed", why)

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Nothing but the round's own seed."""
        return GenerationOverrides()


class BestOfN(Resample):
    """All pictures of the budget, whatever the judges say of them; the best one is kept."""

    name = "best-of-n"
    about = "Draw the same prompt as often as rounds and images allow, keep the best picture."
    stops_when_satisfied = False

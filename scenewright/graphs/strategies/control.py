"""The controls: pictures without feedback."""

from __future__ import annotations

from scenewright.core.ports.backend import BackendFeatures
from scenewright.graphs.strategies.base import Move, Redrawing, Situation
from scenewright.graphs.strategies.realism import only_unreal, said_of_worst


class Resample:
    """The same prompt from another seed, until nothing is missing."""

    name = "resample"
    about = "Draw the same prompt from another seed until nothing is missing."
    stops_when_satisfied = True

    def lacks(self, features: BackendFeatures) -> str | None:
        """Nothing: a backend without seeds gives another picture each time by itself."""
        return None

    def move(self, situation: Situation) -> Move:
        """A new seed."""
        why = said_of_worst(situation) if only_unreal(situation) else "it looks at no feedback"
        return Move(self.name, "draws the same prompt from another seed", why)

    def redraw(self, situation: Situation, move: Move, shown: str | None) -> Redrawing:
        """Nothing but the round's own seed."""
        return Redrawing()


class BestOfN(Resample):
    """All pictures of the budget, whatever the judges say of them; the best one is kept."""

    name = "best-of-n"
    about = "Draw the same prompt as often as rounds and images allow, keep the best picture."
    stops_when_satisfied = False

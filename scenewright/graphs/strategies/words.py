"""What is missing, in words."""

from __future__ import annotations

from scenewright.facts import Fact
from scenewright.graphs.strategies.base import Situation


def failed(situation: Situation) -> list[Fact]:
    """The facts that the best candidate was found not to hold, roots of the voids only."""
    states = {verdict.fact_id: verdict.state for verdict in situation.card.verdicts}
    return [fact for fact in situation.facts if states.get(fact.id) == "no"]


def listed(situation: Situation, most: int = 4) -> str:
    """Their statements in one line."""
    said = [fact.statement for fact in failed(situation)]
    more = f" and {len(said) - most} more" if len(said) > most else ""
    return "; ".join(said[:most]) + more

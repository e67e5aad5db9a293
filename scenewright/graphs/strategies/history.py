"""What earlier rounds tried and what came of it, read from the event log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scenewright.facts import Fact, ScoreCard
from scenewright.graphs.events import Event, Judged, Planned
from scenewright.graphs.state import improves
from scenewright.graphs.strategies.base import Attempt


def attempts(events: Iterable[Event], facts: Sequence[Fact], before: int) -> tuple[Attempt, ...]:
    """One attempt for every judged round below ``before`` but the first, oldest first."""
    cards: dict[int, ScoreCard] = {}
    plans: dict[int, Planned] = {}
    for event in events:
        if isinstance(event, Judged) and event.role == "loop" and event.round < before:
            cards[event.round] = event.card
        elif isinstance(event, Planned) and event.round < before:
            plans[event.round] = event
    found = []
    best: ScoreCard | None = None
    for round in sorted(cards):
        card = cards[round]
        better = best is None or improves(card, best, facts)
        if best is not None and round in plans:
            had, has = _confirmed(best), _confirmed(card)
            target = frozenset(fact.id for fact in facts) - had
            found.append(
                Attempt(
                    round=round,
                    strategy=plans[round].strategy,
                    target=target,
                    fixed=target & has,
                    broken=had - has,
                    better=better,
                )
            )
        if better:
            best = card
    return tuple(found)


def _confirmed(card: ScoreCard) -> frozenset[str]:
    return frozenset(verdict.fact_id for verdict in card.verdicts if verdict.state == "yes")

"""What earlier rounds tried and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scenewright.core.facts import Fact, ScoreCard
from scenewright.graphs.events import Edited, Event, Judged, Planned
from scenewright.graphs.state import improves
from scenewright.graphs.strategies.base import Attempt


def attempts(events: Iterable[Event], facts: Sequence[Fact], before: int) -> tuple[Attempt, ...]:
    """The attempts that an event log tells of, of the judged rounds below ``before``.

    Those before a person's correction are left out: they aimed at other facts or at another
    picture.
    """
    cards: dict[int, ScoreCard] = {}
    acting: dict[int, str] = {}
    objects: dict[int, str] = {}
    for event in events:
        if isinstance(event, Judged) and event.role == "loop" and event.round < before:
            cards[event.round] = event.card
        elif isinstance(event, Planned) and event.round < before:
            acting[event.round] = event.strategy
            if event.object is not None:
                objects[event.round] = event.object
        elif isinstance(event, Edited) and event.corrects and event.round < before:
            cards.clear()
            acting.clear()
            objects.clear()
    return attempts_of(cards, acting, facts, objects)


def attempts_of(
    cards: Mapping[int, ScoreCard],
    acting: Mapping[int, str],
    facts: Sequence[Fact],
    objects: Mapping[int, str] = {},
) -> tuple[Attempt, ...]:
    """One attempt for every round in ``cards`` but the first, oldest first.

    ``acting`` names the strategy of each round; a round that it does not name is left out.
    ``objects`` names the object whose realism a round was to repair, where it was that.
    """
    found = []
    best: ScoreCard | None = None
    for round in sorted(cards):
        card = cards[round]
        better = best is None or improves(card, best, facts)
        if best is not None and round in acting:
            had, has = _confirmed(best), _confirmed(card)
            target = frozenset(fact.id for fact in facts) - had
            found.append(
                Attempt(
                    round=round,
                    strategy=acting[round],
                    target=target,
                    fixed=target & has,
                    broken=had - has,
                    better=better,
                    object=objects.get(round),
                )
            )
        if better:
            best = card
    return tuple(found)


def _confirmed(card: ScoreCard) -> frozenset[str]:
    return frozenset(verdict.fact_id for verdict in card.verdicts if verdict.state == "yes")

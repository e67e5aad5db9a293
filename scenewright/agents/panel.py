"""The panel: from what single judges say to one verdict a fact.

The default is the mean of the judges' probabilities: a hard vote throws away what the
judges are unsure of, and most judges say yes too easily. ``majority`` is there to be
compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from scenewright.facts import Answer, Fact, FactError, Verdict
from scenewright.settings import Aggregation

AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
THRESHOLD = 0.5


def next_wave(facts: Sequence[Fact], known: Mapping[str, Verdict]) -> tuple[Fact, ...]:
    """The facts that can be asked now: no verdict yet, every parent has one, none is absent.

    With ``facts_of`` there are two waves: objects, then attributes and relations.
    """
    return tuple(
        fact
        for fact in facts
        if fact.id not in known
        and all(parent in known for parent in fact.parents)
        and not any(known[parent].state in ("no", "void") for parent in fact.parents)
    )


def void_verdicts(facts: Sequence[Fact], known: Mapping[str, Verdict]) -> list[Verdict]:
    """Verdicts of the facts that need not be asked: a parent was judged no, or is void itself.

    Only facts without a verdict in ``known`` are looked at; ``facts`` lists parents before
    their children. A parent that nobody could judge does not make its children void.
    """
    found: dict[str, Verdict] = {}
    for fact in facts:
        if fact.id in known:
            continue
        for parent in fact.parents:
            verdict = known.get(parent) or found.get(parent)
            if verdict is not None and verdict.state in ("no", "void"):
                reason = f"not asked: {parent} is {'absent' if verdict.state == 'no' else 'void'}"
                found[fact.id] = Verdict(fact_id=fact.id, state="void", reason=reason)
                break
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Panel:
    """How the answers of several judges become a verdict."""

    aggregation: Aggregation = "mean"
    """``mean`` of the probabilities, or share of the ``majority``'s votes."""
    quorum: int = 1
    """Fewest judges with a usable answer that a verdict needs."""
    threshold: float = THRESHOLD
    """A fact holds if its probability is above this; at it, the judges are undecided and
    the fact is not confirmed."""

    def __post_init__(self) -> None:
        if self.aggregation not in AGGREGATIONS:
            raise FactError(
                f"unknown aggregation {self.aggregation!r}: use one of {', '.join(AGGREGATIONS)}"
            )
        if self.quorum < 1:
            raise FactError(f"the quorum is {self.quorum}: it must be 1 or more")
        if not 0.0 <= self.threshold < 1.0:
            raise FactError(f"the threshold is {self.threshold}: it must lie in [0, 1)")

    def verdict(self, fact: Fact, answers: Sequence[Answer]) -> Verdict:
        """The verdict of one fact from one answer a judge (unscored ones included)."""
        scored = [answer for answer in answers if answer.state in ("yes", "no")]
        missing = [answer for answer in answers if answer.state not in ("yes", "no")]
        counts = {"n_scored": len(scored), "n_unscored": len(missing)}
        if len(scored) < self.quorum:
            why = "; ".join(f"{a.judge_id}: {a.reason or a.state}" for a in missing)
            reason = (
                f"{len(scored)} of {len(answers)} judges scored it, the quorum is {self.quorum}"
            )
            return Verdict(
                fact_id=fact.id,
                state="unscored",
                reason=f"{reason} ({why})" if why else reason,
                **counts,
            )
        values = [_probability(answer) for answer in scored]
        votes = values if self.aggregation == "mean" else [float(a.state == "yes") for a in scored]
        mean = min(1.0, max(0.0, sum(votes) / len(votes)))
        return Verdict(
            fact_id=fact.id,
            state="yes" if mean > self.threshold else "no",
            probability=mean,
            disagreement=max(values) - min(values),
            **counts,
        )

    def verdicts(
        self,
        facts: Sequence[Fact],
        answers_by_judge: Mapping[str, Sequence[Answer]],
        known: Mapping[str, Verdict] | None = None,
    ) -> list[Verdict]:
        """One verdict a fact of ``facts``, in their order; ``known`` are earlier verdicts.

        A fact with an absent parent is void whatever was answered. A judge that left a fact
        out counts as unscored for it. Raises ``FactError`` for two answers of one judge to
        one fact, an answer filed under another judge, or a parent without a verdict.
        """
        table = {judge: _by_fact(judge, answers) for judge, answers in answers_by_judge.items()}
        decided = dict(known or {})
        result: list[Verdict] = []
        for fact in facts:
            lost = [parent for parent in fact.parents if parent not in decided]
            if lost:
                raise FactError(f"fact {fact.id}: no verdict for its parents {lost} yet")
            void = void_verdicts((fact,), {k: v for k, v in decided.items() if k != fact.id})
            if void:
                verdict = void[0]
            else:
                answers = [
                    row.get(fact.id)
                    or Answer(
                        fact_id=fact.id, judge_id=judge, state="unscored", reason="gave no answer"
                    )
                    for judge, row in table.items()
                ]
                verdict = self.verdict(fact, answers)
            decided[fact.id] = verdict
            result.append(verdict)
        return result


def aggregate(
    facts: Sequence[Fact],
    answers_by_judge: Mapping[str, Sequence[Answer]],
    *,
    quorum: int = 1,
    aggregation: Aggregation = "mean",
    known: Mapping[str, Verdict] | None = None,
) -> list[Verdict]:
    """:meth:`Panel.verdicts` of a panel with these settings."""
    return Panel(aggregation=aggregation, quorum=quorum).verdicts(facts, answers_by_judge, known)


def _probability(answer: Answer) -> float:
    if answer.probability is not None:
        return answer.probability
    return 1.0 if answer.state == "yes" else 0.0


def _by_fact(judge: str, answers: Sequence[Answer]) -> dict[str, Answer]:
    row: dict[str, Answer] = {}
    for answer in answers:
        if answer.judge_id != judge:
            raise FactError(f"an answer by {answer.judge_id} is filed under {judge}")
        if answer.fact_id in row:
            raise FactError(f"{judge} answered {answer.fact_id} twice")
        row[answer.fact_id] = answer
    return row

"""Shares of options in answers, and numbers that decide several facts.

Facts about how many there are of something ("a ball", "at least two balls", "not three") are one
question to a judge that counts (:attr:`~scenewright.core.facts.Fact.counted`); :func:`by_number`
turns its answer into one for each of them. To people they are one line as well
(:func:`in_lines`), decided by one of their verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scenewright.core.facts import HALF, Answer, Fact, ScoreCard, Verdict

UNNAMED = ""
"""Rival for a chosen option that was not named."""


def shares_of(fact: Fact, answer: Answer) -> dict[str, float]:
    """Return the probability of each option by a usable answer to a choice.

    Sums to 1, unless the judge was offered several options that the fact does not have: of these
    the likeliest is :data:`UNNAMED`.
    """
    options, expected = fact.options, fact.expected
    if answer.distribution is not None:
        told = {option: answer.distribution.get(option, 0.0) for option in options}
        others = [share for option, share in answer.distribution.items() if option not in told]
        return told | ({UNNAMED: max(others)} if others else {})
    chosen, holds = chosen_option(fact, answer), answer.probability
    rivals = len(options) - 1
    vote = dict.fromkeys(options, 0.0) | {chosen: 1.0}
    if holds is None:
        return vote
    if chosen == UNNAMED:
        return dict.fromkeys(options, 0.0) | {expected: holds, UNNAMED: 1.0 - holds}
    if chosen == expected:
        if holds * len(options) < 1.0:
            return vote
        return dict.fromkeys(options, (1.0 - holds) / rivals) | {expected: holds}
    if holds > 0.5:
        return vote
    if holds * len(options) <= 1.0:
        return dict.fromkeys(options, holds) | {chosen: 1.0 - rivals * holds}
    return dict.fromkeys(options, 0.0) | {expected: holds, chosen: 1.0 - holds}


def chosen_option(fact: Fact, answer: Answer) -> str:
    """Return the chosen option of a usable answer, by its state where it names none."""
    if answer.state == "yes":
        return fact.expected
    if answer.choice in fact.options and answer.choice != fact.expected:
        return str(answer.choice)
    return UNNAMED


def by_number(fact: Fact, asked: Fact, answer: Answer) -> Answer:
    """Return what the ``answer`` to ``asked`` says of ``fact``: of a number, whether it suffices.

    ``asked`` is the fact itself, or the question that counts.
    """
    counting = fact.counting
    if asked is fact or counting is None:
        return answer
    update: dict[str, object] = {"fact_id": fact.id}
    if answer.state in ("yes", "no"):
        enough = asked.options[counting.least :]
        suffices = chosen_option(asked, answer) in enough
        known = None
        if answer.probability is not None or answer.distribution is not None:
            shares = shares_of(asked, answer)
            known = min(1.0, sum(shares[option] for option in enough))
            suffices = known > HALF if known != HALF else suffices
            known = known if fact.expected == "yes" else 1.0 - known
        choice = "yes" if suffices else "no"
        update |= {"choice": choice, "state": "yes" if choice == fact.expected else "no"}
        update |= {"probability": known, "distribution": None}
    return answer.model_copy(update=update)


@dataclass(frozen=True, slots=True)
class FactLine:
    """Facts that are one line to people: one, or those about one number."""

    facts: tuple[Fact, ...]
    """The facts, in their order."""

    @property
    def fact(self) -> Fact:
        """The first of them, which says and asks what they do together."""
        first = self.facts[0]
        if first.counting is None or len(self.facts) == 1:
            return first
        return first.model_copy(update=first.counting.as_question)

    def decided(self, verdicts: Mapping[str, Verdict]) -> Fact:
        """Return the fact whose verdict is that of the line.

        It is the first that does not hold; else the first that is not known, else the least likely
        one.
        """
        given = [fact for fact in self.facts if fact.id in verdicts]
        for state in ("no", "void", "unscored"):
            for fact in given:
                if verdicts[fact.id].state == state:
                    return fact
        if len(given) < len(self.facts):
            return next(fact for fact in self.facts if fact.id not in verdicts)
        return min(given, key=lambda fact: verdicts[fact.id].likelihood)


def in_lines(facts: Sequence[Fact]) -> tuple[FactLine, ...]:
    """Return ``facts`` as lines for people, those about one number together."""
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        found.setdefault(fact.counting.id if fact.counting else fact.id, []).append(fact)
    return tuple(FactLine(tuple(some)) for some in found.values())


def decided_lines(
    facts: Sequence[Fact], card: ScoreCard | None
) -> list[tuple[FactLine, Fact, Verdict | None]]:
    """Return each line of ``facts`` with the fact that decides it, and its verdict on ``card``."""
    verdicts = {} if card is None else {verdict.fact_id: verdict for verdict in card.verdicts}
    decided = [(line, line.decided(verdicts)) for line in in_lines(facts)]
    return [(line, fact, verdicts.get(fact.id)) for line, fact in decided]

"""Answers of several judges as arrays: the probability and the vote for each option of each fact.

A yes/no fact has one row, the probability that it holds. A choice has one for the option that
says it holds and one for every rival. What a judge says of the options of a choice:

- its distribution, where it tells one (token probabilities, decision models); an option of it that
  the fact does not have, which a judge with few words was offered in place of one that it does not
  know, counts as a rival without name;
- a stated probability p of the option that it chose is p for that option, and what is left is
  spread evenly over the others. An answer carries P(the fact holds), from which p follows;
- where so much lies on the expected option, though another was chosen, that the rest cannot be
  spread evenly, the chosen option has all the rest;
- a choice without a probability, or with one that contradicts it, is a vote: 1 for the option;
- an answer that says no and names no option (old records) gives the rest to a rival without
  name, so that the fact holds above ½ only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.panel.aggregation import Array
from scenewright.core.facts import Answer, Fact

UNNAMED = ""
"""Stands for the option that an answer chose without naming it."""
UNDECIDED = 1e-9
"""Options nearer to each other than this are equally likely: rounding decides nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Ballots:
    """What judges (columns) say of facts; NaN where a judge gave no usable answer."""

    values: Array
    """Probability that the fact holds, (n_facts, n_judges); a vote where there is none."""
    votes: Array
    """1 if the judge chose the option that says so, else 0, (n_facts, n_judges)."""
    rivals: Array
    """Probability of each other option of a choice, (n_rivals, n_judges)."""
    rival_votes: Array
    """1 if the judge chose that option, else 0, (n_rivals, n_judges)."""
    of: NDArray[np.intp]
    """The fact (row of ``values``) of each rival, ascending, (n_rivals,)."""
    names: tuple[str, ...]
    """The option of each rival; :data:`UNNAMED` for one that nobody named."""

    @property
    def choices(self) -> NDArray[np.bool_]:
        """Which facts are choices, (n_facts,)."""
        found = np.zeros(len(self.values), bool)
        found[self.of] = True
        return found

    def strongest(self, scores: Array) -> Array:
        """The highest of ``scores`` (..., n_rivals) among the rivals of each fact,
        (..., n_facts); −inf for a yes/no fact, NaN where nobody answered."""
        found = np.full((*scores.shape[:-1], len(self.values)), -np.inf)
        if len(self.of):
            starts = np.flatnonzero(np.diff(self.of, prepend=-1))
            found[..., self.of[starts]] = np.maximum.reduceat(scores, starts, axis=-1)
        return found

    def leading(self, scores: Array) -> list[int | None]:
        """Row of the rival with the highest of ``scores`` (n_rivals,) for each fact, the first
        of equal ones; None for a yes/no fact."""
        best: list[int | None] = [None] * len(self.values)
        for row, at in enumerate(self.of.tolist()):
            before = best[at]
            if before is None or scores[row] > scores[before] + UNDECIDED:
                best[at] = row
        return best


def ballots(facts: Sequence[Fact], table: Mapping[str, Mapping[str, Answer]]) -> Ballots:
    """The answers in ``table`` (judge → fact id → answer) to ``facts``; columns in its order."""
    n = len(table)
    values, votes = np.full((len(facts), n), np.nan), np.full((len(facts), n), np.nan)
    rows: list[Array] = []
    voted: list[Array] = []
    of: list[int] = []
    names: list[str] = []
    for at, fact in enumerate(facts):
        others = [] if fact.is_binary else [o for o in fact.options if o != fact.expected]
        if not fact.is_binary:
            others.append(UNNAMED)
        share = {option: np.full(n, np.nan) for option in others}
        vote = {option: np.full(n, np.nan) for option in others}
        for column, row in enumerate(table.values()):
            answer = row.get(fact.id)
            if answer is None or answer.state not in ("yes", "no"):
                continue
            votes[at, column] = float(answer.state == "yes")
            if fact.is_binary:
                known = answer.probability
                values[at, column] = votes[at, column] if known is None else known
                continue
            said = shares_of(fact, answer)
            values[at, column] = said[fact.expected]
            chosen = _chosen(fact, answer)
            for option in others:
                share[option][column] = said.get(option, 0.0)
                vote[option][column] = float(option == chosen)
        for option in others:
            if option == UNNAMED and not np.nansum(share[option]) and not np.nansum(vote[option]):
                continue
            rows.append(share[option])
            voted.append(vote[option])
            of.append(at)
            names.append(option)
    shape = (0, n)
    return Ballots(
        values,
        votes,
        np.stack(rows) if rows else np.zeros(shape),
        np.stack(voted) if voted else np.zeros(shape),
        np.array(of, np.intp),
        tuple(names),
    )


def answer_table(
    fact_ids: Sequence[str], table: Mapping[str, Mapping[str, Answer]]
) -> tuple[Array, Array]:
    """Probabilities and votes (1 yes, 0 no), both (n_facts, n_judges); NaN without an answer.

    ``table``: judge → fact id → answer. An answer without a probability counts as its vote.
    """
    values = np.full((len(fact_ids), len(table)), np.nan)
    votes = values.copy()
    for column, row in enumerate(table.values()):
        for at, fact_id in enumerate(fact_ids):
            answer = row.get(fact_id)
            if answer is not None and answer.state in ("yes", "no"):
                vote = 1.0 if answer.state == "yes" else 0.0
                votes[at, column] = vote
                values[at, column] = vote if answer.probability is None else answer.probability
    return values, votes


def shares_of(fact: Fact, answer: Answer) -> dict[str, float]:
    """What a usable answer to a choice says of each option; sums to 1, unless the judge was offered
    several options that the fact does not have: of these the likeliest is :data:`UNNAMED`."""
    options, expected = fact.options, fact.expected
    if answer.distribution is not None:
        told = {option: answer.distribution.get(option, 0.0) for option in options}
        others = [share for option, share in answer.distribution.items() if option not in told]
        return told | ({UNNAMED: max(others)} if others else {})
    chosen, holds = _chosen(fact, answer), answer.probability
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


def lead_of(fact: Fact, answer: Answer) -> float | None:
    """A judge's probability that ``fact`` holds, against its strongest rival alone.

    Above ½ where its choice says that the fact holds, whatever the number of options. None for
    an answer that is not usable, and for a yes/no answer without a probability.
    """
    if answer.state not in ("yes", "no"):
        return None
    if fact.is_binary or (answer.probability is None and answer.distribution is None):
        return answer.probability
    said = shares_of(fact, answer)
    rival = max(share for option, share in said.items() if option != fact.expected)
    both = said[fact.expected] + rival
    return said[fact.expected] / both if both > 0.0 else 0.5


def total_log_odds(evidence: Array) -> Array:
    """Sum of each row of ``evidence`` (n, n_judges), NaN where nobody answered."""
    known = ~np.isnan(evidence)
    total: Array = np.where(known.any(1), np.where(known, evidence, 0.0).sum(1), np.nan)
    return total


def row_means(table: Array) -> Array:
    """Mean of each row (n, n_judges) over those who answered, NaN where nobody did."""
    # Summed one by one, so that a run gives to the last bit what it always gave.
    rows = [[value for value in row if value == value] for row in table.tolist()]
    return np.array([sum(row) / len(row) if row else np.nan for row in rows])


def _chosen(fact: Fact, answer: Answer) -> str:
    """The option that a usable answer chose, as its state says where it names none."""
    if answer.state == "yes":
        return fact.expected
    if answer.choice in fact.options and answer.choice != fact.expected:
        return str(answer.choice)
    return UNNAMED

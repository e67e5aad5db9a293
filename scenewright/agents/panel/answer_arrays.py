"""Answers of several judges as arrays: one column a judge.

A yes/no fact has one row, the probability that it holds. A choice has one row for the expected
option and one for every rival. A judge's probabilities of the options of a choice are:

- its distribution, where it gives one (token probabilities, decision models); an option outside
  the fact, offered to a judge with a closed vocabulary in place of an unknown one, counts as an
  unnamed rival;
- a stated probability p of its chosen option is p for that option, and the rest is spread evenly
  over the others (an answer carries P(the fact holds), from which p follows);
- where the expected option has too much, though another was chosen, for an even spread, the
  chosen option has all the rest;
- a choice without a probability, or with one that contradicts it, is a vote: 1 for the option;
- a no that names no option (old records) gives the rest to an unnamed rival, so that the fact
  holds only above ½.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.rates import form_of
from scenewright.core.answers import UNNAMED, chosen_option, shares_of
from scenewright.core.facts import Answer, Fact, FactKind

UNDECIDED = 1e-9
"""Options closer than this are equally likely, so that rounding decides nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class AnswerArrays:
    """Answers of judges (columns) to facts (rows); NaN where a judge gave no usable answer."""

    kinds: Sequence[FactKind]
    """Kind of each fact."""
    forms: Sequence[str]
    """Form of each fact's question (:func:`~scenewright.agents.panel.rates.form_of`); empty if
    unknown."""
    judges: Sequence[str]
    """Id of each judge."""
    values: Array
    """Probability that the fact holds, (n_facts, n_judges); a vote where there is none."""
    votes: Array
    """1 if the judge chose the expected option, else 0, (n_facts, n_judges)."""
    rivals: Array
    """Probability of each other option of a choice, (n_rivals, n_judges)."""
    rival_votes: Array
    """1 if the judge chose that option, else 0, (n_rivals, n_judges)."""
    rival_facts: NDArray[np.intp]
    """The fact (row of ``values``) of each rival, ascending, (n_rivals,)."""
    rival_names: Sequence[str]
    """Option of each rival; :data:`~scenewright.core.answers.UNNAMED` if it has no name."""

    @property
    def choices(self) -> NDArray[np.bool_]:
        """Mask of the choices among the facts, (n_facts,)."""
        mask = np.zeros(len(self.values), bool)
        mask[self.rival_facts] = True
        return mask

    def strongest(self, scores: Array) -> Array:
        """Return the highest score among the rivals of each fact.

        ``scores`` is (..., n_rivals), the result (..., n_facts): −inf for a yes/no fact, NaN where
        nobody answered.
        """
        highest = np.full((*scores.shape[:-1], len(self.values)), -np.inf)
        if len(self.rival_facts):
            starts = np.flatnonzero(np.diff(self.rival_facts, prepend=-1))
            highest[..., self.rival_facts[starts]] = np.maximum.reduceat(scores, starts, axis=-1)
        return highest

    def leading(self, scores: Array) -> list[int | None]:
        """Return the row of each fact's best rival.

        That is the rival with the highest of ``scores`` (n_rivals,), the first of equal ones; None
        for a yes/no fact.
        """
        best: list[int | None] = [None] * len(self.values)
        for row, at in enumerate(self.rival_facts.tolist()):
            before = best[at]
            if before is None or scores[row] > scores[before] + UNDECIDED:
                best[at] = row
        return best


def binary_arrays(
    values: Array, votes: Array, kinds: Sequence[FactKind], judges: Sequence[str]
) -> AnswerArrays:
    """Return arrays of yes/no answers alone: probabilities and votes, both (n_facts, n_judges)."""
    none = np.zeros((0, len(judges)))
    return AnswerArrays(
        kinds, [""] * len(kinds), judges, values, votes, none, none, np.zeros(0, np.intp), ()
    )


def answer_arrays(facts: Sequence[Fact], table: Mapping[str, Mapping[str, Answer]]) -> AnswerArrays:
    """Return the answers in ``table`` (judge → fact id → answer) to ``facts`` as arrays."""
    n = len(table)
    values, votes = answer_table([fact.id for fact in facts], table)
    shares: list[Array] = []
    chosen: list[Array] = []
    rival_facts: list[int] = []
    names: list[str] = []
    for at, fact in enumerate(facts):
        if fact.is_binary:
            continue
        others = [*(option for option in fact.options if option != fact.expected), UNNAMED]
        share, vote = np.full((2, len(others), n), np.nan)
        for column, row in enumerate(table.values()):
            answer = row.get(fact.id)
            if answer is None or answer.state not in ("yes", "no"):
                continue
            by_option, choice = shares_of(fact, answer), chosen_option(fact, answer)
            values[at, column] = by_option[fact.expected]
            share[:, column] = [by_option.get(option, 0.0) for option in others]
            vote[:, column] = [option == choice for option in others]
        if not np.nansum(share[-1]) and not np.nansum(vote[-1]):
            others, share, vote = others[:-1], share[:-1], vote[:-1]
        shares.append(share)
        chosen.append(vote)
        rival_facts += [at] * len(others)
        names += others
    none = np.zeros((0, n))
    return AnswerArrays(
        kinds=[fact.kind for fact in facts],
        forms=[form_of(fact) for fact in facts],
        judges=tuple(table),
        values=values,
        votes=votes,
        rivals=np.concatenate([none, *shares]),
        rival_votes=np.concatenate([none, *chosen]),
        rival_facts=np.array(rival_facts, np.intp),
        rival_names=names,
    )


def answer_table(
    fact_ids: Sequence[str], table: Mapping[str, Mapping[str, Answer]]
) -> tuple[Array, Array]:
    """Return probabilities and votes (1 yes, 0 no), both (n_facts, n_judges).

    ``table``: judge → fact id → answer. An answer without a probability counts as its vote.
    """
    values = np.full((len(fact_ids), len(table)), np.nan)
    votes = values.copy()
    for column, row in enumerate(table.values()):
        for at, fact_id in enumerate(fact_ids):
            answer = row.get(fact_id)
            if answer is not None and answer.state in ("yes", "no"):
                vote = float(answer.state == "yes")
                votes[at, column] = vote
                values[at, column] = vote if answer.probability is None else answer.probability
    return values, votes


def two_way_probability(fact: Fact, answer: Answer) -> float | None:
    """Return a judge's probability that ``fact`` holds, against its strongest rival alone.

    Above ½ where its choice says that the fact holds, whatever the number of options. None for
    an answer that is not usable, and for a yes/no answer without a probability.
    """
    if answer.state not in ("yes", "no"):
        return None
    if fact.is_binary or (answer.probability is None and answer.distribution is None):
        return answer.probability
    shares = shares_of(fact, answer)
    rival = max(share for option, share in shares.items() if option != fact.expected)
    both = shares[fact.expected] + rival
    return shares[fact.expected] / both if both > 0.0 else 0.5

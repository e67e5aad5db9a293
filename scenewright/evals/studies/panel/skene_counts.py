"""Dawid and Skene's model of votes for many resamples at once.

Votes of a few judges make few different rows. What a resample changes is how often each of them
stands there, so one step of EM for all resamples is a few products of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.evals.studies.panel.table import AnswerTable

_ITERATIONS = 500
_TOLERANCE = 1e-6
_SMOOTHING = 2.0
_PRIOR_YOUDEN = 0.5
_CLEARLY = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class RatesOf:
    """Rates of votes, one row a resample."""

    sensitivity: Array
    """P(yes | the fact holds), (resamples, n_judges); NaN where there are no votes."""
    specificity: Array
    """P(no | the fact does not hold), likewise."""


@dataclass(frozen=True, slots=True, eq=False)
class LatentRates(RatesOf):
    """What a model says of the judges without any truth."""

    prevalence: Array
    """Share of the facts that hold, (resamples,)."""


def vote_patterns(table: AnswerTable) -> tuple[Array, Array]:
    """The different rows of votes (n_patterns, n_judges), 1 yes, 0 no, NaN none, without the one
    where nobody voted; and how often each stands in each item, (n_items, n_patterns)."""
    voted = ~np.isnan(table.votes).all(1)
    votes = np.ascontiguousarray(table.votes[voted])
    # As text a row is one value to sort; 0 would end it.
    coded = np.nan_to_num(votes, nan=2.0).astype(np.uint8) + np.uint8(1)
    text = coded.view(f"S{coded.shape[1]}").reshape(-1)
    _, first, number = np.unique(text, return_index=True, return_inverse=True)
    per_item = np.zeros((table.n_items, len(first)))
    np.add.at(per_item, (table.item_of[voted], number.reshape(-1)), 1.0)
    return votes[first], per_item


def latent_rates(table: AnswerTable, weights: Array) -> LatentRates:
    """Rates of the judges' votes without any truth, for each row of ``weights`` (resamples,
    n_items): how often an item counts.

    The model, start, prior and guard against exchanged classes are those of
    :func:`scenewright.agents.panel.aggregation.dawid_skene` for votes of 0 and 1, and so are its
    limits: judges whose errors go together look better than they are.
    """
    patterns, per_item = vote_patterns(table)
    if not len(patterns):
        unknown = np.full((len(weights), len(table.judges)), np.nan)
        return LatentRates(unknown, unknown.copy(), unknown[:, 0].copy())
    counts = weights @ per_item

    yes, no = (patterns == 1.0).astype(float), (patterns == 0.0).astype(float)
    said_yes, said_no = counts @ yes, counts @ no
    holds = np.broadcast_to(yes.sum(1) / (yes + no).sum(1), counts.shape)
    share = (said_yes + 0.5) / (said_yes + said_no + 1.0)
    prior_yes = {
        True: _SMOOTHING * (share + _PRIOR_YOUDEN * (1.0 - share)),
        False: _SMOOTHING * (1.0 - _PRIOR_YOUDEN) * share,
    }
    n = counts.sum(1)
    prior_holds = ((counts * holds).sum(1) + 0.5) / (n + 1.0)
    for _ in range(_ITERATIONS):
        rates = []
        for true in (True, False):
            mass = counts * (holds if true else 1.0 - holds)
            up, every = mass @ yes + prior_yes[true], mass @ (yes + no) + _SMOOTHING
            rates.append(up / every)
        if_holds, if_fails = rates
        true_mass = (counts * holds).sum(1) + _SMOOTHING * prior_holds
        prevalence = true_mass / (n + _SMOOTHING)
        odds = (
            np.log(prevalence / (1.0 - prevalence))[:, None]
            + np.log(if_holds / if_fails) @ yes.T
            + np.log((1.0 - if_holds) / (1.0 - if_fails)) @ no.T
        )
        before, holds = holds, expit(odds)
        if np.abs(holds - before).max() <= _TOLERANCE:
            break
    answers = said_yes + said_no
    youden = (answers * (if_holds - if_fails)).sum(1) / np.maximum(answers.sum(1), 1.0)
    turned = (youden < -_CLEARLY)[:, None]
    sensitivity = np.where(turned, if_fails, if_holds)
    specificity = 1.0 - np.where(turned, if_holds, if_fails)
    return LatentRates(
        np.where(answers > 0.0, sensitivity, np.nan),
        np.where(answers > 0.0, specificity, np.nan),
        np.where(turned[:, 0], 1.0 - prevalence, prevalence),
    )

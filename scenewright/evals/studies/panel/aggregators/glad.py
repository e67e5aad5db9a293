"""GLAD: how able each judge is and how difficult each question, from the answers alone.

Whitehill et al., "Whose Vote Should Count More" (NIPS 2009): judge j answers question q rightly
with probability σ(α_j · β_q), with ability α_j (below 0: mostly wrong) and β_q = exp(b_q) above 0
(near 0: so difficult that everybody guesses). As published, α and b have normal priors around 1
with variance 1. Two things are added. Answers may be probabilities: one of q is a vote that was yes
with probability q. And where several images of an item have the same question, they share its
difficulty; where each question is asked once, it is the published model, in which a single
answer a judge tells little of a fact's difficulty.

Ability is one number a judge: GLAD does not know that a judge may say yes too easily.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from scenewright.agents.panel.aggregation import Array, expit, mean_probability
from scenewright.evals.studies.panel.aggregators.base import Aggregator
from scenewright.evals.studies.panel.aggregators.evidence import questions_of
from scenewright.evals.studies.panel.aggregators.plain import Plain
from scenewright.evals.studies.panel.table import Places

_MEAN = 1.0
"""Of the normal priors of α and b; their variance is 1."""
_ITERATIONS = 60
_TOLERANCE = 1e-4
_M_STEPS = 12
"""Steps of the optimiser in one M step: it goes on from where the last one ended."""
_SMOOTHING = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Glad:
    """What :func:`fit_glad` found."""

    probabilities: Array
    """Posterior that each fact holds, (n_facts,); NaN where nobody answered."""
    ability: Array
    """α of each judge, (n_judges,)."""
    ease: Array
    """β of each question, (n_questions,)."""
    prevalence: float
    """Share of the facts that hold."""
    iterations: int
    """Steps of EM."""
    converged: bool
    """Whether the last one moved no posterior by more than 1e-4."""


def fit_glad(
    said: Array,
    questions: Places | None = None,
    *,
    prevalence: float | None = None,
    iterations: int = _ITERATIONS,
) -> Glad:
    """The model of ``said`` (n_facts, n_judges), NaN without an answer.

    ``questions`` (n_facts,) numbers each fact's question from 0; None: each has its own.
    ``prevalence`` is kept as it is given (½ in the publication), else estimated.
    """
    n_judges = said.shape[1]
    own = np.arange(len(said)) if questions is None else questions
    n_questions = int(own.max(initial=-1)) + 1
    rows = ~np.isnan(said).all(1)
    found = np.full(len(said), np.nan)
    at = np.full(n_judges + n_questions, _MEAN)
    if not rows.any():
        empty = at[:n_judges], np.exp(at[n_judges:])
        return Glad(found, *empty, float("nan"), 0, False)
    answers = _Answers(said[rows], own[rows], n_judges, n_questions)
    holds = mean_probability(said[rows])
    start = float(holds.mean())
    done, converged = 0, False
    share = start if prevalence is None else prevalence
    while done < iterations and not converged:
        at = answers.maximised(holds, at)
        if prevalence is None:
            share = float((holds.sum() + _SMOOTHING * start) / (len(holds) + _SMOOTHING))
        before, holds = holds, answers.posterior(at, share)
        done += 1
        converged = bool(np.abs(holds - before).max() <= _TOLERANCE)
    found[rows] = holds
    return Glad(found, at[:n_judges], np.exp(at[n_judges:]), share, done, converged)


class _Answers:
    """The answers, as EM needs them."""

    def __init__(self, said: Array, questions: Places, n_judges: int, n_questions: int) -> None:
        missing = np.isnan(said)
        self.there = (~missing).astype(float)
        self.yes, self.no = np.where(missing, 0.0, said), np.where(missing, 0.0, 1.0 - said)
        self.questions, self.n_judges, self.n_questions = questions, n_judges, n_questions

    def right(self, at: Array) -> Array:
        """P(right) of every answer, (n_facts, n_judges)."""
        ease = np.exp(at[self.n_judges :])[self.questions]
        return expit(ease[:, None] * at[None, : self.n_judges])

    def posterior(self, at: Array, share: float) -> Array:
        """P(holds) of every fact, (n_facts,)."""
        right = self.right(at)
        if_holds = np.where(self.there > 0, self.yes * right + self.no * (1.0 - right), 1.0)
        if_fails = np.where(self.there > 0, self.no * right + self.yes * (1.0 - right), 1.0)
        odds = np.log(share) - np.log1p(-share)
        return expit(odds + (np.log(if_holds) - np.log(if_fails)).sum(1))

    def maximised(self, holds: Array, at: Array) -> Array:
        """α and b of a greater expected log-likelihood plus priors, from ``at`` on."""
        right = self.right(at)
        as_yes = self.yes * right / np.maximum(self.yes * right + self.no * (1.0 - right), 1e-300)
        as_no = self.no * right / np.maximum(self.no * right + self.yes * (1.0 - right), 1e-300)
        # Expected number of right votes behind each answer.
        good = holds[:, None] * as_yes + (1.0 - holds)[:, None] * as_no

        def loss(point: Array) -> tuple[float, Array]:
            ability, ease = point[: self.n_judges], np.exp(point[self.n_judges :])
            of_fact = ease[self.questions]
            logit = of_fact[:, None] * ability
            value = (self.there * (np.logaddexp(0.0, logit) - good * logit)).sum()
            rest = self.there * (expit(logit) - good)
            slope = np.concatenate(
                [
                    of_fact @ rest,
                    ease * np.bincount(self.questions, rest @ ability, minlength=self.n_questions),
                ]
            )
            apart = point - _MEAN
            return float(value + apart @ apart / 2), slope + apart

        found = minimize(loss, at, jac=True, method="L-BFGS-B", options={"maxiter": _M_STEPS})
        result: Array = found.x
        return result


def glad() -> Aggregator:
    """GLAD with difficulty by question."""
    return Plain(
        "glad",
        "answers",
        lambda table: fit_glad(table.said, questions_of(table), prevalence=0.5).probabilities,
    )

"""Fit Dawid and Skene's model with kinds of facts, questions and joint errors; and GLAD.

Judges may err differently by kind of fact, questions may differ in how often they hold, and judges
may err together: one expectation maximisation covers all three.

As in :func:`~scenewright.agents.panel.aggregation.dawid_skene` an answer of probability q is a vote
that was yes with probability q, and imaginary answers with Se + Sp − 1 = ½ smooth the rates. On top
of that, each switched on alone:

- **kinds**: judge j has its own rates on facts of kind g, drawn towards its overall rates by s
  imaginary answers: (yes_gj + s·rate_j) / (n_gj + s). The s is that of a beta distribution with the
  variance of the rates between kinds beyond what counting explains (moments, all judges together).
- **questions**: the same question about several images of one item holds with its own prevalence,
  beta distributed around the overall one; its s follows from the covariance of the posteriors of
  two images of one question. A fact's own posterior is left out of its own prevalence, as in
  collapsed variational inference (Asuncion et al., 2009).
- **discount**: in a last step, when all is fitted, judge j's log-likelihood ratio counts
  1 / Σ_k max(r_jk, 0), r_jk being the correlation of two judges' errors given the posterior.
  So m copies of a judge have together the weight of one, and judges that err independently weigh 1:
  a composite likelihood with the effective number of votes. (Weights that enter the fit feed on
  themselves: what they blur looks correlated.) It corrects how sure the panel is; a clique that is
  the majority is still taken for the truth, since no answer distinguishes the two.

Where it is known who is related, ``dawid_skene_families`` needs no such guess: each family's mean
is one column, so that a family has one voice however many members it has.

GLAD: how able each judge is and how difficult each question, from the answers alone.

Whitehill et al., "Whose Vote Should Count More" (NIPS 2009): judge j answers question q rightly
with probability σ(α_j · β_q), with ability α_j (below 0: mostly wrong) and β_q = exp(b_q) above 0
(near 0: so difficult that everybody guesses). As published, α and b have normal priors around 1
with variance 1. Two things are added. Answers may be probabilities: one of q is a vote that was yes
with probability q. And where several images of an item have the same question, they share its
difficulty; where each question is asked once, it is the published model, in which a single
answer a judge says little about a fact's difficulty.

Ability is one number a judge: GLAD does not know that a judge may say yes too easily.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from scenewright.agents.panel.aggregation import Array, expit, mean_probability
from scenewright.evals.studies.panel.aggregators.base import (
    Aggregator,
    mean_of_others,
    questions_of,
)
from scenewright.evals.studies.panel.table import AnswerTable, Places

_YOUDEN = 0.5
"""Se + Sp − 1 of the imaginary answers."""
_SMOOTHING = 2.0
"""Imaginary answers of each judge to facts that hold, and as many to those that do not."""
_CLEARLY = 0.05
"""Se + Sp − 1 this far below 0 on average: yes and no are exchanged."""
_LEAST, _MOST = 1.0, 1e4
"""Bounds of s, the imaginary answers behind partial pooling."""
_ITERATIONS = 200
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Latent:
    """What the model found."""

    probabilities: Array
    """Posterior of each fact, (n_facts,); NaN where nobody answered."""
    sensitivity: Array
    """By kind and judge, (n_kinds, n_judges); one row without kinds."""
    specificity: Array
    """Likewise."""
    prevalence: float
    """Share of the facts that hold."""
    weights: Array
    """Of each judge's log-likelihood ratios, (n_judges,); 1 without discount."""
    iterations: int
    """Steps that were taken."""
    converged: bool
    """Whether the last step moved no posterior by more than 1e-6."""


def fit_latent(
    said: Array,
    *,
    kinds: Places | None = None,
    questions: Places | None = None,
    discount: bool = False,
) -> Latent:
    """Truth and error rates together from ``said`` (n_facts, n_judges), NaN without an answer.

    ``kinds`` and ``questions`` (n_facts,) number each fact's kind and question, from 0.
    Deterministic. With none of the three it is Dawid and Skene's model.
    """
    rows = ~np.isnan(said).all(1)
    n_judges = said.shape[1]
    found = np.full(len(said), np.nan)
    kind = np.zeros(len(said), np.intp) if kinds is None else kinds
    n_kinds = int(kind.max(initial=0)) + 1
    if not rows.any():
        unknown = np.full((n_kinds, n_judges), np.nan)
        ones = np.ones(n_judges)
        return Latent(found, unknown, unknown.copy(), float("nan"), ones, 0, False)
    model = _Model(said[rows], kind[rows], n_kinds, None if questions is None else questions[rows])
    done, converged = 0, False
    while done < _ITERATIONS and not converged:
        converged = model.step()
        done += 1
    if discount:
        model.discount()
    if model.youden() < -_CLEARLY:
        model.exchange()
    found[rows] = model.holds
    return Latent(
        found, model.if_holds, 1.0 - model.if_fails, model.share, model.weights, done, converged
    )


class _Model:
    """The state between two steps."""

    def __init__(self, said: Array, kind: Places, n_kinds: int, questions: Places | None) -> None:
        missing = np.isnan(said)
        self.there = (~missing).astype(float)
        self.yes, self.no = np.where(missing, 0.0, said), np.where(missing, 0.0, 1.0 - said)
        self.kind = kind
        self.of_kind = (np.arange(n_kinds)[:, None] == kind[None, :]).astype(float)
        self.questions = questions
        self.holds = mean_probability(said)
        self.weights = np.ones(said.shape[1])
        self.if_holds = self.if_fails = np.zeros((0, 0))
        self.share = float(self.holds.mean())
        rate = (self.yes.sum(0) + 0.5) / (self.there.sum(0) + 1.0)
        # Shares of yes of the imaginary answers to facts that hold and to those that do not.
        self.prior = rate + _YOUDEN * (1.0 - rate), (1.0 - _YOUDEN) * rate
        self.prior_share = (float(self.holds.sum()) + 0.5) / (len(said) + 1.0)

    def step(self) -> bool:
        """Rates from posteriors, then posteriors from rates; whether nothing moved."""
        rates = (self.if_holds, self.if_fails) if self.if_holds.size else (None, None)
        self.if_holds = self._rates(self.holds, rates[0], self.prior[0])
        self.if_fails = self._rates(1.0 - self.holds, rates[1], self.prior[1])
        n = len(self.holds)
        self.share = float((self.holds.sum() + _SMOOTHING * self.prior_share) / (n + _SMOOTHING))
        before = self.holds
        self.holds = self._posterior()
        return bool(np.abs(self.holds - before).max() <= _TOLERANCE)

    def discount(self) -> None:
        """Return the posteriors with the judges' effective weights, at the rates as they are."""
        self.weights = effective_weights(self._error_correlation())
        self.holds = self._posterior()

    def _posterior(self) -> Array:
        evidence: Array = np.asarray(self._ratios() @ self.weights)
        return expit(self._prior_odds() + evidence)

    def youden(self) -> float:
        """Mean Se + Sp − 1 over all answers."""
        gap = (self.if_holds - self.if_fails)[self.kind]
        return float((gap * self.there).sum() / self.there.sum())

    def exchange(self) -> None:
        """Call what holds what fails."""
        self.holds, self.share = 1.0 - self.holds, 1.0 - self.share
        self.if_holds, self.if_fails = self.if_fails, self.if_holds

    def _rates(self, weight: Array, last: Array | None, prior: Array) -> Array:
        """P(yes) by kind and judge, (n_kinds, n_judges), where the facts weigh ``weight``."""
        voted = self.yes
        if last is not None:
            rate = last[self.kind]
            against = self.no * (1.0 - rate)
            voted = self.yes * rate / np.where(self.there > 0.0, self.yes * rate + against, 1.0)
        said_yes = self.of_kind @ (voted * weight[:, None])
        n = self.of_kind @ (self.there * weight[:, None])
        overall = (said_yes.sum(0) + _SMOOTHING * prior) / (n.sum(0) + _SMOOTHING)
        if len(n) == 1:
            result: Array = overall[None, :]
            return result
        pull = pooling_strength(said_yes, n, overall)
        result = (said_yes + pull * overall) / (n + pull)
        return result

    def _ratios(self) -> Array:
        """Log-likelihood ratio of each answer, (n_facts, n_judges); 0 where it is missing."""
        likely = [
            np.where(self.there > 0.0, self.yes * rate + self.no * (1.0 - rate), 1.0)
            for rate in (self.if_holds[self.kind], self.if_fails[self.kind])
        ]
        result: Array = np.log(likely[0]) - np.log(likely[1])
        return result

    def _prior_odds(self) -> Array | float:
        if self.questions is None:
            return float(np.log(self.share) - np.log1p(-self.share))
        others, n = mean_of_others(self.holds, self.questions)
        pull = question_strength(self.holds, self.questions, self.share)
        mine = (np.where(n > 0, others * n, 0.0) + pull * self.share) / (n + pull)
        result: Array = np.log(mine) - np.log1p(-mine)
        return result

    def _error_correlation(self) -> Array:
        """Correlation of the judges' errors given the posterior, (n_judges, n_judges)."""
        total = np.zeros((len(self.weights),) * 2)
        scale = total.copy()
        for weight, rates in ((self.holds, self.if_holds), (1.0 - self.holds, self.if_fails)):
            rest = (self.yes - rates[self.kind]) * self.there
            total += (rest * weight[:, None]).T @ rest
            # Variances over the same facts: two judges may have answered different ones.
            square = (rest**2 * weight[:, None]).T @ self.there
            scale += np.sqrt(square * square.T)
        found: Array = np.where(scale > 1e-9, total / np.maximum(scale, 1e-9), 0.0)
        np.fill_diagonal(found, 1.0)
        return found


def effective_weights(correlation: Array) -> Array:
    """1 / Σ_k max(r_jk, 0) of each judge, (n_judges,), from correlations with a diagonal of 1."""
    result: Array = 1.0 / np.maximum(correlation, 0.0).sum(1)
    return result


def pooling_strength(said_yes: Array, n: Array, overall: Array) -> float:
    """Imaginary answers s that draw rates by kind towards the overall ones, from moments.

    ``said_yes`` and ``n`` (n_kinds, n_judges) are counts, ``overall`` (n_judges,) rates. The
    variance between kinds is that of the observed rates less that of counting, pooled over all.
    """
    asked = n > 0.0
    if not asked.any():
        # Every fact is taken for the other class: nothing distinguishes the kinds.
        return _MOST
    binomial = (overall * (1.0 - overall))[None, :]
    rates = np.where(asked, said_yes / np.where(asked, n, 1.0), overall[None, :])
    # Weighted by n: what n·(difference)² has beyond its expectation under one rate.
    beyond = float(np.where(asked, n * (rates - overall) ** 2 - binomial, 0.0).sum())
    between = beyond / float(n.sum())
    within = float((n * binomial).sum() / n.sum())
    return float(np.clip(within / between - 1.0, _LEAST, _MOST)) if between > 0.0 else _MOST


def question_strength(holds: Array, questions: Places, share: float) -> float:
    """Return the same for the prevalence of questions.

    S from the mean product of the deviations of two images of one question; very large where no
    question is asked twice.
    """
    apart = holds - share
    sums = np.bincount(questions, apart)
    n = np.bincount(questions)
    pairs = float((n * (n - 1.0)).sum())
    if pairs == 0.0:
        return _MOST
    between = float((sums**2).sum() - (apart**2).sum()) / pairs
    within = share * (1.0 - share)
    return float(np.clip(within / between - 1.0, _LEAST, _MOST)) if between > 0.0 else _MOST


def family_means(table: AnswerTable) -> Array:
    """Mean probability of each family's members who answered, (n_facts, n_families)."""
    names = list(dict.fromkeys(table.families))
    members = [[at for at, own in enumerate(table.families) if own == name] for name in names]
    return np.column_stack([mean_probability(table.said[:, columns]) for columns in members])


def _by_kind(table: AnswerTable) -> Array:
    names = sorted(set(table.kinds.tolist()))
    kinds = np.array([names.index(kind) for kind in table.kinds.tolist()], np.intp)
    return fit_latent(table.said, kinds=kinds).probabilities


_MEAN = 1.0
"""Of the normal priors of α and b; their variance is 1."""
_GLAD_ITERATIONS = 60
_GLAD_TOLERANCE = 1e-4
_M_STEPS = 12
"""Steps of the optimiser in one M step: it goes on from where the last one ended."""


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
    iterations: int = _GLAD_ITERATIONS,
) -> Glad:
    """Return the model of ``said`` (n_facts, n_judges), NaN without an answer.

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
        converged = bool(np.abs(holds - before).max() <= _GLAD_TOLERANCE)
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


LATENT = (
    Aggregator("glad", "answers",
               "ability of judges, difficulty of questions (Whitehill et al., 2009)",
               lambda t, _: fit_glad(t.said, questions_of(t), prevalence=0.5).probabilities),
    Aggregator("dawid_skene_kinds", "answers",
               "Dawid & Skene with rates by kind of fact, partially pooled",
               lambda table, _: _by_kind(table)),
    Aggregator("dawid_skene_questions", "answers",
               "Dawid & Skene with a prevalence of each question",
               lambda t, _: fit_latent(t.said, questions=questions_of(t)).probabilities),
    Aggregator("dawid_skene_discounted", "answers",
               "Dawid & Skene in which judges that err together share their weight",
               lambda table, _: fit_latent(table.said, discount=True).probabilities),
    Aggregator("mean_families", "nothing",
               "mean of the means of families: a family has one voice",
               lambda table, _: mean_probability(family_means(table))),
    Aggregator("dawid_skene_families", "answers", "Dawid & Skene over the means of families",
               lambda table, _: fit_latent(family_means(table)).probabilities),
)  # fmt: skip

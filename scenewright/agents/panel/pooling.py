"""Pool answers of several judges: choices over options, yes/no over log-odds, scores over ranks.

All three are weighted means over the judges who answered, on the scale on which answers of that
form can be added (:func:`pooled`):

- **yes/no**: the mean of log-odds, the logarithmic opinion pool (Genest & Zidek, 1986);
- **choice**: the mean of the logarithms of the options' probabilities, so that a choice between two
  options is a yes/no;
- **score**: the mean of mid-ranks, since one judge's 7 of 10 may be another one's 5.

A bare vote says nothing of how sure it is. Votes of a judge that gave nothing but votes count as
odds of 9 to 1: then the pool of votes is the share of yes to within a hundredth, as their mean is.
Stated probabilities count as odds of 49 to 1 at most, so that no judge outvotes all others.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scenewright.agents.panel.aggregation import Array, checked_numbers, expit
from scenewright.agents.panel.stacking import log_odds

Mask = NDArray[np.bool_]
AnswerForm = Literal["yes_no", "choice", "score"]
FORMS: tuple[AnswerForm, ...] = get_args(AnswerForm)
VOTE = 0.1
"""Distance from 0 and 1 of a bare vote."""
CLOSEST = 0.02
"""Least distance from 0 and 1 of a stated probability."""


def pooled(answers: ArrayLike, form: AnswerForm, weights: ArrayLike | None = None) -> Array:
    """Return the panel's answers, NaN where nobody answered.

    Args:
        answers: Of judges (second axis) to questions (first axis), NaN where there is none.
            ``yes_no``: probabilities (n, n_judges). ``choice``: probabilities of the options
            (n, n_judges, n_options). ``score``: any numbers (n, n_judges), higher is better.
        form: What they answer.
        weights: Of the judges (n_judges,), or of every answer (n, n_judges), not negative; None:
            all alike. Where only judges without weight answered, they count alike.

    Returns:
        ``yes_no``: probabilities (n,). ``choice``: probabilities (n, n_options) that sum to 1.
        ``score``: mean ranks in (0, 1), (n,), ½ in the middle of the judge's own answers.

    Raises:
        ValueError: For an unknown form, another shape, a probability outside [0, 1] or a negative
            weight.
    """
    if form not in FORMS:
        raise ValueError(f"unknown form {form!r}: use one of {', '.join(FORMS)}")
    if form == "choice":
        return _choices(np.asarray(answers, np.float64), weights)
    given = checked_numbers(answers, "answers", 2)
    if form == "yes_no":
        return expit(weighted_means(vote_log_odds(given), weights))
    return weighted_means(mid_ranks(given), weights)


def bare_votes(probabilities: Array) -> Mask:
    """Return which judges gave nothing but 0 and 1, (n_judges,), of answers (n, n_judges, …)."""
    votes = np.isnan(probabilities) | (probabilities == 0.0) | (probabilities == 1.0)
    found: Mask = votes.all(axis=tuple(at for at in range(votes.ndim) if at != 1))
    return found


def vote_log_odds(probabilities: Array, votes: Mask | None = None) -> Array:
    """Return the log-odds (nats) of yes/no answers (n, n_judges) as they are pooled; NaN kept.

    ``votes`` (n_judges,): judges that give bare votes; None: as :func:`bare_votes` says. Raises
    ``ValueError`` for probabilities outside [0, 1].
    """
    _check(probabilities)
    bare = bare_votes(probabilities) if votes is None else votes
    result: Array = np.where(
        bare[None, :], log_odds(probabilities, VOTE), log_odds(probabilities, CLOSEST)
    )
    return result


def option_logs(probabilities: Array, options: ArrayLike, votes: Mask | None = None) -> Array:
    """Return the logarithms of options' probabilities (n, n_judges) as they are pooled; NaN kept.

    ``options`` (n,): how many options each row's question has; ``votes`` as in
    :func:`vote_log_odds`.
    """
    _check(probabilities)
    bare = bare_votes(probabilities) if votes is None else votes
    closest = np.where(bare, VOTE, CLOSEST)[None, :]
    # The rest of a vote is spread over the other options, so that two options are a yes/no.
    floor = closest / np.maximum(np.asarray(options, np.float64) - 1.0, 1.0)[..., None]
    result: Array = np.log(np.clip(probabilities, floor, 1.0 - closest))
    return result


def _check(probabilities: Array) -> None:
    known = probabilities[~np.isnan(probabilities)]
    if ((known < 0.0) | (known > 1.0)).any():
        raise ValueError("probabilities must lie in [0, 1], with NaN where there is no answer")


def weighted_means(values: Array, weights: ArrayLike | None = None) -> Array:
    """Return the weighted mean of each row of ``values`` (n, n_judges), NaN left out, (n,).

    ``weights`` as in :func:`pooled`; NaN without any value.
    """
    there = ~np.isnan(values)
    given = np.ones(values.shape[1]) if weights is None else np.asarray(weights, np.float64)
    if given.shape not in (values.shape[1:], values.shape):
        raise ValueError(f"weights of the shape {given.shape} do not fit answers {values.shape}")
    if not (given >= 0.0).all():
        raise ValueError("weights must not be negative")
    mine = np.where(there, np.broadcast_to(given, values.shape), 0.0)
    # Judges of no weight are better than no answer at all.
    silent = ~(mine.sum(1) > 0.0) & there.any(1)
    mine[silent] = there[silent]
    total = mine.sum(1)
    sums = (mine * np.where(there, values, 0.0)).sum(1)
    result: Array = np.where(total > 0.0, sums / np.where(total > 0.0, total, 1.0), np.nan)
    return result


def _choices(answers: Array, weights: ArrayLike | None) -> Array:
    if answers.ndim != 3:
        raise ValueError(
            f"answers to choices must have the shape (n, n_judges, n_options), not {answers.shape}"
        )
    bare, n_options = bare_votes(answers), np.full(len(answers), answers.shape[2])
    means = np.stack(
        [
            weighted_means(option_logs(one, n_options, bare), weights)
            for one in answers.T.swapaxes(1, 2)
        ],
        axis=1,
    )
    shifted = np.exp(means - means.max(1, keepdims=True, initial=-np.inf))
    result: Array = shifted / shifted.sum(1, keepdims=True)
    return result


def mid_ranks(scores: Array) -> Array:
    """Return the mid-ranks of each column over its own answers, in (0, 1); NaN kept."""
    found = np.full(scores.shape, np.nan)
    for at, column in enumerate(scores.T):
        known = ~np.isnan(column)
        values, codes, counts = np.unique(column[known], return_inverse=True, return_counts=True)
        if len(values):
            middle = np.cumsum(counts) - counts / 2.0
            found[known, at] = middle[codes] / counts.sum()
    return found

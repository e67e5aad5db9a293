"""Pool answers of several judges: choices over options, yes/no over log-odds, scores over ranks.

All three are weighted means over the judges who answered, on the scale on which answers of that
form can be added (:func:`pooled`):

- **yes/no**: the mean of log-odds, the logarithmic opinion pool (Genest & Zidek, 1986);
- **choice**: the mean of the logarithms of the options' probabilities, so that a choice between two
  options is a yes/no;
- **score**: the mean of mid-ranks, since one judge's 7 of 10 may be another one's 5.

A vote of 0 or 1 says nothing of how certain it is. Votes of a judge that gave nothing but votes
count as odds of 9 to 1: then the pool of votes is the share of yes to within a hundredth, as their
mean is. Stated probabilities count as odds of 49 to 1 at most, so that no judge outvotes all
others.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from scenewright.agents.panel.aggregation import Array, Mask, checked_numbers, expit, weighted_means
from scenewright.agents.panel.stacking import log_odds

AnswerForm = Literal["yes_no", "choice", "score"]
FORMS: tuple[AnswerForm, ...] = get_args(AnswerForm)
VOTE = 0.1
"""Distance from 0 and 1 of a vote."""
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
        choices = np.asarray(answers, np.float64)
        if choices.ndim != 3:
            raise ValueError(
                "answers to choices must have the shape (n, n_judges, n_options), "
                f"not {choices.shape}"
            )
        votes = binary_only(choices)
        n_options = np.full(len(choices), choices.shape[2])
        logs = [option_logs(one, n_options, votes) for one in choices.T.swapaxes(1, 2)]
        means = np.stack([weighted_means(one, weights) for one in logs], axis=1)
        shifted = np.exp(means - means.max(1, keepdims=True, initial=-np.inf))
        result: Array = shifted / shifted.sum(1, keepdims=True)
        return result
    given = checked_numbers(answers, "answers", 2)
    if form == "yes_no":
        return expit(weighted_means(vote_log_odds(given), weights))
    return weighted_means(mid_ranks(given), weights)


def binary_only(probabilities: Array) -> Mask:
    """Return which judges gave nothing but 0 and 1, (n_judges,), of answers (n, n_judges, …)."""
    votes = np.isnan(probabilities) | (probabilities == 0.0) | (probabilities == 1.0)
    found: Mask = votes.all(axis=tuple(at for at in range(votes.ndim) if at != 1))
    return found


def vote_log_odds(probabilities: Array, votes: Mask | None = None) -> Array:
    """Return the log-odds (nats) of yes/no answers (n, n_judges) as they are pooled; NaN kept.

    ``votes`` (n_judges,): judges that give only votes; None: as :func:`binary_only` says. Raises
    ``ValueError`` for probabilities outside [0, 1].
    """
    return log_odds(probabilities, _closest(probabilities, votes))


def option_logs(probabilities: Array, options: ArrayLike, votes: Mask | None = None) -> Array:
    """Return the logarithms of options' probabilities (n, n_judges) as they are pooled; NaN kept.

    ``options`` (n,): how many options each row's question has; ``votes`` as in
    :func:`vote_log_odds`.
    """
    closest = _closest(probabilities, votes)
    # The rest of a vote is spread over the other options, so that two options are a yes/no.
    floor = closest / np.maximum(np.asarray(options, np.float64) - 1.0, 1.0)[..., None]
    result: Array = np.log(np.clip(probabilities, floor, 1.0 - closest))
    return result


def _closest(probabilities: Array, votes: Mask | None) -> Array:
    """Return how near each judge's answers come to 0 and 1, (1, n_judges), after a check."""
    known = probabilities[~np.isnan(probabilities)]
    if ((known < 0.0) | (known > 1.0)).any():
        raise ValueError("probabilities must lie in [0, 1], with NaN where there is no answer")
    votes_only = binary_only(probabilities) if votes is None else votes
    closest: Array = np.where(votes_only, VOTE, CLOSEST)[None, :]
    return closest


def mid_ranks(scores: Array) -> Array:
    """Return the mid-ranks of each column over its own answers, in (0, 1); NaN kept."""
    from scipy.stats import rankdata

    ranks = rankdata(scores, axis=0, nan_policy="omit") - 0.5
    result: Array = ranks / np.maximum((~np.isnan(scores)).sum(0), 1)
    return result

"""Pick the best of several pictures: in tables, by simulated judges, and in loops.

A picture picked by a noisy judge looks better to that judge than to any other (the winner's curse).
``gain`` of a reporter is the expected score of the picked picture minus the mean score of the
candidates. Where a judge picks the best of a random n of m candidates, the picture of rank i (from
the lowest) is picked with probability ``C(i − 1, n − 1) / C(m, n)``; pictures with equal scores
share theirs. So the expectation is exact.

If the scores of the picking judge S and of a reporter T are jointly normal, E[T | S] is linear and
the reporter confirms the share ``cov(S, T) / var(S)`` of the gain that S sees, whatever n is
(regression to the mean). :func:`within_slope` is that share.

In a loop the picture kept after round r is the one of rounds 0 to r that the steering judges score
highest, the earliest of equals. A loop that ended keeps what it had, so that all loops count in all
rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import comb

from scenewright.agents.panel.aggregation import Array, dawid_skene, mean_probability
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.statistics.ranks import DECIMALS
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError, Places

LEAST_SLOPE = 0.05
"""A judge below it gives next to no information, and its scores cannot be rescaled."""
Sets = tuple[Places, ...]
"""Numbers of the images of each set of candidates."""


def pick_weights(scores: Array, n: int) -> Array:
    """Return the probability that each of m candidates is the best of a random ``n`` of them.

    Candidates are the last axis of ``scores``, 1 ≤ n ≤ m. Same shape; sums to 1 along the last
    axis.
    """
    given = np.round(np.asarray(scores, float), DECIMALS)
    m = given.shape[-1]
    if not 1 <= n <= m:
        raise PanelStudyError(f"the best of {n} out of {m} candidates: use 1 to {m}")
    below = (given[..., None, :] < given[..., :, None]).sum(-1)
    upto = (given[..., None, :] <= given[..., :, None]).sum(-1)
    best_within = comb(np.arange(m + 1), n) / comb(m, n)
    result: Array = (best_within[upto] - best_within[below]) / (upto - below)
    return result


def candidate_sets(table: AnswerTable, scores: Array) -> tuple[Sets, str]:
    """Images among which one can be picked, and what they are in words.

    The rounds of one item and model where there are rounds, else the images of one item. ``scores``
    (n_images, n_judges): images without a score by every judge are no candidates.
    """
    rounds = len({image.round for image in table.images} - {None}) >= 2
    members: dict[tuple[str, ...], list[int]] = {}
    for at, image in enumerate(table.images):
        if not np.isnan(scores[at]).any():
            key = (image.item, image.model) if rounds else (image.item,)
            members.setdefault(key, []).append(at)
    sets = tuple(np.array(found, np.intp) for found in members.values() if len(found) > 1)
    return sets, "rounds of a loop" if rounds else "pictures of one prompt"


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """What each judge's picking gains, as each reporter sees it."""

    gains: Array
    """(n_sets, n_judges, n_reporters): the judge of the second axis picks; NaN where the reporter
    has no score of a candidate."""
    items: Places
    """Number of each set's item, (n_sets,)."""
    judges: int
    """The first so many reporters are the judges themselves, in the order of the second axis."""

    def own(self) -> Array:
        """As the picking judge sees it, (n_sets, n_judges)."""
        at = np.arange(self.judges)
        found: Array = self.gains[:, at, at]
        return found

    def others(self) -> Array:
        """As the mean of the other judges sees it, (n_sets, n_judges)."""
        total = self.gains[:, :, : self.judges].sum(2)
        found: Array = (total - self.own()) / max(1, self.judges - 1)
        return found


def gains_of(table: AnswerTable, sets: Sets, reporters: Array, judges: int, n: int = 0) -> Gains:
    """Gains of picking the best of a random ``n`` of each set (0: of all of it).

    ``reporters``: (n_images, n_reporters) scores, those of the ``judges`` first. Sets of fewer than
    ``n`` candidates are left out.
    """
    kept = [at for at in sets if len(at) >= n]
    found = np.full((len(kept), judges, reporters.shape[1]), np.nan)
    sizes = np.array([len(at) for at in kept], int)
    for m in np.unique(sizes):
        which = np.flatnonzero(sizes == m)
        scores = reporters[np.stack([kept[at] for at in which])]
        weights = pick_weights(np.moveaxis(scores[:, :, :judges], 1, 2), n or int(m))
        found[which] = np.einsum("gjm,gmr->gjr", weights - 1.0 / m, scores)
    items = np.array([table.item_of_image[at[0]] for at in kept], np.intp)
    return Gains(found, items, judges)


def ratio(items: Places, part: Array, whole: Array, bootstrap: Bootstrap) -> Figure:
    """Sum of ``part`` over that of ``whole``, both (n_rows,), over the rows that have both.

    It has no value unless the interval of the mean of ``whole`` is above 0: the share of nothing
    is no number.
    """
    known = ~np.isnan(part) & ~np.isnan(whole)
    gain = bootstrap.share(items, np.where(known, whole, np.nan))
    if gain.low is None or gain.low <= 0.0:
        return Figure(value=None, n=gain.n)

    def of(sums: Array) -> Array:
        found: Array = np.where(sums[:, 1] > 1e-9, sums[:, 0] / sums[:, 1], np.nan)
        return found

    return bootstrap.figure(items[known], [part[known], whole[known]], of)


def within_slope(
    table: AnswerTable,
    sets: Sets,
    picking: Array,
    reporting: Array,
    bootstrap: Bootstrap,
) -> Figure:
    """Return the slope of ``reporting`` on ``picking``, both (n_images,), within the sets.

    The share of a gain that is confirmed where scores are jointly normal.
    """
    covariance, variance, items = [], [], []
    for at in sets:
        x, y = picking[at], reporting[at]
        if np.isnan(x).any() or np.isnan(y).any():
            continue
        covariance.append(float(((x - x.mean()) * (y - y.mean())).sum()))
        variance.append(float(((x - x.mean()) ** 2).sum()))
        items.append(int(table.item_of_image[at[0]]))
    if not items:
        return Figure(value=None)
    return ratio(np.array(items, np.intp), np.array(covariance), np.array(variance), bootstrap)


def judge_scores(table: AnswerTable) -> Array:
    """Score of each image by each judge alone, (n_images, n_judges); NaN without an answer."""
    columns = [table.image_scores(table.said[:, at]) for at in range(len(table.judges))]
    return np.stack(columns, axis=1)


def true_scores(table: AnswerTable) -> Array:
    """Share of each image's facts that hold, (n_images,); NaN unless the truth of all is known."""
    known = table.image_means(np.isnan(table.truth).astype(float))
    shares = table.image_scores(np.where(np.isnan(table.truth), 0.5, table.truth), void=False)
    result: Array = np.where(known == 0.0, shares, np.nan)
    return result


def group_said(table: AnswerTable, columns: Sequence[int]) -> Array:
    """Mean probability of each fact by some judges, (n_facts,)."""
    return mean_probability(table.said[:, list(columns)])


def slopes(table: AnswerTable, said: Array) -> Array:
    """Return how well each column of ``said`` separates facts that hold from those that do not.

    The difference of its means over them (Yates' discrimination slope), (n_columns,); ``said`` is
    (n_facts, n_columns).

    A score is that much per unit of the true share: scores over slopes are on the scale of the
    truth, and comparable. All 1 where too little truth is known, or a column tells less than
    :data:`LEAST_SLOPE`: then nothing can be brought to one scale.
    """
    sides = []
    for holds in (1.0, 0.0):
        rows = said[table.truth == holds]
        there = ~np.isnan(rows)
        n = there.sum(0)
        sides.append(np.where(n > 0, np.where(there, rows, 0.0).sum(0) / np.maximum(n, 1), np.nan))
    found: Array = sides[0] - sides[1]
    return found if (found >= LEAST_SLOPE).all() else np.ones(said.shape[1])


@dataclass(frozen=True, slots=True)
class PanelLike:
    """What the simulated judges have of those of a table."""

    judges: tuple[SimulatedJudge, ...]
    """With their error rates, of one family."""
    prevalence: float
    """Share of facts that hold."""
    facts: int
    """Facts of a picture."""
    source: str
    """Where the rates come from, in words."""


def panel_like(table: AnswerTable) -> PanelLike:
    """By the truth of ``table`` where it is known, else by Dawid–Skene."""
    holds, fails = table.truth == 1.0, table.truth == 0.0
    if holds.any() and fails.any():
        answered = ~np.isnan(table.votes)
        votes = np.where(answered, table.votes, 0.0)
        sensitivity = (votes[holds].sum(0) + 0.5) / (answered[holds].sum(0) + 1.0)
        specificity = ((answered - votes)[fails].sum(0) + 0.5) / (answered[fails].sum(0) + 1.0)
        prevalence = float(holds.sum() / (holds.sum() + fails.sum()))
        source = "measured on the facts of known truth"
    else:
        found = dawid_skene(table.votes)
        sensitivity, specificity = found.sensitivity, found.specificity
        prevalence = found.prevalence
        source = "estimated from the answers alone (Dawid–Skene)"
    judges = tuple(
        SimulatedJudge(
            id=judge,
            family="one",
            sensitivity=float(np.clip(np.nan_to_num(se, nan=0.5), 0.01, 0.99)),
            specificity=float(np.clip(np.nan_to_num(sp, nan=0.5), 0.01, 0.99)),
        )
        for judge, se, sp in zip(table.judge_ids, sensitivity, specificity, strict=True)
    )
    share = 0.5 if np.isnan(prevalence) else float(np.clip(prevalence, 0.05, 0.95))
    facts = max(1, round(len(table.facts) / max(1, len(np.unique(table.image_of)))))
    return PanelLike(judges, share, facts, source)


def selection_gains(
    gains: Gains, pickers: Iterable[int], bootstrap: Bootstrap
) -> dict[str, Figure]:
    """Return the gain of picking by some judges, in the mean over them.

    ``own``: as the picking judge sees it; ``others``: as the mean of the other judges does; ``gap``
    between them; ``confirmed``: the others' share of what the picking judge sees; ``true``: as the
    first reporter after the judges sees it, with its share ``true_share``.
    """
    at = list(pickers)
    items = np.repeat(gains.items, len(at))
    own, others = gains.own()[:, at].ravel(), gains.others()[:, at].ravel()
    true = gains.gains[:, at, gains.judges].ravel()
    return {
        "own": bootstrap.share(items, own),
        "others": bootstrap.share(items, others),
        "gap": bootstrap.share(items, own - others),
        "confirmed": ratio(items, others, own, bootstrap),
        "true": bootstrap.share(items, true),
        "true_share": ratio(items, true, own, bootstrap),
    }


def selection_gains_by_number(
    table: AnswerTable, sets: Sets, reporters: Array, most: int, bootstrap: Bootstrap
) -> list[dict[str, Figure]]:
    """Return :func:`selection_gains` by all judges from the best of 1, 2 … ``most`` candidates."""
    judges = range(len(table.judges))
    return [
        selection_gains(gains_of(table, sets, reporters, len(judges), n), judges, bootstrap)
        for n in range(1, most + 1)
    ]


def simulated_picks(
    panel: PanelLike,
    rho: float,
    *,
    items: int,
    candidates: int,
    spread: float,
    seed: int,
    resamples: int,
) -> list[dict[str, Figure]]:
    """Return :func:`selection_gains` from the best of 1, 2 … candidates, on the scale of the truth.

    ``rho``: correlation of the judges' errors; ``spread``: of the candidates' quality, as
    ``SimulationSpec.image_spread``.
    """
    spec = SimulationSpec(
        judges=tuple(judge.model_copy(update={"correlation": rho}) for judge in panel.judges),
        n_items=items,
        models=tuple(
            SimulatedModel(id=f"candidate {at + 1}", prevalence=panel.prevalence)
            for at in range(candidates)
        ),
        objects=panel.facts,
        attributes=0,
        relations=0,
        image_spread=spread,
        seed=seed,
    )
    table = simulate(spec)
    scores = judge_scores(table) / slopes(table, table.said)
    sets, _ = candidate_sets(table, scores)
    reporters = np.column_stack([scores, true_scores(table)])
    return selection_gains_by_number(
        table, sets, reporters, candidates, Bootstrap(table.n_items, seed, resamples)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Pictures that loops kept."""

    kept: Places
    """Number of the image that each loop keeps after each round, (n_loops, n_rounds)."""
    drew: Array
    """Whether the loop drew in that round, (n_loops, n_rounds)."""
    items: Places
    """Number of each loop's item, (n_loops,)."""

    @property
    def rounds(self) -> int:
        """How many rounds the longest loop has."""
        return int(self.kept.shape[1])


def trajectories_of(table: AnswerTable, steering: Array) -> Trajectories:
    """Return the loops of ``table``; ``steering``: score by those who steered, (n_images,).

    Models that never drew a second round are no loops. Where one item and model has several
    pictures of a round, as with several seeds, the first of each round make one loop, the second
    another, and so on. Loops without a scored round 0 are left out.
    """
    looped = {image.model for image in table.images if (image.round or 0) > 0}
    seen: dict[tuple[str, str, int], int] = {}
    loops: dict[tuple[str, str, int], dict[int, int]] = {}
    for at, image in enumerate(table.images):
        if image.round is None or image.model not in looped or np.isnan(steering[at]):
            continue
        number = seen.get((image.item, image.model, image.round), 0)
        seen[image.item, image.model, image.round] = number + 1
        loops.setdefault((image.item, image.model, number), {})[image.round] = at
    found = [rounds for rounds in loops.values() if 0 in rounds]
    n = 1 + max((max(rounds) for rounds in found), default=-1)
    kept = np.zeros((len(found), n), np.intp)
    drew = np.zeros((len(found), n))
    score = np.round(steering, DECIMALS)
    for loop, rounds in enumerate(found):
        best = rounds[0]
        for number in range(n):
            if number in rounds:
                drew[loop, number] = 1.0
                if score[rounds[number]] > score[best]:
                    best = rounds[number]
            kept[loop, number] = best
    items = np.array([table.item_of_image[row[0]] for row in kept], np.intp)
    return Trajectories(kept, drew, items)


def rounds_of(
    loops: Trajectories,
    steering: Array,
    reporting: Array,
    bootstrap: Bootstrap,
    units: tuple[float, float] = (1.0, 1.0),
) -> list[dict[str, Any]]:
    """Return what is kept after each round; both scores are (n_images,).

    ``round`` and ``drew``: its number, and the loops that drew in it; ``steering`` and
    ``reporting``: mean scores of the kept pictures; ``gain`` and ``reported``: their changes from
    round 0, divided by the ``units`` of the two scores; ``gap`` between these; ``confirmed``: the
    second as a share of the first, without a value unless there is a gain. Loops in which the
    reporter lacks a score of a kept picture are left out of gains.
    """
    s, r = steering[loops.kept], reporting[loops.kept]
    found = []
    for number in range(loops.rounds):
        known = ~np.isnan(r[:, number] + r[:, 0])
        gain = np.where(known, s[:, number] - s[:, 0], np.nan) / units[0]
        reported = (r[:, number] - r[:, 0]) / units[1]
        values = {
            "steering": s[:, number],
            "reporting": r[:, number],
            "gain": gain,
            "reported": reported,
            "gap": gain - reported,
        }
        found.append(
            {"round": number, "drew": int(loops.drew[:, number].sum())}
            | {name: bootstrap.share(loops.items, of) for name, of in values.items()}
            | {"confirmed": ratio(loops.items, reported, gain, bootstrap)}
        )
    return found


def columns_of(table: AnswerTable, loop_judges: Sequence[str]) -> tuple[list[int], list[int]]:
    """Columns of the judges that steered, and of the others."""
    steered = [at for at, judge in enumerate(table.judge_ids) if judge in set(loop_judges)]
    return steered, [at for at in range(len(table.judges)) if at not in steered]

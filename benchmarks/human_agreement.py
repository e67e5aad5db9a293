"""How well judges and panels agree with people, on TIFA160.

``python -m benchmarks.human_agreement [--quick] [--data FOLDER]``. Rank correlation between one
score an image and its mean human rating, over the 800 images that five text-to-image models drew
of 160 prompts.

- ``spearman.NAME``, ``kendall.NAME`` (tau-b): the single judges scored as in the published
  evaluation, in which a question whose parent was denied counts as no; and the panels of all three.
  ``mean``, ``dawid_skene`` and ``majority`` count every answer, ``default`` is what
  ``Panel()`` and the score card's mean probability give, with questions void under a denied
  parent.
- ``asked.…``: the same on the 795 images that the judges were asked about.
- ``within_prompt.NAME``: Kendall's tau-b among the images of one prompt, mean over the prompts
  whose ratings differ; a score that cannot tell them apart counts 0.
- ``tried.NAME``: Spearman of other ways to beat the plain mean, and ``tried_gain.NAME`` its
  difference from the mean. What is fitted to ratings is cross-validated by prompt.
- ``gain.…``: differences of Spearman on the same resamples.

Intervals are 95% percentile intervals of a cluster bootstrap: whole prompts are drawn, since
images of one prompt share its questions. Scores are kept as they are, not fitted anew.

Every score is an array (n_images,) in which more is better, and an image without questions is below
all others, as in the published evaluation. A question that a judge answered with neither yes nor no
is left to the other judges, and one that none answered is left out of the image's score.
"""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks._harness import RESAMPLES, benchmark, folder, interval, prefixed, release, spread
from benchmarks._published import DSG as PUBLISHED
from benchmarks._published import UNASKED, published_scores
from scenewright.agents.panel.aggregation import dawid_skene, majority_share, mean_probability
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.core.facts import FACT_KINDS
from scenewright.evals.statistics.ranks import DECIMALS, kendall, spearman
from scenewright.evals.studies.panel.aggregators.base import folds_of, questions_of
from scenewright.evals.studies.panel.aggregators.pooling import drawn_to_others
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.sources.dsg_release import JUDGES, load_dsg_release
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

Array = NDArray[np.float64]
QUICK_RESAMPLES = 100
_RIDGE = 10.0


def per_image(table: AnswerTable, values: Array, weights: Array | None = None) -> Array:
    """Return the mean of each image's ``values`` (n_facts,), by ``weights`` (n_facts,) if given."""
    found = table.image_means(values)
    if weights is not None:
        known = np.where(np.isnan(values), np.nan, weights)
        found = table.image_means(values * weights) / table.image_means(known)
    return np.where(np.isnan(found), UNASKED, found)


def judge_scores(table: AnswerTable) -> dict[str, Array]:
    """Return judge → its published score of each image."""
    return {judge: published_scores(table, at) for at, judge in enumerate(table.judge_ids)}


def mean(table: AnswerTable) -> Array:
    """Score by the mean over the facts of the mean probability of the judges."""
    return per_image(table, mean_probability(table.said))


def majority(table: AnswerTable) -> Array:
    """Score by the share of the facts that more than half of the judges confirm."""
    share = majority_share(table.said)
    return per_image(table, np.where(np.isnan(share), np.nan, share > THRESHOLD))


def dawid_skene_posterior(table: AnswerTable) -> Array:
    """Score by the mean over the facts of the Dawid–Skene posterior of all answers."""
    return per_image(table, dawid_skene(table.said).probabilities)


def default(table: AnswerTable, votes: bool = False) -> Array:
    """Score as score cards of the default panel do, by probabilities or by its ``votes``."""
    likely = table.voided(mean_probability(table.said), THRESHOLD)
    if votes:
        likely = np.where(np.isnan(likely), np.nan, likely > THRESHOLD)
    return per_image(table, likely)


def tried(table: AnswerTable) -> dict[str, Array]:
    """Return the scores of each attempt to beat the plain mean, by name.

    Human ratings are used by ``weighted_judges``, ``weighted_kinds``, ``same_question_fitted`` and
    ``ridge`` alone, and never those of the prompt that is scored.
    """
    answers, kinds = table.said, table.kinds
    plain = mean_probability(answers)
    posterior = dawid_skene(answers).probabilities
    asked = asked_images(table)
    judges = judge_scores(table)
    by_kind = np.full(len(answers), np.nan)
    for kind in FACT_KINDS:
        by_kind[kinds == kind] = dawid_skene(answers[kinds == kind]).probabilities

    def ranked(values: Array) -> Array:
        return np.where(asked, rankdata(np.round(values, DECIMALS)), UNASKED)

    weighted_judges = [
        per_image(table, weighted_mean(answers, np.array(w, float)))
        for w in itertools.product((1, 2, 3, 4), repeat=len(judges))
    ]
    weighted_kinds = [
        per_image(table, plain, sum(w * (kinds == k) for w, k in zip(ws, FACT_KINDS, strict=True)))
        for ws in itertools.product((1.0, 2.0, 3.0), repeat=len(FACT_KINDS))
    ]
    pulled = [same_question(table, pull) for pull in (0.0, 0.5, 1.0, 2.0, 4.0)]
    logs = per_image(table, np.log(np.maximum(plain, 0.05)))
    return {
        "unusable_as_no": per_image(table, mean_probability(np.nan_to_num(answers))),
        "mean_of_judges_own_scores": np.mean(list(judges.values()), axis=0),
        "mean_of_judges_ranks": np.mean([ranked(scores) for scores in judges.values()], axis=0),
        "default_yes_no": default(table, votes=True),
        "geometric_mean": np.where(asked, np.exp(logs), UNASKED),
        "dawid_skene_by_kind": per_image(table, by_kind),
        "dawid_skene_halfway": per_image(table, (plain + posterior) / 2.0),
        "same_question": pulled[2],
        "same_question_fitted": chosen_by_other_prompts(table, pulled),
        "weighted_judges": chosen_by_other_prompts(table, weighted_judges),
        "weighted_kinds": chosen_by_other_prompts(table, weighted_kinds),
        "ridge": ridge(table),
    }


def asked_images(table: AnswerTable) -> NDArray[np.bool_]:
    """Return which images have questions, (n_images,)."""
    return np.bincount(table.image_of, minlength=len(table.images)) > 0


def weighted_mean(answers: Array, weights: Array) -> Array:
    """Return the mean over the judges who answered by ``weights`` (n_judges,), (n_facts,)."""
    there = ~np.isnan(answers)
    total = there @ weights
    summed = np.where(there, answers, 0.0) @ weights
    return np.where(total > 0.0, summed / np.where(total > 0.0, total, 1.0), np.nan)


def same_question(table: AnswerTable, pull: float) -> Array:
    """Score by the judges' mean drawn towards that of the same question about other images.

    An image that got a yes to everything is worth less where others of its prompt fail, since
    judges say yes too easily. It uses no human rating, but it needs several images of one prompt.
    """
    return per_image(table, drawn_to_others(table.said, questions_of(table), pull))


def prompts_of(table: AnswerTable) -> list[str]:
    """Return the prompt of each image."""
    return [image.item for image in table.images]


def chosen_by_other_prompts(table: AnswerTable, candidates: Sequence[Array]) -> Array:
    """Return for each fold the candidate with the best Spearman correlation on all other folds.

    ``candidates``: scores (n_images,) on one scale; the first of equally good ones is taken.
    """
    folds, ratings = folds_of(table), table.ratings
    result = np.empty(len(ratings))
    for fold in np.unique(folds):
        rest = folds != fold
        fits = [spearman(scores[rest], ratings[rest]) for scores in candidates]
        result[~rest] = candidates[int(np.argmax(fits))][~rest]
    return result


def ridge(table: AnswerTable) -> Array:
    """Score by how far below full marks ridge regression expects the rating of other prompts.

    Features: for each judge the share of yes to each kind of question (to all of them where the
    image has none of a kind), standardised, with the penalty ``_RIDGE``. Full marks score 0.
    """
    asked, ratings = asked_images(table), table.ratings
    folds = folds_of(table)
    features = _features(table)
    result = np.empty(len(ratings))
    for fold in np.unique(folds):
        train, held = asked & (folds != fold), asked & (folds == fold)
        spread_ = np.maximum(features[train].std(0), 1e-9)
        x = (features[train] - features[train].mean(0)) / spread_
        penalty = _RIDGE * np.eye(x.shape[1])
        slope = np.linalg.solve(x.T @ x + penalty, x.T @ (ratings[train] - ratings[train].mean()))
        # Without the intercept: it differs by fold, most where the held-out prompts are unusual,
        # and would order the many images with full marks by their fold.
        result[held] = (features[held] - 1.0) / spread_ @ slope
    result[~asked] = result[asked].min(initial=0.0) - 1.0
    return result


def _features(table: AnswerTable) -> Array:
    found = []
    for column in table.said.T:
        overall = np.nan_to_num(table.image_means(column), nan=0.5)
        for kind in FACT_KINDS:
            share = table.image_means(np.where(table.kinds == kind, column, np.nan))
            found.append(np.where(np.isnan(share), overall, share))
    return np.array(found).T


def correlations(
    table: AnswerTable,
    scores: Mapping[str, Array],
    draws: ItemResamples,
    correlation: Callable[[Array, Array], float],
) -> dict[str, Array]:
    """Return name → the correlation on all images, then on each resample: (1 + resamples,)."""

    def of(values: Array) -> Array:
        whole = correlation(values, table.ratings)
        return np.array(
            [whole, *draws.drawn(lambda at: correlation(values[at], table.ratings[at]))]
        )

    return {name: of(values) for name, values in scores.items()}


def within_prompt(scores: Array, ratings: Array, prompts: Sequence[str]) -> list[float]:
    """Return tau-b among the images of each prompt whose ratings differ; 0 for equal scores."""
    names = np.array(prompts)
    found = []
    for name in sorted(set(prompts)):
        these = names == name
        if np.ptp(np.round(ratings[these], DECIMALS)) > 0.0:
            found.append(np.nan_to_num(kendall(scores[these], ratings[these])))
    return [float(value) for value in found]


def measure(table: AnswerTable, count: int) -> dict[str, Any]:
    """Return all figures, with ``count`` resamples behind the intervals."""
    ratings, prompts = table.ratings, prompts_of(table)
    main = {
        **judge_scores(table),
        "mean": mean(table),
        "dawid_skene": dawid_skene_posterior(table),
        "majority": majority(table),
        "default": default(table),
    }
    attempts = tried(table)
    draws = ItemResamples(table, count)
    ranks = correlations(table, {**main, **attempts}, draws, spearman)
    taus = correlations(table, main, draws, kendall)
    best = max(JUDGES, key=lambda judge: ranks[judge][0])
    gains = {
        "mean_over_best_judge": ("mean", best),
        "default_over_best_judge": ("default", best),
        "mean_over_majority": ("mean", "majority"),
        "mean_over_dawid_skene": ("mean", "dawid_skene"),
    }
    figures: dict[str, Any] = {f"spearman.{name}": spread(ranks[name]) for name in main}
    figures |= {f"kendall.{name}": spread(taus[name]) for name in main}
    for kind, values in PUBLISHED.items():
        figures |= prefixed(f"published.{kind}.", values)
    for name, (first, second) in gains.items():
        figures[f"gain.{name}"] = spread(ranks[first] - ranks[second])
    asked = asked_images(table)
    for name, scores in main.items():
        figures[f"asked.spearman.{name}"] = spearman(scores[asked], ratings[asked])
        figures[f"asked.kendall.{name}"] = kendall(scores[asked], ratings[asked])
    for name, scores in {**main, "same_question": attempts["same_question"]}.items():
        figures[f"within_prompt.{name}"] = interval(within_prompt(scores, ratings, prompts))
    for name in attempts:
        figures[f"tried.{name}"] = spread(ranks[name])
        figures[f"tried_gain.{name}"] = spread(ranks[name] - ranks["mean"])
    full = 1.0 - 10.0**-DECIMALS
    for name in ("mean", "majority"):
        figures[f"full_marks.{name}"] = float((main[name][asked] >= full).mean())
    model = dawid_skene(table.said)
    for at, judge in enumerate(JUDGES):
        figures[f"dawid_skene.sensitivity.{judge}"] = float(model.sensitivity[at])
        figures[f"dawid_skene.specificity.{judge}"] = float(model.specificity[at])
    figures |= {"prompts": len(set(prompts)), "asked_images": int(asked.sum())}
    return figures | {"resamples": count}


def remarks(figures: Mapping[str, Any]) -> list[str]:
    """Say in sentences what the figures say."""
    off = max(
        abs(figures[f"{kind}.{judge}"]["mean"] - value)
        for kind, values in PUBLISHED.items()
        for judge, value in values.items()
    )
    kept, hard = figures["spearman.mean"]["mean"], figures["spearman.majority"]["mean"]
    lines = [f"Single judges: at most {off:.4f} off the published correlations."]
    if hard < kept:
        lines.append(
            f"Majority comes out below the mean ({hard:.3f} against {kept:.3f}): hard votes throw "
            "away what partial agreement says. "
            f"{figures['full_marks.majority']:.0%} of the images get full marks from the majority, "
            f"{figures['full_marks.mean']:.0%} from the mean, and equal scores cannot be ranked."
        )
    else:
        lines.append(f"Majority ({hard:.3f}) does not come out below the mean ({kept:.3f}).")
    gains = {k.partition(".")[2]: v for k, v in figures.items() if k.startswith("tried_gain.")}
    above = [name for name, value in gains.items() if value["low"] > 0.0]
    lines.append(
        f"Clearly better than the mean, of {len(gains)} ways that were tried: "
        f"{', '.join(above) or 'none'}."
    )
    best = max(JUDGES, key=lambda judge: figures[f"spearman.{judge}"]["mean"])
    lines.append(
        "Among the images of one prompt (tau-b): "
        + ", ".join(
            f"{name} {figures[f'within_prompt.{name}']['mean']:.3f}"
            for name in (best, "mean", "default", "same_question")
        )
        + "."
    )
    return lines


@benchmark(
    f"{QUICK_RESAMPLES} resamples, not {RESAMPLES}",
    measures=("scenewright.agents.panel.aggregation",),
    refused=(PanelStudyError,),
    data=folder("folder of the DSG release, if not beside the repository"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the agreement of all scores."""
    table = load_dsg_release(release(options, "dsg"))
    figures = measure(table, QUICK_RESAMPLES if options.quick else RESAMPLES)
    print(*remarks(figures), sep="\n")
    return len(table.images), figures


if __name__ == "__main__":
    main()

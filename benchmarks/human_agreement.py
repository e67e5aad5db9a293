"""How well judges and panels agree with people, on TIFA160.

``python -m benchmarks.human_agreement [--quick] [--data FOLDER]``. Rank correlation between one
score an image and its mean human rating, over the 800 images that five text-to-image models drew
of 160 prompts (see :mod:`benchmarks._tifa160`).

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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau, rankdata

from benchmarks._dsg_command import given_release
from benchmarks._panel_scores import (
    by_card,
    dawid_skene_posterior,
    judge_scores,
    majority,
    mean,
    stacked,
    tried,
)
from benchmarks._report import interval, report
from benchmarks._tifa160 import DATA, RatedImage, load
from scenewright.agents.panel.aggregation import dawid_skene
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.sources.dsg_release import JUDGES
from scenewright.evals.studies.peers.published import DSG as PUBLISHED

RESAMPLES = 2000
QUICK_RESAMPLES = 100
PANELS = ("mean", "dawid_skene", "majority", "default")
_DECIMALS = 9
"""Scores this close are ties: means of the same answers differ in their last bit."""

Array = NDArray[np.float64]
Correlation = Callable[[Array, Array], float]


def spearman(scores: ArrayLike, ratings: ArrayLike) -> float:
    """Spearman's rank correlation of two arrays (n,); ties share their mean rank.

    Raises ``ValueError`` for arrays of different or no length, NaN, or one constant array.
    """
    first, second = (rankdata(values) for values in _paired(scores, ratings))
    return float(np.corrcoef(first, second)[0, 1])


def kendall(scores: ArrayLike, ratings: ArrayLike) -> float:
    """Kendall's tau-b of two arrays (n,), which corrects for ties.

    Raises ``ValueError`` as :func:`spearman` does.
    """
    first, second = _paired(scores, ratings)
    return float(kendalltau(first, second).statistic)


def _paired(scores: ArrayLike, ratings: ArrayLike) -> tuple[Array, Array]:
    first, second = (np.round(np.asarray(v, float), _DECIMALS) for v in (scores, ratings))
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"scores {first.shape} and ratings {second.shape} do not fit together")
    if np.isnan(first).any() or np.isnan(second).any():
        raise ValueError("an image without a score or rating cannot be ranked: leave it out")
    if not len(first) or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        raise ValueError("there is nothing to rank: all values are the same")
    return first, second


def resamples(prompts: Sequence[str], count: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """``count`` resamples of images: prompts drawn with replacement, each with all its images."""
    members: dict[str, list[int]] = {}
    for at, prompt in enumerate(prompts):
        members.setdefault(prompt, []).append(at)
    groups = [np.array(places) for places in members.values()]
    picks = np.random.default_rng(seed).integers(0, len(groups), (count, len(groups)))
    return [np.concatenate([groups[at] for at in row]) for row in picks]


def correlations(
    scores: Mapping[str, Array],
    ratings: Array,
    samples: Sequence[NDArray[np.int64]],
    correlation: Correlation,
) -> dict[str, tuple[float, Array]]:
    """Name → the correlation on all images, and on each of ``samples`` (n_samples,)."""
    return {
        name: (
            correlation(values, ratings),
            np.array([correlation(values[sample], ratings[sample]) for sample in samples]),
        )
        for name, values in scores.items()
    }


def figure(found: tuple[float, Array]) -> dict[str, float]:
    """A value with the 95% interval of its resamples."""
    value, drawn = found
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"mean": value, "low": float(low), "high": float(high)}


def gain(first: tuple[float, Array], second: tuple[float, Array]) -> dict[str, float]:
    """``first − second``, paired on the same resamples."""
    return figure((first[0] - second[0], first[1] - second[1]))


def within_prompt(scores: Array, ratings: Array, prompts: Sequence[str]) -> list[float]:
    """Kendall's tau-b among the images of each prompt whose ratings differ; 0 for equal scores."""
    names = np.array(prompts)
    found = []
    for name in sorted(set(prompts)):
        these = names == name
        if np.ptp(np.round(ratings[these], _DECIMALS)) > 0.0:
            same = np.ptp(np.round(scores[these], _DECIMALS)) == 0.0
            found.append(0.0 if same else kendall(scores[these], ratings[these]))
    return found


def measure(images: Sequence[RatedImage], count: int) -> dict[str, Any]:
    """All figures, with ``count`` resamples behind the intervals."""
    ratings = np.array([image.rating for image in images])
    prompts = [image.prompt for image in images]
    main = {
        **judge_scores(images),
        "mean": mean(images),
        "dawid_skene": dawid_skene_posterior(images),
        "majority": majority(images),
        "default": by_card(images, lambda card: card.expected_recall),
    }
    attempts = tried(images, ratings)
    samples = resamples(prompts, count)
    ranks = correlations({**main, **attempts}, ratings, samples, spearman)
    taus = correlations(main, ratings, samples, kendall)
    best = max(JUDGES, key=lambda judge: ranks[judge][0])

    figures: dict[str, Any] = {f"spearman.{name}": figure(ranks[name]) for name in main}
    figures |= {f"kendall.{name}": figure(taus[name]) for name in main}
    for kind, values in PUBLISHED.items():
        figures |= {f"published.{kind}.{judge}": value for judge, value in values.items()}
    figures |= {
        "gain.mean_over_best_judge": gain(ranks["mean"], ranks[best]),
        "gain.default_over_best_judge": gain(ranks["default"], ranks[best]),
        "gain.mean_over_majority": gain(ranks["mean"], ranks["majority"]),
        "gain.mean_over_dawid_skene": gain(ranks["mean"], ranks["dawid_skene"]),
    }
    asked = np.array([bool(image.questions) for image in images])
    for name in main:
        scores = main[name][asked]
        figures[f"asked.spearman.{name}"] = spearman(scores, ratings[asked])
        figures[f"asked.kendall.{name}"] = kendall(scores, ratings[asked])
    for name, scores in {**main, "same_question": attempts["same_question"]}.items():
        figures[f"within_prompt.{name}"] = interval(within_prompt(scores, ratings, prompts))
    for name in attempts:
        figures[f"tried.{name}"] = figure(ranks[name])
        figures[f"tried_gain.{name}"] = gain(ranks[name], ranks["mean"])

    full = 1.0 - 10.0**-_DECIMALS
    for name in ("mean", "majority"):
        figures[f"full_marks.{name}"] = float((main[name][asked] >= full).mean())
    model = dawid_skene(stacked(images))
    for at, judge in enumerate(JUDGES):
        figures[f"dawid_skene.sensitivity.{judge}"] = float(model.sensitivity[at])
        figures[f"dawid_skene.specificity.{judge}"] = float(model.specificity[at])
    figures |= {"prompts": len(set(prompts)), "asked_images": int(asked.sum())}
    figures["resamples"] = count
    return figures


def remarks(figures: Mapping[str, Any]) -> list[str]:
    """What the figures say, in sentences."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    found = given_release(
        __doc__,
        arguments,
        beside=DATA,
        resamples=(RESAMPLES, QUICK_RESAMPLES),
        load=load,
        refused=PanelStudyError,
    )
    if found is None:
        return
    images, resamples, quick = found
    figures = measure(images, resamples)
    report("human_agreement", len(images), figures, quick)
    print(*remarks(figures), sep="\n")


if __name__ == "__main__":
    main()

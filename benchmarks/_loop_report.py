"""The loop's figures for people: a table, a picture, and the tables of the results page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks._miniature_scenes import LEVELS
from benchmarks._strategies import FEEDBACK_ROUNDS, IMAGES, READINGS

NAMES: dict[str, str] = {
    "triplets": "triplets, one image",
    "composition": "composition, one image",
    "feedback_1": "feedback, 1 round",
    "feedback_3": f"feedback, {FEEDBACK_ROUNDS} rounds",
    "whole_3": f"feedback, {FEEDBACK_ROUNDS} rounds, whole picture (the paper's)",
    "lambda1_0": f"feedback, {FEEDBACK_ROUNDS} rounds, λ1 = 0",
    "lambda1_0_n": f"feedback, {IMAGES - 1} rounds, λ1 = 0",
    "best_of_n": f"best of up to {IMAGES} seeds",
}
"""Strategies in words, in the order of tables and pictures."""

_MEASURES = {
    "sgscore": "SGScore",
    "objects": "objects",
    "attributes": "attributes",
    "relations": "relations",
    "facts": "all facts",
}
_GAINS = {
    "composition": "composition − triplets",
    "feedback": f"feedback ({FEEDBACK_ROUNDS}) − composition",
    "feedback_vs_best_of_n": f"feedback ({FEEDBACK_ROUNDS}) − best of {IMAGES} seeds",
    "whole_vs_best_of_n": f"feedback ({FEEDBACK_ROUNDS}), whole picture − best of {IMAGES} seeds",
    "feedback_vs_whole": f"feedback ({FEEDBACK_ROUNDS}) − the same on the whole picture",
    "feedback_vs_lambda1_0": f"feedback ({FEEDBACK_ROUNDS}) − as many rounds with λ1 = 0",
    "feedback_vs_lambda1_0_n": f"feedback ({FEEDBACK_ROUNDS}) − as many images with λ1 = 0",
}
_COLORS = ("#9aa0a6", "#5f6368", "#f5b301", "#d9480f", "#9c36b5", "#1c7ed6", "#1098ad", "#2b8a3e")
_MARKERS = ("s", "o", "^", "D", "X", "v", "<", "P")


def shown(figure: Any, digits: int = 3) -> str:
    """``0.873 [0.851, 0.894]``; a dash if there is none."""
    if figure is None:
        return "–"
    numbers = [f"{figure[key]:.{digits}f}".replace("-", "−") for key in ("mean", "low", "high")]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def print_tables(figures: Mapping[str, Any], console: Console) -> None:
    """Scores by strategy, by level, and the differences; as judged and corrected."""
    corrected = any(key.startswith("corrected.") for key in figures)
    for prefix in ("", "corrected.") if corrected else ("",):
        title = "corrected for the judge's errors" if prefix else "as judged"
        scores = Table("strategy", *_MEASURES.values(), "images", title=f"Scores, {title}")
        levels = Table("strategy", *LEVELS, title=f"SGScore by level, {title}")
        for name, words in NAMES.items():
            scores.add_row(
                words,
                *(shown(figures.get(f"{prefix}{measure}.{name}")) for measure in _MEASURES),
                f"{figures[f'images.{name}']['mean']:.2f}",
            )
            levels.add_row(
                words,
                *(shown(figures.get(f"{prefix}{level}.sgscore.{name}")) for level in LEVELS),
            )
        gains = Table("difference", "SGScore", "all facts", title=f"Paired differences, {title}")
        for name, words in _GAINS.items():
            gains.add_row(
                words,
                *(shown(figures.get(f"{prefix}gain.{part}{name}")) for part in ("", "facts_")),
            )
        for table in (scores, levels, gains):
            console.print(table)


_CLAIMS = {
    "composition": ("The composed prompt", "bare triplets"),
    "feedback": (f"Feedback ({FEEDBACK_ROUNDS} rounds)", "the composed prompt alone"),
    "feedback_vs_best_of_n": (
        f"Feedback ({FEEDBACK_ROUNDS} rounds)",
        f"the best of as many seeds ({IMAGES} images at most)",
    ),
    "whole_vs_best_of_n": (
        f"Feedback on the whole picture ({FEEDBACK_ROUNDS} rounds)",
        "the best of as many seeds",
    ),
    "feedback_vs_lambda1_0": ("Feedback", "as many rounds without the reference (λ1 = 0)"),
    "feedback_vs_lambda1_0_n": ("Feedback", "as many images without the reference (λ1 = 0)"),
}


def verdicts(figures: Mapping[str, Any]) -> list[str]:
    """What the intervals of the SGScore's differences allow to say, one sentence each."""
    lines = []
    for name, (ours, theirs) in _CLAIMS.items():
        gain = figures.get(f"gain.{name}")
        if gain is None:
            continue
        if gain["low"] > 0:
            verb = "beats"
        elif gain["high"] < 0:
            verb = "falls behind"
        else:
            verb = "is not clearly better or worse than"
        by_level = [
            f"{level} {shown(figures[key])}"
            for level in LEVELS
            if name == "feedback_vs_best_of_n" and (key := f"{level}.gain.{name}") in figures
        ]
        told = f"{shown(gain)} SGScore" + (f" ({', '.join(by_level)})" if by_level else "")
        lines.append(f"{ours} {verb} {theirs}: {told}.")
    return lines


def markdown(figures: Mapping[str, Any], n: int, date: str) -> str:
    """Return the tables of the results page: by strategy, and the differences."""
    corrected = "corrected.sgscore.composition" in figures
    titles = ["strategy", "images", "SGScore", *LEVELS, "all facts"]
    if corrected:
        titles.append("SGScore, corrected")
    lines = [
        f"| {' | '.join(titles)} |",
        f"|{' --- |' * len(titles)}",
    ]
    for name, words in NAMES.items():
        cells = [
            words,
            f"{figures[f'images.{name}']['mean']:.1f}",
            shown(figures.get(f"sgscore.{name}")),
            *(
                f"{figures[key]['mean']:.3f}" if key in figures else "–"
                for key in (f"{level}.sgscore.{name}" for level in LEVELS)
            ),
            shown(figures.get(f"facts.{name}")),
        ]
        if corrected:
            cells.append(shown(figures.get(f"corrected.sgscore.{name}")))
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| gain (paired) | SGScore | all facts |", "| --- | --- | --- |"]
    for name, words in _GAINS.items():
        pair = (shown(figures.get(f"gain.{part}{name}")) for part in ("", "facts_"))
        lines.append(f"| {words} | {' | '.join(pair)} |")
    lines += ["", *(f"- {line}" for line in verdicts(figures))]
    lines += [
        "",
        f"{n} held-out scenes of the miniature world, as many of each level, {date}; in brackets "
        "95% intervals. Scored by judges that the loop never saw.",
    ]
    return "\n".join(lines)


def draw(figures: Mapping[str, Any], path: Path) -> None:
    """The picture: SGScore and share of all facts, by strategy, for each level and overall."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    groups = [(f"{level}.", level) for level in LEVELS] + [("", "all")]
    with plt.rc_context({"font.size": 9, "svg.hashsalt": "loop"}):
        figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
        for axis, (measure, title) in zip(
            axes, (("sgscore", "SGScore"), ("facts", "share of all facts that hold")), strict=True
        ):
            for at, name in enumerate(READINGS):
                found = [
                    (group + (at - (len(READINGS) - 1) / 2) * 0.1, figures[key])
                    for group, (prefix, _) in enumerate(groups)
                    if (key := f"{prefix}{measure}.{name}") in figures
                ]
                means = [value["mean"] for _, value in found]
                below = [value["mean"] - value["low"] for _, value in found]
                above = [value["high"] - value["mean"] for _, value in found]
                axis.errorbar(
                    [place for place, _ in found],
                    means,
                    yerr=[below, above],
                    fmt=_MARKERS[at],
                    color=_COLORS[at],
                    markersize=5,
                    capsize=2.5,
                    linewidth=1.2,
                    label=NAMES[name],
                )
            axis.set_xticks(range(len(groups)), [words for _, words in groups])
            axis.set_title(title)
            axis.grid(axis="y", color="#e3e5e8", linewidth=0.8)
            axis.set_axisbelow(True)
            axis.spines[["top", "right"]].set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        plt.close(figure)

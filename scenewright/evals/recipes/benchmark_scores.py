"""Scores of a public benchmark as published, with ours beside them, and what was not scored.

Intervals are 95 % percentile bootstraps over items, each drawn with all of its pictures; a weighted
whole is drawn class by class, and scores of pooled questions are ratios of sums. Loop and best of N
are compared on the items that both have scored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from scenewright.core.flushing import write_text
from scenewright.evals.errors import EvalError
from scenewright.evals.recipes.recipe import BEST, LOOP, OURS, Recipe, Score, load_recipe
from scenewright.evals.runner.independence import self_report_notes
from scenewright.evals.runner.served_versions import version_notes
from scenewright.evals.statistics.estimates import (
    LEVEL,
    RESAMPLES,
    Array,
    Estimate,
    difference,
    item_means,
    mean,
    nothing,
)
from scenewright.evals.store.results import Results
from scenewright.evals.studies.layout import Cell, Column, Layout, Row, as_csv

if TYPE_CHECKING:
    import pandas as pd

STEM = "benchmark"
ALL = "all"
ANSWERED = "answered:"
"""Begins the parts that count the answered questions of a type."""
_BLOCK, _LONGEST = 200, 120


@dataclass(frozen=True, slots=True)
class BenchmarkScores:
    """What a benchmark says of the arms of an evaluation."""

    recipe: Recipe
    table: Layout
    """Scores and cost by arm: the published ones first, the leading one at the top, then ours."""
    unscored: tuple[str, ...]
    """What was not drawn or scored, a sentence each."""
    notes: tuple[str, ...]
    """Self-reports, and changes of a judge's version."""

    def page(self) -> str:
        """Return all of it as Markdown."""
        recipe = self.recipe
        lines = [
            f"# {recipe.title}",
            f"{recipe.about} {recipe.paper}. Rules: {recipe.version}. Prompts: {recipe.page}; "
            f"licence: {recipe.licence}. Published with: {recipe.judge}",
            self.table.markdown(),
            "Means over items with 95 % intervals by bootstrap over items; in brackets the items.",
        ]
        for title, said in (
            ("Not scored", self.unscored or ("Everything was drawn and scored.",)),
            ("Differs from the published protocol", recipe.differs),
            ("Not tried", recipe.untried),
            ("Notes", self.notes),
        ):
            lines += [f"## {title}", "\n".join(f"- {one}" for one in said)] if said else []
        return "\n\n".join(lines) + "\n"


def benchmark_scores(results: Results) -> BenchmarkScores:
    """Return the scores of the benchmark that an evaluation is.

    Raises ``EvalError`` if it is none, or has no scores.
    """
    name = results.manifest["config"].get("recipe", "")
    recipe = load_recipe(name) if name else None
    if recipe is None:
        why = f"there is no recipe {name}" if name else "`scenewright eval recipes` lists them"
        raise EvalError(f"{results.folder} is not an evaluation of a recipe: {why}")
    frame = results.frame("scores", ["item", "backend", "condition", "seed", "metric", "part",
                                     "value", "reason", "unscored"])  # fmt: skip
    items = results.frame("items", ["item", "group", "category"]).drop_duplicates("item")
    rounds = results.frame("rounds", ["item", "backend", "condition", "seed", "state", "kept",
                                      "reason", "image", "reference_image", "images_drawn",
                                      "work"])  # fmt: skip
    if frame.empty:
        raise EvalError(f"{results.folder} holds no scores: finish it with `scenewright eval run`")
    for each in (frame, rounds):
        each["way"] = each["backend"] + "/" + each["condition"]
    names = (*(score.metric for score in recipe.scores), OURS)
    read = _Read(frame, rounds, items.set_index("item").fillna(""), tuple(dict.fromkeys(names)))
    rows = [row for score in recipe.scores for row in read.rows(score)]
    rows += read.rows(Score(name="ours: grounded facts", metric=OURS))
    rows += read.costs()
    columns = [Column(key=arm, title=arm, digits=3) for arm in read.arms]
    columns += [Column(key=key, title=key, digits=3) for key in read.pairs]
    table = Layout(
        id=recipe.name,
        title=recipe.title,
        head="Score",
        columns=tuple(columns),
        rows=tuple(rows),
        of_paper=False,
    )
    told = (*self_report_notes(results.manifest), *version_notes(results.manifest))
    return BenchmarkScores(recipe, table, tuple(read.unscored()), tuple(told))


class _Read:
    """Scores of an evaluation by metric, part and arm."""

    def __init__(
        self,
        frame: pd.DataFrame,
        rounds: pd.DataFrame,
        items: pd.DataFrame,
        metrics: Sequence[str],
    ) -> None:
        self._frame, self._rounds, self.items, self._metrics = frame, rounds, items, metrics
        self.arms = tuple(rounds["way"].unique())
        ends = {f"{arm.rpartition('/')[0]}: loop − best of N" for arm in self.arms
                if arm.endswith(f"/{LOOP}")}  # fmt: skip
        self.pairs = {
            end: tuple(f"{end.partition(': ')[0]}/{one}" for one in (LOOP, BEST))
            for end in sorted(ends)
        }
        self._seeds = sorted(rounds["seed"].unique())

    def values(self, metric: str, part: str, arm: str) -> Array:
        """Return the values (items, seeds) of a part of a metric in ``arm``; NaN where none is."""
        frame = self._frame
        mine = frame[(frame["metric"] == metric) & (frame["part"] == part) & (frame["way"] == arm)]
        wide = mine.pivot_table(index="item", columns="seed", values="value", aggfunc="mean")
        found: Array = wide.reindex(self.items.index, columns=self._seeds).to_numpy(np.float64)
        return found

    def rows(self, score: Score) -> list[Row]:
        """Return the whole and the classes of ``score``, or a row a part where it has several."""
        if score.part.endswith("*"):
            parts = self._frame["part"][self._frame["metric"] == score.metric]
            begin = score.part[:-1]
            named = sorted({p.removeprefix(begin) for p in parts.dropna() if p.startswith(begin)})
            return [
                Row.measured(
                    f"{score.name}/{name}",
                    f"{score.name}: {name}",
                    [self._pooled(score.metric, begin, name, arm) for arm in self.arms]
                    + [None for _ in self.pairs],
                )
                for name in named
            ]
        classes = self._classes(score)
        every = np.ones(len(self.items), bool)
        if score.labelled:
            every = np.logical_or.reduce(list(classes.values()) or [~every])
        whole = [
            self._weighted(score, classes, arm) if score.weights else self._mean(score, every, arm)
            for arm in self.arms
        ]
        rows = [self._row(score, ALL, score.name, whole, every)]
        for name, mine in classes.items():
            means = [self._mean(score, mine, arm) for arm in self.arms]
            rows.append(self._row(score, name, f"{score.name}: {name}", means, mine))
        return rows

    def _row(self, score: Score, key: str, title: str, found: Sequence[Estimate], mine: Any) -> Row:
        gaps = []
        for loop, best in self.pairs.values():
            a, b = (self.values(score.metric, score.part, arm)[mine] for arm in (loop, best))
            # Items of other weights have no plain difference.
            plain = not (score.weights and key == ALL)
            gaps.append(difference(a, b) if plain else None)
        cells = tuple(
            Cell(measured=one, note=f"({one.n})" if one is not None and one.n else "")
            for one in (*found, *gaps)
        )
        return Row(key=f"{score.name}/{key}", title=title, cells=cells)

    def _classes(self, score: Score) -> dict[str, Any]:
        """Return class → whether each item is of it."""
        if not score.by:
            return {}
        said = [set(filter(None, text.split(", "))) for text in self.items[score.by]]
        names = list(score.weights) or sorted(set().union(*said), key=_in_order)
        return {name: np.array([name in mine for mine in said]) for name in names}

    def _mean(self, score: Score, mine: Any, arm: str) -> Estimate:
        return mean(self.values(score.metric, score.part, arm)[mine])

    def _weighted(self, score: Score, classes: Mapping[str, Any], arm: str) -> Estimate:
        per_item = item_means(self.values(score.metric, score.part, arm))
        groups = []
        for name, weight in score.weights.items():
            known = per_item[classes[name] & ~np.isnan(per_item)]
            if not len(known):
                return nothing(f"nothing of {name} was scored: the whole is a sum of all classes")
            groups.append((weight, known, np.ones(len(known))))
        return ratio(groups)

    def _pooled(self, metric: str, begin: str, name: str, arm: str) -> Estimate:
        counts = np.nan_to_num(self.values(metric, f"{ANSWERED}{name}", arm))
        shares = np.nan_to_num(self.values(metric, f"{begin}{name}", arm))
        there = counts.sum(1) > 0
        if not there.any():
            return nothing("no question of it was answered")
        return ratio([(1.0, (shares * counts).sum(1)[there], counts.sum(1)[there])])

    def costs(self) -> list[Row]:
        """Return pictures and work of the denoiser for an item, by arm.

        A picture with which several arms begin is drawn once, and counts in each.
        """
        drawn = self._rounds[self._rounds["state"] != "failed"].copy()
        drawn["pictures"] = 1.0 + (drawn["reference_image"].fillna("") != "")
        drawn["work"] = drawn["work"].fillna(drawn.groupby("image")["work"].transform("max"))
        shared = drawn["images_drawn"] == 0
        drawn.loc[shared, "work"] = drawn.groupby("image")["work"].transform("max")[shared]
        rows = []
        for key, title in (
            ("pictures", "pictures of an item"),
            ("work", "denoiser's steps for an item"),
        ):
            # An item with a picture of unknown work has none that is known.
            sums = drawn.groupby(["way", "item", "seed"])[key].agg(
                lambda each: each.sum(skipna=False)
            )
            found = []
            for arm in self.arms:
                of_arm = sums[arm].unstack("seed") if arm in sums.index else None
                found.append(mean(np.zeros((0, 1)) if of_arm is None
                                  else of_arm.to_numpy(np.float64)))  # fmt: skip
            rows.append(Row.measured(key, title, [*found, *(None for _ in self.pairs)]))
        return rows

    def unscored(self) -> list[str]:
        """Return what was not drawn or scored, by arm, metric and reason."""
        found = []
        for arm in self.arms:
            mine = self._rounds[self._rounds["way"] == arm]
            failed = mine[mine["state"] == "failed"]
            drawn = len(mine[mine["state"] != "failed"].drop_duplicates(["item", "seed"]))
            undrawn = len(self.items) * len(self._seeds) - drawn - len(failed)
            if undrawn:
                found.append(
                    f"{arm}: {undrawn} pictures are not there (a loop needs a scene that is sure; "
                    "or the evaluation is not finished)"
                )
            if len(failed):
                found.append(f"{arm}: {len(failed)} drawings failed ({_counted(failed['reason'])})")
            scores = self._frame[(self._frame["way"] == arm) & (self._frame["part"] == "")]
            for metric in self._metrics:
                rows = scores[scores["metric"] == metric]
                if drawn > len(rows):
                    found.append(f"{arm}: {drawn - len(rows)} pictures have no score of {metric} "
                                 "yet: the same `eval run` goes on")  # fmt: skip
                lost = rows[rows["value"].isna()]
                partly = int((rows["value"].notna() & (rows["unscored"] > 0)).sum())
                if len(lost):
                    why = _counted(lost["reason"])
                    found.append(
                        f"{arm}: {len(lost)} of {len(rows)} pictures unscored by {metric} ({why})"
                    )
                if partly:
                    found.append(f"{arm}: {partly} scores of {metric} leave out failed answers")
        return found


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return the key by which names sort with their numbers as numbers: "3 atoms", "10 atoms"."""
    return [(int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]


def _counted(reasons: pd.Series) -> str:
    short = (shorten(why, _LONGEST, placeholder=" …") for why in reasons.fillna(""))
    return "; ".join(f"{why}: {n}" for why, n in Counter(short).most_common(3))


def ratio(groups: Sequence[tuple[float, Array, Array]], seed: int = 0) -> Estimate:
    """Return Σ weight · Σ numerators / Σ denominators, with a bootstrap over the items of a group.

    A group is (weight, numerators, denominators), the last two (n_items,).
    """
    value = sum(weight * a.sum() / b.sum() for weight, a, b in groups)
    n = sum(len(a) for _, a, _ in groups)
    if n < 2:
        return Estimate(value=float(value), n=n)
    rng = np.random.default_rng(seed)
    drawn = np.zeros(RESAMPLES)
    for weight, a, b in groups:
        for at in range(0, RESAMPLES, _BLOCK):
            picks = rng.integers(len(a), size=(_BLOCK, len(a)))
            drawn[at : at + _BLOCK] += weight * a[picks].sum(1) / b[picks].sum(1)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value=float(value), low=float(low), high=float(high), n=n)


def write(found: BenchmarkScores, folder: Path) -> Path:
    """Write ``benchmark.md`` and ``.csv`` into ``folder``; the page.

    Raises ``EvalError`` if that fails.
    """
    page = folder / f"{STEM}.md"
    try:
        write_text(page, found.page().rstrip("\n"))
        write_text(page.with_suffix(".csv"), as_csv((found.table,)).rstrip("\n"))
    except OSError as error:
        raise EvalError(f"{folder} cannot be written: {error.strerror or error}") from error
    return page

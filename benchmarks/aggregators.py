"""Is any way of combining judges better than their plain mean?

``python -m benchmarks.aggregators [--quick] [--data FOLDER] [--folder FOLDER]``. All aggregators
of the panel studies (:mod:`scenewright.evals.studies.panel.aggregators`), on three kinds of tables:

- ``miniature``: the six judges of the miniature answer labelled facts of paintings that no training
  saw, put together to good and bad panels with and without noise
  (:mod:`benchmarks._aggregator_tables`); what learns from truth learns from other paintings;
- ``simulated``: five judges, each table with one kind of trouble;
- ``dsg``: the three released judges on TIFA160 against people; what learns from ratings learns
  those of other prompts, in ten folds.

``miniature.NAME`` and ``simulated.NAME`` are shares of right verdicts, mean over the panels, and
``….brier.NAME`` the mean squared error; ``….PANEL.NAME`` the share for one panel. ``dsg.NAME`` is
Spearman's correlation with the mean rating, with facts void under a denied parent, over the images
that were asked about; ``dsg.kendall.NAME`` and ``dsg.within_item.NAME`` are tau-b, of all images
and among those of one prompt. ``gain.….NAME`` is how much better than the mean
(``gain_over_calibrated``: than ``calibrated``), paired on the same resamples of paintings, items
and prompts; ``holm.….NAME`` its two-sided p-value corrected for the number tried.
``learnt.N.NAME`` is ``miniature.NAME`` with only N paintings to learn from. 95 % intervals.

``panel_stacked`` is what a run does with ``aggregation = "stacked"``: it knows no prevalence.
Answers are kept in ``--folder``, so that a second run is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._aggregator_tables import Pair, miniature_tables, simulated_tables
from benchmarks._report import report
from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import Panel
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.aggregators.base import AGGREGATORS, aggregator_of
from scenewright.evals.studies.panel.aggregators.crossval import out_of_fold
from scenewright.evals.studies.panel.aggregators.plain import measured_on
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.measures import OF_PEOPLE, OF_TRUTH, Measure, Measures, gains
from scenewright.evals.studies.panel.quality import Drawn
from scenewright.evals.studies.panel.resampling import summary
from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release
from scenewright.evals.studies.panel.table import AnswerTable

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "dsg"
FOLDER = Path("out") / "benchmarks" / "aggregators"
LEARN, TEST, ITEMS = 100, 250, 150
LEARNT = (5, 10, 25, 50)
"""Numbers of labelled paintings, about ten facts each, for the figures ``learnt.N``."""
RESAMPLES, QUICK_RESAMPLES = 2000, 200
BASE, SHIPPED = "mean", "calibrated"
OF_RUN = "panel_stacked"
ACCURACY, BRIER = (next(one for one in OF_TRUTH if one.key == key) for key in ("accuracy", "brier"))

Found = dict[str, dict[str, Drawn]]
"""Aggregator → measure → value and resamples."""


def without_ratings() -> list[str]:
    """Aggregators that need no human ratings."""
    return [name for name in AGGREGATORS if aggregator_of(name).fitted_to != "ratings"]


def of_run(test: AnswerTable, learn: AnswerTable) -> Array:
    """As a run with a calibration of the facts of ``learn``."""
    panel = Panel("stacked", calibration=measured_on(learn))
    kinds = [fact.kind for fact in test.facts]
    return panel.combined(test.said, test.votes, kinds, test.judge_ids)


def of_truth(pair: Pair, resamples: int) -> Found:
    """All aggregators on a table of known truth."""
    measures = Measures(pair.test, resamples)
    found = {
        name: measures.of(aggregator_of(name).combine(pair.test, pair.learn))
        for name in without_ratings()
    }
    found[OF_RUN] = measures.of(of_run(pair.test, pair.learn))
    return found


def pooled(tables: Sequence[Found], measure: Measure) -> Found:
    """The mean over tables of one measure; their resamples are of the same items."""
    return {
        name: {
            measure.key: Drawn(
                float(np.mean([found[name][measure.key].value for found in tables])),
                np.mean([found[name][measure.key].resamples for found in tables], axis=0),
            )
        }
        for name in tables[0]
    }


def figure(found: Figure) -> dict[str, float] | float | None:
    """As the results file has it."""
    if found.value is None or found.low is None or found.high is None:
        return found.value
    return {"mean": found.value, "low": found.low, "high": found.high}


def told(key: str, found: Found, measure: Measure, n: int) -> dict[str, Any]:
    """Values, gains over the mean and over ``calibrated``, and Holm's p-values of one measure."""
    figures: dict[str, Any] = {}
    for name, drawn in found.items():
        one = drawn[measure.key]
        figures[f"{key}.{name}"] = figure(summary(one.value, one.resamples, n))
    for base, prefix in ((BASE, "gain"), (SHIPPED, "gain_over_calibrated")):
        if base not in found:
            continue
        for name, gain in gains(found, base, measure, n).items():
            figures[f"{prefix}.{key}.{name}"] = figure(gain.figure)
            if base == BASE:
                figures[f"holm.{key}.{name}"] = gain.p_holm
    return figures


def truth_figures(key: str, tables: Mapping[str, Pair], resamples: int) -> dict[str, Any]:
    """The figures of all tables of one kind."""
    found = {name: of_truth(pair, resamples) for name, pair in tables.items()}
    n = next(iter(tables.values())).test.n_items
    figures = told(key, pooled(list(found.values()), ACCURACY), ACCURACY, n)
    figures |= told(f"{key}.brier", pooled(list(found.values()), BRIER), BRIER, n)
    for table, measured_there in found.items():
        for name, drawn in measured_there.items():
            one = drawn[ACCURACY.key]
            figures[f"{key}.{table}.{name}"] = figure(summary(one.value, one.resamples, n))
    return figures


def learning_figures(tables: Mapping[str, Pair], resamples: int) -> dict[str, Any]:
    """What fewer labelled paintings teach: accuracy of ``calibrated`` and of a stacked run, mean
    over the miniature's panels, and the gain of the second over the first and over the mean."""
    figures: dict[str, Any] = {}
    names = (BASE, SHIPPED, OF_RUN)
    for paintings in LEARNT:
        found: list[Found] = []
        for pair in tables.values():
            learn = pair.learn.of_images(range(min(paintings, len(pair.learn.images))))
            measures = Measures(pair.test, resamples)
            ways = (
                aggregator_of(BASE).combine(pair.test),
                aggregator_of(SHIPPED).combine(pair.test, learn),
                of_run(pair.test, learn),
            )
            found.append({name: measures.of(way) for name, way in zip(names, ways, strict=True)})
        whole = pooled(found, ACCURACY)
        n = next(iter(tables.values())).test.n_items
        key = f"learnt.{paintings}"
        for name in names[1:]:
            one = whole[name][ACCURACY.key]
            figures[f"{key}.{name}"] = figure(summary(one.value, one.resamples, n))
        for base, prefix in ((BASE, "gain"), (SHIPPED, "gain_over_calibrated")):
            gain = gains(whole, base, ACCURACY, n)[OF_RUN]
            figures[f"{prefix}.{key}.{OF_RUN}"] = figure(gain.figure)
    return figures


def people_figures(table: AnswerTable, resamples: int) -> dict[str, Any]:
    """The figures of TIFA160."""
    measures = Measures(table, resamples)
    found: Found = {}
    for name in AGGREGATORS:
        try:
            found[name] = measures.of(out_of_fold(name, table))
        except PanelStudyError:
            # The release knows no truth.
            continue
    figures: dict[str, Any] = {}
    for measure in OF_PEOPLE:
        key = "dsg" if measure.key == "spearman" else f"dsg.{measure.key}"
        figures |= told(key, found, measure, len(table.images))
    return figures


def remarks(figures: Mapping[str, Any]) -> list[str]:
    """Which are clearly better than the mean."""
    lines = []
    for key in ("miniature", "miniature.brier", "simulated", "simulated.brier", "dsg",
                "dsg.kendall", "dsg.within_item"):  # fmt: skip
        start = f"gain.{key}."
        mine = {k[len(start) :]: v for k, v in figures.items() if k.startswith(start)}
        mine = {k: v for k, v in mine.items() if k in AGGREGATORS or k == OF_RUN}
        if not mine:
            continue
        ahead = [k for k, v in mine.items() if isinstance(v, dict) and v["low"] > 0.0]
        sure = [k for k in ahead if figures[f"holm.{key}.{k}"] < 0.05]
        lines.append(
            f"{key}: clearly better than the mean, of {len(mine)}: {', '.join(ahead) or 'none'}; "
            f"corrected for their number: {', '.join(sure) or 'none'}."
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few paintings, writes nothing")
    parser.add_argument("--data", type=Path, help="folder of the DSG release")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where answers are kept")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    learn, test, items = (15, 20, 30) if given.quick else (LEARN, TEST, ITEMS)
    resamples = QUICK_RESAMPLES if given.quick else RESAMPLES
    pairs = miniature_tables(learn, test, given.folder)
    figures = truth_figures("miniature", pairs, resamples)
    figures |= learning_figures(pairs, resamples)
    figures |= truth_figures("simulated", simulated_tables(items), resamples)
    if given.data is not None or DATA.is_dir():
        try:
            table = load_dsg_release(given.data or DATA)
        except PanelStudyError as error:
            parser.exit(1, f"{error}\n")
        figures |= people_figures(table, resamples)
    else:
        print("without people: the DSG release is not beside the repository; use --data")
    figures |= {"resamples": resamples, "paintings": test, "learnt_paintings": learn}
    report("aggregators", test, figures, given.quick)
    print(*remarks(figures), sep="\n")


if __name__ == "__main__":
    main()

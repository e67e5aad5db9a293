"""Is any way of combining judges better than their plain mean?

``python -m benchmarks.aggregators [--quick] [--data FOLDER] [--folder FOLDER]``. All aggregators
of the panel studies (:mod:`scenewright.evals.studies.panel.aggregators`), on three kinds of tables:

- ``miniature``: the six judges of the miniature answer labelled facts of paintings that no training
  saw, put together to good and bad panels with and without noise; what learns from truth learns
  from other paintings;
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

``people.SET.default`` is Spearman's correlation of the default of evaluations (``agreement``) with
people on seven panels of their ratings (:mod:`benchmarks._panel_people`), ``default_minus_mean``
and ``default_minus_best`` are its differences from the mean and the best single judge there, and
``chosen_minus_mean`` is what the rule gives that the other sets choose.

``default_minus_mean.SCENE`` and ``default_minus_best.SCENE`` are the same against the truth in
simulated panels (:mod:`benchmarks._panel_scenes`); ``mean_minus_best`` stands beside, and
``verdicts_minus_mean``, the default's share of right verdicts minus the mean's. It loses where
judges collude. ``limit.….SCENE`` are panels in which answers alone cannot tell who is right, with
an oracle beside (``oracle_minus_best``). ``selection.N`` is the rule that N rated prompts choose
against the best judge.

``panel_stacked`` is what a run does with ``aggregation = "stacked"``: it knows no prevalence.
Answers are kept in ``--folder``, so that a second run is quick.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import DATA, benchmark, figure, folder
from benchmarks._panel_people import people_figures, people_tables
from benchmarks._panel_scenes import labelled_table, scene_figures, selection_figures
from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import Panel
from scenewright.evals.statistics.figures import summary
from scenewright.evals.studies.panel.aggregators.pooling import measured_on
from scenewright.evals.studies.panel.aggregators.registry import (
    AGGREGATORS,
    aggregator_of,
    out_of_fold,
)
from scenewright.evals.studies.panel.attacks import noisy
from scenewright.evals.studies.panel.metrics import OF_PEOPLE, OF_TRUTH, Measure, Measures, gains
from scenewright.evals.studies.panel.resampling import Drawn
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    VoteRates,
    simulate,
)
from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from scenewright.providers import AnswerStore

JUDGES = ("a", "b", "c", "d", "weak", "eager")
SEEDS = {"learn": 7001, "test": 7003}


@dataclass(frozen=True, slots=True)
class Pair:
    """What is scored, and other items of the same judges to learn from."""

    test: AnswerTable
    """Scored."""
    learn: AnswerTable
    """Learnt from."""


@dataclass(frozen=True, slots=True)
class NoisyPanel:
    """A noise model of the miniature."""

    judges: tuple[str, ...]
    """Who sits in it; noise is laid over the last."""
    noise: str = "clean"
    """What happens to the answers (:mod:`scenewright.evals.studies.panel.attacks`)."""


PANELS: Mapping[str, NoisyPanel] = {
    "good": NoisyPanel(("a", "b", "c", "d")),
    "one_eager": NoisyPanel(("a", "eager")),
    "one_good": NoisyPanel(("b", "weak", "eager")),
    "bad": NoisyPanel(("weak", "eager")),
    "all": NoisyPanel(JUDGES),
    "clique": NoisyPanel(("a", "weak", "eager"), "clique"),
    "missing": NoisyPanel(JUDGES, "missing"),
    "yes_sayer": NoisyPanel(("a", "weak", "b"), "yes_sayer"),
    "guesser": NoisyPanel(("a", "weak", "b"), "guesser"),
    "adversary": NoisyPanel(("a", "weak", "b"), "adversary"),
}
"""Name → noise model; ``weak`` learned for a short time, ``eager`` says yes too easily."""


def miniature_tables(learn: int, test: int, folder: Path) -> dict[str, Pair]:
    """Return every noise model's tables, from answers to so many paintings kept in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)

    async def both() -> Pair:
        with closing(AnswerStore(folder / "answers.sqlite")) as store:
            test_table = await labelled_table(JUDGES, test, SEEDS["test"], store)
            return Pair(test_table, await labelled_table(JUDGES, learn, SEEDS["learn"], store))

    pair = asyncio.run(both())
    return {name: _of_panel(pair, panel) for name, panel in PANELS.items()}


def _of_panel(pair: Pair, panel: NoisyPanel) -> Pair:
    columns = [JUDGES.index(judge) for judge in panel.judges]
    return Pair(
        noisy(pair.test.with_judges(columns), panel.noise, 0),
        noisy(pair.learn.with_judges(columns), panel.noise, 1),
    )


def simulated_tables(items: int) -> dict[str, Pair]:
    """Return simulated panels of five judges over ``items`` items by three models.

    Each of one kind of trouble; learnt from another draw.
    """
    found = {}
    for name, changes in _SIMULATIONS.items():
        base = SimulationSpec(
            judges=_judges(),
            n_items=items,
            models=tuple(
                SimulatedModel(id=f"model-{at}", prevalence=share)
                for at, share in enumerate((0.6, 0.75, 0.9))
            ),
        )
        spec = base.model_copy(update=dict(changes))
        found[name] = Pair(
            simulate(spec.model_copy(update={"seed": 5})),
            simulate(spec.model_copy(update={"seed": 2})),
        )
    return found


def _judges(**changes: object) -> tuple[SimulatedJudge, ...]:
    """Five judges of different families that say yes too easily, all with ``changes``."""
    rates = ((0.95, 0.85), (0.9, 0.75), (0.9, 0.6), (0.85, 0.7), (0.95, 0.5))
    return tuple(
        SimulatedJudge(id=f"judge-{at}", sensitivity=se, specificity=sp).model_copy(
            update=dict(changes)
        )
        for at, (se, sp) in enumerate(rates)
    )


def _with_kinds() -> tuple[SimulatedJudge, ...]:
    hard = VoteRates(sensitivity=0.8, specificity=0.4)
    return tuple(
        judge.model_copy(update={"kinds": {("attribute", "relation")[at % 2]: hard}})
        for at, judge in enumerate(_judges())
    )


def _with_family() -> tuple[SimulatedJudge, ...]:
    judges = _judges()
    return tuple(
        judge.model_copy(update={"family": "family", "correlation": 0.8}) if at > 1 else judge
        for at, judge in enumerate(judges)
    )


_SIMULATIONS: Mapping[str, Mapping[str, object]] = {
    "independent": {},
    "votes": {"judges": _judges(votes_only=True)},
    "too_sure": {"judges": _judges(temperature=3.0)},
    "kinds": {"judges": _with_kinds()},
    "family": {"judges": _with_family()},
    "difficulty": {"difficulty": 0.5},
    "prompts": {"item_spread": 0.4},
    "missing": {"judges": _judges(unscored=0.4)},
}


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
    """Return aggregators that need no human ratings."""
    return [name for name in AGGREGATORS if aggregator_of(name).fitted_to != "ratings"]


def of_run(test: AnswerTable, learn: AnswerTable) -> Array:
    """Return the probabilities of a run with a calibration on the facts of ``learn``."""
    panel = Panel("stacked", calibration=measured_on(learn))
    kinds = [fact.kind for fact in test.facts]
    return panel.combined(test.said, test.votes, kinds, test.judge_ids)


def of_truth(pair: Pair, resamples: int) -> Found:
    """Return all aggregators on a table of known truth."""
    measures = Measures(pair.test, resamples)
    found = {
        name: measures.of(aggregator_of(name).combine(pair.test, pair.learn))
        for name in without_ratings()
    }
    found[OF_RUN] = measures.of(of_run(pair.test, pair.learn))
    return found


def pooled(tables: Sequence[Found], measure: Measure) -> Found:
    """Return the mean over tables of one measure; their resamples are of the same items."""
    return {
        name: {
            measure.key: Drawn(
                float(np.mean([found[name][measure.key].value for found in tables])),
                np.mean([found[name][measure.key].resamples for found in tables], axis=0),
            )
        }
        for name in tables[0]
    }


def told(key: str, found: Found, measure: Measure, n: int) -> dict[str, Any]:
    """Return values of one measure, gains over mean and ``calibrated``, and Holm's p-values."""
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
    """Return the figures of all tables of one kind."""
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
    """Return what fewer labelled paintings teach.

    Figures are the accuracy of ``calibrated`` and of a stacked run, mean over the miniature's
    panels, and the gain of the second over the first and over the mean.
    """
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


def release_figures(table: AnswerTable, resamples: int) -> dict[str, Any]:
    """Return the figures of TIFA160."""
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
    """Return which are clearly better than the mean."""
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


@benchmark(
    "few paintings",
    measures=(
        "scenewright.agents.panel.aggregation",
        "scenewright.agents.panel.agreement",
        "scenewright.agents.panel.stacking",
    ),
    refused=(PanelStudyError,),
    data=folder("folder of the DSG release"),
    folder=folder(f"folder of the answers (default: {FOLDER})"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all aggregators on all tables."""
    learn, test, items = (15, 20, 30) if options.quick else (LEARN, TEST, ITEMS)
    resamples = QUICK_RESAMPLES if options.quick else RESAMPLES
    pairs = miniature_tables(learn, test, options.folder or FOLDER)
    figures = truth_figures("miniature", pairs, resamples)
    figures |= learning_figures(pairs, resamples)
    figures |= truth_figures("simulated", simulated_tables(items), resamples)
    figures |= scene_figures(*((1, 40, 60) if options.quick else (4, 150, 500)))
    figures |= selection_figures(*((1, 20) if options.quick else (24, 80)))
    data = options.data or DATA / "dsg"
    if options.data is not None or data.is_dir():
        figures |= release_figures(load_dsg_release(data), resamples)
        if (panels := DATA / "panels").is_dir():
            figures |= people_figures(people_tables(data, panels), resamples)
        else:
            print(f"without people.…: the rated panels are not beside the repository ({panels})")
    else:
        print("without people: the DSG release is not beside the repository; use --data")
    figures |= {"resamples": resamples, "paintings": test, "learnt_paintings": learn}
    print(*remarks(figures), sep="\n")
    return test, figures


if __name__ == "__main__":
    main()

"""What a panel of judges is worth, and each way of making one verdict of their answers.

``python -m benchmarks.panels [--quick]``. The miniature's judges answer labelled facts of
paintings that no training saw: half of them hold, the others are wrong of a thing that is there
or about a thing that is not. Panels of good judges and of bad ones (``weak`` learned for a short
time, ``eager`` says yes too easily) are put together from the same answers. ``calibrated`` uses
error rates measured on other paintings; ``dawid_skene`` sees no labels and is fitted to all
answers of a panel together; ``best_single`` is the panel's best judge, told by the labels.

``PANEL.WAY.accuracy`` is the share of right verdicts, ``.brier`` the mean squared error of the
probabilities; 95% intervals by bootstrap over paintings, and paired differences of accuracy to
the mean under ``PANEL.gain.WAY``. ``cascade.*``: judge-weak and judge-b are asked first, judge-a
where they are unsure.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks._harness import Progress, benchmark, interval
from scenewright.agents.panel.aggregation import Array, cohen_kappa
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import Calibration
from scenewright.core.facts import FactKind
from scenewright.evals.judge_reports.labelled_facts import ABSENT
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.studies.panel.aggregators.pooling import measured_on
from scenewright.evals.studies.panel.aggregators.registry import aggregator_of
from scenewright.evals.studies.panel.cascades import COSTS, CascadeReplayer, Plan
from scenewright.evals.studies.panel.sources.live_judges import query_table
from scenewright.evals.studies.panel.table import AnswerTable
from scenewright.providers import AnswerStore
from scenewright.runs.model_factory.profiles import build_judge

JUDGES = ("a", "b", "weak", "eager")
PANELS: Mapping[str, tuple[str, ...]] = {
    "good": ("a", "b"),
    "one_eager": ("a", "eager"),
    "one_good": ("b", "weak", "eager"),
    "bad": ("weak", "eager"),
    "all": JUDGES,
}
WAYS = ("mean", "dawid_skene", "majority")
FIRST, THEN = ("weak", "b"), ("a",)
"""Judges of the cascade."""
LEARN, TEST = 60, 150
"""Paintings to calibrate on, and to measure on."""
SEEDS = {"learn": 7001, "test": 7002}


async def labelled_table(
    judges: Sequence[str], paintings: int, seed: int, store: AnswerStore | None = None
) -> AnswerTable:
    """Return what judges of the miniature say of labelled facts of paintings."""
    torch.set_num_threads(1)
    asked = [build_judge(f"local:miniature/judge-{name}") for name in judges]
    # As in a run: what lacks its object is not asked.
    facts = [
        fact
        for fact in synthetic_facts(paintings, seed)
        if fact.group != ABSENT or fact.fact.kind == "object"
    ]
    shown = Progress(len(facts) * len(asked))
    loaded = await query_table(
        "miniature",
        "",
        facts,
        asked,
        store or AnswerStore(None),
        told=lambda doing, done, of: shown.reach(done),
    )
    return loaded.table


def ways_of(table: AnswerTable, calibration: Calibration) -> dict[str, Array]:
    """Return way → probability of each fact, (n_facts,)."""
    found = {way: aggregator_of(way).combine(table) for way in WAYS}
    panel = Panel("calibrated", calibration=calibration)
    kinds: list[FactKind] = [fact.kind for fact in table.facts]
    right = ((table.said > 0.5) == table.truth[:, None]).mean(0)
    return {
        **found,
        "calibrated": panel.combined(table.said, table.votes, kinds, table.judge_ids),
        "best_single": table.said[:, int(np.argmax(right))],
    }


def per_painting(table: AnswerTable, values: Array) -> Array:
    """Return mean of each painting's facts, weighted so that their mean is that of all facts."""
    sums = np.bincount(table.image_of, values, len(table.images))
    return sums * len(table.images) / len(values)


def figures_of(test: AnswerTable, learn: AnswerTable) -> dict[str, Any]:
    """Return the figures of every panel."""
    labels, spread_of = test.truth, partial(per_painting, test)
    calibration = measured_on(learn)
    figures: dict[str, Any] = {"facts": len(labels), "share_that_holds": float(labels.mean())}
    for name, members in PANELS.items():
        columns = [JUDGES.index(member) for member in members]
        found = ways_of(test.with_judges(columns), calibration)
        right = {way: ((p > 0.5) == labels).astype(float) for way, p in found.items()}
        for way, likely in found.items():
            figures[f"{name}.{way}.accuracy"] = interval(spread_of(right[way]))
            figures[f"{name}.{way}.brier"] = interval(spread_of((likely - labels) ** 2))
            if way != "mean":
                figures[f"{name}.gain.{way}"] = interval(spread_of(right[way] - right["mean"]))
    return figures | cascade_figures(test)


def cascade_figures(table: AnswerTable) -> dict[str, Any]:
    """Return what a cascade saves and how often it agrees with everybody asked."""
    first, then = (tuple(map(JUDGES.index, names)) for names in (FIRST, THEN))
    by_first, by_all = (
        aggregator_of("mean").combine(table.with_judges(columns))
        for columns in (first, (*first, *then))
    )
    replayer = CascadeReplayer(table)
    full = replayer.walk(Plan((*first, *then)), by_all, by_all)
    cascade = replayer.walk(Plan(first, then), by_first, by_all)
    figures: dict[str, Any] = {}
    for name in COSTS:
        if whole := float(full.cost(name).sum()):
            figures[f"cascade.{name}_saved"] = 1.0 - float(cascade.cost(name).sum()) / whole
    verdicts = [(one.likely > 0.5).astype(float) for one in (full, cascade)]
    figures["cascade.agreement"] = float((verdicts[0] == verdicts[1]).mean())
    return figures | {"cascade.kappa": cohen_kappa(*verdicts)}


async def measure(learn: int, test: int) -> dict[str, Any]:
    """Return all figures."""
    learnt = await labelled_table(JUDGES, learn, SEEDS["learn"])
    return figures_of(await labelled_table(JUDGES, test, SEEDS["test"]), learnt)


@benchmark(
    "few paintings",
    measures=("scenewright.agents.panel.aggregation",),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the panels."""
    learn, test = (12, 15) if options.quick else (LEARN, TEST)
    return test, asyncio.run(measure(learn, test))


if __name__ == "__main__":
    main()

"""Which judges a panel should have: size, members, families and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.members import (
    by_size,
    cheapest_as_good,
    measured,
    reliability,
    shapley_figures,
    without_each,
)
from scenewright.evals.studies.panel.metric_evaluator import Measure, MetricEvaluator, Wanted
from scenewright.evals.studies.panel.pairs import (
    Pair,
    error_correlations,
    mean_of,
    split_by_family,
    vote_agreements,
)
from scenewright.evals.studies.panel.parts.composition_page import page
from scenewright.evals.studies.panel.parts.composition_result import Composition
from scenewright.evals.studies.panel.subsets import (
    Combiner,
    Members,
    cost_of,
    costs_per_image,
    panels_of,
    usable_names,
)

HALVES = 20
"""Random halvings of the items, to choose the best panel on one half and measure it on the
other."""


class CompositionOptions(Options):
    """Options of the study of a panel's composition."""

    aggregators: tuple[str, ...] = Field(
        default=("mean", "dawid_skene", "calibrated"), min_length=1
    )
    """Ways to combine the judges; the first is the one that findings are about. Those that have
    nothing to learn from are left out."""
    most: int = Field(default=255, ge=1)
    """Most panels that are measured: 255 are all of eight judges. With more, a sample of each
    size."""
    measure: Wanted = "auto"
    """What quality is: by the truth where it is known (``balanced_accuracy``, ``accuracy``,
    ``truth_rank``), else by people (``rating_rank``)."""
    margin: float = Field(default=0.01, gt=0.0, lt=1.0)
    """A panel whose quality is surely less than this below the full panel's is as good."""


async def run(context: PanelStudyContext, options: CompositionOptions) -> PanelStudyResult:
    """Measures every panel. Raises ``PanelStudyError`` if no aggregator can be used, or for a
    measure that the table does not have."""
    return page(await asyncio.to_thread(study, context, options))


def study(context: PanelStudyContext, options: CompositionOptions) -> Composition:
    """All that is measured."""
    table = context.table
    n = len(table.judges)
    everyone: Members = tuple(range(n))
    combiner = Combiner(table, context.learn, context.seed)
    names, notes = usable_names(combiner, options.aggregators)
    evaluator = MetricEvaluator(
        table,
        resamples=context.resamples,
        seed=context.seed,
        halves=HALVES,
        full=combiner.likely(names[0], everyone),
    )
    measure = evaluator.choose(options.measure)
    evaluator.check(combiner.likely(names[0], everyone), measure)
    panels = panels_of(n, options.most, context.seed)
    complete = len(panels) == (1 << n) - 1
    done, total = 0, len(panels) * len(names)

    def told() -> None:
        nonlocal done
        done += 1
        context.told(done, total)

    found = measured(combiner, evaluator, panels, names, measure, told)
    main = found[names[0]][measure]
    costs = costs_per_image(table)
    cost = {members: cost_of(costs, members) for members in panels}
    price = next((name for name in ("usd", "tokens") if name in costs), "judges")
    prices = {m: cost[m].get(price, float(len(m))) for m in panels}
    truth = bool((table.truth == 1.0).any() and (table.truth == 0.0).any())
    pairs = error_correlations(evaluator) if truth else vote_agreements(evaluator)
    within, between = split_by_family(pairs, table)
    same, mixed = split_by_family(_gains_of_pairs(main), table)

    def told_of(reading: Array | None) -> Figure | None:
        return None if reading is None else evaluator.figure(reading)

    def gap(first: Array | None, second: Array | None) -> Figure | None:
        return None if first is None or second is None else evaluator.figure(first - second)

    return Composition(
        table=table,
        names=names,
        measure=measure,
        margin=options.margin,
        complete=complete,
        panels=panels,
        figures=_figures(found, evaluator),
        scored={
            (name, m): float((~np.isnan(combiner.likely(name, m))).mean())
            for name in names
            for m in panels
        },
        sizes={name: by_size(found[name][measure], evaluator, measure) for name in names},
        over_best=_over_best(main, evaluator, everyone),
        adds={name: without_each(found[name][measure], evaluator, n) for name in names},
        shapley=shapley_figures(main, evaluator, measure, n) if complete else (),
        reliability={
            m: evaluator.figure(reliability(table, m, evaluator)) for m in panels if len(m) > 1
        }
        if measure == "full_agreement"
        else {},
        pairs={pair: evaluator.figure(reading) for pair, reading in pairs.items()},
        pairs_are_errors=truth,
        all_pairs=told_of(mean_of(list(pairs.values())) if pairs else None),
        within=told_of(within),
        between=told_of(between),
        families=gap(within, between),
        family_pairs=told_of(same),
        mixed_pairs=told_of(mixed),
        family_gain=gap(mixed, same),
        costs=costs,
        cost=cost,
        price=price,
        as_good=cheapest_as_good(main, evaluator, prices, options.margin),
        prices=prices,
        notes=tuple(notes),
    )


def _figures(
    found: Mapping[str, Mapping[Measure, Mapping[Members, Array]]], evaluator: MetricEvaluator
) -> dict[tuple[str, Measure, Members], Figure]:
    return {
        (name, measure, members): evaluator.figure(reading)
        for name, by in found.items()
        for measure, readings in by.items()
        for members, reading in readings.items()
    }


def _gains_of_pairs(readings: Mapping[Members, Array]) -> dict[Pair, Array]:
    """What each two judges together have over the mean of the two alone, (rows,)."""
    return {
        (m[0], m[1]): reading - (readings[m[:1]] + readings[m[1:]]) / 2.0
        for m, reading in readings.items()
        if len(m) == 2
    }


def _over_best(
    readings: Mapping[Members, Array], evaluator: MetricEvaluator, everyone: Members
) -> tuple[Members, Figure] | None:
    """The best single judge, and the full panel less it."""
    singles = {m: r for m, r in readings.items() if len(m) == 1 and not np.isnan(r[0])}
    if not singles or len(everyone) < 2:
        return None
    best = max(singles, key=lambda members: float(singles[members][0]))
    return best, evaluator.figure(readings[everyone] - singles[best])


PART = PanelStudy(
    name="composition",
    title="Size and composition of the panel",
    about="How many judges are enough, which of them are worth their cost, and does it matter that "
    "some are of one family?",
    needs=frozenset({"several"}),
    options=CompositionOptions,
    run=run,
)

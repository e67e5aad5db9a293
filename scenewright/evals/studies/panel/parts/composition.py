"""Which judges a panel should have: size, members, families and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.metrics import MEASURES, MetricEvaluator, Wanted
from scenewright.evals.studies.panel.presentation import (
    difference,
    joined,
    ordinal,
    report,
    short_names,
    side,
)
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
)
from scenewright.evals.studies.panel.subpanels import (
    Combiner,
    Members,
    Pair,
    by_size,
    cheapest_as_good,
    cost_of,
    costs_per_image,
    error_correlations,
    mean_of,
    measured,
    panels_of,
    reliability,
    shapley_figures,
    split_by_family,
    usable_names,
    vote_agreements,
    without_each,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

HALVES = 20
"""Random halvings of the items, to choose the best panel on one half and measure it on the
other."""
_PRICES = {"usd": "dollars", "tokens": "tokens", "judges": "judges"}
_COSTS = {
    "usd": ("dollars an image", 5),
    "tokens": ("tokens an image", 0),
    "seconds": ("seconds an image", 2),
}
Rows = list[dict[str, Any]]


class CompositionOptions(Options):
    """Options of the study of a panel's composition."""

    aggregators: tuple[str, ...] = Field(
        default=("agreement", "mean", "dawid_skene", "calibrated"), min_length=1
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


def _result(context: PanelStudyContext, options: CompositionOptions) -> PanelStudyResult:
    """Measure every panel.

    Raises ``PanelStudyError`` if no aggregator can be used, or for a measure that the table does
    not have.
    """
    table, n = context.table, len(context.table.judges)
    everyone: Members = tuple(range(n))
    combiner = Combiner(table, context.learn, context.seed)
    names, left_out = usable_names(combiner, options.aggregators)
    main = names[0]
    likely = combiner.likely(main, everyone)
    evaluator = MetricEvaluator(
        table, resamples=context.resamples, seed=context.seed, halves=HALVES, full=likely
    )
    measure = evaluator.choose(options.measure)
    about = MEASURES[measure]
    evaluator.check(likely, measure)
    panels = panels_of(n, options.most, context.seed)
    complete = len(panels) == (1 << n) - 1
    step = context.steps(len(panels) * len(names))
    found = measured(combiner, evaluator, panels, names, measure, step)
    readings = found[main][measure]
    figure = evaluator.figure
    costs = costs_per_image(table)
    cost = {members: cost_of(costs, members) for members in panels}
    price = next((name for name in ("usd", "tokens") if name in costs), "judges")
    prices = {m: cost[m].get(price, float(len(m))) for m in panels}
    ids, short = table.judge_ids, short_names(table.judge_ids)

    def spoken(members: Members) -> str:
        return joined([short[at] for at in members])

    def key(members: Members) -> str:
        return " ".join(ids[at] for at in members)

    panel_rows: Rows = [
        {
            "aggregator": name,
            "measure": one,
            "judges": key(members),
            "size": len(members),
            "value": figure(reading),
            "scored": float((~np.isnan(combiner.likely(name, members))).mean()),
            **cost[members],
        }
        for name, by in found.items()
        for one, of in by.items()
        for members, reading in of.items()
    ]
    # What every table and plot shows of a panel: by the main aggregator and measure.
    shown = {
        row["judges"]: row
        for row in panel_rows
        if (row["aggregator"], row["measure"]) == (main, measure)
    }
    size_rows: Rows = [
        {
            "aggregator": name,
            "size": of.size,
            "panels": of.panels,
            "value": of.mean,
            "gain": of.gain or Figure(value=None),
            "best": key(of.best),
            "best_value": of.best_figure.value,
            "best_elsewhere": of.best_elsewhere,
            "worst": key(of.worst),
            "worst_value": of.worst_figure.value,
            "_gain": of.gain if of.size > 1 and of.gain and of.gain.n else None,
            "_mean": of.mean,
            "_elsewhere": of.best_elsewhere,
            "_best": (of.best_figure, f"({spoken(of.best)})"),
            "_worst": (of.worst_figure, f"({spoken(of.worst)})"),
        }
        for name in names
        for of in by_size(found[name][measure], evaluator, measure)
    ]
    adds = {name: without_each(found[name][measure], evaluator, n) for name in names}
    shapley = shapley_figures(readings, evaluator, measure, n) if complete else ()
    judge_rows: Rows = [
        {"judge": ids[at], "aggregator": name, "what": "adds", "value": one}
        for name, each in adds.items()
        for at, one in enumerate(each)
    ] + [
        {"judge": ids[at], "aggregator": main, "what": "shapley", "value": one}
        for at, one in enumerate(shapley)
    ]
    truth = bool((table.truth == 1.0).any() and (table.truth == 0.0).any())
    of_pairs = error_correlations(evaluator) if truth else vote_agreements(evaluator)
    pair_rows: Rows = [
        {
            "first": ids[a],
            "second": ids[b],
            "what": "error_correlation" if truth else "kappa",
            "one_family": table.families[a] == table.families[b],
            "value": figure(reading),
        }
        for (a, b), reading in of_pairs.items()
    ]
    alphas: Rows = (
        []
        if about.quality
        else [
            {
                "judges": key(m),
                "size": len(m),
                "value": figure(reliability(table, m, evaluator)),
            }
            for m in panels
            if len(m) > 1
        ]
    )
    pairs = _pairs(of_pairs, _gains_of_pairs(readings), evaluator)
    sizes = [
        row | {f"_{r['aggregator']}": r["value"] for r in size_rows if r["size"] == row["size"]}
        for row in size_rows
        if row["aggregator"] == main
    ]
    gains = [row for row in sizes if row["_gain"]]
    full = [
        {"_aggregator": name, **{
            row["measure"]: row["value"] for row in panel_rows
            if (row["aggregator"], row["judges"]) == (name, key(everyone))
        }}
        for name in names
    ]  # fmt: skip
    best, over_best = _over_best(readings, evaluator, everyone)
    as_good = cheapest_as_good(readings, evaluator, prices, options.margin)

    def judges_that(sign: int) -> list[str]:
        order = sorted(everyone, key=lambda at: -sign * (adds[main][at].value or 0.0))
        return [
            f"{short[at]} ({difference(adds[main][at])})"
            for at in order
            if side(adds[main][at]) == sign
        ]

    values: dict[str, Any] = {
        "n": n,
        "n_items": table.n_items,
        "main": main,
        "about": about,
        "full": shown[key(everyone)]["value"],
        "one": next(({"mean": row["value"]} for row in sizes if row["size"] == 1), None),
        "best": spoken(best),
        "over_best": over_best,
        "steps": [
            f"the {ordinal(row['size'])}{' judge adds' if row is gains[0] else ''} "
            f"{difference(row['gain'])}"
            for row in gains
        ],
        "last_gain": max((row["size"] for row in gains if side(row["gain"]) > 0), default=None),
        "largest": gains[-1]["size"] if gains else 0,
        "needed": judges_that(1),
        "harmful": judges_that(-1),
        "as_good": spoken(as_good[0]) if as_good else "",
        "as_good_size": len(as_good[0]) if as_good else 0,
        "as_good_gap": as_good[1] if as_good else None,
        "saved": 1.0 - prices[as_good[0]] / prices[everyone] if as_good else None,
        "paid_in": _PRICES[price],
        "margin": f"{options.margin:g}",
        "pairs": pairs,
        "truth": truth,
        "within_known": pairs["within_known"],
        "alpha": next((r["value"] for r in alphas if r["size"] == n and r["value"].n), None),
        "shapley": shapley,
        "complete": complete,
        "measured": len(panels),
        "costs": costs,
        "cost_columns": {name: _COSTS[name] for name in costs},
        "measure": measure,
        "measures": {m: MEASURES[m].title + ("" if MEASURES[m].higher else " ↓")
                     for m in found[main]},
        "others": names[1:],
        "sizes": sizes,
        "size_rows": size_rows,
        "judges": [
            shown[ids[at]]
            | {"_id": ids[at], "_short": short[at], "_alone": shown[ids[at]]["value"]}
            | {"_adds": adds[main][at], "_shapley": shapley[at] if shapley else None}
            for at in everyone
        ],
        "judge_rows": [row | {"_short": short[ids.index(row["judge"])]} for row in judge_rows],
        "full_rows": full,
    }  # fmt: skip
    return report(
        "composition",
        values,
        plots={
            "sizes": partial(_draw_sizes, shown, size_rows, names, about.title),
            "members": partial(
                _draw_members, short, adds[main], shapley, f"{about.title}, difference ({main})"
            ),
            "pairs": partial(_draw_pairs, pair_rows, ids, short, table.families)
            if len(pair_rows) > 1
            else None,
            "cost": partial(_draw_costs, shown, price, about.title, main)
            if price != "judges"
            else None,
        },
        records_of={
            "panels": panel_rows,
            "sizes": size_rows,
            "judges": judge_rows,
            "pairs": pair_rows,
            "reliability": alphas or None,
        },
        before=left_out,
    )


def _pairs(
    correlations: Mapping[Pair, Array], gains: Mapping[Pair, Array], evaluator: MetricEvaluator
) -> dict[str, Any]:
    """Mean over all pairs, within families and between two, and what mixed pairs gain more."""
    within, between = split_by_family(correlations, evaluator.table)
    same, mixed = split_by_family(gains, evaluator.table)
    both = None if within is None or between is None else within - between
    more = None if same is None or mixed is None else mixed - same
    readings = {
        "all": mean_of(list(correlations.values())) if correlations else None,
        "within": within,
        "between": between,
        "families": both,
        "gain": more,
    }
    found: dict[str, Any] = {
        name: None if reading is None or np.isnan(reading[0]) else evaluator.figure(reading)
        for name, reading in readings.items()
    }
    return found | {"within_known": within is not None, "gain_known": more is not None}


def _gains_of_pairs(readings: Mapping[Members, Array]) -> dict[Pair, Array]:
    """Gain of each two judges together over the mean of the two alone, (rows,)."""
    return {
        (m[0], m[1]): reading - (readings[m[:1]] + readings[m[1:]]) / 2.0
        for m, reading in readings.items()
        if len(m) == 2
    }


def _over_best(
    readings: Mapping[Members, Array], evaluator: MetricEvaluator, everyone: Members
) -> tuple[Members, Figure | None]:
    """Return the best single judge, and the full panel less it."""
    singles = {m: r for m, r in readings.items() if len(m) == 1 and not np.isnan(r[0])}
    if not singles or len(everyone) < 2:
        return (), None
    best = max(singles, key=lambda members: float(singles[members][0]))
    return best, evaluator.figure(readings[everyone] - singles[best])


def _draw_sizes(
    shown: Mapping[str, Mapping[str, Any]], rows: Rows, names: Sequence[str], title: str
) -> Plot:
    """Quality by the number of judges: every panel, and the mean of each size."""
    made, axis = plots.chart("Panels by size", "judges in the panel", title, (7.0, 4.4))
    points = [(row["size"], row["value"].value) for row in shown.values()]
    points = [point for point in points if point[1] is not None]
    # Beside the means, which are at the whole number.
    beside = np.random.default_rng(0).uniform(-0.16, 0.16, len(points))
    spread = [(size + shift, value) for (size, value), shift in zip(points, beside, strict=True)]
    plots.scatter(
        axis, 0, f"a panel ({names[0]})", spread, s=12, color=plots.GREY, alpha=0.8, zorder=1
    )
    for at, name in enumerate(names):
        mine = [(row["size"], row["value"]) for row in rows if row["aggregator"] == name]
        plots.curve(axis, at, f"mean of the size ({name})", mine)
    honest = [
        (row["size"], row["best_elsewhere"])
        for row in rows
        if row["aggregator"] == names[0] and row["best_elsewhere"] is not None
    ]
    if honest:
        axis.plot(
            *zip(*honest, strict=True), color="#444444", linestyle=":", marker="x", markersize=5,
            linewidth=1.2, label=f"best, chosen on other items ({names[0]})",
        )  # fmt: skip
    axis.set_xticks(sorted({size for size, _ in points}))
    return plots.legend(made, axis, 2)


def _draw_members(
    short: Sequence[str], adds: Sequence[Figure], shapley: Sequence[Figure], title: str
) -> Plot:
    """Gain by each judge over all the others, and in whatever order the panel is put together."""
    series = {"added to all the others": adds} | ({"Shapley value": shapley} if shapley else {})
    made, axes = plots.panes(len(series), (7.0, 1.6 + 0.42 * len(short)))
    for axis, (name, each) in zip(axes, series.items(), strict=True):
        plots.bars(axis, short, {name: each}, horizontal=True)
        axis.axvline(0.0, color=plots.INK, linewidth=0.9)
        axis.set_title(name, fontsize=10)
    for axis in axes[1:]:
        axis.set_yticklabels([])
    made.supxlabel(title, fontsize=10)
    return plots.legend(made)


def _draw_pairs(
    rows: Rows, ids: Sequence[str], short: Sequence[str], families: Sequence[str]
) -> Plot:
    """Correlation of each two judges' errors, or agreement of their votes."""
    n = len(ids)
    order = sorted(range(n), key=lambda at: families[at])
    place = {ids[at]: number for number, at in enumerate(order)}
    grid = np.full((n, n), np.nan)
    for row in rows:
        x, y = sorted((place[row["first"]], place[row["second"]]))
        grid[y, x] = np.nan if row["value"].value is None else row["value"].value
    made, (axis,) = plots.panes(1, (2.6 + 0.62 * n, 2.0 + 0.55 * n))
    names = [short[at] for at in order]
    image = plots.heat(
        axis, grid[1:, :-1], names[1:], names[:-1], most=1.0, colors="RdBu_r", digits=2
    )
    of_errors = rows[0]["what"] == "error_correlation"
    axis.set_title(
        "Correlation of errors given the truth" if of_errors else "κ of votes", fontsize=10
    )
    made.colorbar(image, ax=axis, shrink=0.8)
    return plots.legend(made)


def _draw_costs(shown: Mapping[str, Mapping[str, Any]], price: str, title: str, main: str) -> Plot:
    """Quality of every panel over what it takes for an image."""
    made, axis = plots.chart(f"Quality and cost of every panel ({main})", _COSTS[price][0], title)
    for at, size in enumerate(sorted({row["size"] for row in shown.values()})):
        mine = [row for row in shown.values() if row["size"] == size]
        known = [(row[price], row["value"].value) for row in mine if row["value"].value is not None]
        plots.scatter(axis, at, f"{size} judge{'s' if size > 1 else ''}", known, s=26)
    return plots.legend(made, axis, 4)


PART = PanelStudy(
    name="composition",
    title="Size and composition of the panel",
    about="How many judges are enough, which of them are worth their cost, and does it matter that "
    "some are of one family?",
    needs=frozenset({"several"}),
    options=CompositionOptions,
    run=in_thread(_result),
)

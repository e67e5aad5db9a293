"""Which judges a panel should have: size, members, families and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.reporting import plots
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Column, Frame, across, percent, values_by_key
from scenewright.evals.reporting.sentences import in_words, joined, ordinal, short_names
from scenewright.evals.statistics.answers import Contrast, difference_answer
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure, side_of_zero
from scenewright.evals.studies.panel.metrics import MEASURES, MetricEvaluator, Wanted
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
    sentences_of,
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
from scenewright.evals.studies.panel.table import AnswerTable

HALVES = 20
"""Random halvings of the items, to choose the best panel on one half and measure it on the
other."""
_PRICES = {"usd": "dollars", "tokens": "tokens", "judges": "judges"}
_COSTS = {
    "usd": Column(title="dollars an image", digits=5),
    "tokens": Column(title="tokens an image", digits=0),
    "seconds": Column(title="seconds an image", digits=2),
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


def measure(context: PanelStudyContext, options: CompositionOptions) -> PanelStudyResult:
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
    measured_by = evaluator.choose(options.measure)
    about = MEASURES[measured_by]
    evaluator.check(likely, measured_by)
    panels = panels_of(n, options.most, context.seed)
    complete = len(panels) == (1 << n) - 1
    step = context.steps(len(panels) * len(names))
    found = measured(combiner, evaluator, panels, names, measured_by, step)
    readings = found[main][measured_by]
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
        if (row["aggregator"], row["measure"]) == (main, measured_by)
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
            "_best": (of.best_figure, f"({spoken(of.best)})"),
            "_worst": (of.worst_figure, f"({spoken(of.worst)})"),
        }
        for name in names
        for of in by_size(found[name][measured_by], evaluator, measured_by)
    ]
    adds = {name: without_each(found[name][measured_by], evaluator, n) for name in names}
    shapley = shapley_figures(readings, evaluator, measured_by, n) if complete else ()
    judge_rows: Rows = [
        {"judge": ids[at], "aggregator": name, "what": what, "value": one, "_short": short[at]}
        for what, by_name in (("adds", adds), ("shapley", {main: shapley}))
        for name, each in by_name.items()
        for at, one in enumerate(each)
    ]
    truth = table.is_labelled
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
    alphas: Rows = [
        {"judges": key(m), "size": len(m), "value": figure(reliability(table, m, evaluator))}
        for m in panels
        if len(m) > 1 and not about.quality
    ]
    pairs, families_known = _pairs(of_pairs, _gains_of_pairs(readings), evaluator)
    sizes = [
        row | {f"_{r['aggregator']}": r["value"] for r in size_rows if r["size"] == row["size"]}
        for row in size_rows
        if row["aggregator"] == main
    ]
    full = across(
        [row for row in panel_rows if row["judges"] == key(everyone)],
        "aggregator", "{measure}", "value",
    )  # fmt: skip
    best, over_best = _over_best(readings, evaluator, everyone)
    as_good = cheapest_as_good(readings, evaluator, prices, options.margin)
    say = sentences_of("composition")
    values: dict[str, Any] = {
        "n": n, "main": main, "about": about, "full": shown[key(everyone)]["value"],
        "truth": truth, "pairs": pairs, "margin": options.margin, "measured": len(panels),
        "possible": 2**n - 1, "each": _each(short, adds[main]), **_steps(sizes),
    }  # fmt: skip
    mean_of_one = next(({"mean": row["value"]} for row in sizes if row["size"] == 1), None)
    alpha = next((row for row in alphas if row["size"] == n and row["value"].n), None)
    values["one"] = "".join(say({}, one=mean_of_one if best else None))
    values["families"] = "".join(say(values, families=pairs["families"] is not None))
    values["alpha"] = "".join(say({}, alpha=alpha))
    lead: tuple[str, ...] = ()
    if mean_of_one and over_best and about.quality:
        lead = (
            difference_answer(
                Contrast(
                    f"the panel ({main})",
                    f"the best single judge ({spoken(best)})",
                    Estimate(**over_best.model_dump() | {"n": table.n_items}),
                    about.title,
                    higher_is_better=about.higher,
                )
            ).sentence,
        )
    if as_good:
        better = side_of_zero(as_good[1]) > 0
        values |= {
            "as_good": spoken(as_good[0]), "single": len(as_good[0]) == 1, "gap": as_good[1],
            "better": better, "within": "" if better else f", to within {options.margin:g}",
            "saved": 1.0 - prices[as_good[0]] / prices[everyone], "paid_in": _PRICES[price],
        }  # fmt: skip
    judges = [
        shown[ids[at]]
        | {"_short": short[at], "_adds": adds[main][at], "_shapley": shapley and shapley[at]}
        for at in everyone
    ]
    measures: dict[str, str] = {
        m: MEASURES[m].title + ("" if MEASURES[m].higher else " ↓") for m in found[main]
    }
    worth = {"value": "alone", "_adds": "what it adds to the others"}
    worth |= {"_shapley": "Shapley value"} if shapley else {}
    several = len(full) > 1 or len(measures) > 1
    return PanelStudyResult(
        findings=(
            *lead,
            *say(
                values,
                all=True,
                steps=bool(values["steps"]),
                each=about.quality and n > 1,
                as_good=about.quality and as_good is not None,
                needed=about.quality and as_good is None,
                pairs=pairs["all"] is not None,
                gain=pairs["gain"] is not None and about.quality,
            ),
        ),
        frames=(
            Frame.of("composition_sizes", sizes, f"Panels of each size: {about.title}", {
                "panels": "panels", "value": f"mean of them ({main})",
                "_gain": "gain by the last judge", "_best": "best",
                "best_elsewhere": "best, chosen on other items", "_worst": "worst",
                **{f"_{name}": f"mean ({name})" for name in names[1:]},
            }, head="Judges", label="{size}", kept=False),
            Frame.of("composition_judges", judges, f"Each judge ({main}): {about.title}",
                     worth | {"scored": percent("facts scored (%)")}
                     | {name: _COSTS[name] for name in costs},
                     head="Judge", label="{_short}", kept=False),
            Frame.of("composition_full", full if several else (), "The full panel by every measure",
                     measures, head="Aggregator", label="{aggregator}", kept=False),
            Frame.of("panels", panel_rows),
            Frame.of("sizes", size_rows),
            Frame.of("judges", judge_rows),
            Frame.of("pairs", pair_rows),
            Frame.of("reliability", alphas),
        ),
        charts=_charts(shown, size_rows, judge_rows, pair_rows, table, main, about.title, price),
        figures=values_by_key("full.{aggregator}", full, [measured_by])
        | values_by_key("{name}_{size}.{aggregator}", size_rows, {"value": "size", "gain": "gain"})
        | values_by_key("{what}.{_short}.{aggregator}",
                        [row for row in judge_rows if row["what"] == "adds"], ["value"])
        | values_by_key("{what}.{_short}",
                        [row for row in judge_rows if row["what"] == "shapley"], ["value"])
        | values_by_key("pairs.{name}", [pairs], ["all", "within", "between"])
        | values_by_key("families.gain", [pairs], ["gain"]),
        notes=(
            *left_out,
            *say(
                values,
                no_quality=not about.quality,
                quality=True,
                chosen=True,
                unanswered=True,
                shapley=bool(shapley),
                phi=truth,
                no_families=not families_known,
                paired=families_known and pairs["gain"] is not None,
                sampled=not complete,
                seconds="seconds" in costs,
            ),
        ),
    )  # fmt: skip


def _steps(sizes: Rows) -> dict[str, Any]:
    """Return the values of the sentence about the gain of each further judge."""
    gains = [row for row in sizes if row["_gain"]]
    last = max((row["size"] for row in gains if side_of_zero(row["gain"]) > 0), default=None)
    no_more = f"; after the {ordinal(last)} no step is clearly a gain" if last else ""
    if last is None:
        no_more = "; no step is clearly a gain"
    return {
        "steps": [
            f"the {ordinal(row['size'])}{' judge adds' if row is gains[0] else ''} "
            f"{in_words(row['gain'], '+')}"
            for row in gains
        ],
        "no_more": "" if gains and last == gains[-1]["size"] else no_more,
    }


def _each(short: Sequence[str], adds: Sequence[Figure]) -> str:
    """Return which judges the panel is clearly better with, and without."""
    clear = {
        sign: sorted((at for at in range(len(adds)) if side_of_zero(adds[at]) == sign),
                     key=lambda at: -sign * (adds[at].value or 0.0))
        for sign in (1, -1)
    }  # fmt: skip
    told = [
        f"clearly better {way} "
        + joined([f"{short[at]} ({in_words(adds[at], '+')})" for at in clear[sign]])
        + f" than {other}"
        for sign, way, other in ((1, "with", "without"), (-1, "without", "with"))
        if clear[sign]
    ]
    rest = len(adds) - sum(map(len, clear.values()))
    others = "any one of them" if rest == len(adds) else f"any one of the other {rest}"
    others = "the remaining one" if rest == 1 < len(adds) else others
    left = [f"leaving out {others} makes no clear difference"] if rest else []
    return "; ".join([*([f"the panel is {told[0]}", *told[1:]] if told else []), *left])


def _pairs(
    correlations: Mapping[Pair, Array], gains: Mapping[Pair, Array], evaluator: MetricEvaluator
) -> tuple[dict[str, Figure | None], bool]:
    """Mean over all pairs, within families and between two, and what mixed pairs gain more.

    And whether there are pairs within a family.
    """
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
    found = {
        name: None if reading is None or np.isnan(reading[0]) else evaluator.figure(reading)
        for name, reading in readings.items()
    }
    return found, within is not None


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


def _charts(
    shown: Mapping[str, Mapping[str, Any]],
    sizes: Rows,
    judges: Rows,
    pairs: Rows,
    table: AnswerTable,
    main: str,
    title: str,
    price: str,
) -> tuple[Chart, ...]:
    known = [row for row in shown.values() if row["value"].value is not None]
    # Beside the means, which are at the whole number.
    beside = np.random.default_rng(0).uniform(-0.16, 0.16, len(known))
    panel, elsewhere = f"a panel ({main})", f"best, chosen on other items ({main})"
    each = [
        {"size": row["size"] + shift, "by": panel, "value": row["value"].value}
        for row, shift in zip(known, beside, strict=True)
    ]
    means = [
        {"size": r["size"], "by": f"mean of the size ({r['aggregator']})", "value": r["value"]}
        for r in sizes
    ] + [
        {"size": row["size"], "by": elsewhere, "value": row["best_elsewhere"]}
        for row in sizes if row["aggregator"] == main and row["best_elsewhere"] is not None
    ]  # fmt: skip
    grey = {"color": plots.GREY, "markersize": 3.5, "alpha": 0.8, "zorder": 1}
    worth = {"adds": "added to all the others", "shapley": "Shapley value"}
    bars = [
        {"judge": row["judge"], "what": worth[row["what"]], "value": row["value"]}
        for row in judges if row["aggregator"] == main
    ]  # fmt: skip
    order = sorted(range(len(table.judges)), key=lambda at: table.families[at])
    place = {table.judge_ids[at]: number for number, at in enumerate(order)}
    grid = sorted(
        (dict(zip(("x", "y"), sorted((row["first"], row["second"]), key=place.__getitem__),
                  strict=True)) | {"value": row["value"].value} for row in pairs),
        key=lambda row: (place[row["y"]], place[row["x"]]),
    )  # fmt: skip
    costs = [
        {price: row.get(price), "value": row["value"].value,
         "by": f"{row['size']} judge{'s' if row['size'] > 1 else ''}"} for row in known
    ]  # fmt: skip
    names = dict(zip(table.judge_ids, short_names(table.judge_ids), strict=True))
    found = [
        Chart("sizes", means, "size", "value", series="by", marks=each, title="Panels by size",
              xlabel="judges in the panel", ylabel=title,
              styles={panel: grey, elsewhere: {"color": "#444444", "linestyle": ":"}}),
        Chart("members", bars, "judge", "value", "bars", pane="what",
              title=f"{title}, difference ({main})"),
    ]  # fmt: skip
    if len(pairs) > 1:
        of_errors = pairs[0]["what"] == "error_correlation"
        found.append(
            Chart("pairs", [row | {"x": names[row["x"]], "y": names[row["y"]]} for row in grid],
                  "x", "value", "heat", series="y",
                  title="Correlation of errors given the truth" if of_errors else "κ of votes")
        )  # fmt: skip
    if price != "judges":
        found.append(
            Chart("cost", costs, price, "value", series="by", ylabel=title,
                  xlabel=_COSTS[price].title,
                  styles={row["by"]: {"linestyle": "none"} for row in costs},
                  title=f"Quality and cost of every panel ({main})")
        )  # fmt: skip
    return tuple(found)


PART = PanelStudy(
    name="composition",
    title="Size and composition of the panel",
    about="How many judges are enough, which of them are worth their cost, and does it matter that "
    "some are of one family?",
    needs=frozenset({"several"}),
    options=CompositionOptions,
    run=in_thread(measure),
)

"""How many images and judges it takes to tell two models apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field
from scipy.stats import binomtest

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Column, Frame, across, percent, values_by_key
from scenewright.evals.statistics.estimates import Estimate, holm, paired_many
from scenewright.evals.statistics.figures import LEVEL, Figure, summary
from scenewright.evals.studies.panel.power import (
    Differences,
    Moments,
    Slopes,
    Spread,
    Test,
    all_pairs,
    detectable,
    drawn_power,
    holm_power,
    images_needed,
    paired_differences,
    pooled,
    power_at,
    single_images,
)
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
    sentences_of,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

_COMPONENTS = {
    "item": "items, common to all judges",
    "fact": "facts of an item, common to all judges",
    "judge_item": "a judge's own, on an item",
    "judge_fact": "a judge's own, on a fact",
}
Rows = list[dict[str, Any]]
_RESAMPLES = 300
"""Most resamples of the variance components."""
_MOST_SIMULATED = 4000
"""Most images of a simulated study."""


class PowerOptions(Options):
    """Options of the study of statistical power."""

    effects: tuple[float, ...] = Field(default=(0.01, 0.02, 0.03, 0.05, 0.1), min_length=1)
    """Differences of the shares of facts that hold: 0.02 is two points."""
    judges: tuple[int, ...] = Field(default=(1, 2, 3, 5), min_length=1)
    """Sizes of the panel; larger ones than the table's are extrapolated."""
    powers: tuple[float, ...] = Field(default=(0.8, 0.9), min_length=1)
    """Chances to find the difference."""
    alpha: float = Field(default=0.05, gt=0.0, lt=1.0)
    """Two-sided level."""
    images: tuple[int, ...] = (50, 100, 200, 500, 1000, 2000)
    """Numbers of images of each model for which the smallest detectable difference is told."""
    facts: float | None = Field(default=None, ge=1.0)
    """Facts of an image; none: as in the table."""
    slope: float | None = Field(default=None, gt=0.0, le=1.0)
    """λ, by which a difference shrinks in the judges' eyes; none: as measured."""
    models: tuple[int, ...] = (3, 5, 10)
    """Numbers of models that are compared each with each."""
    simulations: int = Field(default=2000, ge=200)
    """Simulated studies of each size."""


@dataclass(frozen=True, slots=True, eq=False)
class _Formula:
    """Sizes of studies by the variance and λ of the table, with the intervals of both."""

    options: PowerOptions
    paired: bool
    slope: float
    """λ."""
    variances: tuple[float, ...]
    """V(J, F), one a size of the panel."""
    ratio: Array
    """V/λ² of each resample over that of the table, (resamples, sizes)."""
    n_items: int

    def test(self, power: float, models: int = 2) -> Test:
        return Test(
            paired=self.paired, alpha=self.options.alpha, power=power, comparisons=all_pairs(models)
        )

    def needed(self, effect: float, at: int, power: float) -> Estimate:
        """Images of each model for panel size number ``at``."""
        try:
            n = images_needed(effect, self.variances[at], slope=self.slope, test=self.test(power))
        except PanelStudyError as error:
            return Estimate(reason=str(error))
        low, high = self._ends(self.ratio[:, at])
        return Estimate(value=n, low=max(2.0, n * low), high=max(2.0, n * high), n=self.n_items)

    def smallest(self, n: int, at: int) -> Estimate:
        """Return the detectable difference in points with the first power, likewise."""
        test = self.test(self.options.powers[0])
        found = detectable(n, self.variances[at], slope=self.slope, test=test)
        # Images needed go with V/λ², detectable differences with its root.
        low, high = self._ends(np.sqrt(self.ratio[:, at]))
        return Estimate(value=found, low=found * low, high=found * high).times(100)

    def power(self, n: int, effect: float, at: int) -> float:
        return power_at(
            n, effect * self.slope, self.variances[at], self.test(self.options.powers[0])
        )

    @staticmethod
    def _ends(ratio: Array) -> tuple[float, float]:
        known = ratio[np.isfinite(ratio)]
        if not len(known):
            return 1.0, 1.0
        low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)


def measure(context: PanelStudyContext, options: PowerOptions) -> PanelStudyResult:
    """Size studies by a formula, from the variance of the table, and check it by simulation.

    Raises ``PanelStudyError`` where the variance or the judges' slope cannot be measured.
    """
    table = context.table
    for effect in options.effects:
        if not 0.0 < effect <= 1.0:
            raise PanelStudyError(f"an effect of {effect}: give shares above 0, 0.02 for 2 points")
    pairs = [pair for pair in paired_differences(table) if pair.n >= 2]
    paired = bool(pairs)
    kept = pairs or [one for one in single_images(table) if one.n >= 2]
    if not kept:
        raise PanelStudyError(
            f"{table.name} has no two items whose facts all judges answered: power needs to know "
            "how much they vary"
        )
    factor = 1.0 if paired else 2.0
    moments = [Moments(one) for one in kept]
    slopes = Slopes(table)
    by_judge = slopes.of()
    slope = options.slope or float(np.nanmean(by_judge))
    if not slope > 0.0:
        raise PanelStudyError(
            f"the judges' answers are {slope:.3f} higher for facts that hold than for others: with "
            "such judges no number of images is enough"
        )
    spread = pooled([one.spread() for one in moments], factor)
    own_facts = float(np.mean([one.facts for one in moments]))
    facts = options.facts or own_facts
    counts = ItemResamples(table, min(context.resamples, _RESAMPLES), context.seed).counts
    # The resamples and the simulations take about as long.
    steps = 2 * len(counts)
    drawn = []
    with np.errstate(all="ignore"):
        drawn_slope = np.nanmean(slopes.of(counts), axis=1)
    for at, row in enumerate(counts):
        again = [
            moment.spread(row[one.items])
            for moment, one in zip(moments, kept, strict=True)
            if row[one.items].sum() > 1
        ]
        of_row = pooled(again, factor) if again else spread
        lam = slope if options.slope else float(drawn_slope[at])
        drawn.append([of_row.variance(j, facts) / lam**2 for j in options.judges])
        if at % 50 == 0:
            context.told(at, steps)
    variances = tuple(spread.variance(j, facts) for j in options.judges)
    ratio = np.array(drawn) / (np.array(variances) / slope**2)
    formula = _Formula(options, paired, slope, variances, ratio, table.n_items)
    sizes = list(enumerate(options.judges))
    needed: Rows = [
        {"power": power, "effect": effect, "judges": j, "value": formula.needed(effect, at, power),
         "_points": 100 * effect}
        for power in options.powers
        for effect in options.effects
        for at, j in sizes
    ]  # fmt: skip
    smallest: Rows = [
        {"images": n, "judges": j, "value": formula.smallest(n, at)}
        for n in options.images
        for at, j in sizes
    ]
    simulated = _simulated(context, formula, kept, moments, spread, own_facts)
    typical = min(options.effects, key=lambda e: abs(e - 0.05))
    several = _several(context, formula, typical)
    compared = _compared(table, pairs, context.seed) if paired else []
    mean_slope = summary(slope, drawn_slope, table.n_items)
    shown_slope = Figure(value=slope) if options.slope else mean_slope
    components: Rows = [
        {"component": name, "value": value, "_title": _COMPONENTS[name]}
        for name, value in spread.model_dump().items()
    ] + [
        {"component": f"slope:{name}", "value": float(value), "_title": f"λ of {name}"}
        for name, value in zip(table.judge_ids, by_judge, strict=True)
    ]
    context.told(steps, steps)
    power, alpha = options.powers[0], f"{options.alpha:g}"
    total = spread.variance(1, facts)
    own = (spread.judge_item + spread.judge_fact / facts) / total if total > 0 else 0.0
    first, last = (formula.needed(typical, at, power) for at in (0, len(sizes) - 1))
    values = {
        "points": 100 * typical, "first": first, "last": last, "real": len(table.judges),
        "judges": (options.judges[0], options.judges[-1]), "power": power, "paired": paired,
        "alpha": options.alpha, "slope": shown_slope, "slope_set": options.slope,
        "own": own, "common": 1.0 - own, "cases": len(simulated), "pairs": len(compared),
        "far": max((100 * abs(r["formula"] - r["value"].value) for r in simulated), default=0.0),
        "inside": sum(r["value"].low <= r["formula"] <= r["value"].high for r in simulated),
        "clear": sum(row["holm"] < options.alpha for row in compared),
    }  # fmt: skip
    judges = {f"judges_{j}": f"{j} judge{'s' if j > 1 else ''}" for j in options.judges}
    exact, tenths = ({name: Column(title=title, digits=digits) for name, title in judges.items()}
                     for digits in (0, 1))  # fmt: skip
    design = f"α = {alpha}, {'paired' if paired else 'unpaired'}, {facts:.1f} facts an image"
    known_truth = any(row["truth"] is not None for row in compared)
    true_points = Column(title="corrected for the judges (points)", digits=1, factor=100.0 / slope)
    say = sentences_of("power")
    return PanelStudyResult(
        findings=say(
            values,
            needed=None not in (first.value, last.value),
            slope=True,
            own=total > 0,
            simulated=bool(simulated),
            compared=bool(compared),
        ),
        frames=(
            *(Frame.of(f"images_needed_{100 * p:.0f}", across(
                [row for row in needed if row["power"] == p], "_points", "judges_{judges}", "value"
            ), f"Images of each model for {100 * p:g} % power ({design})", exact,
                head="Difference", label="{_points:g} points", kept=False) for p in options.powers),
            Frame.of("detectable_points", across(smallest, "images", "judges_{judges}", "value"),
                     f"Smallest difference (points) that is found with {100 * power:g} % power",
                     tenths, head="Images of each model", label="{images:,}", kept=False),
            Frame.of("models_needed", across(several, "models", "judges_{judges}", "_cell"),
                     f"Images of each model to tell {100 * typical:g} points apart when every pair "
                     "of several models is compared (Bonferroni; power of Holm's procedure with "
                     "them)", exact, head="Models", label="{models}", kept=False),
            Frame.of("power_simulated", simulated,
                     "Power (%) by the formula and by studies drawn from the table",
                     {"images": "images of each model", "formula": percent("formula"),
                      "value": percent("simulated")}, head="Study", label="{_title}"),
            Frame.of("models_compared", compared, "The models of the table, by all its judges",
                     {"value": percent("difference as seen (points)"), "_true": true_points}
                     | ({"truth": percent("truth (points)")} if known_truth else {})
                     | {name: Column(title=title, digits=4)
                        for name, title in (("p", "p"), ("holm", "p (Holm)"))},
                     head="Models", label="{first} − {second}"),
            Frame.of("variance_components",
                     [*components, {"_title": "λ, mean", "value": shown_slope}],
                     "Variance of the difference of two images, by where it comes from, and λ",
                     {"value": Column(title="value", digits=4)}, head="Component", label="{_title}",
                     kept=False),
            Frame.of("images_needed", needed),
            Frame.of("detectable", smallest),
            Frame.of("several_models", several),
            Frame.of("variance", components),
        ),
        charts=(_chart(formula, simulated),),
        figures=values_by_key("images.{_points:g}_points.{judges}_judges",
                              [row for row in needed if row["power"] == power], ["value"], True)
        | values_by_key("slope", [{"slope": shown_slope}], ["slope"], True),
        notes=say(
            values,
            tests=True,
            shrinks=True,
            extrapolated=max(options.judges) > len(table.judges),
            slope_set=bool(options.slope),
            unlabelled=not options.slope and not slopes.labelled,
        ),
    )  # fmt: skip


def _images(effect: float, variance: float, slope: float, test: Test) -> int | None:
    """Return the images of each model; None where no number that can be drawn is enough."""
    try:
        return images_needed(effect, variance, slope=slope, test=test)
    except PanelStudyError:
        return None


def _simulated(
    context: PanelStudyContext,
    formula: _Formula,
    kept: Sequence[Differences],
    moments: Sequence[Moments],
    spread: Spread,
    facts: float,
) -> Rows:
    """Power by drawing from the table, at the numbers of images that the formula asks for."""
    options, slope = formula.options, formula.slope
    factor = 1.0 if formula.paired else 2.0
    test = formula.test(options.powers[0])
    each = max(1, options.simulations // len(kept))
    found: Rows = []
    for judges in sorted({j for j in options.judges if j <= len(context.table.judges)}):
        for effect in options.effects:
            n = _images(effect, spread.variance(judges, facts), slope, test)
            if n is None or n > _MOST_SIMULATED:
                continue
            hits = total = 0
            powers = []
            for pair, one in zip(kept, moments, strict=True):
                # Against the formula with the pair's own components: pairs differ.
                own = pooled([one.spread()], factor).variance(judges, one.facts)
                powers.append(power_at(n, effect * slope, own, test))
                share, m = drawn_power(
                    pair, n, effect * slope, judges,
                    test=test, simulations=each, seed=context.seed,
                )  # fmt: skip
                hits, total = hits + round(share * m), total + m
            # Wilson's (1927) interval.
            ends = binomtest(hits, total).proportion_ci(LEVEL, "wilson")
            found.append(
                {
                    "effect": effect,
                    "judges": judges,
                    "images": n,
                    "formula": float(np.mean(powers)),
                    "_title": f"{100 * effect:g} points, {judges} judge{'s' if judges > 1 else ''}",
                    "studies": total,
                    "value": Estimate(value=hits / total, low=ends.low, high=ends.high, n=total),
                }
            )
    return found


def _several(context: PanelStudyContext, formula: _Formula, effect: float) -> Rows:
    """Images by Bonferroni for several models, and the power of Holm's procedure with them."""
    options = formula.options
    found: Rows = []
    for models in dict.fromkeys(options.models):
        test = formula.test(options.powers[0], models)
        for judges, variance in zip(options.judges, formula.variances, strict=True):
            n = _images(effect, variance, formula.slope, test)
            power = None
            if n is None:
                found.append({"models": models, "judges": judges, "images": None,
                              "holm_power": None, "_cell": None})  # fmt: skip
                continue
            if formula.paired and n * models <= 10 * _MOST_SIMULATED:
                power = holm_power(
                    n, effect * formula.slope, variance, models,
                    test=test, simulations=200, seed=context.seed,
                )  # fmt: skip
            found.append(
                {
                    "models": models,
                    "judges": judges,
                    "images": n,
                    "holm_power": power,
                    "_cell": (n, "" if power is None else f"(Holm {100 * power:.0f} %)"),
                }
            )
    return found


def _compared(table: AnswerTable, pairs: Sequence[Differences], seed: int) -> Rows:
    """Return the models of the table as they are, each pair with its test."""
    found: Rows = []
    for pair in pairs:
        test = paired_many(pair.by_item.mean(1)[:, None], seed=seed)[0]
        found.append(
            {
                "first": pair.models[0],
                "second": pair.models[1],
                "value": Figure(value=test.mean, low=test.low, high=test.high),
                "p": test.p,
                "truth": _true_difference(table, pair),
                "_true": Figure(value=test.mean, low=test.low, high=test.high),
            }
        )
    corrected = holm([1.0 if row["p"] is None else row["p"] for row in found])
    return [row | {"holm": float(p)} for row, p in zip(found, corrected, strict=True)]


def _true_difference(table: AnswerTable, pair: Differences) -> float | None:
    """Difference of the shares of facts that hold, mean over images of the items of ``pair``."""
    if np.isnan(table.truth).any():
        return None
    shares = table.image_means(table.truth)
    models = np.array([image.model for image in table.images])
    first, second = (
        [np.nanmean(shares[(table.item_of_image == item) & (models == model)])
         for item in pair.items]
        for model in pair.models
    )  # fmt: skip
    return float(np.mean(np.subtract(first, second)))


def _chart(formula: _Formula, simulated: Rows) -> Chart:
    """Power against images by the formula, and by simulation: the smallest and largest panel."""
    options = formula.options
    sizes = dict.fromkeys((0, len(options.judges) - 1))
    ns = [int(n) for n in np.unique(np.geomspace(10, 20_000, 60).astype(int))]
    names = {
        at: f"{options.judges[at]} judge{'s' if options.judges[at] > 1 else ''}" for at in sizes
    }
    lines = [
        {"images": n, "difference": f"{100 * effect:g} points", "panel": names[at],
         "power": formula.power(n, effect, at)}
        for at in sizes for effect in options.effects for n in ns
    ]  # fmt: skip
    marks = [
        {"images": row["images"], "difference": f"{100 * row['effect']:g} points",
         "panel": names[at], "power": row["value"]}
        for at in sizes for row in simulated if row["judges"] == options.judges[at]
    ]  # fmt: skip
    return Chart(
        "power", lines, "images", "power", series="difference", pane="panel", marks=marks,
        title="Lines by the formula, marks by simulation", xlabel="images of each model",
        ylabel="power (%)", factor=100.0, band=True, log=True, limits=(0.0, 102.0),
        rules={"": 100 * options.powers[0]},
    )  # fmt: skip


PART = PanelStudy(
    name="power",
    title="Statistical power",
    about="How many images and judges does one need to tell two models apart?",
    needs=frozenset(),
    options=PowerOptions,
    run=in_thread(measure),
)

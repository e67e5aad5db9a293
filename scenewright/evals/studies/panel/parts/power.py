"""How many images and judges it takes to tell two models apart."""

from __future__ import annotations

import asyncio

import numpy as np
from pydantic import Field

from scenewright.evals.statistics.paired import paired_many
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.parts.power_found import Compared, Power, Simulated
from scenewright.evals.studies.panel.parts.power_page import page
from scenewright.evals.studies.panel.power import Test, all_pairs, images_needed, power_at
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.spread import (
    Differences,
    Moments,
    Slopes,
    drawn_power,
    holm_power,
    paired_differences,
    pooled,
    single_images,
)
from scenewright.evals.studies.panel.table import AnswerTable

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


async def run(context: PanelStudyContext, options: PowerOptions) -> PanelStudyResult:
    """Measures it all and writes the page."""
    return page(await asyncio.to_thread(_measured, context, options))


def _measured(context: PanelStudyContext, options: PowerOptions) -> Power:
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
    facts = options.facts or float(np.mean([one.facts for one in moments]))
    counts = ItemResamples(table, min(context.resamples, _RESAMPLES), context.seed).counts
    # The resamples and the simulations take about as long.
    steps = 2 * len(counts)
    drawn = []
    with np.errstate(all="ignore"):
        drawn_slope = np.nanmean(slopes.of(counts), axis=1)
    for at, row in enumerate(counts):
        found = [
            moment.spread(row[one.items])
            for moment, one in zip(moments, kept, strict=True)
            if row[one.items].sum() > 1
        ]
        again = pooled(found, factor) if found else spread
        lam = slope if options.slope else float(drawn_slope[at])
        drawn.append([again.variance(j, facts) / lam**2 for j in options.judges])
        if at % 50 == 0:
            context.told(at, steps)
    variances = [spread.variance(j, facts) for j in options.judges]
    # Images needed go with V/λ², detectable differences with its root.
    ratio = np.array(drawn) / (np.array(variances) / slope**2)
    power = Power(
        paired=paired,
        real=len(table.judges),
        names=table.judge_ids,
        n_items=table.n_items,
        spread=spread,
        facts=facts,
        slopes=by_judge,
        slope=slope,
        slope_drawn=drawn_slope,
        slope_given=options.slope is not None,
        labelled=slopes.labelled,
        judges=options.judges,
        variances=tuple(variances),
        ratio=ratio,
        effects=options.effects,
        powers=options.powers,
        alpha=options.alpha,
        images=options.images,
        simulated=tuple(_simulated(context, options, kept, moments, slope, facts)),
        several=_several(context, options, variances, slope, paired),
        compared=_compared(table, pairs, context.seed) if paired else (),
    )
    context.told(steps, steps)
    return power


def _simulated(
    context: PanelStudyContext,
    options: PowerOptions,
    kept: list[Differences],
    moments: list[Moments],
    slope: float,
    facts: float,
) -> list[Simulated]:
    """Power by drawing from the table, at the numbers of images that the formula asks for."""
    paired = kept[0].models[0] != kept[0].models[1]
    factor = 1.0 if paired else 2.0
    test = Test(paired=paired, alpha=options.alpha, power=options.powers[0])
    each = max(1, options.simulations // len(kept))
    spread = pooled([one.spread() for one in moments], factor)
    own_facts = float(np.mean([one.facts for one in moments]))
    found = []
    for judges in sorted({j for j in options.judges if j <= len(context.table.judges)}):
        for effect in options.effects:
            n = images_needed(effect, spread.variance(judges, own_facts), slope=slope, test=test)
            if n > _MOST_SIMULATED:
                continue
            hits = total = 0
            formula = []
            for pair, one in zip(kept, moments, strict=True):
                # Against the formula with the pair's own components: pairs differ.
                own = pooled([one.spread()], factor).variance(judges, one.facts)
                formula.append(power_at(n, effect * slope, own, test))
                share, m = drawn_power(
                    pair, n, effect * slope, judges,
                    test=test, simulations=each, seed=context.seed,
                )  # fmt: skip
                hits, total = hits + round(share * m), total + m
            found.append(Simulated(effect, judges, n, float(np.mean(formula)), hits, total))
    return found


def _several(
    context: PanelStudyContext,
    options: PowerOptions,
    variances: list[float],
    slope: float,
    paired: bool,
) -> dict[int, list[tuple[int, float]]]:
    """Models → for each size of the panel (images by Bonferroni, power of Holm with them), for a
    difference of 5 points or the effect nearest to that."""
    effect = min(options.effects, key=lambda e: abs(e - 0.05))
    found = {}
    for models in dict.fromkeys(options.models):
        test = Test(
            paired=paired, alpha=options.alpha, power=options.powers[0],
            comparisons=all_pairs(models),
        )  # fmt: skip
        rows = []
        for variance in variances:
            n = images_needed(effect, variance, slope=slope, test=test)
            power = float("nan")
            if paired and n * models <= 10 * _MOST_SIMULATED:
                power = holm_power(
                    n, effect * slope, variance, models,
                    test=test, simulations=200, seed=context.seed,
                )  # fmt: skip
            rows.append((n, power))
        found[models] = rows
    return found


def _compared(table: AnswerTable, pairs: list[Differences], seed: int) -> tuple[Compared, ...]:
    """The models of the table as they are."""
    found = []
    for pair in pairs:
        one = paired_many(pair.by_item.mean(1)[:, None], seed=seed)[0]
        found.append(Compared(pair.models, one, _true_difference(table, pair)))
    p = np.array([one.test.p if one.test.p is not None else 1.0 for one in found])
    order = np.argsort(p)
    holm = np.empty(len(p))
    holm[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return tuple(
        Compared(one.models, one.test, one.truth, float(h))
        for one, h in zip(found, holm, strict=True)
    )


def _true_difference(table: AnswerTable, pair: Differences) -> float | None:
    """Difference of the shares of facts that hold, mean over images of the items of ``pair``."""
    if np.isnan(table.truth).any():
        return None
    shares = table.image_means(table.truth)
    found = []
    for item in pair.items:
        means = []
        for model in pair.models:
            mine = [
                at for at in np.flatnonzero(table.item_of_image == item)
                if table.images[at].model == model
            ]  # fmt: skip
            means.append(float(np.nanmean(shares[mine])))
        found.append(means[0] - means[1])
    return float(np.mean(found))


PART = PanelStudy(
    name="power",
    title="Statistical power",
    about="How many images and judges does one need to tell two models apart?",
    needs=frozenset(),
    options=PowerOptions,
    run=run,
)

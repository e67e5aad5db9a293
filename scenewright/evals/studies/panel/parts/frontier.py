"""What is bought with answers: quorum, abstention, and cascades of judges against their cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.cascades import CascadeReplayer, Plan, plans_of
from scenewright.evals.studies.panel.metric_evaluator import Measure, MetricEvaluator, Wanted, ratio
from scenewright.evals.studies.panel.parts.frontier_cascades import Cascades
from scenewright.evals.studies.panel.parts.frontier_page import page
from scenewright.evals.studies.panel.parts.frontier_result import Abstaining, Frontier, Quorum, Rule
from scenewright.evals.studies.panel.selective import (
    Selective,
    kept_by_margin,
    margin_of,
    selective,
    spread_of,
)
from scenewright.evals.studies.panel.subsets import Combiner, Members, panels_of, usable_names
from scenewright.evals.studies.panel.table import AnswerTable, Mask

COVERAGES = tuple(round(0.05 * step, 2) for step in range(1, 21))
"""Of the curves; tables show 80, 90 and 95 %."""
_PANELS = 255


class FrontierOptions(Options):
    """Options of the study of quorum, abstention and cascades."""

    aggregators: tuple[str, ...] = Field(
        default=("mean", "dawid_skene", "calibrated"), min_length=1
    )
    """Ways to combine the judges; quorum and cascades are by the first that can be used."""
    measure: Wanted = "auto"
    """What quality is, as for the study of composition."""
    missing: tuple[float, ...] = (0.0, 0.1, 0.3)
    """Shares of the answers that are taken away at random before a quorum is asked for, on top of
    those that the table lacks."""
    draws: int = Field(default=5, ge=1, le=100)
    """Times that they are taken away anew; figures are means over these."""
    thresholds: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.45)
    """Lower bounds t: the panel abstains where its probability is within [t, 1 − t]."""
    spreads: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4)
    """Disagreements d: the panel abstains where the standard deviation of its judges'
    probabilities is above d."""
    unsure: tuple[tuple[float, float], ...] = (
        (0.01, 0.99),
        (0.1, 0.9),
        (0.2, 0.8),
        (0.3, 0.7),
        (0.4, 0.6),
    )
    """Bounds between which a cascade's first judges are unsure."""
    cost: Literal["auto", "calls", "answers", "tokens", "usd"] = "auto"
    """What a cascade should save; ``auto``: dollars where they are known, else calls."""
    margin: float = Field(default=0.01, ge=0.0, lt=1.0)
    """Quality that may be given up for it."""
    most: int = Field(default=4000, ge=10)
    """Most panels and cascades that are walked through."""

    @field_validator("missing", "thresholds", "spreads")
    @classmethod
    def _shares(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if not given or not all(0.0 <= share < 1.0 for share in given):
            raise ValueError("give one or more numbers from 0 to below 1")
        return tuple(sorted(set(given)))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.unsure or not all(0.0 <= low <= high <= 1.0 for low, high in self.unsure):
            raise ValueError("unsure: give pairs of bounds in [0, 1], the lower first")
        if max(self.thresholds) >= 0.5:
            raise ValueError("thresholds: give lower bounds below 0.5")
        return self


async def run(context: PanelStudyContext, options: FrontierOptions) -> PanelStudyResult:
    """Raises ``PanelStudyError`` if no aggregator can be used, or for a measure that the table does
    not have."""
    return page(await asyncio.to_thread(study, context, options))


def study(context: PanelStudyContext, options: FrontierOptions) -> Frontier:
    """All that is measured."""
    table = context.table
    everyone: Members = tuple(range(len(table.judges)))
    combiner = Combiner(table, context.learn, context.seed)
    names, notes = usable_names(combiner, options.aggregators)
    walker = CascadeReplayer(table)
    likely = combiner.likely(names[0], everyone)
    full = walker.walk(Plan(everyone), likely, likely)
    evaluator = MetricEvaluator(
        table, resamples=context.resamples, seed=context.seed, halves=1, full=full.likely
    )
    measure = evaluator.choose(options.measure)
    evaluator.check(full.likely, measure)
    panels = panels_of(len(everyone), _PANELS, context.seed)
    plans, complete = plans_of(panels, options.unsure, options.most)
    total = len(options.missing) + len(plans)
    done = 0

    def told(steps: int = 1) -> None:
        nonlocal done
        done += steps
        context.told(min(done, total), total)

    cascades = Cascades(
        combiner, evaluator, walker, names[0], measure, options.cost, options.margin
    )
    return Frontier(
        table=table,
        names=names,
        measure=measure,
        margin=options.margin,
        quorums=_quorums(context, evaluator, names[0], measure, options, told),
        rules=_rules(evaluator, likely, measure, options),
        abstaining=_abstaining(combiner, evaluator, names),
        observed_missing=_observed(table),
        complete=complete,
        cascades=cascades.found(plans, full, told),
        notes=tuple(notes),
    )


def _observed(table: AnswerTable) -> float:
    asked = table.asked
    return float(np.isnan(table.said[asked]).mean()) if asked.any() else 0.0


def _quorums(
    context: PanelStudyContext,
    evaluator: MetricEvaluator,
    name: str,
    measure: Measure,
    options: FrontierOptions,
    told: Callable[[], None],
) -> tuple[Quorum, ...]:
    table, n = context.table, len(context.table.judges)
    asked = table.asked.any(1)
    found: list[Quorum] = []
    for rate in options.missing:
        scored: dict[int, list[Array]] = {q: [] for q in range(1, n + 1)}
        quality: dict[int, list[Array]] = {q: [] for q in range(1, n + 1)}
        for draw in range(options.draws if rate else 1):
            rng = np.random.default_rng([context.seed, draw, round(rate * 1e6)])
            # Nested: what one draw loses at a low quorum it loses at a high one.
            lost = rng.random(table.said.shape) < rate
            thin = table.with_said(
                np.where(lost, np.nan, table.said), np.where(lost, np.nan, table.votes)
            )
            combiner = Combiner(thin, context.learn, context.seed)
            likely = combiner.likely(name, tuple(range(n)))
            answers = (~np.isnan(thin.said)).sum(1)
            for q in range(1, n + 1):
                kept = np.where(answers >= q, likely, np.nan)
                there, of = evaluator.sums([asked & ~np.isnan(kept), asked]).T
                scored[q].append(ratio(there, of))
                quality[q].append(evaluator.read(kept, measure))
        base = np.mean(quality[1], 0)
        for q in range(1, n + 1):
            mean = np.mean(quality[q], 0)
            found.append(
                Quorum(
                    missing=rate,
                    quorum=q,
                    scored=evaluator.figure(np.mean(scored[q], 0)),
                    quality=evaluator.figure(mean),
                    gain=evaluator.figure(mean - base),
                )
            )
        told()
    return tuple(found)


def _rules(
    evaluator: MetricEvaluator, likely: Array, measure: Measure, options: FrontierOptions
) -> tuple[Rule, ...]:
    spread = spread_of(evaluator.table)
    known = ~np.isnan(likely)
    kept: list[tuple[float | None, Literal["", "threshold", "spread"], Mask]] = [(None, "", known)]
    kept += [(t, "threshold", known & kept_by_margin(likely, t)) for t in options.thresholds[::-1]]
    kept += [(d, "spread", known & (spread <= d + 1e-12)) for d in options.spreads[::-1]]
    found = []
    base = evaluator.read(likely, measure)
    for bound, kind, rows in kept:
        there, of = evaluator.sums([rows, known]).T
        quality = evaluator.read(np.where(rows, likely, np.nan), measure)
        found.append(
            Rule(
                kind=kind,
                bound=bound,
                coverage=evaluator.figure(ratio(there, of)),
                quality=evaluator.figure(quality),
                gain=evaluator.figure(quality - base),
            )
        )
    return tuple(found)


def _abstaining(
    combiner: Combiner, evaluator: MetricEvaluator, names: tuple[str, ...]
) -> tuple[Abstaining, ...]:
    """Of every aggregator and every judge, where there is truth; the first is the main one."""
    table = combiner.table
    if "accuracy" not in evaluator.measures:
        return ()
    everyone = tuple(range(len(table.judges)))
    voters: list[tuple[str, Literal["margin", "spread", "judge"], Array, Array]] = []
    for name in names:
        likely = combiner.likely(name, everyone)
        voters.append((name, "margin", likely, margin_of(likely)))
    main = voters[0][2]
    voters.append((names[0], "spread", main, -spread_of(table)))
    for at, judge in enumerate(table.judge_ids):
        voters.append((judge, "judge", table.said[:, at], margin_of(table.said[:, at])))
    found: list[Abstaining] = []
    base: Selective | None = None
    for voter, kind, likely, sureness in voters:
        if np.isnan(likely).all():
            continue
        one = selective(evaluator, likely, sureness, COVERAGES)
        base = base or one
        found.append(
            Abstaining(
                voter=voter,
                kind=kind,
                accuracy=evaluator.figure(1.0 - one.risk),
                area=evaluator.figure(one.area),
                more_area=evaluator.figure(one.area - base.area),
                saved=evaluator.figure(1.0 - ratio(one.area, one.risk)),
                at={
                    coverage: evaluator.figure(1.0 - one.risk_at[:, number])
                    for number, coverage in enumerate(COVERAGES)
                },
                gains={
                    coverage: evaluator.figure(one.risk - one.risk_at[:, number])
                    for number, coverage in enumerate(COVERAGES)
                },
            )
        )
    return tuple(found)


PART = PanelStudy(
    name="frontier",
    title="Quorum, abstention and cascades",
    about="How many answers should a verdict need, when should the panel keep silent, and what "
    "does asking the costly judges only where the cheap ones are unsure give up?",
    needs=frozenset({"several"}),
    options=FrontierOptions,
    run=run,
)

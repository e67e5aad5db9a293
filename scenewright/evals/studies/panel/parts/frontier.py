"""What is bought with answers: quorum, abstention, and cascades of judges against their cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import number
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.cascades import (
    COSTS,
    CascadeReplay,
    CascadeReplayer,
    Plan,
    Selective,
    kept_by_margin,
    margin_of,
    pareto,
    plans_of,
    selective,
    spread_of,
)
from scenewright.evals.studies.panel.metrics import (
    MEASURES,
    MeasureName,
    MetricEvaluator,
    Wanted,
    ratio,
)
from scenewright.evals.studies.panel.presentation import (
    joined,
    report,
    short_names,
)
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
)
from scenewright.evals.studies.panel.subpanels import Combiner, Members, panels_of, usable_names
from scenewright.evals.studies.panel.table import AnswerTable, Mask, PanelStudyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

COVERAGES = tuple(round(0.05 * step, 2) for step in range(1, 21))
"""Of the curves."""
SHOWN = (0.95, 0.9, 0.8)
"""Coverages that tables show."""
_PANELS = 255
_MOST_ROWS = 12
"""Of a table of the frontier."""
_COSTS = {"calls": ("calls", 2), "answers": ("answers", 2), "tokens": ("tokens", 0),
          "usd": ("dollars", 5)}  # fmt: skip
Rows = list[dict[str, Any]]
_VERDICT = "facts with a verdict (%)"


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


def _result(context: PanelStudyContext, options: FrontierOptions) -> PanelStudyResult:
    """Measure quorums, rules of abstention, panels and cascades.

    Raises ``PanelStudyError`` if no aggregator can be used, or for a measure that the table does
    not have.
    """
    table = context.table
    everyone: Members = tuple(range(len(table.judges)))
    combiner = Combiner(table, context.learn, context.seed)
    names, left_out = usable_names(combiner, options.aggregators)
    replayer = CascadeReplayer(table)
    likely = combiner.likely(names[0], everyone)
    full = replayer.walk(Plan(everyone), likely, likely)
    evaluator = MetricEvaluator(
        table, resamples=context.resamples, seed=context.seed, halves=1, full=full.likely
    )
    measure = evaluator.choose(options.measure)
    evaluator.check(full.likely, measure)
    panels = panels_of(len(everyone), _PANELS, context.seed)
    plans, complete = plans_of(panels, options.unsure, options.most)
    step = context.steps(len(options.missing) + len(plans))
    costs = tuple(c for c in COSTS if c in ("calls", "answers") or getattr(table, c).any())
    if options.cost not in (*costs, "auto"):
        raise PanelStudyError(
            f"{table.name} does not tell the {options.cost} of its answers: take another cost of "
            f"{', '.join(costs)}"
        )
    cost = ("usd" if "usd" in costs else "calls") if options.cost == "auto" else options.cost
    quorums = _quorums(context, evaluator, names[0], measure, options, step)
    rules = _rules(evaluator, likely, measure, options)
    voters = _voters(combiner, evaluator, names)
    walks = _Walks(combiner, evaluator, replayer, names[0], measure, costs, full)
    cascades = walks.measured(plans, step)
    front = [row for row in cascades if row[f"pareto_{cost}"]]
    best = _steps(sorted(front, key=lambda row: row["_rank"][cost]))
    everything = next(row for row in cascades if row["_plan"] == Plan(everyone))
    everything["_label"] += " (the full panel)"
    about = MEASURES[measure]
    values = {
        "about": about,
        "main": names[0],
        "margin": f"{options.margin:g}",
        "cost": _COSTS[cost][0],
        "cost_key": cost,
        "cost_columns": {c: (f"{_COSTS[c][0]} an image", _COSTS[c][1]) for c in costs},
        "chosen": walks.chosen(cascades, cost, options.margin),
        "cascades": cascades,
        "front": front,
        "best": best + ([] if everything in front else [everything]),
        "everything": everything,
        "voters": voters,
        "rules": rules,
        "quorums": quorums,
        **_abstention_values(voters, rules),
        "quorum": _quorum_values(quorums, len(everyone)),
        "n": len(everyone),
        "missing": _missing(table),
        "complete": complete,
        "from_all_answers": names[0] not in ("mean", "majority", "calibrated"),
    }
    coverage = [
        {**{name: row[name] for name in ("voter", "sureness")}, "coverage": at,
         "accuracy_value": accuracy, "gain_value": gain}
        for row in voters
        for at, (accuracy, gain) in row["_at"].items()
    ]  # fmt: skip
    return report(
        "frontier",
        values,
        plots={
            "cascades": partial(_draw_cascades, cascades, cost, everything, about.title, names[0]),
            "coverage": partial(_draw_coverage, voters) if voters else None,
            "rules": partial(_draw_rules, rules, about.title, names[0]),
            "quorum": partial(_draw_quorum, quorums, about.title, names[0]),
        },
        records_of={
            "cascades": cascades,
            "quorum": quorums,
            "rules": rules,
            "coverage": coverage or None,
            "areas": voters or None,
        },
        before=left_out,
    )


def _missing(table: AnswerTable) -> float:
    """Share of the asked answers that the table lacks."""
    asked = table.asked
    return float(np.isnan(table.said[asked]).mean()) if asked.any() else 0.0


def _quorums(
    context: PanelStudyContext,
    evaluator: MetricEvaluator,
    name: str,
    measure: MeasureName,
    options: FrontierOptions,
    step: Callable[[], None],
) -> Rows:
    """Facts with a verdict and their quality, by missing answers and quorum.

    ``gain``: against a quorum of one, paired.
    """
    table, n = context.table, len(context.table.judges)
    asked = table.asked.any(1)
    found: Rows = []
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
            likely = Combiner(thin, context.learn, context.seed).likely(name, tuple(range(n)))
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
                {
                    "missing": rate,
                    "quorum": q,
                    "_missing": f"{number(100.0 * rate, 0)} %",
                    "scored_value": evaluator.figure(np.mean(scored[q], 0)),
                    "quality_value": evaluator.figure(mean),
                    "gain_value": evaluator.figure(mean - base),
                }
            )
        step()
    return found


def _rules(
    evaluator: MetricEvaluator, likely: Array, measure: MeasureName, options: FrontierOptions
) -> Rows:
    """Coverage and quality with each bound of abstention, the first without one.

    ``gain``: against no rule, paired.
    """
    spread = spread_of(evaluator.table)
    known = ~np.isnan(likely)
    kept: list[tuple[str, float | None, str, Mask]] = [("never", None, "never", known)]
    kept += [
        ("threshold", t, f"within {number(t, 2)}–{number(1.0 - t, 2)}", kept_by_margin(likely, t))
        for t in options.thresholds[::-1]
    ]
    kept += [
        ("spread", d, f"where its judges differ by more than {number(d, 2)}", spread <= d + 1e-12)
        for d in options.spreads[::-1]
    ]
    base = evaluator.read(likely, measure)
    found: Rows = []
    for kind, bound, title, rows in kept:
        there, of = evaluator.sums([rows & known, known]).T
        quality = evaluator.read(np.where(rows & known, likely, np.nan), measure)
        found.append(
            {
                "rule": kind,
                "bound": bound,
                "coverage_value": evaluator.figure(ratio(there, of)),
                "quality_value": evaluator.figure(quality),
                "gain_value": evaluator.figure(quality - base),
                "_title": title,
                "_key": kind if bound is None else f"{kind}_{bound:g}",
            }
        )
    return found


def _voters(combiner: Combiner, evaluator: MetricEvaluator, names: Sequence[str]) -> Rows:
    """Abstention by every aggregator, the main one first, and every judge; empty without truth.

    ``sureness``: how sure a panel is, by its probability's distance from ½ (``margin``) or by how
    little its judges differ (``spread``); a judge is as sure as its own probability. ``more_area``:
    area under the risk–coverage curve less that of the main aggregator, paired. ``_at``: coverage →
    accuracy, and its gain over a verdict on every fact. ``_saved``: 1 − area / risk, which is 0 for
    a random order.
    """
    table = combiner.table
    if "accuracy" not in evaluator.measures:
        return []
    everyone = tuple(range(len(table.judges)))
    short = short_names(table.judge_ids)
    by_name = {name: combiner.likely(name, everyone) for name in names}
    main = by_name[names[0]]
    voters = [(n, "margin", f"panel ({n})", p, margin_of(p)) for n, p in by_name.items()]
    title = f"panel ({names[0]}), by disagreement"
    voters.append((names[0], "spread", title, main, -spread_of(table)))
    voters += [
        (judge, "judge", short[at], table.said[:, at], margin_of(table.said[:, at]))
        for at, judge in enumerate(table.judge_ids)
    ]
    found: Rows = []
    base: Selective | None = None
    figure = evaluator.figure
    for voter, kind, title, likely, sureness in voters:
        if np.isnan(likely).all():
            continue
        one = selective(evaluator, likely, sureness, COVERAGES)
        base = base or one
        found.append(
            {
                "voter": voter,
                "sureness": kind,
                "area_value": figure(one.area),
                "more_area_value": figure(one.area - base.area),
                "accuracy_value": figure(1.0 - one.risk),
                "_title": title,
                "_saved": figure(1.0 - ratio(one.area, one.risk)),
                "_at": {
                    at: (figure(1.0 - risk), figure(one.risk - risk))
                    for at, risk in zip(COVERAGES, one.risk_at.T, strict=True)
                },
            }
        )
        found[-1] |= {f"_at_{round(100 * c)}": found[-1]["_at"][c][0] for c in SHOWN}
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Walks:
    """Panels and cascades of one aggregator, compared with the panel that is always full."""

    combiner: Combiner
    evaluator: MetricEvaluator
    replayer: CascadeReplayer
    name: str
    measure: MeasureName
    costs: tuple[str, ...]
    full: CascadeReplay

    def walk(self, plan: Plan) -> CascadeReplay:
        by_first = self.combiner.likely(self.name, plan.first)
        by_all = self.combiner.likely(self.name, plan.everyone) if plan.others else by_first
        return self.replayer.walk(plan, by_first, by_all)

    def measured(self, plans: Sequence[Plan], step: Callable[[], None]) -> Rows:
        """One row a plan; the full panel, single judges and those on a frontier have intervals.

        ``_halves``: (quality, costs) on each half of the items.
        """
        evaluator, table = self.evaluator, self.combiner.table
        ids, short = table.judge_ids, short_names(table.judge_ids)
        points = evaluator.weights[[0, *evaluator.halves[0]]]
        quality: dict[Plan, Array] = {}
        spent: dict[Plan, dict[str, Array]] = {}
        for plan in plans:
            walked = self.walk(plan)
            quality[plan] = evaluator.read(walked.likely, self.measure, points)
            spent[plan] = {c: evaluator.per_image(walked.cost(c), points) for c in self.costs}
            step()
        fronts = {
            cost: pareto(
                {plan: float(q[0]) for plan, q in quality.items()},
                {plan: float(spent[plan][cost][0]) for plan in plans},
            )
            for cost in self.costs
        }
        wanted = {plan for front in fronts.values() for plan in front}
        wanted |= {
            plan for plan in plans if len(plan.everyone) in (1, len(ids)) and not plan.others
        }
        reading = evaluator.read(self.full.likely, self.measure)
        found: Rows = []
        for plan in plans:
            first = float(quality[plan][0])
            row: dict[str, Any] = {
                "first": " ".join(ids[at] for at in plan.first),
                "others": " ".join(ids[at] for at in plan.others),
                "unsure_low": plan.unsure[0] if plan.others else None,
                "unsure_high": plan.unsure[1] if plan.others else None,
                "quality": Figure(value=None if np.isnan(first) else first),
                **{cost: float(spent[plan][cost][0]) for cost in self.costs},
                **{f"pareto_{cost}": plan in front for cost, front in fronts.items()},
                "gap_low": None,
                "gap_high": None,
                "_plan": plan,
                "_key": _key(plan),
                "_title": (title := _in_words(plan, short)),
                "_label": title,
                "_halves": (quality[plan], spent[plan]),
                "_rank": {c: front.index(plan) for c, front in fronts.items() if plan in front},
            }
            if plan in wanted:
                walked = self.walk(plan)
                mine = evaluator.read(walked.likely, self.measure)
                gap = evaluator.figure(mine - reading)
                row |= {"quality": evaluator.figure(mine), "_gap": gap}
                row |= {"gap_low": gap.low, "gap_high": gap.high}
                row |= {f"_saved_{cost}": one for cost, one in self.saved(walked).items()}
            found.append(row)
        return found

    def saved(self, walked: CascadeReplay) -> dict[str, Figure]:
        """Share of each of the full panel's costs."""
        per_image = self.evaluator.per_image
        return {
            c: self.evaluator.figure(
                1.0 - ratio(per_image(walked.cost(c)), per_image(self.full.cost(c)))
            )
            for c in self.costs
        }

    def chosen(self, rows: Rows, cost: str, margin: float) -> dict[str, Any] | None:
        """Choose plans on one half of the items, and measure each on the other half.

        Chosen is the cheapest plan that loses no more than ``margin``. Both halves count together;
        qualities are means of the two halves', since image scores by two plans have no common
        order.
        """
        evaluator, table = self.evaluator, self.combiner.table
        if table.n_items < 4:
            return None
        everyone = Plan(tuple(range(len(table.judges))))
        whole_row = next(row for row in rows if row["_plan"] == everyone)
        picked: list[str] = []
        mine: list[Array] = []
        whole: list[Array] = []
        mixed = self.full
        for at, other in zip((1, 2), evaluator.halves[0][::-1], strict=True):
            enough = float(whole_row["_halves"][0][at]) - margin
            fitting = [row for row in rows if row["_halves"][0][at] >= enough] or [whole_row]
            best = min(
                fitting, key=lambda r: (r["_halves"][1][cost][at], -r["_halves"][0][at])
            )  # fmt: skip
            walked = self.walk(best["_plan"])
            mask = evaluator.weights[other]
            weights = evaluator.weights * mask
            mine.append(evaluator.read(walked.likely, self.measure, weights))
            whole.append(evaluator.read(self.full.likely, self.measure, weights))
            mixed = _merged(mixed, walked, mask[table.item_of] > 0.0)
            picked.append(best["_title"])
        gap = np.mean(mine, 0) - np.mean(whole, 0)
        return {"gap": evaluator.figure(gap), "saved": self.saved(mixed), "plans": picked}


def _merged(first: CascadeReplay, second: CascadeReplay, where: Mask) -> CascadeReplay:
    """``second`` in the rows ``where``, else ``first``."""
    names = ("likely", "void", "unsure", *COSTS)
    merged = {name: np.where(where, getattr(second, name), getattr(first, name)) for name in names}
    return replace(first, **merged)


def _in_words(plan: Plan, short: Sequence[str]) -> str:
    first = joined([short[at] for at in plan.first])
    if not plan.others:
        return first
    low, high = (number(bound, 2) for bound in plan.unsure)
    return f"{first}; within {low}–{high} also {joined([short[at] for at in plan.others])}"


def _key(plan: Plan) -> str:
    first = "+".join(map(str, plan.first))
    if not plan.others:
        return first
    low, high = plan.unsure
    return f"{first}>{'+'.join(map(str, plan.others))}@{low:g}-{high:g}"


def _steps(front: Rows) -> Rows:
    """Those that stand out: each better than the one before by a share of the whole range."""
    if len(front) <= _MOST_ROWS:
        return front
    values = [row["quality"].value or 0.0 for row in front]
    step = (max(values) - min(values)) / (_MOST_ROWS - 1)
    kept: Rows = []
    last = -float("inf")
    for row, value in zip(front, values, strict=True):
        if value >= last + step or row is front[-1]:
            kept.append(row)
            last = value
    return kept


def _abstention_values(voters: Rows, rules: Rows) -> dict[str, Any]:
    """Return the values of the sentences on abstention."""
    cut = [
        row
        for row in rules
        if row["rule"] == "threshold"
        and 0.0 < (row["coverage_value"].value or 0.0) < 1.0
        and row["gain_value"].value is not None
    ]
    judges = [r for r in voters if r["sureness"] == "judge" and r["area_value"].value is not None]
    return {
        "panel": voters[0] if voters else None,
        "best_judge": min(judges, key=lambda r: r["area_value"].value, default=None),
        "spread": next((r for r in voters if r["sureness"] == "spread"), None),
        # The one that costs about a tenth of the facts, as where there is truth.
        "rule": min(cut, key=lambda r: abs(r["coverage_value"].value - SHOWN[1]), default=None),
    }


def _quorum_values(quorums: Rows, n: int) -> dict[str, Any] | None:
    """Return the rows of a majority, of one and of all at the most missing answers."""
    found = None
    for missing in sorted({row["missing"] for row in quorums} - {0.0}):
        by = {row["quorum"]: row for row in quorums if row["missing"] == missing}
        rows = {"most": by[n // 2 + 1], "one": by[1], "all": by[n]}
        if None not in (rows["most"]["scored_value"].value, rows["one"]["scored_value"].value):
            found = rows
    return found


def _draw_cascades(rows: Rows, cost: str, full: Mapping[str, Any], title: str, main: str) -> Plot:
    """Quality of every panel and cascade over its cost, and the frontier.

    For the cost that is to be saved, and calls if that is another.
    """
    wanted = tuple(dict.fromkeys((cost, "calls")))
    made, axes = plots.panes(len(wanted), (7.0 if len(wanted) == 1 else 9.5, 4.4))
    kinds = (("a cascade", plots.GREY, 10), ("a panel", plots.COLORS[5], 24))
    known = [row for row in rows if row["quality"].value is not None]
    for axis, of in zip(axes, wanted, strict=True):
        for at, (label, color, size) in enumerate(kinds):
            points = [(row[of], row["quality"].value) for row in known
                      if bool(row["others"]) == (at == 0)]  # fmt: skip
            plots.scatter(axis, at, label, points, s=size, alpha=0.55, zorder=1 + at, color=color)
        front = sorted((r for r in rows if r[f"pareto_{of}"]), key=lambda row: row["_rank"][of])
        points = [(row[of], row["quality"]) for row in front]
        plots.curve(axis, 0, "Pareto frontier", points, markersize=4, zorder=4)
        plots.scatter(
            axis, 1, "full panel", [(full[of], full["quality"].value)], s=110, marker="*", zorder=5
        )
        for row in known:
            if len(row["_plan"].everyone) == 1:
                plots.noted(axis, row["_title"], (row[of], row["quality"].value), up=-9)
        axis.set_xlabel(f"{_COSTS[of][0]} an image")
        axis.margins(x=0.08)
    axes[0].set_ylabel(title)
    return plots.legend(made, axes[0], 4, f"Panels and cascades by cost ({main})")


def _draw_coverage(voters: Rows) -> Plot:
    """Accuracy over coverage of the panel and of each judge."""
    made, axis = plots.chart(
        "Abstention: accuracy over coverage", "facts with a verdict, the surest first (%)",
        "accuracy of these verdicts", (7.0, 4.6),
    )  # fmt: skip
    for at, row in enumerate(row for row in voters if row["sureness"] != "spread"):
        points = [(100.0 * c, accuracy) for c, (accuracy, _) in row["_at"].items() if c >= 0.3]
        if at:
            points = [(x, Figure(value=one.value)) for x, one in points]
        plots.curve(
            axis, at, row["_title"], points, band=True, marker="",
            linestyle=plots.LINES[(at + at // len(plots.COLORS)) % len(plots.LINES)],
            linewidth=2.0 if row["sureness"] == "margin" else 1.3,
        )  # fmt: skip
    return plots.legend(made, axis)


def _trade_off(axis: Axes, at: int, label: str, rows: Rows, kept: str) -> list[dict[str, Any]]:
    """Draw quality over the share of facts with a verdict, and return the rows that have both."""
    known = [row for row in rows if row["quality_value"].value is not None and row[kept].value]
    for row in known:
        row["_place"] = (100.0 * row[kept].value, row["quality_value"].value)
    points = [(row["_place"][0], row["quality_value"]) for row in known]
    plots.curve(axis, at, label, points)
    return known


def _draw_rules(rules: Rows, title: str, main: str) -> Plot:
    """Quality over coverage by fixed bounds of probability and of disagreement."""
    made, axis = plots.chart(f"Abstention by fixed bounds ({main})", _VERDICT, title)
    kinds = {
        "threshold": "abstains within [t, 1 − t]",
        "spread": "abstains where judges differ by > d",
    }
    for at, (kind, label) in enumerate(kinds.items()):
        mine = [row for row in rules if row["rule"] in ("never", kind)]
        shown = _trade_off(axis, at, label, mine, "coverage_value")
        for place, bound in {row["_place"]: row["bound"] for row in shown[:0:-1]}.items():
            plots.noted(axis, number(bound or 0.0, 2), place, at, 5 if at == 0 else -12)
    return plots.legend(made, axis, 2)


def _draw_quorum(quorums: Rows, title: str, main: str) -> Plot:
    """Share scored against quality, one line a share of missing answers."""
    made, axis = plots.chart(f"Quorum ({main})", f"{_VERDICT}; numbers are quorums", title)
    for at, missing in enumerate(sorted({row["missing"] for row in quorums})):
        mine = [row for row in quorums if row["missing"] == missing]
        label = "answers as they are" if not missing else f"{100.0 * missing:g} % missing"
        for row in _trade_off(axis, at, label, mine, "scored_value"):
            if missing:
                plots.noted(axis, str(row["quorum"]), row["_place"], at)
    return plots.legend(made, axis)


PART = PanelStudy(
    name="frontier",
    title="Quorum, abstention and cascades",
    about="How many answers should a verdict need, when should the panel keep silent, and what "
    "does asking the costly judges only where the cheap ones are unsure give up?",
    needs=frozenset({"several"}),
    options=FrontierOptions,
    run=in_thread(_result),
)

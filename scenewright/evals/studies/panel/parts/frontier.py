"""What is bought with answers: quorum, abstention, and cascades of judges against their cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.reporting import plots
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Column, Frame, percent, values_by_key
from scenewright.evals.reporting.sentences import joined, short_names
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
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
    sentences_of,
)
from scenewright.evals.studies.panel.subpanels import Combiner, Members, panels_of, usable_names
from scenewright.evals.studies.panel.table import AnswerTable, Mask, PanelStudyError

COVERAGES = tuple(round(0.05 * step, 2) for step in range(1, 21))
"""Of the curves."""
SHOWN = (0.95, 0.9, 0.8)
"""Coverages that tables show."""
_PANELS = 255
_MOST_ROWS = 12
"""Of a table of the frontier."""
_COSTS = {
    name: Column(title=f"{title} an image", digits=digits)
    for name, title, digits in (
        ("calls", "calls", 2), ("answers", "answers", 2), ("tokens", "tokens", 0),
        ("usd", "dollars", 5),
    )
}  # fmt: skip
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


def measure(context: PanelStudyContext, options: FrontierOptions) -> PanelStudyResult:
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
    measured_by = evaluator.choose(options.measure)
    evaluator.check(full.likely, measured_by)
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
    quorums = _quorums(context, evaluator, names[0], measured_by, options, step)
    rules = _rules(evaluator, likely, measured_by, options)
    voters, coverage = _voters(combiner, evaluator, names)
    walks = _Walks(combiner, evaluator, replayer, names[0], measured_by, costs, full)
    cascades = walks.measured(plans, step)
    front = [row for row in cascades if row[f"pareto_{cost}"]]
    best = _steps(sorted(front, key=lambda row: row["_rank"][cost]))
    everything = next(row for row in cascades if row["_plan"] == Plan(everyone))
    everything["_label"] += " (the full panel)"
    about = MEASURES[measured_by]
    quality = about.title if about.quality else "agreement with the full panel"
    chosen = walks.chosen(cascades, cost, options.margin)
    on_front = sum(bool(row["others"]) for row in front)
    n_cascades = sum(bool(row["others"]) for row in cascades)
    panel = voters[0] if voters else None
    judges = [r for r in voters if r["sureness"] == "judge" and r["area_value"].value is not None]
    judge = min(judges, key=lambda row: row["area_value"].value, default=None)
    spread = next((row for row in voters if row["sureness"] == "spread"), None)
    rule = _typical(rules)
    say = sentences_of("frontier")
    values: dict[str, Any] = {
        "about": about, "quality": quality, "main": names[0], "margin": options.margin,
        "cost": _COSTS[cost].title.removesuffix(" an image"), "n": len(everyone),
        "n_cascades": n_cascades, "n_panels": len(cascades) - n_cascades, "n_front": len(front),
        "alone": len(front) == 1, "panel": panel, "judge": judge, "spread": spread,
        "n_on_front": f"{on_front or 'none'} {'is' if on_front < 2 else 'are'}",
        "lacking": _missing(table), "walked": len(cascades),
        "gain_90": panel and panel["_gain_90"],
    }  # fmt: skip
    if chosen:
        one, other = (f"“{plan}”" for plan in chosen["plans"])
        values["plans"] = f"{one} on both halves" if one == other else f"{one} and {other}"
        values |= {"saved": chosen["saved"][cost], "gap": chosen["gap"]}
    quorum = _quorum_values(quorums, len(everyone))
    if quorum:
        values["with_quality"] = "".join(say(values | quorum, quorum_quality=about.quality))
    by_rule = {
        "left": 1.0 - rule["coverage_value"].value, "bound": rule["bound"],
        "upper": 1.0 - rule["bound"], "gain_value": rule["gain_value"],
    } if rule else None  # fmt: skip
    verdict = percent("facts with a verdict (%)")
    shown = best + ([] if everything in front else [everything])
    more = f": {len(best)} of {len(front)}" if len(best) < len(front) else ""
    return PanelStudyResult(
        findings=say(
            values,
            chosen=chosen is not None,
            front=n_cascades > 0,
            abstains=panel is not None,
            best_judge=bool(panel and judge and panel["area_value"].value is not None),
            spread=bool(spread and spread["more_area_value"].value is not None),
            rule=by_rule if about.quality and not panel else None,
            never=about.quality and not panel and not rule,
            quorum=quorum,
        ),
        frames=(
            Frame.of("frontier_cascades", shown,
                     f"The Pareto frontier in {values['cost']} ({names[0]}){more}", {
                         "quality": about.title, "_gap": "less that of the full panel",
                         f"_saved_{cost}": percent(f"{values['cost']} saved (%)"),
                         **{name: _COSTS[name] for name in costs},
                     }, head="Asked", label="{_label}", kept=False),
            Frame.of("areas", voters, "Verdicts on the facts that a voter is surest of", {
                "accuracy_value": "accuracy on all",
                **{f"_at_{round(100 * at)}": f"on the surest {100 * at:.0f}%" for at in SHOWN},
                "area_value": Column(title="area under risk–coverage ↓", digits=4),
                "_saved": percent("risk removed by the order (%)", 0),
            }, head="Voter", label="{_title}"),
            Frame.of("rules", rules, f"Abstention by a fixed bound ({names[0]})",
                     {"coverage_value": verdict, "quality_value": about.title,
                      "gain_value": "gain"}, head="The panel abstains", label="{_title}"),
            Frame.of("quorum", quorums, f"Quorum ({names[0]})",
                     {"scored_value": verdict, "quality_value": about.title,
                      "gain_value": "gain against a quorum of 1"},
                     head="Answers missing, quorum", label="{_missing} missing, {quorum}"),
            Frame.of("cascades", cascades),
            Frame.of("coverage", coverage),
        ),
        charts=_charts(cascades, cost, everything, coverage, rules, quorums, about.title, names[0]),
        figures=values_by_key("quorum_{quorum}.missing_{missing:g}.{name}", quorums,
                              {"scored_value": "scored", "quality_value": "quality"})
        | values_by_key("abstention.{_title}.{name}", voters, {
            "area_value": "area", **{f"_at_{round(100 * at)}": f"accuracy_at_{round(100 * at)}"
                                     for at in SHOWN}})
        | (values_by_key("cascade.{name}", [{"gap": chosen["gap"]} | {
            f"{name}_saved": one for name, one in chosen["saved"].items()
        }], ["gap", *(f"{name}_saved" for name in chosen["saved"])]) if chosen else {})
        | values_by_key("full.quality", [everything], ["quality"]),
        notes=(
            *left_out,
            *say(
                values,
                no_quality=not about.quality,
                intervals=True,
                calls=True,
                flattered=True,
                abstention=True,
                at_random=True,
                no_curves=panel is None,
                some=not complete,
                from_all=names[0] not in ("mean", "majority", "calibrated"),
            ),
        ),
    )  # fmt: skip


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
                    "_missing": f"{100 * rate:.0f} %",
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
            }
        )
    return found


def _voters(
    combiner: Combiner, evaluator: MetricEvaluator, names: Sequence[str]
) -> tuple[Rows, Rows]:
    """Abstention by every aggregator, the main one first, and every judge; empty without truth.

    ``sureness``: how sure a panel is, by its probability's distance from ½ (``margin``) or by how
    little its judges differ (``spread``); a judge is as sure as its own probability. ``more_area``:
    area under the risk–coverage curve less that of the main aggregator, paired. ``_saved``: 1 −
    area / risk, which is 0 for a random order. The second table has a row for each coverage, with
    the accuracy and its gain over a verdict on every fact.
    """
    table = combiner.table
    if "accuracy" not in evaluator.measures:
        return [], []
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
    coverage: Rows = []
    base: Selective | None = None
    figure = evaluator.figure
    for voter, kind, title, likely, sureness in voters:
        if np.isnan(likely).all():
            continue
        one = selective(evaluator, likely, sureness, COVERAGES)
        base = base or one
        curve: Rows = [
            {"voter": voter, "sureness": kind, "coverage": at, "accuracy_value": figure(1.0 - risk),
             "gain_value": figure(one.risk - risk), "_percent": 100.0 * at, "_title": title}
            for at, risk in zip(COVERAGES, one.risk_at.T, strict=True)
        ]  # fmt: skip
        at = {round(100 * row["coverage"]): row for row in curve}
        coverage += curve
        found.append(
            {
                "voter": voter,
                "sureness": kind,
                "area_value": figure(one.area),
                "more_area_value": figure(one.area - base.area),
                "accuracy_value": figure(1.0 - one.risk),
                "_title": title,
                "_saved": figure(1.0 - ratio(one.area, one.risk)),
                "_gain_90": at[90]["gain_value"],
                **{f"_at_{round(100 * c)}": at[round(100 * c)]["accuracy_value"] for c in SHOWN},
            }
        )
    return found, coverage


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


def _typical(rules: Rows) -> dict[str, Any] | None:
    """Return the bound of probability that costs about a tenth of the facts."""
    cut = [
        row
        for row in rules
        if row["rule"] == "threshold"
        and 0.0 < (row["coverage_value"].value or 0.0) < 1.0
        and row["gain_value"].value is not None
    ]
    return min(cut, key=lambda row: abs(row["coverage_value"].value - SHOWN[1]), default=None)


def _quorum_values(quorums: Rows, n: int) -> dict[str, Any] | None:
    """Return the values of the sentence about quorums at the most missing answers."""
    found = None
    for missing in sorted({row["missing"] for row in quorums} - {0.0}):
        by = {row["quorum"]: row for row in quorums if row["missing"] == missing}
        most, one, every = (by[at]["scored_value"].value for at in (n // 2 + 1, 1, n))
        if None not in (most, one):
            found = by[n // 2 + 1] | {"most": most, "one": one, "all": every or 0.0}
    return found


def _charts(
    cascades: Rows,
    cost: str,
    everything: Mapping[str, Any],
    coverage: Rows,
    rules: Rows,
    quorums: Rows,
    title: str,
    main: str,
) -> tuple[Chart, ...]:
    known = [row for row in cascades if row["quality"].value is not None]
    walked: dict[str, Rows] = {"lines": [], "marks": []}
    for of in dict.fromkeys((cost, "calls")):
        pane = f"by {_COSTS[of].title}"
        front = sorted((r for r in known if r[f"pareto_{of}"]), key=lambda row: row["_rank"][of])
        walked["lines"] += [
            {"pane": pane, "by": "Pareto frontier", "cost": r[of], "quality": r["quality"]}
            for r in front
        ]
        walked["marks"] += [
            {"pane": pane, "by": "a cascade" if row["others"] else "a panel", "cost": row[of],
             "quality": row["quality"].value,
             "text": row["_title"] if len(row["_plan"].everyone) == 1 else ""}
            for row in known
        ] + [
            {"pane": pane, "by": "full panel", "cost": everything[of],
             "quality": everything["quality"].value}
        ]  # fmt: skip
    styles = {
        "a cascade": {"color": plots.GREY, "markersize": 3, "alpha": 0.55, "marker": "o"},
        "a panel": {"color": plots.COLORS[5], "markersize": 5, "marker": "s"},
        "full panel": {"color": plots.COLORS[1], "markersize": 11, "marker": "*", "zorder": 5},
    }
    curves = [
        row if row["voter"] == main
        else row | {"accuracy_value": row["accuracy_value"].value}
        for row in coverage if row["sureness"] != "spread" and row["coverage"] >= 0.3
    ]  # fmt: skip
    kinds = {
        "threshold": "abstains within [t, 1 − t]",
        "spread": "abstains where judges differ by > d",
    }
    bounds = [
        {"kept": row["coverage_value"].times(100.0).value, "quality": row["quality_value"],
         "by": label, "text": "" if row["bound"] is None else number(row["bound"], 2)}
        for kind, label in kinds.items() for row in rules if row["rule"] in ("never", kind)
        if row["coverage_value"].value
    ]  # fmt: skip
    missing = [
        {"kept": row["scored_value"].times(100.0).value, "quality": row["quality_value"],
         "by": f"{row['_missing']} missing" if row["missing"] else "answers as they are",
         "text": str(row["quorum"]) if row["missing"] else ""}
        for row in quorums if row["scored_value"].value
    ]  # fmt: skip
    found = [
        Chart("cascades", walked["lines"], "cost", "quality", series="by", pane="pane",
              marks=walked["marks"], text="text", styles=styles, ylabel=title,
              title=f"Panels and cascades by cost ({main})"),
        Chart("coverage", curves, "_percent", "accuracy_value", series="_title", band=True,
              title="Abstention: accuracy over coverage", ylabel="accuracy of these verdicts",
              xlabel="facts with a verdict, the surest first (%)"),
        Chart("rules", bounds, "kept", "quality", series="by", text="text", xlabel=_VERDICT,
              ylabel=title, title=f"Abstention by fixed bounds ({main})"),
        Chart("quorum", missing, "kept", "quality", series="by", text="text", ylabel=title,
              xlabel=f"{_VERDICT}; numbers are quorums", title=f"Quorum ({main})"),
    ]  # fmt: skip
    return tuple(chart for chart in found if chart.rows)


PART = PanelStudy(
    name="frontier",
    title="Quorum, abstention and cascades",
    about="How many answers should a verdict need, when should the panel keep silent, and what "
    "does asking the costly judges only where the cheap ones are unsure give up?",
    needs=frozenset({"several"}),
    options=FrontierOptions,
    run=in_thread(measure),
)

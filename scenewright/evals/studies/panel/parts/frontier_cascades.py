"""Cascades against their cost: every plan, the Pareto frontier, and a choice that is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.cascades import (
    COSTS,
    CascadeReplay,
    CascadeReplayer,
    Plan,
    pareto,
)
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.metric_evaluator import Measure, MetricEvaluator, ratio
from scenewright.evals.studies.panel.parts.frontier_result import Cascading, OfPlan
from scenewright.evals.studies.panel.subsets import Combiner
from scenewright.evals.studies.panel.table import Mask


class Cascades:
    """Walks plans, and measures those that matter with intervals."""

    def __init__(
        self,
        combiner: Combiner,
        evaluator: MetricEvaluator,
        walker: CascadeReplayer,
        name: str,
        measure: Measure,
        cost: str,
        margin: float,
    ) -> None:
        self._combiner = combiner
        self._ruler = evaluator
        self._walker = walker
        self._name = name
        self._measure = measure
        self._margin = margin
        table = combiner.table
        self.costs = tuple(
            cost for cost in COSTS if cost in ("calls", "answers") or getattr(table, cost).any()
        )
        if cost not in (*self.costs, "auto"):
            raise PanelStudyError(
                f"{table.name} does not tell the {cost} of its answers: take another cost of "
                f"{', '.join(self.costs)}"
            )
        auto = "usd" if "usd" in self.costs else "calls"
        self.cost = auto if cost == "auto" else cost

    def _walk(self, plan: Plan) -> CascadeReplay:
        by_first = self._combiner.likely(self._name, plan.first)
        by_all = self._combiner.likely(self._name, plan.everyone) if plan.others else by_first
        return self._walker.walk(plan, by_first, by_all)

    def found(
        self, plans: tuple[Plan, ...], full: CascadeReplay, told: Callable[[int], None]
    ) -> Cascading:
        """All ``plans``, held against the panel that is always ``full``."""
        evaluator = self._ruler
        halves = evaluator.halves[0]
        points = evaluator.weights[[0, *halves]]
        quality: dict[Plan, Array] = {}
        spent: dict[Plan, dict[str, Array]] = {}
        for plan in plans:
            walked = self._walk(plan)
            quality[plan] = evaluator.read(walked.likely, self._measure, points)
            spent[plan] = {
                cost: evaluator.per_image(walked.cost(cost), points) for cost in self.costs
            }
            told(1)
        fronts = {
            cost: pareto(
                {plan: float(q[0]) for plan, q in quality.items()},
                {plan: float(spent[plan][cost][0]) for plan in plans},
            )
            for cost in self.costs
        }
        n = len(self._combiner.table.judges)
        everyone = Plan(tuple(range(n)))
        singles = [Plan((at,)) for at in range(n)]
        wanted = dict.fromkeys([everyone, *singles, *(p for f in fronts.values() for p in f)])
        reading = evaluator.read(full.likely, self._measure)
        return Cascading(
            cost=self.cost,
            costs=self.costs,
            points={
                plan: (float(quality[plan][0]), {c: float(s[0]) for c, s in spent[plan].items()})
                for plan in plans
            },
            fronts=fronts,
            plans={plan: self._measured(plan, full, reading) for plan in wanted},
            chosen=self._chosen(quality, spent, full),
        )

    def _measured(self, plan: Plan, full: CascadeReplay, reading: Array) -> OfPlan:
        walked = self._walk(plan)
        mine = self._ruler.read(walked.likely, self._measure)
        return self._of(plan, mine, self._ruler.figure(mine - reading), walked, full)

    def _of(
        self,
        plan: Plan | None,
        quality: Array,
        gap: Figure,
        walked: CascadeReplay,
        full: CascadeReplay,
    ) -> OfPlan:
        evaluator = self._ruler
        spent = {cost: evaluator.per_image(walked.cost(cost)) for cost in self.costs}
        whole = {cost: evaluator.per_image(full.cost(cost)) for cost in self.costs}
        return OfPlan(
            plan=plan,
            quality=evaluator.figure(quality),
            gap=gap,
            cost={cost: evaluator.figure(of) for cost, of in spent.items()},
            saved={
                cost: evaluator.figure(1.0 - ratio(of, whole[cost])) for cost, of in spent.items()
            },
        )

    def _chosen(
        self, quality: dict[Plan, Array], spent: dict[Plan, dict[str, Array]], full: CascadeReplay
    ) -> tuple[OfPlan, tuple[Plan, Plan]] | None:
        """On each half of the items the cheapest plan that loses no more than the margin there,
        measured on the other half: both halves together, and the two plans.

        Qualities are means of the two halves', since image scores by two plans have no common
        order.
        """
        evaluator = self._ruler
        table = self._combiner.table
        if table.n_items < 4:
            return None
        everyone = Plan(tuple(range(len(table.judges))))
        picked: list[Plan] = []
        mine: list[Array] = []
        whole: list[Array] = []
        mixed = full
        here, there = evaluator.halves[0]
        for row, other in ((1, there), (2, here)):
            enough = float(quality[everyone][row]) - self._margin
            fitting = [p for p, q in quality.items() if q[row] >= enough] or [everyone]
            best = min(fitting, key=lambda p: (spent[p][self.cost][row], -quality[p][row]))
            walked = self._walk(best)
            mask = evaluator.weights[other]
            mine.append(evaluator.read(walked.likely, self._measure, evaluator.weights * mask))
            whole.append(evaluator.read(full.likely, self._measure, evaluator.weights * mask))
            mixed = _joined(mixed, walked, mask[table.item_of] > 0.0)
            picked.append(best)
        reading = np.mean(mine, 0)
        gap = evaluator.figure(reading - np.mean(whole, 0))
        return self._of(None, reading, gap, mixed, full), (picked[0], picked[1])


def _joined(first: CascadeReplay, second: CascadeReplay, where: Mask) -> CascadeReplay:
    """``second`` in the rows ``where``, else ``first``."""
    names = ("likely", "void", "unsure", *COSTS)
    merged = {name: np.where(where, getattr(second, name), getattr(first, name)) for name in names}
    return replace(first, **merged)

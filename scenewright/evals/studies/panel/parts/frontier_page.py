"""What the study of quorum, abstention and cascades says: tables, plots and records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.base import PanelStudyResult
from scenewright.evals.studies.panel.cascades import Plan
from scenewright.evals.studies.panel.metric_evaluator import MEASURES
from scenewright.evals.studies.panel.parts import frontier_plots as drawn
from scenewright.evals.studies.panel.parts.frontier_findings import SHOWN, findings, notes
from scenewright.evals.studies.panel.parts.frontier_result import Abstaining, Frontier, OfPlan
from scenewright.evals.studies.panel.wording import as_json, as_record, estimate, short_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


_MOST_ROWS = 12
"""Of a table of the frontier."""


def page(found: Frontier) -> PanelStudyResult:
    """The study's result."""
    plots: dict[str, Callable[[], Plot]] = {"cascades": partial(drawn.cascades, found)}
    if found.abstaining:
        plots["coverage"] = partial(drawn.coverage, found)
    plots["rules"] = partial(drawn.rules, found)
    plots["quorum"] = partial(drawn.quorum, found)
    return PanelStudyResult(
        findings=findings(found),
        tables=tuple(_tables(found)),
        plots=plots,
        records=_records(found),
        figures=_json(found),
        notes=notes(found),
    )


def _percent(figure: Figure, note: str = "") -> Cell:
    return Cell(measured=estimate(figure).times(100.0), note=note)


def _cell(figure: Figure) -> Cell:
    return Cell(measured=estimate(figure))


def _tables(found: Frontier) -> list[Layout]:
    title = MEASURES[found.measure].title
    made = [_front(found)]
    if found.abstaining:
        made.append(_abstaining(found))
    made.append(
        Layout(
            id="frontier_rules",
            title=f"Abstention by a fixed bound ({found.names[0]})",
            head="The panel keeps silent",
            columns=(
                Column(key="coverage", title="facts with a verdict (%)", digits=1),
                Column(key="quality", title=title, digits=3),
                Column(key="gain", title="gain", digits=3),
            ),
            rows=tuple(
                Row(
                    key=f"{rule.kind or 'never'}{'' if rule.bound is None else f'_{rule.bound:g}'}",
                    title=_rule(rule.kind, rule.bound),
                    cells=(_percent(rule.coverage), _cell(rule.quality), _cell(rule.gain)),
                )
                for rule in found.rules
            ),
            of_paper=False,
        )
    )
    made.append(
        Layout(
            id="frontier_quorum",
            title=f"Quorum ({found.names[0]})",
            head="Answers missing, quorum",
            columns=(
                Column(key="scored", title="facts with a verdict (%)", digits=1),
                Column(key="quality", title=title, digits=3),
                Column(key="gain", title="gain against a quorum of 1", digits=3),
            ),
            rows=tuple(
                Row(
                    key=f"{one.missing:g}_{one.quorum}",
                    title=f"{number(100.0 * one.missing, 0)} %, {one.quorum}",
                    cells=(_percent(one.scored), _cell(one.quality), _cell(one.gain)),
                )
                for one in found.quorums
            ),
            of_paper=False,
        )
    )
    return made


def _rule(kind: str, bound: float | None) -> str:
    if bound is None:
        return "never"
    if kind == "threshold":
        return f"within {number(bound, 2)}–{number(1.0 - bound, 2)}"
    return f"where its judges differ by more than {number(bound, 2)}"


def _abstaining(found: Frontier) -> Layout:
    columns = [
        Column(key="all", title="accuracy on all", digits=3),
        *(
            Column(key=f"at_{round(100 * c)}", title=f"on the surest {c:.0%}", digits=3)
            for c in SHOWN
        ),
        Column(key="area", title="area under risk–coverage ↓", digits=4),
        Column(key="saved", title="risk taken away by the order (%)", digits=0),
    ]
    return Layout(
        id="frontier_abstention",
        title="Verdicts on the facts that a voter is surest of",
        head="Voter",
        columns=tuple(columns),
        rows=tuple(
            Row(
                key=f"{one.voter}_{one.kind}",
                title=voter_title(one, found),
                cells=(
                    _cell(one.accuracy),
                    *(_cell(one.at[c]) for c in SHOWN),
                    _cell(one.area),
                    _percent(one.saved),
                ),
            )
            for one in found.abstaining
        ),
        of_paper=False,
    )


def voter_title(one: Abstaining, found: Frontier) -> str:
    """A voter in words."""
    if one.kind == "spread":
        return f"panel ({one.voter}), by disagreement"
    if one.kind == "margin":
        return f"panel ({one.voter})"
    ids = found.table.judge_ids
    return short_names(ids)[ids.index(one.voter)]


def _front(found: Frontier) -> Layout:
    cascades = found.cascades
    titles = {"calls": ("calls", 2), "answers": ("answers", 2), "tokens": ("tokens", 0),
              "usd": ("dollars", 5)}  # fmt: skip
    front = cascades.fronts[cascades.cost]
    rows = [_plan_row(plan, cascades.plans[plan], found) for plan in _steps(front, found)]
    if found.full not in cascades.fronts[cascades.cost]:
        rows.append(_plan_row(found.full, cascades.plans[found.full], found))
    return Layout(
        id="frontier_cascades",
        title=f"The Pareto frontier in {titles[cascades.cost][0]} ({found.names[0]})"
        + (f": {len(rows)} of {len(front)}" if len(rows) < len(front) else ""),
        head="Asked",
        columns=(
            Column(key="quality", title=MEASURES[found.measure].title, digits=3),
            Column(key="gap", title="less that of the full panel", digits=3),
            Column(key="saved", title=f"{titles[cascades.cost][0]} saved (%)", digits=1),
            *(
                Column(key=cost, title=f"{titles[cost][0]} an image", digits=titles[cost][1])
                for cost in cascades.costs
            ),
        ),
        rows=tuple(rows),
        of_paper=False,
    )


def _steps(front: Sequence[Plan], found: Frontier) -> list[Plan]:
    """Those that stand out: each better than the one before by a share of the whole range."""
    values = [found.cascades.points[plan][0] for plan in front]
    if len(front) <= _MOST_ROWS:
        return list(front)
    step = (max(values) - min(values)) / (_MOST_ROWS - 1)
    kept: list[Plan] = []
    last = -float("inf")
    for plan, value in zip(front, values, strict=True):
        if value >= last + step or plan == front[-1]:
            kept.append(plan)
            last = value
    return kept


def _plan_row(plan: Plan, of: OfPlan, found: Frontier) -> Row:
    title = found.named(plan) + (" (the full panel)" if plan == found.full else "")
    return Row(
        key=_key(plan),
        title=title,
        cells=(
            _cell(of.quality),
            _cell(of.gap),
            _percent(of.saved[found.cascades.cost]),
            *(Cell(measured=Estimate(value=of.cost[cost].value)) for cost in found.cascades.costs),
        ),
    )


def _key(plan: Plan) -> str:
    first = "+".join(map(str, plan.first))
    if not plan.others:
        return first
    low, high = plan.unsure
    return f"{first}>{'+'.join(map(str, plan.others))}@{low:g}-{high:g}"


def _records(found: Frontier) -> dict[str, list[dict[str, Any]]]:
    ids = found.table.judge_ids
    cascades = found.cascades

    def named(members: tuple[int, ...]) -> str:
        return " ".join(ids[at] for at in members)

    def prefixed(name: str, figure: Figure) -> dict[str, float | None]:
        return {f"{name}_{key}": value for key, value in as_record(figure).items()}

    records: dict[str, list[dict[str, Any]]] = {
        "cascades": [
            {
                "first": named(plan.first), "others": named(plan.others),
                "unsure_low": plan.unsure[0] if plan.others else None,
                "unsure_high": plan.unsure[1] if plan.others else None,
                "quality": quality if quality == quality else None,
                **costs,
                **{f"pareto_{cost}": plan in front for cost, front in cascades.fronts.items()},
                **_intervals(cascades.plans.get(plan)),
            }
            for plan, (quality, costs) in cascades.points.items()
        ],
        "quorum": [
            {
                "missing": one.missing, "quorum": one.quorum, **prefixed("scored", one.scored),
                **prefixed("quality", one.quality), **prefixed("gain", one.gain),
            }
            for one in found.quorums
        ],
        "rules": [
            {
                "rule": rule.kind or "never", "bound": rule.bound,
                **prefixed("coverage", rule.coverage), **prefixed("quality", rule.quality),
                **prefixed("gain", rule.gain),
            }
            for rule in found.rules
        ],
    }  # fmt: skip
    if found.abstaining:
        records["coverage"] = [
            {
                "voter": one.voter, "sureness": one.kind, "coverage": coverage,
                **prefixed("accuracy", figure), **prefixed("gain", one.gains[coverage]),
            }
            for one in found.abstaining
            for coverage, figure in one.at.items()
        ]  # fmt: skip
        records["areas"] = [
            {
                "voter": one.voter, "sureness": one.kind, **prefixed("area", one.area),
                **prefixed("more_area", one.more_area), **prefixed("accuracy", one.accuracy),
            }
            for one in found.abstaining
        ]  # fmt: skip
    return records


def _intervals(of: OfPlan | None) -> dict[str, float | None]:
    figures: Mapping[str, Figure] = {} if of is None else {"quality": of.quality, "gap": of.gap}
    empty = Figure(value=None)
    return {
        f"{name}_{end}": getattr(figures.get(name, empty), end)
        for name in ("quality", "gap")
        for end in ("low", "high")
    }


def _json(found: Frontier) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for one in found.quorums:
        key = f"quorum_{one.quorum}.missing_{one.missing:g}"
        values[f"{key}.scored"] = as_json(one.scored)
        values[f"{key}.quality"] = as_json(one.quality)
    for voter in found.abstaining:
        key = f"abstention.{voter_title(voter, found)}"
        values[f"{key}.area"] = as_json(voter.area)
        for coverage in SHOWN:
            values[f"{key}.accuracy_at_{round(100 * coverage)}"] = as_json(voter.at[coverage])
    if found.cascades.chosen is not None:
        chosen, _ = found.cascades.chosen
        values["cascade.gap"] = as_json(chosen.gap)
        for cost, figure in chosen.saved.items():
            values[f"cascade.{cost}_saved"] = as_json(figure)
    full = found.cascades.plans[found.full]
    values["full.quality"] = as_json(full.quality)
    return {key: value for key, value in values.items() if value is not None}

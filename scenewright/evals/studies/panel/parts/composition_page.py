"""What the study of a panel's composition says: tables, plots and records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.base import PanelStudyResult
from scenewright.evals.studies.panel.metric_evaluator import MEASURES, Measure
from scenewright.evals.studies.panel.parts import composition_plots as drawn
from scenewright.evals.studies.panel.parts.composition_findings import findings, notes
from scenewright.evals.studies.panel.parts.composition_result import Composition
from scenewright.evals.studies.panel.subsets import Members
from scenewright.evals.studies.panel.wording import as_json, as_record, estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


def page(found: Composition) -> PanelStudyResult:
    """The study's result."""
    plots: dict[str, Callable[[], Plot]] = {
        "sizes": partial(drawn.sizes, found),
        "members": partial(drawn.members, found),
    }
    if len(found.pairs) > 1:
        plots["pairs"] = partial(drawn.pairs, found)
    if found.price != "judges":
        plots["cost"] = partial(drawn.cost, found)
    return PanelStudyResult(
        findings=tuple(findings(found)),
        tables=tuple(_tables(found)),
        plots=plots,
        records=_records(found),
        figures=_json(found),
        notes=tuple(notes(found)),
    )


def _tables(found: Composition) -> list[Layout]:
    about = MEASURES[found.measure]
    main, *others = found.names
    sizes = found.sizes[main]
    rows = []
    for of in sizes:
        elsewhere = Estimate(value=of.best_elsewhere) if of.best_elsewhere is not None else None
        rows.append(
            Row(
                key=str(of.size),
                title=str(of.size),
                cells=(
                    Cell(measured=Estimate(value=float(of.panels))),
                    Cell(measured=estimate(of.mean)),
                    Cell(measured=estimate(of.gain) if of.gain else None),
                    Cell(measured=estimate(of.best_figure), note=f"({found.named(of.best)})"),
                    Cell(measured=elsewhere),
                    Cell(measured=estimate(of.worst_figure), note=f"({found.named(of.worst)})"),
                    *(_mean_cell(found, name, of.size) for name in others),
                ),
            )
        )
    titles = {
        "panels": "panels", "mean": f"mean of them ({main})", "gain": "gain by the last judge",
        "best": "best", "elsewhere": "best, chosen on other items", "worst": "worst",
        **{name: f"mean ({name})" for name in others},
    }  # fmt: skip
    made = [
        Layout(
            id="composition_sizes",
            title=f"Panels of each size: {about.title}",
            head="Judges",
            columns=tuple(
                Column(key=key, title=title, digits=0 if key == "panels" else 3)
                for key, title in titles.items()
            ),
            rows=tuple(rows),
            of_paper=False,
        ),
        _judges(found),
    ]
    measures = [measure for measure in MEASURES if (main, measure, found.everyone) in found.figures]
    if len(found.names) > 1 or len(measures) > 1:
        made.append(_full(found, measures))
    return made


def _mean_cell(found: Composition, name: str, size: int) -> Cell:
    mean = next((of.mean for of in found.sizes[name] if of.size == size), None)
    return Cell(measured=None if mean is None else estimate(mean))


def _judges(found: Composition) -> Layout:
    main = found.names[0]
    columns = [
        Column(key="alone", title="alone", digits=3),
        Column(key="adds", title="what it adds to the others", digits=3),
    ]
    if found.shapley:
        columns.append(Column(key="shapley", title="Shapley value", digits=3))
    columns.append(Column(key="scored", title="facts scored (%)", digits=1))
    prices = {"usd": ("dollars an image", 5), "tokens": ("tokens an image", 0),
              "seconds": ("seconds an image", 2)}  # fmt: skip
    columns += [
        Column(key=name, title=prices[name][0], digits=prices[name][1]) for name in found.costs
    ]
    rows = []
    for at in found.everyone:
        cells = [
            Cell(measured=estimate(found.figure((at,)))),
            Cell(measured=estimate(found.adds[main][at])),
        ]
        if found.shapley:
            cells.append(Cell(measured=estimate(found.shapley[at])))
        cells.append(Cell(measured=Estimate(value=100.0 * found.scored[main, (at,)])))
        cells += [Cell(measured=Estimate(value=found.cost[at,][name])) for name in found.costs]
        rows.append(Row(key=found.table.judge_ids[at], title=found.short[at], cells=tuple(cells)))
    return Layout(
        id="composition_judges",
        title=f"Each judge ({main}): {MEASURES[found.measure].title}",
        head="Judge",
        columns=tuple(columns),
        rows=tuple(rows),
        of_paper=False,
    )


def _full(found: Composition, measures: list[Measure]) -> Layout:
    return Layout(
        id="composition_full",
        title="The full panel by every measure",
        head="Aggregator",
        columns=tuple(
            Column(key=m, title=MEASURES[m].title + ("" if MEASURES[m].higher else " ↓"), digits=3)
            for m in measures
        ),
        rows=tuple(
            Row(
                key=name,
                title=name,
                cells=tuple(
                    Cell(measured=estimate(found.figures[name, m, found.everyone]))
                    for m in measures
                ),
            )
            for name in found.names
        ),
        of_paper=False,
    )


def _records(found: Composition) -> dict[str, list[dict[str, Any]]]:
    ids = found.table.judge_ids

    def named(members: Members) -> str:
        return " ".join(ids[at] for at in members)

    records: dict[str, list[dict[str, Any]]] = {
        "panels": [
            {
                "aggregator": name, "measure": measure, "judges": named(members),
                "size": len(members), **as_record(figure), "scored": found.scored[name, members],
                **found.cost[members],
            }
            for (name, measure, members), figure in found.figures.items()
        ],
        "sizes": [
            {
                "aggregator": name, "size": of.size, "panels": of.panels, **as_record(of.mean),
                "gain": None if of.gain is None else of.gain.value,
                "gain_low": None if of.gain is None else of.gain.low,
                "gain_high": None if of.gain is None else of.gain.high,
                "best": named(of.best), "best_value": of.best_figure.value,
                "best_elsewhere": of.best_elsewhere,
                "worst": named(of.worst), "worst_value": of.worst_figure.value,
            }
            for name, sizes in found.sizes.items()
            for of in sizes
        ],
        "judges": [
            {"judge": ids[at], "aggregator": name, "what": "adds", **as_record(figure)}
            for name, adds in found.adds.items()
            for at, figure in enumerate(adds)
        ]
        + [
            {"judge": ids[at], "aggregator": found.names[0], "what": "shapley", **as_record(f)}
            for at, f in enumerate(found.shapley)
        ],
        "pairs": [
            {
                "first": ids[a], "second": ids[b],
                "what": "error_correlation" if found.pairs_are_errors else "kappa",
                "one_family": found.table.families[a] == found.table.families[b],
                **as_record(figure),
            }
            for (a, b), figure in found.pairs.items()
        ],
    }  # fmt: skip
    if found.reliability:
        records["reliability"] = [
            {"judges": named(m), "size": len(m), **as_record(figure)}
            for m, figure in found.reliability.items()
        ]
    return records


def _json(found: Composition) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in found.names:
        values[f"full.{name}"] = as_json(found.figure(found.everyone, name))
        for of in found.sizes[name]:
            values[f"size_{of.size}.{name}"] = as_json(of.mean)
            if of.gain is not None:
                values[f"gain_{of.size}.{name}"] = as_json(of.gain)
        for at, figure in enumerate(found.adds[name]):
            values[f"adds.{found.short[at]}.{name}"] = as_json(figure)
    for at, figure in enumerate(found.shapley):
        values[f"shapley.{found.short[at]}"] = as_json(figure)
    for key, one in (
        ("pairs.all", found.all_pairs), ("pairs.within", found.within),
        ("pairs.between", found.between), ("families.gain", found.family_gain),
    ):  # fmt: skip
        if one is not None:
            values[key] = as_json(one)
    return {key: value for key, value in values.items() if value is not None}

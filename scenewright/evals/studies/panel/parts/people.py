"""How well judges and panels agree with people, and how well they could."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies import plots
from scenewright.evals.studies.layout import Layout
from scenewright.evals.studies.panel import charts
from scenewright.evals.studies.panel.attacks import Learning, combined
from scenewright.evals.studies.panel.people import Ceilings, People, scores_of
from scenewright.evals.studies.panel.presentation import (
    bare,
    estimate,
    layout,
    sentences,
    side,
)
from scenewright.evals.studies.panel.resampling import Drawn, summary
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.table import PanelStudyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_CEILINGS = {
    "half": "one half of the raters against the other",
    "reliability": "reliability of the mean of all raters",
    "ceiling": "ceiling: a score that knows the expected rating",
    "one": "one rater against the mean of the others",
    "alpha": "Krippendorff's α of single ratings (ordinal)",
}
Rows = list[dict[str, Any]]


class PeopleOptions(Options):
    """Options of the study of agreement with people."""

    aggregators: tuple[str, ...] = Field(
        default=("mean", "median", "majority", "dawid_skene"), min_length=1
    )
    """Ways to combine the judges. What learns from truth or ratings does so on other items; those
    that have nothing to learn from are left out."""
    void: bool = True
    """Whether facts under an absent parent count 0."""
    splits: int = Field(default=100, ge=1, le=10_000)
    """Random halves of the raters."""


async def run(context: PanelStudyContext, options: PeopleOptions) -> PanelStudyResult:
    """Correlate all scores with the ratings, and the ratings with each other."""
    return await asyncio.to_thread(_result, context, options)


def _result(context: PanelStudyContext, options: PeopleOptions) -> PanelStudyResult:
    table = context.table
    people = People(table, context.resamples, options.splits, context.seed)
    n = int(people.rated.sum())
    likely = {judge: table.said[:, at] for at, judge in enumerate(table.judge_ids)}
    learning, left_out = Learning(table, context.learn, context.seed), []
    for name in options.aggregators:
        try:
            likely[name] = combined(name, table, learning)
        except PanelStudyError as error:
            left_out.append(f"{name} ({error})")
    ceilings: Ceilings | None = None
    why = ""
    try:
        ceilings = people.ceilings()
    except PanelStudyError as error:
        why = str(error)
    models = sorted({image.model for image in table.images} - {""})

    def figure(drawn: Drawn | None) -> Figure:
        return Figure(value=None) if drawn is None else summary(drawn.value, drawn.resamples, n)

    def by_model(drawn: Mapping[str, Drawn]) -> dict[str, Figure]:
        return {model: figure(one) for model, one in drawn.items()}

    voters: Rows = []
    drawn: dict[str, Drawn] = {}
    scores = scores_of(table, likely, options.void)
    for done, (name, of) in enumerate(scores.items()):
        context.told(done, len(scores))
        drawn[name] = people.spearman(of)
        order, gaps = people.order_of_models(of)
        rater = people.as_a_rater(of) if ceilings else (None, None)
        voters.append(
            {
                "voter": name,
                "judge": name in table.judge_ids,
                "spearman": figure(drawn[name]),
                "kendall": figure(people.kendall(of)),
                "pearson": figure(people.pearson(of)),
                "within_items": figure(people.within_items(of)),
                "share_of_ceiling": figure(
                    people.corrected(drawn[name], ceilings) if ceilings else None
                ),
                "as_rater": figure(rater[0]),
                "minus_rater": figure(rater[1]),
                "order_of_models": figure(order),
                **{f"spearman:{model}": figure(people.of_model(of, model)) for model in models},
                "_means": by_model(people.model_means(of)),
                "_sides": [(side(figure(h)), side(figure(j))) for h, j in gaps.values()],
            }
        )
    context.told(len(scores), len(scores))
    ratings = by_model(people.model_means(table.ratings))
    raters = {name: figure(getattr(ceilings, name)) for name in _CEILINGS} if ceilings else {}
    panel, judge = _best(voters, False), _best(voters, True)
    best = panel or judge
    gap = None
    if panel and judge:
        one, other = drawn[panel["voter"]], drawn[judge["voter"]]
        gap = figure(Drawn(one.value - other.value, one.resamples - other.resamples))
    tables = [_of_voters(voters, n, why)]
    drawings: dict[str, Any] = {"agreement": partial(_draw_agreement, voters, raters)}
    if raters:
        tables.append(
            layout(
                "ceilings", "How well people agree", "Figure", {"value": "value"},
                [(title, title, {"value": raters[key]}) for key, title in _CEILINGS.items()],
            )
        )  # fmt: skip
    if len(models) > 1:
        tables += [_by_model(voters, models), _order(voters, ratings)]
        drawings["models"] = partial(_draw_models, panel or voters[0], ratings)
    values = {
        "panel": panel,
        "judge": judge,
        "best": best,
        "gap": gap,
        "raters": raters,
        "n_raters": ceilings and f"{ceilings.raters:.1f}",
        "pairs": len(best["_sides"]) if best else 0,
        "clear": sum(h != 0 for h, _ in best["_sides"]) if best else 0,
        "agreed": sum(h != 0 and j == h for h, j in best["_sides"]) if best else 0,
        "opposed": sum(h != 0 and j == -h for h, j in best["_sides"]) if best else 0,
        "n_items": table.n_items,
        "void": options.void,
        "why": why,
        "left_out": left_out,
    }
    return PanelStudyResult(
        findings=sentences("people", "findings", values),
        tables=tuple(tables),
        plots=drawings,
        records={
            "agreement": [
                {"voter": row["voter"], "judge": row["judge"], "figure": name, **bare("value", one)}
                for row in voters
                for name, one in row.items()
                if isinstance(one, Figure)
            ],
            "model_means": [
                {"voter": voter, "model": model, **bare("value", one)}
                for voter, means in (
                    *((row["voter"], row["_means"]) for row in voters), ("people", ratings)
                )
                for model, one in means.items()
            ],
            "rater_ceilings": [
                {"figure": name, **bare("value", one)} for name, one in raters.items()
            ],
        },
        figures={
            f"{what}.{row['voter']}": bare("mean", row[what])
            for what in ("spearman", "kendall")
            for row in voters
        }
        | {f"people.{name}": bare("mean", one) for name, one in raters.items()},
        notes=sentences("people", "notes", values),
    )  # fmt: skip


def _best(voters: Rows, judge: bool) -> dict[str, Any] | None:
    mine = [r for r in voters if r["judge"] == judge and r["spearman"].value is not None]
    return max(mine, key=lambda row: row["spearman"].value, default=None)


def _of_voters(voters: Rows, n: int, why: str) -> Layout:
    unknown = {
        name: Estimate(reason=why) for name in ("share_of_ceiling", "minus_rater") if why
    }  # fmt: skip
    return layout(
        "people",
        f"Agreement with the mean rating of {n} images",
        "Voter",
        {
            "spearman": "Spearman",
            "kendall": "Kendall τ-b",
            "pearson": "Pearson",
            "within_items": ("pairs of one item in order (%)", 1, 100.0),
            "share_of_ceiling": ("of the ceiling (%)", 1, 100.0),
            "minus_rater": "minus one rater (Spearman)",
        },
        [(row["voter"], row["voter"], row | unknown) for row in voters],
    )


def _by_model(voters: Rows, models: list[str]) -> Layout:
    return layout(
        "by_model",
        "Spearman with the mean rating, among the images of one model",
        "Voter",
        {f"spearman:{model}": model for model in models},
        [(row["voter"], row["voter"], row) for row in voters],
    )


def _order(voters: Rows, ratings: Mapping[str, Figure]) -> Layout:
    ranked = sorted(ratings, key=lambda model: -(ratings[model].value or 0.0))
    rows: list[tuple[str, str, dict[str, Any]]] = [
        (
            model,
            model,
            {"rating": ratings[model]} | {r["voter"]: r["_means"][model] for r in voters},
        )
        for model in ranked
    ]
    title = "pairs in people's order (%)"
    rows.append((title, title, {row["voter"]: row["order_of_models"] for row in voters}))
    return layout(
        "models",
        "Models by people and by judges, best first",
        "Model",
        {
            "rating": ("mean rating", 2),
            **{row["voter"]: (f"{row['voter']} (%)", 1, 100.0) for row in voters},
        },
        rows,
    )


def _draw_agreement(voters: Rows, raters: Mapping[str, Figure]) -> Plot:
    """Correlation of every voter, and what raters and a perfect score reach."""
    marks = {"one rater": "one", "half the raters": "half", "ceiling": "ceiling"}
    return charts.bar_chart(
        [row["voter"] for row in voters],
        {"Spearman": [row["spearman"] for row in voters]},
        x="Spearman with the mean rating",
        lines=[(name, raters[of].value or 0.0) for name, of in marks.items() if raters],
        columns=4,
    )


def _draw_models(voter: Mapping[str, Any], ratings: Mapping[str, Figure]) -> Plot:
    """Mean score against mean rating of each model."""
    made, (axis,) = charts.panes(1, (5.6, 4.2))
    for at, (model, rating) in enumerate(ratings.items()):
        x, y = estimate(voter["_means"][model], 100.0), estimate(rating)
        if x.value is not None and y.value is not None:
            axis.errorbar(
                x.value, y.value, xerr=plots.errors([x]), yerr=plots.errors([y]), capsize=2.5,
                label=model, markersize=6, elinewidth=0.9,
                **(charts.looks(at) | {"linestyle": "none"}),
            )  # fmt: skip
    charts.labelled(axis, f"mean score by {voter['voter']} (%)", "mean human rating")
    return charts.finished(made, axis)


PART = PanelStudy(
    name="people",
    title="Agreement with people",
    about="How well do judges and panels agree with people, and how well could they?",
    needs=frozenset({"ratings"}),
    options=PeopleOptions,
    run=run,
)

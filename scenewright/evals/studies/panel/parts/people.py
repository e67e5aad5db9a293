"""How well judges and panels agree with people, and how well they could."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure, summary
from scenewright.evals.studies.panel.aggregators.base import FOLDS
from scenewright.evals.studies.panel.aggregators.registry import estimated
from scenewright.evals.studies.panel.people import Ceilings, People, scores_of
from scenewright.evals.studies.panel.presentation import bare, report, side
from scenewright.evals.studies.panel.resampling import Drawn
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
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
        default=("agreement", "mean", "median", "majority", "dawid_skene"), min_length=1
    )
    """Ways to combine the judges; the first is the panel of the findings. What learns from truth or
    ratings does so on other items; those that have nothing to learn from are left out."""
    folds: int = Field(default=FOLDS, ge=2)
    """Folds of cross-validation by item, where there is no other table to learn from."""
    void: bool = True
    """Whether facts under an absent parent count 0."""
    splits: int = Field(default=100, ge=1, le=10_000)
    """Random halves of the raters."""


def _result(context: PanelStudyContext, options: PeopleOptions) -> PanelStudyResult:
    """Correlate all scores with the ratings, and the ratings with each other."""
    table = context.table
    people = People(table, context.resamples, options.splits, context.seed)
    n = int(people.rated.sum())
    likely = {judge: table.said[:, at] for at, judge in enumerate(table.judge_ids)}
    left_out = []
    for name in options.aggregators:
        try:
            likely[name] = estimated(
                name, table, context.learn, folds=options.folds, seed=context.seed
            )
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
    pairwise: dict[str, Drawn] = {}
    scores = scores_of(table, likely, options.void)
    for done, (name, of) in enumerate(scores.items()):
        context.told(done, len(scores))
        drawn[name], pairwise[name] = people.spearman(of), people.pairwise(of)
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
                "pairwise": figure(pairwise[name]),
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
    panel = next((row for row in voters if not row["judge"]), None)
    judge = _best([row for row in voters if row["judge"]])
    best = panel or judge
    lead = pair_lead = None
    if panel and judge:
        one, other = panel["voter"], judge["voter"]
        lead = figure(drawn[one] - drawn[other])
        rival = _best([row for row in voters if row["judge"]], "pairwise") or judge
        pair_lead = (figure(pairwise[one] - pairwise[rival["voter"]]), rival["voter"])
    every = _best(voters)
    tied = (
        []
        if every is None
        else [
            name
            for name in drawn
            if name != every["voter"] and side(figure(drawn[every["voter"]] - drawn[name])) <= 0
        ]
    )
    unknown = {
        name: Estimate(reason=why) for name in ("share_of_ceiling", "minus_rater") if why
    }  # fmt: skip
    values = {
        "panel": panel,
        "judge": judge,
        "best": best,
        "lead": lead,
        "pair_lead": pair_lead,
        "every": every,
        "tied": tied,
        "folds": options.folds,
        "learn": context.learn and context.learn.name,
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
        "n": n,
        "voters": voters,
        "shown": [row | unknown for row in voters],
        "rater_rows": [{"_key": key, "_title": _CEILINGS[key], "value": one}
                       for key, one in raters.items()],
        "models": {f"spearman:{model}": model for model in models},
        "order": _order(voters, ratings),
    }  # fmt: skip
    several = len(models) > 1
    return report(
        "people",
        values,
        plots={
            "agreement": partial(_draw_agreement, voters, raters),
            "models": partial(_draw_models, panel or voters[0], ratings) if several else None,
        },
        records_of={
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
    )  # fmt: skip


def _best(voters: Rows, measure: str = "spearman") -> dict[str, Any] | None:
    there = [row for row in voters if row[measure].value is not None]
    return max(there, key=lambda row: row[measure].value, default=None)


def _order(voters: Rows, ratings: Mapping[str, Figure]) -> Rows:
    """Return one row a model, best first, then how many pairs of them are in people's order."""
    ranked = sorted(ratings, key=lambda model: -(ratings[model].value or 0.0))
    return [
        *(
            {"_model": model, "rating": ratings[model]}
            | {row["voter"]: row["_means"][model] for row in voters}
            for model in ranked
        ),
        {"_model": "pairs in people's order (%)"}
        | {row["voter"]: row["order_of_models"] for row in voters},
    ]


def _draw_agreement(voters: Rows, raters: Mapping[str, Figure]) -> Plot:
    """Correlation of every voter, and what raters and a perfect score reach."""
    marks = {"one rater": "one", "half the raters": "half", "ceiling": "ceiling"}
    return plots.bar_chart(
        [row["voter"] for row in voters],
        {"Spearman": [row["spearman"] for row in voters]},
        x="Spearman with the mean rating",
        lines=[(name, raters[of].value or 0.0) for name, of in marks.items() if raters],
        columns=4,
    )


def _draw_models(voter: Mapping[str, Any], ratings: Mapping[str, Figure]) -> Plot:
    """Mean score against mean rating of each model."""
    made, axis = plots.chart(
        "", f"mean score by {voter['voter']} (%)", "mean human rating", (5.6, 4.2)
    )
    for at, (model, rating) in enumerate(ratings.items()):
        x, y = voter["_means"][model].times(100.0), rating
        if x.value is not None and y.value is not None:
            axis.errorbar(
                x.value, y.value, xerr=plots.errors([x]), yerr=plots.errors([y]), capsize=2.5,
                label=model, markersize=6, elinewidth=0.9,
                **(plots.looks(at) | {"linestyle": "none"}),
            )  # fmt: skip
    return plots.legend(made, axis)


PART = PanelStudy(
    name="people",
    title="Agreement with people",
    about="How well do judges and panels agree with people, and how well could they?",
    needs=frozenset({"ratings"}),
    options=PeopleOptions,
    run=in_thread(_result),
)

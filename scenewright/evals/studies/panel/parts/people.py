"""How well judges and panels agree with people, and how well they could."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Column, Frame, percent, values_by_key
from scenewright.evals.statistics.answers import Contrast, difference_answer
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Figure, side_of_zero, summary
from scenewright.evals.studies.panel.aggregators.base import FOLDS
from scenewright.evals.studies.panel.aggregators.registry import estimated
from scenewright.evals.studies.panel.people import Ceilings, People
from scenewright.evals.studies.panel.resampling import Drawn
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
    sentences_of,
)
from scenewright.evals.studies.panel.table import PanelStudyError

_CEILINGS = {
    "half": "one half of the raters against the other",
    "reliability": "reliability of the mean of all raters",
    "ceiling": "ceiling: a score that knows the expected rating",
    "one": "one rater against the mean of the others",
    "alpha": "Krippendorff's α of single ratings (ordinal)",
}
_MARKS = {"one rater": "one", "half the raters": "half", "ceiling": "ceiling"}
_FIGURES: Mapping[str, str | Column] = {
    "spearman": "Spearman",
    "kendall": "Kendall τ-b",
    "pearson": "Pearson",
    "pairwise": percent("pairs as people, ties too (%)"),
    "within_items": percent("pairs of one item in order (%)"),
    "share_of_ceiling": percent("of the ceiling (%)"),
    "minus_rater": "minus one rater (Spearman)",
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


def measure(context: PanelStudyContext, options: PeopleOptions) -> PanelStudyResult:
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
            left_out.append({"name": f"{name} ({error})"})
    ceilings: Ceilings | None = None
    why = ""
    try:
        ceilings = people.ceilings()
    except PanelStudyError as error:
        why = str(error)
    models = sorted({image.model for image in table.images} - {""})

    def figure(drawn: Drawn | None) -> Figure:
        return Figure(value=None) if drawn is None else summary(drawn.value, drawn.resamples, n)

    voters: Rows = []
    means: Rows = []
    drawn: dict[str, Drawn] = {}
    pairwise: dict[str, Drawn] = {}
    sides: dict[str, list[tuple[int, int]]] = {}
    for done, (name, said) in enumerate(likely.items()):
        context.told(done, len(likely))
        of = table.image_scores(said, void=options.void)
        drawn[name], pairwise[name] = people.spearman(of), people.pairwise(of)
        order, gaps = people.order_of_models(of)
        rater = people.as_a_rater(of) if ceilings else (None, None)
        sides[name] = [(side_of_zero(figure(h)), side_of_zero(figure(j))) for h, j in gaps.values()]
        corrected = people.corrected(drawn[name], ceilings) if ceilings else None
        found = {
            "spearman": drawn[name],
            "kendall": people.kendall(of),
            "pearson": people.pearson(of),
            "within_items": people.within_items(of),
            "pairwise": pairwise[name],
            "share_of_ceiling": corrected,
            "as_rater": rater[0],
            "minus_rater": rater[1],
            "order_of_models": order,
            **{f"spearman:{model}": people.of_model(of, model) for model in models},
        }
        voters.append(
            {"voter": name, "judge": name in table.judge_ids}
            | {key: figure(one) for key, one in found.items()}
        )
        means += [
            {"voter": name, "model": model, "value": figure(one)}
            for model, one in people.model_means(of).items()
        ]
    context.told(len(likely), len(likely))
    ratings = {m: figure(one) for m, one in people.model_means(table.ratings).items()}
    raters = {name: figure(getattr(ceilings, name)) for name in _CEILINGS} if ceilings else {}
    judges = [row for row in voters if row["judge"]]
    panel = next((row for row in voters if not row["judge"]), None)
    judge, rival, every = _best(judges), _best(judges, "pairwise"), _best(voters)
    best = panel or judge
    lead = more = None
    answer = ""
    if panel and judge:
        lead = figure(drawn[panel["voter"]] - drawn[judge["voter"]])
        rival = rival or judge
        more = figure(pairwise[panel["voter"]] - pairwise[rival["voter"]])
        answer = difference_answer(
            Contrast(
                f"the panel ({panel['voter']})",
                f"the best single judge ({judge['voter']})",
                Estimate(**lead.model_dump() | {"n": n}),
                "Spearman with people",
                unit="image",
            )
        ).sentence
    tied = [
        name
        for name in drawn
        if every
        and name != every["voter"]
        and side_of_zero(figure(drawn[every["voter"]] - drawn[name])) <= 0
    ]
    pairs = sides[best["voter"]] if best else []
    order_rows: Rows = [
        {"model": model, "rating": ratings[model]}
        | {row["voter"]: row["value"] for row in means if row["model"] == model}
        for model in sorted(ratings, key=lambda model: -(ratings[model].value or 0.0))
    ]
    order_rows.append(
        {"model": "pairs in people's order (%)"}
        | {row["voter"]: row["order_of_models"] for row in voters}
    )
    say = sentences_of("people")
    values = {
        "panel": panel, "judge": judge, "best": best, "every": every, "tied": tied, "more": more,
        "rival": rival and rival["voter"], "raters": ceilings and ceilings.raters, **raters,
        "pairs": len(pairs), "clear": sum(h != 0 for h, _ in pairs),
        "agreed": sum(h != 0 and j == h for h, j in pairs),
        "opposed": sum(h != 0 and j == -h for h, j in pairs),
        "n_items": table.n_items, "void": options.void, "why": why, "folds": options.folds,
        "learnt": context.learnt, "answer": answer,
    }  # fmt: skip
    missing = {name: Estimate(reason=why) for name in ("share_of_ceiling", "minus_rater") if why}
    shown = [row | missing for row in voters]
    several = len(models) > 1
    scores = panel or voters[0]
    frames = (
        Frame.of("people", shown, f"Agreement with the mean rating of {n} images", _FIGURES,
                 head="Voter", label="{voter}", kept=False),
        Frame.of("agreement", [
            {"voter": row["voter"], "judge": row["judge"], "figure": name, "value": one}
            for row in voters for name, one in row.items() if isinstance(one, Figure)
        ]),
        Frame.of("model_means", [*means, *(
            {"voter": "people", "model": model, "value": one} for model, one in ratings.items()
        )]),
        Frame.of("rater_ceilings", [{"figure": name, "value": one, "_title": _CEILINGS[name]}
                                    for name, one in raters.items()],
                 "How well people agree", {"value": "value"}, head="Figure",
                 label="{_title}"),
        Frame.of("by_model", voters if several else (), "Spearman with the mean rating, among the "
                 "images of one model", {f"spearman:{model}": model for model in models},
                 head="Voter", label="{voter}", kept=False),
        Frame.of("models", order_rows if several else (), "Models by people and by judges, best "
                 "first", {"rating": Column(title="mean rating", digits=2)}
                 | {row["voter"]: percent(f"{row['voter']} (%)") for row in voters},
                 head="Model", label="{model}", kept=False),
    )  # fmt: skip
    return PanelStudyResult(
        findings=say(
            values,
            lead=lead is not None,
            pairs=bool(more and panel and panel["pairwise"].value is not None),
            first=bool(every and not tied),
            tied=bool(every and tied),
            raters=bool(raters),
            ceiling=bool(raters and best),
            rater=bool(raters and best),
            within=bool(best and best["within_items"].value is not None),
            models=bool(pairs),
        ),
        frames=frames,
        charts=(
            Chart("agreement", voters, "voter", "spearman", "bars", title="Agreement with people",
                  xlabel="Spearman with the mean rating",
                  rules={name: raters[of].value or 0.0 for name, of in _MARKS.items() if raters}),
            *([Chart("models", [{"model": row["model"], "score": row[scores["voter"]].times(100.0),
                                 "rating": row["rating"]} for row in order_rows[:-1]],
                     "score", "rating", series="model", ylabel="mean human rating",
                     title="Models by judges and by people",
                     xlabel=f"mean score by {scores['voter']} (%)")] if several else []),
        ),
        figures=values_by_key("{name}.{voter}", voters, ["spearman", "kendall", "pairwise"], True)
        | values_by_key("panel_minus_best_judge", [{"lead": lead}], ["lead"])
        | values_by_key("people.{name}", [raters], list(raters), True),
        notes=say(
            values,
            items=True,
            no_ceilings=not raters,
            ceilings=bool(raters),
            picked=True,
            learns=True,
            accuracy=True,
            left_out=left_out,
        ),
    )  # fmt: skip


def _best(voters: Rows, of: str = "spearman") -> dict[str, Any] | None:
    there = [row for row in voters if row[of].value is not None]
    return max(there, key=lambda row: row[of].value, default=None)


PART = PanelStudy(
    name="people",
    title="Agreement with people",
    about="How well do judges and panels agree with people, and how well could they?",
    needs=frozenset({"ratings"}),
    options=PeopleOptions,
    run=in_thread(measure),
)

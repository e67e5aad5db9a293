"""The page of the study of agreement with people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.base import PanelStudyResult
from scenewright.evals.studies.panel.people import Ceilings, Gaps
from scenewright.evals.studies.panel.quality import Drawn
from scenewright.evals.studies.panel.resampling import summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


@dataclass(frozen=True, slots=True, eq=False)
class Voter:
    """A judge, or an aggregator of all of them."""

    name: str
    """Its id, or its name."""
    judge: bool
    """Whether it is a single judge."""
    scores: Array
    """Of the images, (n_images,)."""
    spearman: Drawn
    """With the mean rating, over all images."""
    kendall: Drawn
    """Likewise."""
    pearson: Drawn
    """Likewise."""
    within: Drawn
    """Share of pairs of one item's images that it puts in people's order."""
    share: Drawn | None
    """Spearman's correlation over the ceiling."""
    as_rater: tuple[Drawn, Drawn] | None
    """Its correlation with all raters but one, and that minus the left-out one's."""
    by_model: Mapping[str, Drawn]
    """Spearman's correlation among the images of a model."""
    order: Drawn
    """Share of pairs of models that it puts in people's order."""
    gaps: Gaps
    """Pair of models → difference of ratings and of scores."""
    means: Mapping[str, Drawn]
    """Model → mean score."""


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """All that was measured."""

    n_images: int
    """Rated images."""
    n_items: int
    """Items of the table."""
    ratings: Array
    """Mean rating of each image, (n_images,)."""
    voters: tuple[Voter, ...]
    """Judges, then aggregators."""
    ceilings: Ceilings | None
    """What can be reached; None with one rating an image."""
    no_ceiling: str
    """Why there is none."""
    models: tuple[str, ...]
    """Models that drew."""
    rating_means: Mapping[str, Drawn]
    """Model → mean rating."""
    left_out: tuple[str, ...]
    """Aggregators that could not be used, with the reason."""
    void: bool
    """Whether facts under an absent parent count 0."""


def page(study: Agreement) -> PanelStudyResult:
    """Findings, tables, plots and records."""
    tables = [_voters(study)]
    if study.ceilings is not None:
        tables.append(_ceilings(study, study.ceilings))
    plots = {"agreement": partial(_plot_agreement, study)}
    if len(study.models) > 1:
        tables += [_by_model(study), _order(study)]
        plots["models"] = partial(_plot_models, study)
    figures = {f"spearman.{v.name}": _json(_estimate(v.spearman, study)) for v in study.voters}
    figures |= {f"kendall.{v.name}": _json(_estimate(v.kendall, study)) for v in study.voters}
    if study.ceilings is not None:
        figures |= {
            f"people.{name}": _json(_estimate(getattr(study.ceilings, name), study))
            for name in ("half", "reliability", "ceiling", "one", "alpha")
        }
    return PanelStudyResult(
        findings=tuple(_findings(study)),
        tables=tuple(tables),
        plots=plots,
        records=_records(study),
        figures=figures,
        notes=tuple(_notes(study)),
    )


def _estimate(drawn: Drawn | None, study: Agreement, factor: float = 1.0) -> Estimate:
    if drawn is None:
        return Estimate(reason=study.no_ceiling)
    found = summary(drawn.value, drawn.resamples, study.n_images)
    return Estimate(**found.model_dump()).times(factor)


def _json(found: Estimate) -> dict[str, float | None]:
    return {"mean": found.value, "low": found.low, "high": found.high}


def _best(study: Agreement, judge: bool) -> Voter | None:
    mine = [v for v in study.voters if v.judge == judge and np.isfinite(v.spearman.value)]
    return max(mine, key=lambda v: v.spearman.value, default=None)


def _findings(study: Agreement) -> list[str]:
    found = []
    panel, judge = _best(study, False), _best(study, True)
    best = [v for v in (panel, judge) if v is not None]
    if panel is not None and judge is not None:
        gap = Drawn(
            panel.spearman.value - judge.spearman.value,
            panel.spearman.resamples - judge.spearman.resamples,
        )
        found.append(
            f"Of the aggregators {panel.name} agrees best with people, Spearman "
            f"{_estimate(panel.spearman, study).text(3)}; of the judges {judge.name}, "
            f"{_estimate(judge.spearman, study).text(3)}; the difference is "
            f"{_estimate(gap, study).text(3, sign=True)}, {_verdict(_estimate(gap, study))}."
        )
    ceilings = study.ceilings
    if ceilings is not None:
        found.append(
            f"One half of the raters agrees with the other at "
            f"{_estimate(ceilings.half, study).text(3)}; the mean of all "
            f"({ceilings.raters:.1f} an image) has a reliability of "
            f"{_estimate(ceilings.reliability, study).text(3)}, so that no score can be expected "
            f"to correlate with it above {_estimate(ceilings.ceiling, study).text(3)}."
        )
        for voter in best[:1]:
            found.append(
                f"{voter.name} reaches {_estimate(voter.share, study, 100).text(1)} % of that "
                "ceiling."
            )
            if voter.as_rater is not None:
                gap_to = _estimate(voter.as_rater[1], study)
                found.append(
                    f"Against the same mean of the other raters, {voter.name} correlates "
                    f"{_estimate(voter.as_rater[0], study).text(3)} and one rater "
                    f"{_estimate(ceilings.one, study).text(3)}; the difference is "
                    f"{gap_to.text(3, sign=True)}, {_verdict(gap_to)}."
                )
    for voter in best[:1]:
        within = _estimate(voter.within, study, 100)
        if within.value is not None:
            found.append(
                f"Of two images of one prompt that people rate differently, {voter.name} puts "
                f"{within.text(1)} % in their order (50 % is chance)."
            )
        if voter.gaps:
            found.append(_of_models(study, voter))
    return found


def _verdict(gap: Estimate) -> str:
    if gap.low is None or gap.high is None:
        return "without an interval"
    if gap.low > 0:
        return "surely above 0"
    return "surely below 0" if gap.high < 0 else "which may be 0"


def _of_models(study: Agreement, voter: Voter) -> str:
    clear = opposed = agreed = 0
    for people, judged in voter.gaps.values():
        side, other = _side(people, study), _side(judged, study)
        clear += side != 0
        agreed += side != 0 and other == side
        opposed += side != 0 and other == -side
    return (
        f"{voter.name} puts {_estimate(voter.order, study, 100).text(0)} % of the "
        f"{len(voter.gaps)} pairs of models in people's order; of the {clear} pairs in which "
        f"people surely prefer one, it surely prefers the same in {agreed} and the other in "
        f"{opposed}."
    )


def _side(gap: Drawn, study: Agreement) -> int:
    found = _estimate(gap, study)
    if found.low is None or found.high is None:
        return 0
    return int(found.low > 0) - int(found.high < 0)


def _voters(study: Agreement) -> Layout:
    columns = [
        ("spearman", "Spearman", 3),
        ("kendall", "Kendall τ-b", 3),
        ("pearson", "Pearson", 3),
        ("within", "pairs of one item in order (%)", 1),
        ("share", "of the ceiling (%)", 1),
        ("gap", "minus one rater (Spearman)", 3),
    ]

    def cells(voter: Voter) -> tuple[Cell, ...]:
        gap = None if voter.as_rater is None else voter.as_rater[1]
        drawn = [
            (voter.spearman, 1), (voter.kendall, 1), (voter.pearson, 1), (voter.within, 100),
            (voter.share, 100), (gap, 1),
        ]  # fmt: skip
        return tuple(Cell(measured=_estimate(one, study, factor)) for one, factor in drawn)

    return _layout(
        "people",
        f"Agreement with the mean rating of {study.n_images} images",
        "Voter",
        columns,
        [(voter.name, cells(voter)) for voter in study.voters],
    )


def _ceilings(study: Agreement, ceilings: Ceilings) -> Layout:
    rows = {
        "half": "one half of the raters against the other",
        "reliability": "reliability of the mean of all raters",
        "ceiling": "ceiling: a score that knows the expected rating",
        "one": "one rater against the mean of the others",
        "alpha": "Krippendorff's α of single ratings (ordinal)",
    }
    cells = [
        (title, (Cell(measured=_estimate(getattr(ceilings, key), study)),))
        for key, title in rows.items()
    ]
    return _layout("ceilings", "How well people agree", "Figure", [("value", "value", 3)], cells)


def _by_model(study: Agreement) -> Layout:
    return _layout(
        "by_model",
        "Spearman with the mean rating, among the images of one model",
        "Voter",
        [(model, model, 3) for model in study.models],
        [
            (
                voter.name,
                tuple(Cell(measured=_estimate(voter.by_model[m], study)) for m in study.models),
            )
            for voter in study.voters
        ],
    )


def _order(study: Agreement) -> Layout:
    ranked = sorted(study.models, key=lambda model: -study.rating_means[model].value)
    rows = [
        (
            model,
            (
                Cell(measured=_estimate(study.rating_means[model], study)),
                *(Cell(measured=_estimate(v.means[model], study, 100)) for v in study.voters),
            ),
        )
        for model in ranked
    ]
    order = [Cell(measured=_estimate(v.order, study, 100)) for v in study.voters]
    rows.append(("pairs in people's order (%)", (Cell(), *order)))
    columns = [("rating", "mean rating", 2), *((v.name, f"{v.name} (%)", 1) for v in study.voters)]
    return _layout("models", "Models by people and by judges, best first", "Model", columns, rows)


def _layout(
    key: str,
    title: str,
    head: str,
    columns: Sequence[tuple[str, str, int]],
    rows: Sequence[tuple[str, tuple[Cell, ...]]],
) -> Layout:
    return Layout(
        id=key,
        title=title,
        head=head,
        columns=tuple(Column(key=k, title=t, digits=d) for k, t, d in columns),
        rows=tuple(Row(key=name, title=name, cells=cells) for name, cells in rows),
        of_paper=False,
    )


def _records(study: Agreement) -> dict[str, list[dict[str, Any]]]:
    def row(drawn: Drawn | None) -> dict[str, Any]:
        found = _estimate(drawn, study)
        return {"value": found.value, "low": found.low, "high": found.high}

    agreement, models = [], []
    for voter in study.voters:
        told: dict[str, Drawn | None] = {
            "spearman": voter.spearman, "kendall": voter.kendall, "pearson": voter.pearson,
            "within_items": voter.within, "share_of_ceiling": voter.share,
            "as_rater": None if voter.as_rater is None else voter.as_rater[0],
            "minus_rater": None if voter.as_rater is None else voter.as_rater[1],
            "order_of_models": voter.order,
        } | {f"spearman:{model}": drawn for model, drawn in voter.by_model.items()}  # fmt: skip
        agreement += [
            {"voter": voter.name, "judge": voter.judge, "figure": name, **row(drawn)}
            for name, drawn in told.items()
        ]
        models += [
            {"voter": voter.name, "model": model, **row(drawn)}
            for model, drawn in voter.means.items()
        ]
    models += [{"voter": "people", "model": m, **row(d)} for m, d in study.rating_means.items()]
    ceilings = [
        {"figure": name, **row(getattr(study.ceilings, name))}
        for name in ("half", "reliability", "ceiling", "one", "alpha")
        if study.ceilings is not None
    ]
    return {"agreement": agreement, "model_means": models, "rater_ceilings": ceilings}


def _notes(study: Agreement) -> list[str]:
    found = [
        f"Over the images of {study.n_items} items, which are what resamples draw. A score is the "
        "mean over the image's facts"
        + (", those under an absent parent 0." if study.void else ", each by itself.")
        + " Images without an answered fact have none and are left out.",
    ]
    if study.ceilings is None:
        found.append(f"No ceilings: {study.no_ceiling}.")
    else:
        found.append(
            "Reliability is that of Spearman and Brown, of the mean correlation of random halves; "
            "the ceiling is its root. Ratings carry no names: halves and left-out raters are drawn "
            "anew for every image, so that one rater's own scale counts as noise."
        )
    found.append("The best of several is picked on the same ratings, which flatters it a little.")
    found += [f"Left out: {why}." for why in study.left_out]
    return found


def _plot_agreement(study: Agreement) -> Plot:
    from scenewright.evals.studies import plots

    made, axes = plots.figure(size=(7.0, 1.4 + 0.42 * len(study.voters)))
    axis = axes[0][0]
    names = [voter.name for voter in study.voters]
    shown = {"Spearman": [_estimate(v.spearman, study) for v in study.voters]}
    plots.bars(axis, names, shown, horizontal=True)
    if study.ceilings is not None:
        lines = (
            ("one rater", study.ceilings.one, 1),
            ("half the raters", study.ceilings.half, 2),
            ("ceiling", study.ceilings.ceiling, 3),
        )
        for name, drawn, at in lines:
            axis.axvline(drawn.value, color=plots.COLORS[at], linestyle=plots.LINES[at], label=name)
    axis.set_xlabel("Spearman with the mean rating")
    plots.legend(made, axis, columns=4)
    drawn_plot: Plot = made
    return drawn_plot


def _plot_models(study: Agreement) -> Plot:
    from scenewright.evals.studies import plots

    panel = _best(study, False) or study.voters[0]
    made, axes = plots.figure(size=(5.6, 4.2))
    axis = axes[0][0]
    for at, model in enumerate(study.models):
        x = _estimate(panel.means[model], study, 100)
        y = _estimate(study.rating_means[model], study)
        if x.value is None or y.value is None:
            continue
        axis.errorbar(
            x.value, y.value, xerr=plots.errors([x]), yerr=plots.errors([y]), capsize=2.5,
            color=plots.COLORS[at % len(plots.COLORS)], label=model, linestyle="none",
            marker=plots.MARKERS[at % len(plots.MARKERS)], markersize=6, elinewidth=0.9,
        )  # fmt: skip
    axis.set_xlabel(f"mean score by {panel.name} (%)")
    axis.set_ylabel("mean human rating")
    plots.legend(made, axis, columns=3)
    drawn: Plot = made
    return drawn

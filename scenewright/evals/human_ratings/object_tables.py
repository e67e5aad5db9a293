"""Tables on ratings of objects: progress, agreement, re-evaluation, raters, sources, categories.

Also the plots of Liang et al., Figs. 3 to 6.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scenewright.evals.human_ratings.object_analysis import (
    Group,
    agreement,
    group_of,
    groups_of,
    image_correlations,
    pairs_of,
    reevaluation,
)
from scenewright.evals.human_ratings.rated_objects import RatedObject
from scenewright.evals.human_ratings.rated_units import RatedUnit, judged_of, rated_object
from scenewright.evals.human_ratings.study import ASPECTS, POINTS, RatingError, RatingStudy, Rule
from scenewright.evals.human_ratings.table import Rating, others_of
from scenewright.evals.human_ratings.view import TITLES
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.measured import Cell, MeasuredReport, MeasuredTable
from scenewright.evals.statistics.agreement import Places, cohen
from scenewright.evals.statistics.answers import PlainAnswer, agreement_answer, highest_answer
from scenewright.evals.statistics.figures import Bootstrap, Figure

PAPER: Mapping[str, float] = {
    "kappa_shape": 0.40,
    "kappa_texture": 0.34,
    "reevaluation": 0.10,
    "shape_and_texture": 0.52,
    "high_discrepancy": 0.08,
}
"""The paper's own figures on its 15K objects (Liang et al., Secs. 3.2 and 3.3.2), to compare with:
Cohen's κ of two annotators, rate of re-evaluation, Spearman's correlation of shape and texture,
share of objects where these differ by 2 or more."""
OVERALL = "all objects"
GAPS = ("0 to <1", "1 to <2", "2 to <3", "3 or more")
"""How far shape and texture of an object are apart."""
MOST_CATEGORIES = 40


def object_findings(
    ratings: Sequence[Rating],
    study: RatingStudy,
    resamples: int,
    seed: int,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Return tables, answers and counts of the ``ratings`` of a ``study`` of objects.

    Objects that a rater took out are only counted. Scores of an object are the means of all its
    raters. Raises ``RatingError`` for no finished ratings.
    """
    everything = judged_of(study, ratings)
    objects = [one for one in everything if one.task.thing is not None]
    rated = [one for one in objects if one.means and not one.excluded]
    wholes = {_picture(one): one for one in everything if one.task.thing is None and one.means}
    if not any(one.said for one in everything):
        raise RatingError("there are no ratings yet")
    numbers = {name: at for at, name in enumerate(dict.fromkeys(map(_picture, objects)))}
    items = np.array([numbers[_picture(one)] for one in rated], np.intp)
    boot = Bootstrap(len(numbers), seed, resamples)
    things = [rated_object(one, wholes.get(_picture(one))) for one in rated]
    arms = {one.task.thing.id: one.task.candidates[0].arm for one in rated if one.task.thing}
    overall = group_of(boot, items, things, OVERALL)
    tell("agreement of raters")
    sources = groups_of(boot, items, things, lambda one: arms[one.id])
    agreed = agreement(boot, items, things, study.rule.raters)
    repeated = reevaluation(boot, items, things, study.rule.raters, study.rule.apart)
    counts = _counts(objects, rated)
    everyone = np.array([numbers[_picture(one)] for one in objects], np.intp)
    with_image = [thing for thing in things if thing.image_realism is not None]
    image = Figure(value=None)
    if with_image:
        found = image_correlations(with_image, resamples=resamples, seed=seed)
        image = found["largest_five"]["joint"]
    out = Counter(one.task.thing.category for one in objects if one.excluded and one.task.thing)
    answers: tuple[PlainAnswer, ...] = (
        highest_answer(
            {group.name: group.ocr for group in sources},
            "realism of objects (OcR, 1 to 5)",
            noun="source",
            n=overall.ocr.n,
            unit="object",
            digits=2,
        ),
        *(
            agreement_answer(
                f"raters of {aspect}", "agree with each other", one.weighted, "weighted κ",
                n=one.kappa.n, unit="pair of ratings",
            )
            for aspect, one in agreed.items()
        ),
    )  # fmt: skip
    tables = {
        "progress": MeasuredTable(
            title="How far the study is",
            caption="Taken out by category: "
            + (", ".join(f"{name} {n}" for name, n in sorted(out.items())) or "none")
            + ".",
            rows=tuple({"state": STATES[name], "objects": n} for name, n in counts.items()),
        ),
        "agreement": MeasuredTable(
            title="Agreement of raters",
            caption=f"Between the first {study.rule.raters} raters of an object. A re-evaluation "
            "is left out here, since it is asked for only where the others differ by "
            f"{study.rule.apart} or more. 1 is full agreement, 0 is chance.",
            rows=tuple(
                {"question": aspect, "kappa": one.kappa, "in the paper": PAPER[f"kappa_{aspect}"],
                 "weighted": one.weighted, "same": one.same, "distance": one.distance,
                 "pairs": one.kappa.n}
                for aspect, one in agreed.items()
            ),
            heads={"kappa": "Cohen's κ", "weighted": "κ, quadratic weights", "same": "same score",
                   "distance": "mean distance"},
        ),
        "over_objects": MeasuredTable(
            title="Over objects",
            caption="The paper is Liang et al.: 15K objects of photos and of four models, rated by "
            "nine annotators.",
            rows=tuple(
                {"measure": name, "here": figure, "in the paper": PAPER.get(key), "n": figure.n}
                for name, key, figure in (
                    ("rate of re-evaluation", "reevaluation", repeated),
                    ("Spearman, shape and texture", "shape_and_texture", overall.correlation),
                    ("two or more apart", "high_discrepancy", overall.high),
                    ("Spearman, picture and its five largest objects", "", image),
                )
            ),
        ),
        "raters": MeasuredTable(
            title="Each rater",
            caption="Bias: the rater's score minus the mean of the others' on the same object. κ "
            "is weighted, with that mean.",
            rows=tuple(_raters(boot, everyone, objects)),
            heads={f"kappa_{aspect}": f"κ of {aspect}" for aspect in ASPECTS},
            digits=2,
        ),
        "pairs": MeasuredTable(
            title="Each pair of raters",
            rows=tuple(_pairs(boot, items, things, study.rule)),
            heads={aspect: f"κ of {aspect}" for aspect in ASPECTS},
        ),
        "sources": _groups("By what made the picture", (overall, *sources)),
        "categories": _groups(
            "By category", groups_of(boot, items, things, lambda one: one.category)
        ),
        "scores": MeasuredTable(
            title="Objects by mean score, halves rounded up",
            rows=tuple(
                {"score": str(score), **{a: histogram(rated, at)[score - 1]
                                         for at, a in enumerate(ASPECTS)}}
                for score in range(1, POINTS + 1)
            ),
            heads={**TITLES},
        ),
    }  # fmt: skip
    return {
        "tables": tables,
        "answers": answers,
        "counts": {
            "raters": len(tables["raters"].rows),
            "objects": len(objects),
            **counts,
            "pictures": len(set(map(_picture, rated))),
            "wholes": len(wholes),
        },
    }


STATES = {
    "finished": "finished",
    "once": "begun, in need of another first rater",
    "waiting": "waiting for a re-evaluation",
    "reevaluated": "evaluated again",
    "excluded": "taken out: not this object, or nobody can tell",
    "untouched": "rated by nobody",
}
"""Where objects stand; one may be in several."""


def _counts(objects: Sequence[RatedUnit], rated: Sequence[RatedUnit]) -> dict[str, int]:
    return {
        "finished": sum(not one.needed for one in rated),
        "once": sum(len(one.first) < one.rule.raters for one in rated),
        "waiting": sum(one.apart and one.needed > 0 for one in rated),
        "reevaluated": sum(one.apart and not one.needed for one in rated),
        "excluded": sum(one.excluded for one in objects),
        "untouched": sum(not one.said for one in objects),
    }


def histogram(judged: Sequence[RatedUnit], at: int) -> tuple[int, ...]:
    """Return the numbers of objects with a mean score of 1, 2, … 5 in question ``at`` (Fig. 3).

    Halves are rounded up.
    """
    counts = Counter(math.floor(one.means[at] + 0.5) for one in judged if one.means)
    return tuple(counts[score] for score in range(1, POINTS + 1))


def _raters(
    boot: Bootstrap, items: Places, judged: Sequence[RatedUnit]
) -> Iterator[dict[str, Cell]]:
    """Yield the figures of each rater; who takes objects out is a matter of the rater too."""
    names = sorted({said.rater for one in judged for said in one.said})
    scores = np.full((len(ASPECTS), len(judged), len(names)), np.nan)
    for number, one in enumerate(judged):
        for said in one.known:
            scores[:, number, names.index(said.rater)] = said.scores
    for column, name in enumerate(names):
        own = [said for one in judged for said in one.said if said.rater == name]
        seconds = [said.seconds for said in own if said.seconds is not None]
        row: dict[str, Cell] = {
            "rater": name,
            "objects": len(own),
            "taken_out": sum(said.scores is None for said in own),
            "changed": sum(said.changes > 0 for said in own),
            "median_seconds": statistics.median(seconds) if seconds else None,
        }
        for aspect, values in zip(ASPECTS, scores, strict=True):
            given, others = values[:, column], others_of(values, column, mean=True)
            row[f"mean_{aspect}"] = boot.share(items, given)
            row[f"bias_{aspect}"] = boot.share(items, given - others)
            row[f"kappa_{aspect}"] = cohen(boot, items, given, others, "quadratic")
        yield row


def _pairs(
    boot: Bootstrap, items: Places, objects: Sequence[RatedObject], rule: Rule
) -> Iterator[dict[str, Cell]]:
    """Yield κ of each pair of raters on the objects that both rated first."""
    found = pairs_of(objects, rule.raters)
    for names in sorted({(a.rater, b.rater) for _, a, b in found}):
        shared = [row for row in found if (row[1].rater, row[2].rater) == names]
        where = items[[number for number, _, _ in shared]]
        row: dict[str, Cell] = {"first": names[0], "second": names[1]}
        for aspect in ASPECTS:
            a, b = ([getattr(one[side], aspect) for one in shared] for side in (1, 2))
            row[aspect] = cohen(boot, where, a, b)
        yield row | {"both rated": len(shared)}


def _groups(title: str, found: Sequence[Group]) -> MeasuredTable:
    return MeasuredTable(
        title=title,
        caption="An object's score is the mean of all its raters; OcR is the mean of shape and "
        "texture. Then the shares of objects whose shape and texture differ by so much, and "
        "Spearman's correlation of the two.",
        rows=tuple(
            {"name": g.name, "objects": g.ocr.n, **g.mean, "OcR": g.ocr,
             **dict(zip(GAPS, g.discrepancy, strict=True)), "2 or more apart": g.high,
             "correlation": g.correlation}
            for g in found
        ),
        digits=2,
    )  # fmt: skip


def _picture(one: RatedUnit) -> str:
    return one.task.candidates[0].image


def object_stats(report: MeasuredReport) -> tuple[tuple[str, str, str], ...]:
    """Return label, value and note of the page's first figures."""
    progress, agreed = report.tables["progress"], report.tables["agreement"]
    # Where only whole pictures were rated, no rater has a row.
    raters = report.tables["raters"].names if "raters" in report.tables else []
    over = report.figure("over_objects", "rate of re-evaluation", "here")
    figures = [
        (f"κ of {aspect}", kappa, PAPER[f"kappa_{aspect}"])
        for aspect, kappa in zip(ASPECTS, agreed.figures("kappa"), strict=True)
    ]
    figures.append(("Evaluated again", over, PAPER["reevaluation"]))
    return (
        ("Raters", str(len(raters)), ""),
        ("Finished objects", str(progress.rows[0]["objects"]), ""),
        *(
            (label, Figure(value=figure.value).text(), f"the paper: {paper:.2f}")
            for label, figure, paper in figures
        ),
    )


def object_charts(report: MeasuredReport) -> Iterator[Chart]:
    """Yield the plots that ``report`` has figures for (Liang et al., Figs. 3 to 6)."""
    tables = report.tables
    if "categories" not in tables:
        return
    sources, both = tables["sources"], "Shape and texture by"
    for name, rows, columns, title, limits in (
        ("distribution", tables["scores"], ASPECTS, "Objects by mean score (Fig. 3)", (0, None)),
        ("sources", sources, ASPECTS, f"{both} source of the picture (Fig. 4)", (1, POINTS)),
        ("categories", tables["categories"], ASPECTS, f"{both} category (Fig. 6)", (1, POINTS)),
        ("discrepancy", sources, GAPS, "Share of objects by difference of shape and texture "
         "(Fig. 5)", (0, 1)),
    ):  # fmt: skip
        cells = [cell for cell in rows.cells(*columns) if cell["row"] != OVERALL]
        yield Chart(
            name, cells[: MOST_CATEGORIES * len(columns)], "row", "value", "bars",
            series="column", title=title, limits=limits,
        )  # fmt: skip

"""Report on ratings: agreement, arms or sources, raters, and people against machines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from scenewright.evals.human_ratings.comparison import Machine, confusion, panel_agreement
from scenewright.evals.human_ratings.object_tables import (
    object_charts,
    object_findings,
    object_stats,
)
from scenewright.evals.human_ratings.study import POINTS, Kind, RatingError, RatingStudy, put_file
from scenewright.evals.human_ratings.table import (
    Rating,
    Units,
    again_of,
    code_of,
    first_of,
    human_values,
    kind_of,
    others_of,
    units_of,
)
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import NO_VALUE
from scenewright.evals.reporting.measured import (
    Cell,
    MeasuredReport,
    MeasuredTable,
    write_report,
)
from scenewright.evals.statistics.agreement import Weights, alpha, cohen, fleiss, sameness
from scenewright.evals.statistics.answers import (
    MARGIN,
    Contrast,
    PlainAnswer,
    agreement_answer,
    best_answer,
)
from scenewright.evals.statistics.estimates import Estimate, holm, number, paired
from scenewright.evals.statistics.figures import (
    RESAMPLES,
    Bootstrap,
    Pictured,
    correlate,
)

SIGNIFICANT = 0.05
"""Level of p-values after Holm's correction."""
Tick = Callable[[str], None]
"""Told what is worked out next."""
UNITS: dict[Kind, str] = {"choice": "item", "facts": "fact", "score": "picture"}
"""What raters are compared on."""
MEASURED = {
    "choice": "people's choices",
    "facts": "the share of facts that hold for people",
    "score": "people's mean score",
}
"""How sentences call people's value of an arm."""
MEANS = {
    "choice": "share of raters who chose it (a tie is half a choice)",
    "facts": "share of facts that hold, by people",
    "score": "mean score",
}


class RatingReport(MeasuredReport):
    """All figures on ratings."""

    kind: Kind
    counts: dict[str, int]
    """Raters, ratings, items and more."""
    resamples: int
    """Bootstrap resamples behind each interval."""


def rating_report(
    ratings: Sequence[Rating],
    study: RatingStudy | None = None,
    machine: Machine | None = None,
    *,
    about: str = "",
    resamples: int = RESAMPLES,
    seed: int = 0,
    tick: Tick | None = None,
) -> RatingReport:
    """Return the report on ``ratings``, compared with the ``machine`` if there is one.

    Intervals are 95 % percentile bootstraps over items, of objects over pictures. Raises
    ``RatingError`` for no ratings, ratings of several kinds, and objects without their study.
    """
    tell = tick or (lambda _: None)
    kind = kind_of(ratings)
    if kind != "objects":
        found = _findings(ratings, study, machine, resamples, seed, tell)
    elif study is None or study.kind != kind:
        raise RatingError(
            "ratings of objects are reported from their study, which knows boxes and categories: "
            "name its folder"
        )
    else:
        found = object_findings(ratings, study, resamples, seed, tell)
    return RatingReport(about=about, kind=kind, resamples=resamples, seed=seed, **found)


def write_rating_report(report: RatingReport, folder: Path) -> Path:
    """Write the page, ``report.json`` and the plots into ``folder``, and return the page's path.

    Raises ``RatingError`` if they cannot be written.
    """
    objects = report.kind == "objects"
    kind, over = ("Realism of objects", "pictures") if objects else ("Human rating", "items")
    try:
        return write_report(
            report,
            folder,
            (object_charts if objects else _charts)(report),
            put_file,
            kind=kind,
            title=report.about or kind,
            about=f"Below a figure: its 95 % interval, a bootstrap of {report.resamples} resamples "
            f"over {over}. A dash: there was nothing to measure it on.",
            stats=(object_stats if objects else _stats)(report),
        )
    except OSError as error:
        raise RatingError(f"{folder} cannot be written: {error.strerror or error}") from error


def _findings(
    ratings: Sequence[Rating],
    study: RatingStudy | None,
    machine: Machine | None,
    resamples: int,
    seed: int,
    tell: Tick,
) -> dict[str, Any]:
    """Return tables, answers and counts of ratings of pictures."""
    units = units_of(ratings, study)
    boot = Bootstrap(len(units.names), seed, resamples)
    people = human_values(ratings, study)
    names = short_names(units.arms)
    metrics = {} if machine is None else machine.metrics
    tell("agreement of raters")
    shared = int(((~np.isnan(units.values)).sum(1) >= 2).sum())
    pairs = MeasuredTable(title="Each pair of raters", rows=tuple(_pairs(units, boot)))
    choices: list[dict[str, Cell]] = []
    tables: dict[str, MeasuredTable] = {}
    for name, values in metrics.items() if units.kind == "choice" else ():
        row, counts = confusion(name, values, people, units, boot)
        if row["items"]:
            choices.append(row)
            key = f"choices{f'-{len(choices)}' if len(choices) > 1 else ''}"
            tables[key] = MeasuredTable(
                title=f"Choices by {name}",
                caption="Items by the choice of people (rows) and of the metric (columns); a tie "
                "is split evenly.",
                rows=tuple(
                    {"people ↓ machine →": arm, **dict(zip(names, map(float, each), strict=True))}
                    for arm, each in zip(names, counts, strict=True)
                ),
                # Names of arms are shown as they are.
                heads={name: name for name in names},
                digits=2,
            )
    correlations = []
    for name, values in metrics.items():
        tell(f"people and {name}")
        found = correlate(name, values, people, resamples=resamples, seed=seed)
        if found.spearman.n:
            measures = {m: getattr(found, m) for m in type(found).model_fields}
            correlations.append(measures | {"pictures": found.spearman.n})
    panels = []
    if units.kind == "facts" and machine is not None:
        for name, verdicts in machine.panels.items():
            panels.append(panel_agreement(name, verdicts, units, boot))
    negated = "" if machine is None else ", ".join(sorted(machine.lower))
    value = {
        "choice": "the share of raters who chose a picture",
        "facts": "the share of a picture's facts that hold by people",
        "score": "a picture's mean score",
    }[units.kind]
    tables = {
        "arms": MeasuredTable(
            title="The arms",
            caption=f"Mean over items: {MEANS[units.kind]}.",
            rows=tuple(_arms(units, people, boot)),
        ),
        "positions": MeasuredTable(
            title="Positions and ties",
            caption="How often each position on the page was chosen, from the first, ties left "
            "out; and how often raters saw no difference, which counts as half a choice of both.",
            rows=tuple(_positions(ratings, units, boot)),
            digits=2,
        ),
        "agreement": _agreement(units, boot, pairs, shared),
        "raters": MeasuredTable(
            title="Each rater",
            rows=tuple(_raters(ratings, units, boot)),
            heads={"with_others": "κ with the others", "repeats": "rated twice",
                   "steadiness": "κ with oneself"},
            digits=2,
        ),
        "pairs": pairs,
        "choices": MeasuredTable(
            title="People's choice and the machine's",
            caption="The arm that most raters chose, and the one with the highest value of the "
            "metric. Items without a value of the metric are left out.",
            rows=tuple(choices),
            heads={"same": "the same arm", "chance": "by chance", "human_ties": "ties of people",
                   "machine_ties": "of the metric"},
        ),
        **{f"table of {name}": one for name, one in tables.items()},
        "panels": MeasuredTable(
            title="People and panels, fact by fact",
            caption="Against the majority of the raters.",
            rows=tuple(row for row in panels if row["facts"]),
        ),
        "metrics": MeasuredTable(
            title="People and metrics",
            caption=f"Rank correlation of {value} with each metric: over all pictures, among the "
            "pictures of one item, and over the means of the arms."
            + (f" Turned round, since less is better: {negated}." if negated else ""),
            rows=tuple(correlations),
            heads={"within": "τ-b within items", "arms_spearman": "Spearman of arms",
                   "arms_kendall": "τ-b of arms"},
        ),
    }  # fmt: skip
    return {
        "tables": tables,
        "answers": _answers(units, people, tables),
        "counts": {
            "raters": len(units.raters),
            "items": len(units.names),
            "units": len(units.keys),
            "shared": shared,
            "ratings": len(ratings),
        },
    }


def _stats(report: RatingReport) -> tuple[tuple[str, str, str], ...]:
    """Return label, value and note of the page's first figures."""
    found = report.tables["agreement"].figures("value")[0]
    note = (
        "needs two raters of the same"
        if found.low is None or found.high is None
        else f"95 %: {number(found.low, 3)} to {number(found.high, 3)}"
    )
    alpha = NO_VALUE if found.value is None else number(found.value, 3)
    counts = ((name.capitalize(), str(report.counts[name]), "")
              for name in ("raters", "items", "ratings"))  # fmt: skip
    return (*counts, ("Krippendorff's α", alpha, note))


def short_names(arms: Sequence[str]) -> list[str]:
    """Return the parts of the arms' names that differ."""
    parts = [arm.split("/") for arm in arms]
    if len({len(part) for part in parts}) != 1:
        return list(arms)
    differ = [at for at in range(len(parts[0])) if len({part[at] for part in parts}) > 1]
    return ["/".join(part[at] for at in differ) or "/".join(part) for part in parts]


def _weights(kind: Kind) -> Weights:
    return "quadratic" if kind == "score" else "same"


def _pairs(units: Units, boot: Bootstrap) -> Iterator[dict[str, Cell]]:
    """Yield κ of each pair of raters who share units."""
    for a, b in combinations(range(len(units.raters)), 2):
        first, second = units.values[:, a], units.values[:, b]
        if not np.isnan(first + second).all():
            kappa = cohen(boot, units.items, first, second, _weights(units.kind))
            names = {"first": units.raters[a], "second": units.raters[b]}
            yield {**names, "kappa": kappa, "both rated": kappa.n}


def _agreement(units: Units, boot: Bootstrap, pairs: MeasuredTable, shared: int) -> MeasuredTable:
    scored = units.kind == "score"
    known = [kappa.value for kappa in pairs.figures("kappa") if kappa.value is not None]
    found: dict[str, Cell] = {}
    for level in ("interval", "nominal") if scored else ("nominal",):
        figure = alpha(boot, units.items, units.values, level)
        found[f"Krippendorff's α ({level})"] = figure
    found["Fleiss' κ"] = fleiss(boot, units.items, units.values)
    weights = " (quadratic weights)" if scored else ""
    found[f"Mean of the pairs' Cohen's κ{weights}"] = statistics.fmean(known) if known else None
    found["Pairs of raters who said the same"] = sameness(boot, units.items, units.values)
    return MeasuredTable(
        title="Agreement of raters",
        caption=f"Of {len(units.keys)} {UNITS[units.kind]}s, {shared} were rated by two people or "
        "more. 1 is full agreement, 0 is chance.",
        rows=tuple({"measure": name, "value": value} for name, value in found.items()),
    )


def _raters(ratings: Sequence[Rating], units: Units, boot: Bootstrap) -> Iterator[dict[str, Cell]]:
    twice = again_of(ratings)
    number = {name: at for at, name in enumerate(units.names)}
    weights = _weights(units.kind)
    for at, rater in enumerate(units.raters):
        own = [rating for rating in ratings if rating.rater == rater]
        seconds = [rating.seconds for rating in own if rating.seconds is not None]
        pairs = twice.get(rater, [])
        first = np.array([code_of(a, units.arms) for a, _ in pairs])
        second = np.array([code_of(b, units.arms) for _, b in pairs])
        places = np.array([number[a.item] for a, _ in pairs], np.intp)
        alike = [
            float(a.arm == b.arm and (a.kind == "choice" or a.value == b.value)) for a, b in pairs
        ]
        values = units.values[:, at]
        others = others_of(units.values, at, mean=units.kind == "score")
        tells = {"cannot_tell": sum(rating.value == "cannot tell" for rating in own)}
        yield {
            "rater": rater,
            "ratings": len(own),
            "median_seconds": statistics.median(seconds) if seconds else None,
            "changed": sum(rating.changes > 0 for rating in own),
            **(tells if units.kind == "facts" else {}),
            "with_others": cohen(boot, units.items, values, others, weights),
            "repeats": len(pairs),
            "same_again": boot.share(places, alike),
            "steadiness": cohen(boot, places, first, second, weights),
        }


def _arms(
    units: Units, people: Mapping[Pictured, float], boot: Bootstrap
) -> Iterator[dict[str, Cell]]:
    number = {name: at for at, name in enumerate(units.names)}
    for arm in units.arms:
        rows = [(number[item], value) for (item, by), value in people.items() if by == arm]
        figure = boot.share([at for at, _ in rows], [value for _, value in rows])
        yield {"arm": arm, "value": figure, "items": figure.n}


def _positions(
    ratings: Sequence[Rating], units: Units, boot: Bootstrap
) -> Iterator[dict[str, Cell]]:
    """Yield how often each position was chosen, and how often neither of two."""
    if units.kind != "choice":
        return
    number = {name: at for at, name in enumerate(units.names)}
    sizes = {len(rating.shown) for rating in ratings}
    decided = [rating for rating in ratings if not rating.tie]
    if len(sizes) == 1 and 0 not in sizes and decided:
        items = [number[rating.item] for rating in decided]
        chosen = [rating.shown.index(rating.arm) for rating in decided]
        for n in range(size := sizes.pop()):
            share = boot.share(items, [float(place == n) for place in chosen])
            yield {"position": str(n + 1), "share": share, "even": 1 / size}
    first = [r for r in first_of(ratings) if len(r.shown) == 2]
    ties = boot.share([number[r.item] for r in first], [float(r.tie) for r in first])
    if ties.value is not None:
        yield {"position": "no difference", "share": ties, "even": None}


def _answers(
    units: Units, people: Mapping[Pictured, float], tables: Mapping[str, MeasuredTable]
) -> tuple[PlainAnswer, ...]:
    """Return how far machines agree with people, which arm people prefer, and if they agree."""
    panels, metrics = tables["panels"], tables["metrics"]
    found = [
        agreement_answer(
            f"the panel {name}", "agrees with people", kappa, "κ", n=kappa.n, unit="fact"
        )
        for name, kappa in zip(panels.names, panels.figures("kappa"), strict=True)
    ]
    if not found and metrics.rows:
        ranks = zip(metrics.names, metrics.figures("spearman"), strict=True)
        name, best = max(ranks, key=lambda one: one[1].value or -1.0)
        found = [
            agreement_answer(
                name, "orders pictures as people do", best, "Spearman's rank correlation",
                n=best.n, unit="picture",
            )
        ]  # fmt: skip
    contrasts = _preferences(units, people)
    if contrasts:
        found.append(best_answer(contrasts))
    agreed = tables["agreement"].figures("value")[0]
    found.append(
        agreement_answer(
            "raters", "agree with each other", agreed, "α", n=agreed.n, unit=UNITS[units.kind]
        )
    )
    return tuple(found)


def _preferences(units: Units, people: Mapping[Pictured, float]) -> list[Contrast]:
    """Return the paired differences of all pairs of arms in people's value, over items."""
    values: dict[str, dict[str, float]] = {arm: {} for arm in units.arms}
    for (item, arm), value in people.items():
        values[arm][item] = value
    names = dict(zip(units.arms, short_names(units.arms), strict=True))
    tests = []
    for before, after in combinations(units.arms, 2):
        shared = sorted(values[before].keys() & values[after].keys())
        gaps = [values[after][item] - values[before][item] for item in shared]
        tests.append((names[before], names[after], paired(gaps)))
    known = [result.p for *_, result in tests if result.p is not None]
    corrected = iter(holm(np.array(known)))
    # A score from 1 to 5 matters from the same share of its range on as one from 0 to 1.
    margin = MARGIN * (POINTS - 1 if units.kind == "score" else 1)
    return [
        Contrast(
            after=after,
            before=before,
            difference=Estimate(value=found.mean, low=found.low, high=found.high, n=found.n),
            measure=MEASURED[units.kind],
            margin=margin,
            significant=None if found.p is None else bool(next(corrected) <= SIGNIFICANT),
            tests=len(tests),
        )
        for before, after, found in tests
    ]


_MOST_CONFUSIONS = 4


def _charts(report: RatingReport) -> Iterator[Chart]:
    """Yield the plots that ``report`` has figures for."""
    tables, means = report.tables, MEANS[report.kind]
    arms = tables["arms"]
    if any(figure.value is not None for figure in arms.figures("value")):
        yield Chart(
            "arms", arms.rows, "arm", "value", "bars", title=f"The arms: {means}", xlabel=means,
            limits=(1, POINTS) if report.kind == "score" else (0, 1),
            rules={"even": 1 / len(arms.rows)} if report.kind == "choice" else {},
        )  # fmt: skip
    if "pairs" in tables and len(tables["raters"].rows) > 2:
        pairs = [*tables["pairs"].rows]
        pairs += [row | {"first": row["second"], "second": row["first"]} for row in pairs]
        title = "Cohen's κ of each pair of raters"
        yield Chart("raters", pairs, "first", "kappa", "heat", series="second", title=title)
    metrics = tables["choices"].names if "choices" in tables else []
    for at, metric in enumerate(metrics[:_MOST_CONFUSIONS], start=1):
        name = "choices" if at == 1 else f"choices-{at}"
        title = f"People's choice (rows) and that of {metric} (columns), in items"
        rows = tables[f"table of {name}"].cells()
        yield Chart(name, rows, "column", "value", "heat", series="row", title=title)
    if "metrics" in tables:
        yield Chart(
            "metrics", tables["metrics"].cells("spearman", "kendall"), "row", "value", "bars",
            series="column", title="How far metrics rank pictures as people do",
            xlabel="rank correlation with people",
        )  # fmt: skip

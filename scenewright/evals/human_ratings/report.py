"""Report on ratings of pictures: agreement, arms, consistency, and people against machines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from pydantic import Field

from scenewright.core.validation import FrozenModel
from scenewright.evals.human_ratings.agreement import Weights, alpha, cohen, fleiss, sameness
from scenewright.evals.human_ratings.comparison import (
    Confusion,
    Machine,
    PanelAgreement,
    confusion,
    panel_agreement,
)
from scenewright.evals.human_ratings.plots import Plot, bars, heat, short_names, write_files
from scenewright.evals.human_ratings.study import POINTS, Kind, RatingError, RatingStudy
from scenewright.evals.human_ratings.table import (
    Rating,
    Units,
    again_of,
    code_of,
    first_of,
    human_values,
    units_of,
)
from scenewright.evals.statistics.answers import (
    MARGIN,
    Contrast,
    PlainAnswer,
    agreement_answer,
    best_answer,
)
from scenewright.evals.statistics.estimates import Estimate, holm, paired
from scenewright.evals.statistics.figures import (
    RESAMPLES,
    Array,
    Bootstrap,
    Correlation,
    Figure,
    Pictured,
    correlate,
)

SIGNIFICANT = 0.05
"""Level of p-values after Holm's correction."""

Tick = Callable[[str], None]
"""Told what is worked out next."""


class Pair(FrozenModel):
    """Agreement of two raters."""

    first: str
    second: str
    kappa: Figure
    """Cohen's κ; of scores with quadratic weights. ``n`` counts units that both rated."""


class Agreement(FrozenModel):
    """Agreement of all raters."""

    alpha: Figure
    """Krippendorff's α: nominal, of scores by the square of their distance (interval)."""
    alpha_nominal: Figure
    """Krippendorff's α by whether values are the same."""
    fleiss: Figure
    """Fleiss' κ."""
    same: Figure
    """Share of pairs of raters who said the same."""
    mean_kappa: float | None
    """Mean of the pairs' κ."""
    pairs: tuple[Pair, ...]
    """All pairs of raters who share units."""


class RaterCard(FrozenModel):
    """Figures of one rater."""

    rater: str
    ratings: int = Field(ge=0)
    """All ratings, repeats included."""
    median_seconds: float | None
    """Median of the seconds to the first answer."""
    changed: int = Field(ge=0)
    """Ratings that were changed."""
    cannot_tell: int = Field(ge=0)
    """Facts that the rater could not tell."""
    with_others: Figure
    """κ of the rater and the most frequent value (of scores: the mean) of the others."""
    repeats: int = Field(ge=0)
    """Units rated twice."""
    same_again: Figure
    """Share of them that got the same value again."""
    steadiness: Figure
    """κ of the first and the second rating."""


class ArmFigure(FrozenModel):
    """People's result for an arm."""

    arm: str
    value: Figure
    """Mean over items of the share of raters who chose it, of the share of facts that hold, or of
    the score."""


class RatingReport(FrozenModel):
    """All figures on a study's ratings."""

    about: str
    """Where the ratings come from."""
    kind: Kind
    raters: tuple[RaterCard, ...]
    """In the order of their first rating."""
    items: int
    """Items rated."""
    units: int
    """Items, facts of pictures, or pictures that were rated."""
    shared: int
    """Units with two raters or more."""
    ratings: int
    """Ratings, repeats included."""
    agreement: Agreement
    """Between raters."""
    arms: tuple[ArmFigure, ...]
    """The arms, as people see them."""
    positions: tuple[Figure, ...]
    """For choices: how often each position was chosen, ties left out; far from even means a
    preference. Empty for others, and where arms differ in number."""
    ties: Figure
    """For choices: share of the ratings that say "no difference"; none for others."""
    confusions: tuple[Confusion, ...]
    """For choices: people compared with each metric."""
    panels: tuple[PanelAgreement, ...]
    """For facts: people compared with each panel."""
    correlations: tuple[Correlation, ...]
    """People beside each metric."""
    answers: tuple[PlainAnswer, ...]
    """What the ratings say in sentences, the most important first."""
    negated: tuple[str, ...]
    """Metrics of which less is better: their values were turned round."""
    resamples: int
    """Bootstrap resamples behind each interval."""
    seed: int


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

    Intervals are 95 % percentile bootstraps over items. Raises ``RatingError`` for no ratings or
    ratings of several kinds.
    """
    tell = tick or (lambda _: None)
    if any(rating.kind == "objects" for rating in ratings):
        raise RatingError(
            "ratings of objects are reported from their study, which knows boxes and categories: "
            "name its folder"
        )
    units = units_of(ratings, study)
    boot = Bootstrap(len(units.names), seed, resamples)
    people = human_values(ratings, study)
    metrics = {} if machine is None else machine.metrics
    tell("agreement of raters")
    agreement = _agreement(units, boot)
    raters = _cards(ratings, units, boot)
    confusions = []
    if units.kind == "choice":
        for name, values in metrics.items():
            confusions.append(confusion(name, values, people, units, boot))
    correlations = []
    for name, values in metrics.items():
        tell(f"people and {name}")
        found = correlate(name, values, people, resamples=resamples, seed=seed)
        if found.spearman.n:
            correlations.append(found)
    panels = []
    if units.kind == "facts" and machine is not None:
        for name, verdicts in machine.panels.items():
            panels.append(panel_agreement(name, verdicts, units, boot))
    return RatingReport(
        about=about,
        kind=units.kind,
        raters=raters,
        items=len(units.names),
        units=len(units.keys),
        shared=int(((~np.isnan(units.values)).sum(1) >= 2).sum()),
        ratings=len(ratings),
        agreement=agreement,
        arms=_arms(units, people, boot),
        positions=_positions(ratings, units, boot),
        ties=_ties(ratings, units, boot),
        confusions=tuple(c for c in confusions if c.items),
        panels=tuple(p for p in panels if p.same.n),
        correlations=tuple(correlations),
        answers=_answers(units, people, agreement, panels, correlations),
        negated=() if machine is None else tuple(sorted(machine.lower)),
        resamples=resamples,
        seed=seed,
    )


def _weights(kind: Kind) -> Weights:
    return "quadratic" if kind == "score" else "same"


def _agreement(units: Units, boot: Bootstrap) -> Agreement:
    values, items = units.values, units.items
    pairs = []
    for a, b in combinations(range(len(units.raters)), 2):
        kappa = cohen(boot, items, values[:, a], values[:, b], _weights(units.kind))
        if kappa.n or (~np.isnan(values[:, [a, b]])).all(1).any():
            pairs.append(Pair(first=units.raters[a], second=units.raters[b], kappa=kappa))
    known = [pair.kappa.value for pair in pairs if pair.kappa.value is not None]
    return Agreement(
        alpha=alpha(boot, items, values, "interval" if units.kind == "score" else "nominal"),
        alpha_nominal=alpha(boot, items, values, "nominal"),
        fleiss=fleiss(boot, items, values),
        same=sameness(boot, items, values),
        mean_kappa=statistics.fmean(known) if known else None,
        pairs=tuple(pairs),
    )


def _cards(ratings: Sequence[Rating], units: Units, boot: Bootstrap) -> tuple[RaterCard, ...]:
    twice = again_of(ratings)
    number = {name: at for at, name in enumerate(units.names)}
    cards = []
    for at, rater in enumerate(units.raters):
        own = [rating for rating in ratings if rating.rater == rater]
        seconds = [rating.seconds for rating in own if rating.seconds is not None]
        others = _others(units, at)
        pairs = twice.get(rater, [])
        first = np.array([code_of(a, units.arms) for a, _ in pairs])
        second = np.array([code_of(b, units.arms) for _, b in pairs])
        places = np.array([number[a.item] for a, _ in pairs], np.intp)
        alike = [
            float(a.arm == b.arm and (a.kind == "choice" or a.value == b.value)) for a, b in pairs
        ]
        cards.append(
            RaterCard(
                rater=rater,
                ratings=len(own),
                median_seconds=statistics.median(seconds) if seconds else None,
                changed=sum(rating.changes > 0 for rating in own),
                cannot_tell=sum(rating.value == "cannot tell" for rating in own),
                with_others=cohen(
                    boot, units.items, units.values[:, at], others, _weights(units.kind)
                ),
                repeats=len(pairs),
                same_again=boot.share(places, alike),
                steadiness=cohen(boot, places, first, second, _weights(units.kind)),
            )
        )
    return tuple(cards)


def _others(units: Units, rater: int) -> Array:
    """Return (units,) the mean of the other raters' scores, or their most frequent value.

    NaN without others and for ties.
    """
    rest = np.delete(units.values, rater, axis=1)
    there = ~np.isnan(rest)
    found = np.full(len(rest), np.nan)
    for row in np.flatnonzero(there.any(1)):
        said = rest[row, there[row]]
        if units.kind == "score":
            found[row] = said.mean()
        else:
            codes, counts = np.unique(said, return_counts=True)
            best = codes[counts == counts.max()]
            found[row] = best[0] if len(best) == 1 else np.nan
    return found


def _arms(
    units: Units, people: dict[tuple[str, str], float], boot: Bootstrap
) -> tuple[ArmFigure, ...]:
    number = {name: at for at, name in enumerate(units.names)}
    found = []
    for arm in units.arms:
        rows = [(number[item], value) for (item, by), value in people.items() if by == arm]
        figure = boot.share([at for at, _ in rows], [value for _, value in rows])
        found.append(ArmFigure(arm=arm, value=figure))
    return tuple(found)


def _positions(ratings: Sequence[Rating], units: Units, boot: Bootstrap) -> tuple[Figure, ...]:
    sizes = {len(rating.shown) for rating in ratings}
    decided = [rating for rating in ratings if not rating.tie]
    if units.kind != "choice" or len(sizes) != 1 or 0 in sizes or not decided:
        return ()
    number = {name: at for at, name in enumerate(units.names)}
    at = [number[rating.item] for rating in decided]
    chosen = [rating.shown.index(rating.arm) for rating in decided]
    return tuple(
        boot.share(at, [float(place == n) for place in chosen]) for n in range(sizes.pop())
    )


def _ties(ratings: Sequence[Rating], units: Units, boot: Bootstrap) -> Figure:
    """Return the share of "no difference" among first ratings of a choice between two."""
    first = [r for r in first_of(ratings) if r.kind == "choice" and len(r.shown) == 2]
    number = {name: at for at, name in enumerate(units.names)}
    return boot.share([number[r.item] for r in first], [float(r.tie) for r in first])


def _answers(
    units: Units,
    people: Mapping[Pictured, float],
    agreement: Agreement,
    panels: Sequence[PanelAgreement],
    correlations: Sequence[Correlation],
) -> tuple[PlainAnswer, ...]:
    """Return how far machines agree with people, which arm people prefer, and if they agree."""
    found = [
        agreement_answer(
            f"the panel {one.panel}", "agrees with people", one.kappa, "κ", n=one.kappa.n,
            unit="fact",
        )
        for one in panels
    ]  # fmt: skip
    if not found and correlations:
        best = max(correlations, key=lambda one: one.spearman.value or -1.0)
        found = [
            agreement_answer(
                best.metric, "orders pictures as people do", best.spearman, "Spearman's rank "
                "correlation", n=best.spearman.n, unit="picture",
            )
        ]  # fmt: skip
    contrasts = _preferences(units, people)
    if contrasts:
        found.append(best_answer(contrasts))
    found.append(
        agreement_answer(
            "raters", "agree with each other", agreement.alpha, "α", n=agreement.alpha.n,
            unit={"choice": "item", "facts": "fact", "score": "picture"}[units.kind],
        )
    )  # fmt: skip
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


MEASURED = {
    "choice": "people's choices",
    "facts": "the share of facts that hold for people",
    "score": "people's mean score",
}
"""How sentences call people's value of an arm."""
_MOST_CONFUSIONS = 4
MEANS = {
    "choice": "share of raters who chose it (a tie is half a choice)",
    "facts": "share of facts that hold, by people",
    "score": "mean score",
}


def _plots(report: RatingReport) -> Iterator[Plot]:
    """Yield the plots that ``report`` has figures for."""
    if any(arm.value.value is not None for arm in report.arms):
        means, names = MEANS[report.kind], short_names([arm.arm for arm in report.arms])
        made, axes = bars(names, {"": [arm.value for arm in report.arms]}, means)
        if report.kind == "choice":
            axes.axvline(1 / len(names), color="black", linewidth=1, linestyle="--")
        axes.set_xlim(1 if report.kind == "score" else 0, None)
        yield "arms", f"The arms: {means}", made
    if report.agreement.pairs and len(report.raters) > 2:
        raters = [card.rater for card in report.raters]
        table = np.full((len(raters), len(raters)), np.nan)
        for pair in report.agreement.pairs:
            a, b = raters.index(pair.first), raters.index(pair.second)
            table[a, b] = table[b, a] = np.nan if pair.kappa.value is None else pair.kappa.value
        about = "Cohen's κ of each pair of raters"
        yield "raters", about, heat(table, raters, raters, "{:.2f}")
    for number, found in enumerate(report.confusions[:_MOST_CONFUSIONS], start=1):
        name, arms = "choices" if number == 1 else f"choices-{number}", short_names(found.arms)
        about = f"People's choice (rows) and that of {found.metric} (columns), in items"
        yield name, about, heat(found.table, arms, arms, "{:.4g}")
    if report.correlations:
        series = {
            "Spearman's": [found.spearman for found in report.correlations],
            "Kendall's τ-b": [found.kendall for found in report.correlations],
        }
        metrics = [found.metric for found in report.correlations]
        made, _ = bars(metrics, series, "rank correlation with people")
        yield "metrics", "How far metrics rank pictures as people do", made


def write_report(report: RatingReport, folder: Path) -> Path:
    """Write the page, ``report.json`` and the plots into ``folder``, and return the page's path.

    Raises ``RatingError`` if they cannot be written.
    """
    arms = [arm.arm for arm in report.arms]
    names = dict(zip(arms, short_names(arms), strict=True))
    means = MEANS[report.kind]
    return write_files(report, folder, _plots(report), "report.html.j2", names=names, means=means)

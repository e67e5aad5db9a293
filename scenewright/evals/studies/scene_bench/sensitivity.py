"""Fig. 12: how mean and standard deviation of SGScore depend on the sample's size and the seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scenewright.config.settings import Settings
from scenewright.evals.statistics.estimates import Array, Estimate, contrast, item_means, nothing
from scenewright.evals.studies import plots
from scenewright.evals.studies.claims import Claim
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.paper import paper
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import (
    Outcome,
    StudyDefinition,
    StudyRequirement,
    scenes_wanted,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS = ("triplets", "feedback")
SLIGHT = 2.0
"""Points of SGScore that count as a slight variation of the mean."""
_RESAMPLES = 1000
_NUMBERS = 20_000_000
_COLUMNS = (
    Column(key="mean", title="mean of one sample (%)", digits=2),
    Column(key="sd_samples", title="std., scenes and seeds drawn anew (points)", digits=2),
    Column(key="sd_seeds", title="std., the same scenes drawn with other seeds (points)", digits=2),
)


@dataclass(frozen=True, slots=True)
class Spread:
    """Samples of one size."""

    size: int
    """Scenes of a sample."""
    mean: float
    """SGScore of one sample that was drawn at random, in percent."""
    sd_samples: float
    """Standard deviation over samples with other scenes and seeds."""
    sd_seeds: float | None
    """Standard deviation over seeds with the same scenes; none with one seed."""
    against_all: Estimate
    """The one sample's mean less that of all scenes."""


def wants(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """The baseline, which the paper's plot is of, and feedback."""
    return scenes_wanted(setup, settings, CONDITIONS)


def spreads(values: Array, seed: int = 0) -> list[Spread]:
    """Samples of a sixteenth, an eighth, … and all of the scenes.

    ``values`` is (scenes, seeds) in [0, 1]; scenes without any value are left out. Scenes of a
    sample are drawn with replacement, each with one of its seeds: then the whole set, too, has a
    spread, and a sample of nearly all does not look better than it is.
    """
    known = values[~np.isnan(item_means(values))] * 100
    n = len(known)
    if n < 2:
        return []
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    found = []
    for size in sorted({max(2, n // part) for part in (16, 8, 4, 2)} | {n}):
        one = order[:size]
        rest = order[size:]
        gap = nothing("the sample is the whole set")
        if len(rest):
            gap = contrast(known[one], known[rest], seed).times(1 - size / n)
        means = _resampled(rng, known, size)
        found.append(
            Spread(
                size,
                float(np.mean(item_means(known[one]))),
                float(means.std(ddof=1)),
                _redrawn(rng, known, size),
                gap,
            )
        )
    return found


def _resampled(rng: np.random.Generator, known: Array, size: int) -> Array:
    """Means of samples of ``size`` scenes, each with a seed by chance."""
    times = max(200, min(_RESAMPLES, _NUMBERS // size))
    found = []
    for _ in range(times):
        rows = known[rng.integers(len(known), size=size)]
        found.append(_one_seed(rng, rows).mean())
    return np.array(found)


def _one_seed(rng: np.random.Generator, rows: Array) -> Array:
    """One known value of each row."""
    if rows.shape[1] == 1:
        return rows[:, 0]
    weights = np.where(np.isnan(rows), -1.0, rng.random(rows.shape))
    taken: Array = rows[np.arange(len(rows)), weights.argmax(1)]
    return taken


def _redrawn(rng: np.random.Generator, known: Array, size: int) -> float | None:
    """Root mean variance over seeds of the mean of ``size`` scenes, over choices of scenes."""
    whole = known[~np.isnan(known).any(1)]
    if known.shape[1] < 2 or len(whole) < size:
        return None
    times = 1 if size == len(whole) else max(20, min(200, _NUMBERS // size))
    variances = [
        whole[rng.permutation(len(whole))[:size]].mean(0).var(ddof=1) for _ in range(times)
    ]
    return float(np.sqrt(np.mean(variances)))


def outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """A row a size and condition."""
    (found,) = readings
    by = {name: spreads(found.of("sgscore", name)) for name in CONDITIONS}
    rows = tuple(
        Row(
            key=f"{name}/{spread.size}",
            title=f"{plots.name_of(name)}, {spread.size:,} scenes",
            cells=tuple(
                Cell(measured=_plain(value, spread.size))
                for value in (spread.mean, spread.sd_samples, spread.sd_seeds)
            ),
        )
        for name, some in by.items()
        for spread in some
    )
    layout = Layout(
        id="fig12",
        title="Fig. 12: SGScore over sample sizes",
        head="Sample",
        columns=_COLUMNS,
        rows=rows,
    )
    said = paper().said("fig12")
    notes = (
        f"The paper prints no numbers of this plot. Its text: {said.text}",
        f"Seeds: {len(found.seeds)}. The first spread is of samples drawn with replacement from "
        f"the {len(found.items):,} scenes, each with one of its seeds; as scenes are drawn one by "
        "one it falls with the root of the size by itself, so it is no finding but a scale.",
    )
    return Outcome(
        (layout,),
        tuple(claim for name in CONDITIONS for claim in _claims(name, by[name])),
        lambda: _plot(setup, by),
        notes,
    )


def _plain(value: float | None, size: int) -> Estimate:
    return nothing("one seed alone") if value is None else Estimate(value=value, n=size)


def _claims(name: str, found: list[Spread]) -> list[Claim]:
    said = paper().said("fig12")
    claims = [
        Claim(
            where=said.number,
            says=f"the mean of a sample of {spread.size:,} scenes is that of all, drawn with "
            f"{plots.name_of(name)}",
            side="within",
            margin=SLIGHT,
            measured=spread.against_all,
        )
        for spread in found
        if spread.against_all.value is not None
    ]
    if len(found) > 1:
        first, last = found[0], found[-1]
        low, high = (
            part * first.sd_samples - other * last.sd_samples
            for part, other in ((1 - _ERROR, 1 + _ERROR), (1 + _ERROR, 1 - _ERROR))
        )
        claims.append(
            Claim(
                where=said.number,
                says=f"the standard deviation falls from {first.size:,} to {last.size:,} scenes, "
                f"drawn with {plots.name_of(name)}",
                side="above",
                measured=Estimate(
                    value=first.sd_samples - last.sd_samples, low=low, high=high, n=last.size
                ),
                digits=2,
                note=f"{first.sd_samples:.2f} against {last.sd_samples:.2f}; the interval is that "
                "of the resampling.",
            )
        )
    return claims


_ERROR = 1.96 / np.sqrt(2 * 199)
"""Half width, relative, of the 95 % interval of a standard deviation from 200 normal values, the
fewest that there are."""


def _plot(setup: Setup, by: dict[str, list[Spread]]) -> Figure:
    made, axes = plots.figure(1, 2, size=(9.0, 4.2))
    left, right = axes[0]
    plots.lines(
        left,
        {
            plots.name_of(name): [(s.size, Estimate(value=s.mean, sd=s.sd_samples)) for s in some]
            for name, some in by.items()
        },
    )
    left.set_ylim(0, 100)
    left.set_ylabel("SGScore (%), ± one std.")
    left.set_title("Mean of a sample")
    series: dict[str, list[tuple[float, Estimate]]] = {}
    for name, some in by.items():
        series[f"{plots.name_of(name)}: scenes and seeds anew"] = [
            (s.size, Estimate(value=s.sd_samples)) for s in some
        ]
        series[f"{plots.name_of(name)}: seeds anew"] = [
            (s.size, _plain(s.sd_seeds, s.size)) for s in some
        ]
    plots.lines(right, series)
    right.set_ylabel("std. of SGScore (points)")
    # Room for the legend above the curves.
    right.set_ylim(0, 1.5 * right.get_ylim()[1])
    right.set_title("Standard deviation")
    sizes = sorted({s.size for some in by.values() for s in some})
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.minorticks_off()
        axis.set_xlabel("scenes of a sample (log scale)")
    made.suptitle(f"Sample size and seeds, {setup.profile}")
    # Lines of one colour mean other things left and right.
    for axis in (left, right):
        axis.legend()
    figure: Figure = made
    return figure


STUDY = StudyDefinition(
    "sensitivity",
    "fig12",
    "Fig. 12",
    "mean and standard deviation of SGScore over sample sizes and seeds",
    wants,
    outcome,
)

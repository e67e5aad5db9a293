"""Reliability of SGScore: by judge (Fig. 11), and by sample size and seeds (Fig. 12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scenewright.config.settings import Settings
from scenewright.evals.reporting import plots
from scenewright.evals.runner.config import PanelSpec
from scenewright.evals.statistics.agreement import alpha, cohen
from scenewright.evals.statistics.estimates import (
    Array,
    Estimate,
    contrast,
    difference,
    item_means,
    mean,
    nothing,
)
from scenewright.evals.statistics.figures import Bootstrap
from scenewright.evals.statistics.figures import Figure as Measured
from scenewright.evals.studies.layout import Column, Layout, columns_of
from scenewright.evals.studies.paper import Claim, paper
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.study import (
    PARTS,
    SCENES_FAMILY,
    Outcome,
    Setup,
    StudyDefinition,
    StudyRequirement,
    scenes_in,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JUDGE_CONDITIONS = ("triplets", "composition")
"""Without a loop: no judge has steered what it judges."""
MINIMAL = 5.0
"""Points of SGScore that count as a minimal difference between judges."""
_SPOILT = {"judge-weak": "made weak on purpose", "judge-eager": "made to say yes on purpose"}


def judge_requirements(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
    """Require one panel a judge, on the pictures of the first seed."""
    panels = {
        short: PanelSpec(judges=(name,), aggregation="mean")
        for short, name in setup.judges_to_compare(settings).items()
    }
    return (
        StudyRequirement(SCENES_FAMILY, JUDGE_CONDITIONS, panels, setup.metrics(), setup.seeds[:1]),
    )


def judge_outcome(setup: Setup, settings: Settings, readings: tuple[Readings, ...]) -> Outcome:
    """Return a row a judge: scores of each condition, and how far it agrees with the others."""
    (found,) = readings
    named = setup.judges_to_compare(settings)
    judges = list(named)
    report = setup.model(settings).report_judges
    base = next((short for short, name in named.items() if name in report), judges[0])
    kappas, alpha = _agreement(found, judges, base)
    titles = dict(zip(PARTS, ("ObjectRecall", "RelationRecall", "SGScore"), strict=True))
    shown = {
        f"{condition}/{part or 'sgscore'}": (condition, part)
        for condition in JUDGE_CONDITIONS
        for part in PARTS
    }
    columns = [
        Column(key=key, title=f"{plots.name_of(condition)}: {titles[part]} (%)")
        for key, (condition, part) in shown.items()
    ]

    def cell(judge: str, column: str) -> Estimate | None:
        if column == "kappa":
            return _estimate(kappas[judge]) if judge != base else None
        condition, part = shown[column]
        return mean(found.of("sgscore", condition, part, panel=judge)).times(100)

    layout = Layout.grid(
        "fig11",
        "Fig. 11: SGScore by judge, on the same pictures",
        {judge: f"{judge}{_made(judge)}" for judge in judges},
        [*columns, Column(key="kappa", title=f"Cohen's κ with {base}", digits=3)],
        cell,
        head="Judge",
    )
    said = paper().statement_of("fig11")
    claims = tuple(
        Claim(
            where=said.number,
            says=f"`{judge}`{_made(judge)} gives the same SGScore as `{base}`, pictures drawn with "
            f"{plots.name_of(condition)}",
            side="within",
            margin=MINIMAL,
            measured=difference(
                found.of("sgscore", condition, panel=judge),
                found.of("sgscore", condition, panel=base),
            ).times(100),
        )
        for condition in JUDGE_CONDITIONS
        for judge in judges
        if judge != base
    )
    order = sum(_score(found, j, "composition") > _score(found, j, "triplets") for j in judges)
    notes = (
        f"The paper prints no numbers of this plot. Its text: {said.text}",
        f"Agreement of all {len(judges)} judges on single facts, Krippendorff's α: {alpha.text()} "
        f"({alpha.n} facts; a void fact counts as not there).",
        f"Judges that put scene composition above triplets: {order} of {len(judges)}.",
    )
    return Outcome(
        (layout,),
        claims,
        lambda: _judge_plot(setup, found, judges),
        notes,
        {"alpha": alpha.model_dump(), "judges": named, "beside": base},
    )


def _made(judge: str) -> str:
    return f" ({_SPOILT[judge]})" if judge in _SPOILT else ""


def _estimate(figure: Measured) -> Estimate:
    return Estimate(
        value=figure.value,
        low=figure.low,
        high=figure.high,
        n=figure.n,
        reason="" if figure.value is not None else "nothing to agree on",
    )


def _agreement(
    found: Readings, judges: list[str], base: str
) -> tuple[dict[str, Measured], Measured]:
    """Return Cohen's κ of every judge with ``base``, and Krippendorff's α of all, over facts."""
    empty = Measured(value=None)
    if found.votes is None or not len(found.votes.pictures):
        return dict.fromkeys(judges, empty), empty
    at = {panel: column for column, panel in enumerate(found.votes.panels)}
    pictures, votes = found.votes.pictures, found.votes.said
    boot = Bootstrap(int(pictures.max()) + 1)
    kappas = {}
    for judge in judges:
        pair = votes[:, [at[judge], at[base]]]
        kappas[judge] = cohen(boot, pictures, pair[:, 0], pair[:, 1])
    return kappas, alpha(boot, pictures, votes[:, [at[judge] for judge in judges]], "nominal")


def _score(found: Readings, judge: str, condition: str) -> float:
    return mean(found.of("sgscore", condition, panel=judge)).value or 0.0


def _judge_plot(setup: Setup, found: Readings, judges: list[str]) -> Figure:
    series = {
        plots.name_of(condition): [
            mean(found.of("sgscore", condition, panel=judge)).times(100) for judge in judges
        ]
        for condition in JUDGE_CONDITIONS
    }
    return plots.percentages(
        judges,
        series,
        ylabel="SGScore (%), 95 % interval over scenes",
        xlabel="judge",
        title=f"The same pictures by different judges, {setup.profile}",
        size=(1.8 + 1.15 * len(judges), 4.2),
    )


JUDGES = StudyDefinition(
    "judges",
    "fig11",
    "Fig. 11",
    "the same pictures judged by different judges",
    judge_requirements,
    judge_outcome,
)


SENSITIVITY_CONDITIONS = ("triplets", "feedback")
SLIGHT = 2.0
"""Points of SGScore that count as a slight variation of the mean."""
_RESAMPLES = 1000
_NUMBERS = 20_000_000
_COLUMNS = columns_of(
    {
        "mean": "mean of one sample (%)",
        "sd_samples": "std., scenes and seeds drawn anew (points)",
        "sd_seeds": "std., the same scenes drawn with other seeds (points)",
    },
    digits=2,
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


def spreads(values: Array, seed: int = 0) -> list[Spread]:
    """Return samples of a sixteenth, an eighth, … and all of the scenes.

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
    """Return the means of samples of ``size`` scenes, each with a seed by chance."""
    times = max(200, min(_RESAMPLES, _NUMBERS // size))
    found = []
    for _ in range(times):
        rows = known[rng.integers(len(known), size=size)]
        found.append(_one_seed(rng, rows).mean())
    return np.array(found)


def _one_seed(rng: np.random.Generator, rows: Array) -> Array:
    """Return one known value of each row."""
    if rows.shape[1] == 1:
        return rows[:, 0]
    weights = np.where(np.isnan(rows), -1.0, rng.random(rows.shape))
    taken: Array = rows[np.arange(len(rows)), weights.argmax(1)]
    return taken


def _redrawn(rng: np.random.Generator, known: Array, size: int) -> float | None:
    """Return the root mean variance over seeds of the mean of ``size`` scenes."""
    whole = known[~np.isnan(known).any(1)]
    if known.shape[1] < 2 or len(whole) < size:
        return None
    times = 1 if size == len(whole) else max(20, min(200, _NUMBERS // size))
    variances = [
        whole[rng.permutation(len(whole))[:size]].mean(0).var(ddof=1) for _ in range(times)
    ]
    return float(np.sqrt(np.mean(variances)))


def sensitivity_outcome(
    setup: Setup, settings: Settings, readings: tuple[Readings, ...]
) -> Outcome:
    """Return a row a size and condition."""
    (found,) = readings
    by = {name: spreads(found.of("sgscore", name)) for name in SENSITIVITY_CONDITIONS}
    samples: dict[tuple[str, ...], Spread] = {
        (name, f"{s.size}"): s for name, some in by.items() for s in some
    }
    layout = Layout.grid(
        "fig12",
        "Fig. 12: SGScore over sample sizes",
        {key: f"{plots.name_of(key[0])}, {s.size:,} scenes" for key, s in samples.items()},
        _COLUMNS,
        lambda key, column: _plain(getattr(samples[key], column), samples[key].size),
        head="Sample",
    )
    said = paper().statement_of("fig12")
    notes = (
        f"The paper prints no numbers of this plot. Its text: {said.text}",
        f"Seeds: {len(found.seeds)}. The first spread is of samples drawn with replacement from "
        f"the {len(found.items):,} scenes, each with one of its seeds; as scenes are drawn one by "
        "one it falls with the root of the size by itself, so it is no finding but a scale.",
    )
    return Outcome(
        (layout,),
        tuple(claim for name in SENSITIVITY_CONDITIONS for claim in _claims(name, by[name])),
        lambda: _sensitivity_plot(setup, by),
        notes,
    )


def _plain(value: float | None, size: int) -> Estimate:
    return nothing("one seed alone") if value is None else Estimate(value=value, n=size)


def _claims(name: str, found: list[Spread]) -> list[Claim]:
    said = paper().statement_of("fig12")
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


def _sensitivity_plot(setup: Setup, by: dict[str, list[Spread]]) -> Figure:
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
    return made


SENSITIVITY = StudyDefinition(
    "sensitivity",
    "fig12",
    "Fig. 12",
    "mean and standard deviation of SGScore over sample sizes and seeds",
    scenes_in(*SENSITIVITY_CONDITIONS),
    sensitivity_outcome,
)

"""Which way to make one probability of the judges' answers is best, and if any beats the mean."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.aggregators.base import AGGREGATORS, aggregator_of
from scenewright.evals.studies.panel.aggregators.crossval import FOLDS, estimated
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.measures import Gain, Measure, Measures, gains
from scenewright.evals.studies.panel.noise import NOISE, noisy
from scenewright.evals.studies.panel.quality import Drawn
from scenewright.evals.studies.panel.resampling import summary
from scenewright.evals.studies.panel.table import AnswerTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

CLEAN = "clean"


class AggregatorOptions(Options):
    """Options."""

    names: tuple[str, ...] = Field(default=tuple(AGGREGATORS), min_length=1)
    """Aggregators to compare; those that need what is not there are left out and named."""
    base: str = "mean"
    """What the others are compared with."""
    noise: tuple[str, ...] = ()
    """Noise models under which they are compared as well, where the truth is known: any of
    missing, yes_sayer, guesser, adversary, clique."""
    folds: int = Field(default=FOLDS, ge=2)
    """Folds of cross-validation by item, where there is no other table to learn from."""

    @field_validator("names", "base")
    @classmethod
    def _known(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (value,) if isinstance(value, str) else value:
            if name not in AGGREGATORS:
                raise ValueError(
                    f"there is no aggregator {name!r}: use some of {', '.join(AGGREGATORS)}"
                )
        return value

    @field_validator("noise")
    @classmethod
    def _models(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in NOISE or name == CLEAN:
                known = ", ".join(each for each in NOISE if each != CLEAN)
                raise ValueError(f"there is no noise model {name!r}: use some of {known}")
        return value


@dataclass(frozen=True, slots=True)
class Comparison:
    """All aggregators on one table."""

    noise: str
    """Noise model; ``clean`` without."""
    measures: tuple[Measure, ...]
    """What was measured, the main one first."""
    drawn: Mapping[str, Mapping[str, Drawn]]
    """Aggregator → measure → value and resamples."""
    gains: Mapping[str, Mapping[str, Gain]]
    """Measure → aggregator → gain over the base."""
    left_out: Mapping[str, str]
    """Aggregator → why it could not be used."""


def compared(
    table: AnswerTable,
    learn: AnswerTable | None,
    options: AggregatorOptions,
    *,
    resamples: int = 1000,
    seed: int = 0,
    noise: str = CLEAN,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """The comparison under a noise model. Raises ``PanelStudyError`` where the base cannot be used
    or there is neither truth nor ratings."""
    # What is learnt from has chance of its own.
    hit = noisy(table, noise, seed)
    taught = None if learn is None else noisy(learn, noise, seed + 1)
    measures = Measures(hit, resamples, seed)
    drawn: dict[str, Mapping[str, Drawn]] = {}
    left_out: dict[str, str] = {}
    names = list(dict.fromkeys([options.base, *options.names]))
    for at, name in enumerate(names):
        try:
            likely = estimated(name, hit, taught, folds=options.folds, seed=seed)
        except PanelStudyError as error:
            if name == options.base:
                raise
            left_out[name] = str(error)
        else:
            drawn[name] = measures.of(likely)
        told(at + 1, len(names))
    n = len(table.images)
    return Comparison(
        noise,
        measures.measures,
        drawn,
        {one.key: gains(drawn, options.base, one, n) for one in measures.measures},
        left_out,
    )


async def run(context: PanelStudyContext, options: AggregatorOptions) -> PanelStudyResult:
    """The study."""
    table = context.table
    noises = (CLEAN, *dict.fromkeys(options.noise))
    found: list[Comparison] = []
    for at, noise in enumerate(noises):

        def told(done: int, total: int, at: int = at) -> None:
            context.told(at * total + done, len(noises) * total)

        found.append(
            await asyncio.to_thread(
                compared, table, context.learn, options, resamples=context.resamples,
                seed=context.seed, noise=noise, told=told,
            )
        )  # fmt: skip
    clean = found[0]
    main = tuple(m for m in clean.measures if m.key in ("balanced_accuracy", "spearman"))
    findings = [sentence for one in main for sentence in _findings(clean, one, options.base)]
    findings += [_under_noise(other, options.base) for other in found[1:]]
    return PanelStudyResult(
        findings=tuple(findings),
        tables=(
            *(_values(one, table) for one in found),
            *(_gains(one, options.base) for one in found),
        ),
        plots={
            f"aggregators_{measure.key}": _plot(clean, measure, options.base) for measure in main
        },
        records={"aggregators": _records(found, options.base)},
        figures=_figures(found),
        notes=_notes(clean, context, options),
    )


def _findings(found: Comparison, measure: Measure, base: str) -> list[str]:
    title = measure.title.rstrip(" ↑↓")
    mine = found.drawn[base][measure.key].value
    gained = found.gains[measure.key]
    better = {name: gain for name, gain in gained.items() if gain.verdict == "better"}
    worse = {name: gain for name, gain in gained.items() if gain.verdict == "worse"}
    said = [f"{title[0].upper()}{title[1:]}: {base} reaches {number(mine, 3)}."]
    if better:
        ordered = sorted(better, key=lambda name: -(better[name].figure.value or 0.0))
        said.append(f"Clearly better than {base}: {_listed(ordered, better)}.")
        sure = [name for name in ordered if better[name].sure]
        tried = len(gained)
        said.append(
            f"Corrected for the {tried} that were tried (Holm), "
            + (
                f"{', '.join(sure)} remain{'s' if len(sure) == 1 else ''}."
                if sure
                else "none remains."
            )
        )
    else:
        said.append(f"None of the {len(gained)} others is clearly better than {base}.")
    sentences = [" ".join(said)]
    tied = [name for name, gain in gained.items() if gain.verdict == "tied"]
    rest = []
    if tied:
        rest.append(f"not to be told from {base}: {', '.join(tied)}")
    if worse:
        ordered = sorted(worse, key=lambda name: worse[name].figure.value or 0.0)
        rest.append(f"clearly worse: {_listed(ordered, worse)}")
    if rest:
        sentences.append(f"By {title} {'; '.join(rest)}.")
    return sentences


def _listed(names: Sequence[str], gained: Mapping[str, Gain]) -> str:
    return ", ".join(
        f"{name} ({_figure(gained[name].figure).text(3, sign=True)})" for name in names
    )


def _under_noise(found: Comparison, base: str) -> str:
    measure = found.measures[0]
    gained = found.gains[measure.key]
    better = sorted(
        (name for name in gained if gained[name].verdict == "better"),
        key=lambda name: -(gained[name].figure.value or 0.0),
    )
    title = measure.title.rstrip(" ↑↓")
    mine = found.drawn[base][measure.key].value
    head = f"Where {NOISE[found.noise].about}, {base} reaches a {title} of {number(mine, 3)}; "
    if not better:
        return f"{head}no other is clearly better."
    return f"{head}clearly better: {_listed(better[:3], gained)}" + (
        f", and {len(better) - 3} more." if len(better) > 3 else "."
    )


def _values(found: Comparison, table: AnswerTable) -> Layout:
    n = len(table.images)
    return Layout(
        id=f"aggregators_{found.noise}",
        title=f"Aggregators{_where(found)}",
        head="aggregator",
        columns=tuple(Column(key=m.key, title=m.title, digits=3) for m in found.measures),
        rows=tuple(
            Row(
                key=name,
                title=f"{name} ({_learnt(name)})",
                cells=tuple(Cell(measured=_estimate(drawn[m.key], n)) for m in found.measures),
            )
            for name, drawn in found.drawn.items()
        ),
        of_paper=False,
    )


def _gains(found: Comparison, base: str) -> Layout:
    names = [name for name in found.drawn if name != base]
    return Layout(
        id=f"aggregator_gains_{found.noise}",
        title=f"Gain over {base}{_where(found)}; above 0 is better in every column",
        head="aggregator",
        columns=tuple(
            Column(key=m.key, title=m.title.rstrip(" ↑↓"), digits=3) for m in found.measures
        ),
        rows=tuple(
            Row(
                key=name,
                title=name,
                cells=tuple(
                    Cell(
                        measured=_figure(gain.figure),
                        note=f"({gain.verdict}{', also by Holm' if gain.sure else ''})",
                    )
                    for gain in (found.gains[m.key][name] for m in found.measures)
                ),
            )
            for name in names
        ),
        of_paper=False,
    )


def _plot(found: Comparison, measure: Measure, base: str) -> Callable[[], Plot]:
    gained = found.gains[measure.key]

    def draw() -> Plot:
        from scenewright.evals.studies import plots

        names = sorted(gained, key=lambda name: gained[name].figure.value or 0.0)
        made, axes = plots.figure(size=(7.0, 1.2 + 0.3 * max(1, len(names))))
        axis = axes[0][0]
        looks = {"better": (2, "^"), "tied": (6, "o"), "worse": (1, "v")}
        for verdict, (color, marker) in looks.items():
            rows = [at for at, name in enumerate(names) if gained[name].verdict == verdict]
            if not rows:
                continue
            estimates = [_figure(gained[names[at]].figure) for at in rows]
            axis.errorbar(
                [e.value or 0.0 for e in estimates],
                rows,
                xerr=plots.errors(estimates),
                fmt=marker,
                color=plots.COLORS[color],
                capsize=2.5,
                label=f"{verdict}" + ("" if verdict == "tied" else " (interval without 0)"),
            )
        axis.axvline(0.0, color="#222222", linewidth=0.9)
        axis.set_yticks(range(len(names)), names)
        axis.set_xlabel(f"gain over {base} in {measure.title.rstrip(' ↑↓')}, 95 % interval")
        plots.legend(made, axis)
        shown: Plot = made
        return shown

    return draw


def _records(found: Sequence[Comparison], base: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for one in found:
        for name, drawn in one.drawn.items():
            for measure in one.measures:
                value = summary(drawn[measure.key].value, drawn[measure.key].resamples, 0)
                gain = one.gains[measure.key].get(name)
                rows.append(
                    {
                        "noise": one.noise,
                        "aggregator": name,
                        "learns_from": aggregator_of(name).fitted_to,
                        "measure": measure.key,
                        "less_is_better": measure.better < 0,
                        "value": value.value,
                        "low": value.low,
                        "high": value.high,
                        "base": base,
                        "gain": None if gain is None else gain.figure.value,
                        "gain_low": None if gain is None else gain.figure.low,
                        "gain_high": None if gain is None else gain.figure.high,
                        "p": None if gain is None else gain.p,
                        "p_holm": None if gain is None else gain.p_holm,
                        "verdict": None if gain is None else gain.verdict,
                    }
                )
    return rows


def _figures(found: Sequence[Comparison]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for one in found:
        for name, drawn in one.drawn.items():
            for measure in one.measures:
                key = f"{one.noise}.{measure.key}.{name}"
                value = summary(drawn[measure.key].value, drawn[measure.key].resamples, 0)
                figures |= _flat(key, value)
                gain = one.gains[measure.key].get(name)
                if gain is not None:
                    figures |= _flat(f"gain.{key}", gain.figure)
    return figures


def _flat(key: str, figure: Figure) -> dict[str, Any]:
    if figure.value is None:
        return {}
    if figure.low is None or figure.high is None:
        return {key: figure.value}
    return {key: {"mean": figure.value, "low": figure.low, "high": figure.high}}


def _notes(
    found: Comparison, context: PanelStudyContext, options: AggregatorOptions
) -> tuple[str, ...]:
    learnt = (
        f"What learns from truth or ratings learnt from {context.learn.name} where that has them, "
        if context.learn is not None
        else "What learns from truth or ratings did so "
    )
    notes = [
        f"{learnt}{'and otherwise ' if context.learn is not None else ''}"
        f"by cross-validation over items in {options.folds} folds: an item's own truth or rating "
        "is never seen.",
        "Intervals are of items drawn with replacement; what was learnt is not learnt anew in each "
        "resample. Differences are paired on the same resamples. Better and worse are by the "
        "interval; Holm's correction takes two-sided p-values by the standard deviation of the "
        "resamples, over all aggregators of a measure.",
    ]
    if found.left_out:
        told = "; ".join(found.left_out.values())
        notes.append(f"Left out: {told}.")
    return tuple(notes)


def _where(found: Comparison) -> str:
    return "" if found.noise == CLEAN else f", where {NOISE[found.noise].about}"


def _learnt(name: str) -> str:
    source = aggregator_of(name).fitted_to
    return "fixed" if source == "nothing" else f"learns from {source}"


def _estimate(drawn: Drawn, n: int) -> Estimate:
    return _figure(summary(drawn.value, drawn.resamples, n))


def _figure(figure: Figure) -> Estimate:
    return Estimate(value=figure.value, low=figure.low, high=figure.high, n=figure.n)


PART = PanelStudy(
    name="aggregators",
    title="Ways to make one probability of several answers",
    about="Which aggregator is best, and is any clearly better than the mean of the judges?",
    needs=frozenset({"several", "truth or ratings"}),
    options=AggregatorOptions,
    run=run,
)
"""The study."""

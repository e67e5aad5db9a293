"""Which way to make one probability of the judges' answers is best, and if any beats the mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from scenewright.evals.reporting import plots
from scenewright.evals.statistics.figures import Figure, summary
from scenewright.evals.studies.panel.aggregators.base import FOLDS
from scenewright.evals.studies.panel.aggregators.registry import (
    AGGREGATORS,
    aggregator_of,
    estimated,
)
from scenewright.evals.studies.panel.aggregators.selected import JUDGE, NAME, choose
from scenewright.evals.studies.panel.attacks import NOISE, noisy
from scenewright.evals.studies.panel.metrics import Gain, Measure, Measures, gains
from scenewright.evals.studies.panel.presentation import difference, report
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

CLEAN = "clean"
Rows = list[dict[str, Any]]


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

    @field_validator("noise")
    @classmethod
    def _models(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in NOISE or name == CLEAN:
                known = ", ".join(each for each in NOISE if each != CLEAN)
                raise ValueError(f"unknown noise model {name!r}: use some of {known}")
        return value


def _result(context: PanelStudyContext, options: AggregatorOptions) -> PanelStudyResult:
    """Compare all aggregators, under each noise model.

    Raises ``PanelStudyError`` where the base cannot be used or there is neither truth nor ratings.
    """
    noises = (CLEAN, *dict.fromkeys(options.noise))
    rows: Rows = []
    left_out: dict[str, str] = {}
    measures: dict[str, Measure] = {}
    for at, noise in enumerate(noises):

        def told(done: int, total: int, at: int = at) -> None:
            context.told(at * total + done, len(noises) * total)

        compared, reasons, measures = _compared(context, options, noise, told)
        rows += compared
        left_out = left_out or reasons
    base = options.base
    main = [m for key, m in measures.items() if key in ("balanced_accuracy", "spearman")]
    values = {
        "base": base,
        "main": [_verdicts(rows, CLEAN, one, base) for one in main],
        "noisy": [
            _verdicts(rows, noise, next(iter(measures.values())), base)
            | {"about": NOISE[noise].about}
            for noise in noises[1:]
        ],
        "chosen": _chosen(context, rows),
        "learn": context.learn and context.learn.name,
        "folds": options.folds,
        "left_out": list(left_out.values()),
        "rows": rows,
        "noises": {
            noise: "" if noise == CLEAN else f", where {NOISE[noise].about}" for noise in noises
        },
        "values": {noise: _by_aggregator(rows, noise, "value") for noise in noises},
        "gained": {noise: _by_aggregator(rows, noise, "_gain") for noise in noises},
        "measures": {key: one.title for key, one in measures.items()},
        "plain_measures": {key: _title(one) for key, one in measures.items()},
    }
    return report(
        "aggregators",
        values,
        plots={
            f"aggregators_{one.key}": partial(
                _draw_gains, _of(rows, CLEAN, one.key), _title(one), base
            )
            for one in main
        },
        records_of={"aggregators": rows},
    )


def _compared(
    context: PanelStudyContext,
    options: AggregatorOptions,
    noise: str,
    told: Callable[[int, int], None],
) -> tuple[Rows, dict[str, str], dict[str, Measure]]:
    """Return one row an aggregator and measure, why others were left out, and the measures."""
    # What is learnt from has chance of its own.
    hit = noisy(context.table, noise, context.seed)
    learn = context.learn and noisy(context.learn, noise, context.seed + 1)
    measures = Measures(hit, context.resamples, context.seed)
    drawn: dict[str, dict[str, Drawn]] = {}
    left_out: dict[str, str] = {}
    names = list(dict.fromkeys([options.base, *options.names]))
    for at, name in enumerate(names):
        try:
            likely = estimated(name, hit, learn, folds=options.folds, seed=context.seed)
        except PanelStudyError as error:
            if name == options.base:
                raise
            left_out[name] = str(error)
        else:
            drawn[name] = measures.of(likely)
        told(at + 1, len(names))
    n = len(context.table.images)
    gained = {one.key: gains(drawn, options.base, one, n) for one in measures.measures}
    rows: Rows = []
    for name, by_measure in drawn.items():
        source = aggregator_of(name).fitted_to
        how = "fixed" if source == "nothing" else f"learns from {source}"
        for one in measures.measures:
            found = by_measure[one.key]
            gain = gained[one.key].get(name)
            rows.append(
                {
                    "noise": noise,
                    "aggregator": name,
                    "learns_from": source,
                    "measure": one.key,
                    "less_is_better": one.better < 0,
                    "value": summary(found.value, found.resamples, n),
                    "base": options.base,
                    "gain": gain.figure if gain else Figure(value=None),
                    "p": gain and gain.p,
                    "p_holm": gain and gain.p_holm,
                    "verdict": gain and gain.verdict,
                    "same_as": gain and gain.same_as,
                    "_sure": gain is not None and gain.sure,
                    "_gain": gain and (gain.figure, f"({_noted(gain)})"),
                    "_title": f"{name} ({how})",
                }
            )
    return rows, left_out, {one.key: one for one in measures.measures}


def _chosen(context: PanelStudyContext, rows: Rows) -> dict[str, Any] | None:
    """Return the rule that people's ratings choose, and how the choice does on other items."""
    mine = [
        row
        for row in rows
        if (row["noise"], row["measure"], row["aggregator"]) == (CLEAN, "spearman", NAME)
    ]
    if not mine:
        return None
    for known in (context.learn, context.table):
        try:
            found = None if known is None else choose(known)
        except PanelStudyError:
            continue
        if found is not None:
            rule = f"{found.rule} ({found.judge})" if found.rule == JUDGE else found.rule
            return {"rule": rule, "value": mine[0]["value"]}
    return None


def _noted(gain: Gain) -> str:
    if gain.same_as:
        return f"the same as {gain.same_as}"
    return f"{gain.verdict}{', also by Holm' if gain.sure else ''}"


def _of(rows: Rows, noise: str, measure: str) -> Rows:
    """Return the rows of a measure, the base left out."""
    return [
        row
        for row in rows
        if (row["noise"], row["measure"]) == (noise, measure) and row["verdict"] is not None
    ]


def _title(measure: Measure) -> str:
    return measure.title.rstrip(" ↑↓")


def _verdicts(rows: Rows, noise: str, measure: Measure, base: str) -> dict[str, Any]:
    """Return the values of the sentences about one measure."""
    gained = _of(rows, noise, measure.key)
    mine = next(
        row["value"].value
        for row in rows
        if (row["noise"], row["measure"], row["aggregator"]) == (noise, measure.key, base)
    )

    def names(verdict: str, sign: int) -> Rows:
        kept = [row for row in gained if row["verdict"] == verdict]
        return sorted(kept, key=lambda row: sign * (row["gain"].value or 0.0))

    def listed(found: Rows) -> list[str]:
        return [f"{row['aggregator']} ({difference(row['gain'])})" for row in found]

    better = names("better", -1)
    return {
        "title": _title(measure),
        "mine": mine,
        "tried": sum(not row["same_as"] for row in gained),
        "better": listed(better),
        "sure": [row["aggregator"] for row in better if row["_sure"]],
        "tied": [row["aggregator"] for row in gained if row["verdict"] == "tied"],
        "worse": listed(names("worse", 1)),
    }


def _by_aggregator(rows: Rows, noise: str, column: str) -> Rows:
    """Return one row an aggregator, one column a measure; those without a value are left out."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["noise"] == noise and row[column] is not None:
            one = found.setdefault(
                row["aggregator"], {"_name": row["aggregator"], "_title": row["_title"]}
            )
            one[row["measure"]] = row[column]
    return list(found.values())


def _draw_gains(rows: Rows, title: str, base: str) -> Plot:
    """Gain of every aggregator over the base, with its verdict."""
    names = sorted(rows, key=lambda row: row["gain"].value or 0.0)
    made, axis = plots.chart(
        "", f"gain over {base} in {title}, 95 % interval",
        size=(7.0, 1.2 + 0.3 * max(1, len(names))),
    )  # fmt: skip
    for verdict, (color, marker) in {
        "better": (2, "^"),
        "tied": (6, "o"),
        "worse": (1, "v"),
    }.items():
        places = [at for at, row in enumerate(names) if row["verdict"] == verdict]
        if not places:
            continue
        found = [names[at]["gain"] for at in places]
        axis.errorbar(
            [e.value or 0.0 for e in found], places, xerr=plots.errors(found), fmt=marker,
            color=plots.COLORS[color], capsize=2.5,
            label=verdict + ("" if verdict == "tied" else " (interval without 0)"),
        )  # fmt: skip
    axis.axvline(0.0, color=plots.INK, linewidth=0.9)
    axis.set_yticks(range(len(names)), [row["aggregator"] for row in names])
    return plots.legend(made, axis)


PART = PanelStudy(
    name="aggregators",
    title="Ways to make one probability of several answers",
    about="Which aggregator is best, and is any clearly better than the mean of the judges?",
    needs=frozenset({"several", "truth or ratings"}),
    options=AggregatorOptions,
    run=in_thread(_result),
)

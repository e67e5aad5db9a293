"""Which way to make one probability of the judges' answers is best, and if any beats the mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field, field_validator

from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Frame, across, values_by_key
from scenewright.evals.reporting.sentences import in_words
from scenewright.evals.statistics.figures import Figure, summary
from scenewright.evals.studies.panel.aggregators.base import FOLDS
from scenewright.evals.studies.panel.aggregators.registry import (
    AGGREGATORS,
    aggregator_of,
    estimated,
)
from scenewright.evals.studies.panel.aggregators.selected import JUDGE, NAME, choose
from scenewright.evals.studies.panel.attacks import NOISE, noisy
from scenewright.evals.studies.panel.metrics import Measure, Measures, gains
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


def measure(context: PanelStudyContext, options: AggregatorOptions) -> PanelStudyResult:
    """Compare all aggregators, under each noise model.

    Raises ``PanelStudyError`` where the base cannot be used or there is neither truth nor ratings.
    """
    noises = (CLEAN, *dict.fromkeys(options.noise))
    names = dict.fromkeys([options.base, *options.names])
    step = context.steps(len(noises) * len(names))
    rows: Rows = []
    left_out: dict[str, str] = {}
    measures: tuple[Measure, ...] = ()
    for noise in noises:
        compared, reasons, measures = _compared(context, options, noise, step)
        rows += compared
        left_out = left_out or reasons
    base = options.base
    by = {
        noise: {one.key: _verdicts(rows, noise, one, base) for one in measures} for noise in noises
    }
    main = [by[CLEAN][key] for key in ("balanced_accuracy", "spearman") if key in by[CLEAN]]
    say = sentences_of("aggregators")
    values = {
        "base": base,
        "learnt": context.learnt,
        "folds": options.folds,
        "left_out": "; ".join(left_out.values()),
    }
    findings: list[str] = []
    for one in main:
        findings += say(
            values | one,
            better=bool(one["better"]),
            none_better=not one["better"] and one["tried"] > 0,
            all_alike=not one["tried"],
            others=bool(one["others"]),
        )
    told = [next(iter(by[noise].values())) | {"about": NOISE[noise].about} for noise in noises[1:]]
    frames = [Frame.of("aggregators", rows)]
    titles = {one.key: one.title for one in measures}
    for cell, name, title, columns in (
        ("value", "aggregators", "Aggregators{}", titles),
        ("_gain", "aggregator_gains", f"Gain over {base}{{}}; above 0 is better in every column",
         {key: _plain(one) for key, one in titles.items()}),
    ):  # fmt: skip
        for noise in noises:
            where = "" if noise == CLEAN else f", where {NOISE[noise].about}"
            those = [row for row in rows if row["noise"] == noise and row[cell] is not None]
            shown = across(those, "_title", "{measure}", cell)
            frames.append(
                Frame.of(f"{name}_{noise}", shown, title.format(where), columns, kept=False,
                         head="aggregator", label="{_title}")
            )  # fmt: skip
    return PanelStudyResult(
        findings=(*findings, *say(values, chosen=_chosen(context, rows), noisy=told)),
        frames=tuple(frames),
        charts=tuple(
            Chart(f"aggregators_{one['key']}", one["gained"], "aggregator", "gain", "bars",
                  series="verdict", title=f"Gain in {one['measure']}",
                  xlabel=f"gain over {base} in {one['measure']}, 95 % interval")
            for one in main
        ),
        figures=values_by_key("{noise}.{measure}.{aggregator}", rows, ["value"])
        | values_by_key("gain.{noise}.{measure}.{aggregator}", rows, ["gain"]),
        notes=say(values, learns=True, intervals=True, left_out=bool(left_out)),
    )  # fmt: skip


def _compared(
    context: PanelStudyContext,
    options: AggregatorOptions,
    noise: str,
    step: Callable[[], None],
) -> tuple[Rows, dict[str, str], tuple[Measure, ...]]:
    """Return one row an aggregator and measure, why others were left out, and the measures."""
    # What is learnt from has chance of its own.
    hit = noisy(context.table, noise, context.seed)
    learn = context.learn and noisy(context.learn, noise, context.seed + 1)
    measures = Measures(hit, context.resamples, context.seed)
    drawn: dict[str, dict[str, Drawn]] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys([options.base, *options.names]):
        try:
            likely = estimated(name, hit, learn, folds=options.folds, seed=context.seed)
        except PanelStudyError as error:
            if name == options.base:
                raise
            left_out[name] = str(error)
        else:
            drawn[name] = measures.of(likely)
        step()
    n = len(context.table.images)
    gained = {one.key: gains(drawn, options.base, one, n) for one in measures.measures}
    rows: Rows = []
    for name, by_measure in drawn.items():
        source = aggregator_of(name).fitted_to
        how = "fixed" if source == "nothing" else f"learns from {source}"
        for one in measures.measures:
            found, gain = by_measure[one.key], gained[one.key].get(name)
            note = ""
            if gain:
                verdict = f"{gain.verdict}{', also by Holm' if gain.sure else ''}"
                note = f"(the same as {gain.same_as})" if gain.same_as else f"({verdict})"
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
                    "_gain": gain and (gain.figure, note),
                    "_title": f"{name} ({how})",
                }
            )
    return rows, left_out, measures.measures


def _chosen(context: PanelStudyContext, rows: Rows) -> dict[str, Any] | None:
    """Return the rule that people's ratings choose, and how the choice does on other items."""
    where = (CLEAN, "spearman", NAME)
    mine = [r for r in rows if (r["noise"], r["measure"], r["aggregator"]) == where]
    for known in (context.learn, context.table) if mine else ():
        try:
            found = None if known is None else choose(known)
        except PanelStudyError:
            continue
        if found is not None:
            rule = f"{found.rule} ({found.judge})" if found.rule == JUDGE else found.rule
            return {"rule": rule, "value": mine[0]["value"]}
    return None


def _plain(title: str) -> str:
    return title.rstrip(" ↑↓")


def _verdicts(rows: Rows, noise: str, of: Measure, base: str) -> dict[str, Any]:
    """Return the values of the sentences about one measure."""
    mine = [row for row in rows if (row["noise"], row["measure"]) == (noise, of.key)]
    gained = [row for row in mine if row["verdict"] is not None]

    def those(verdict: str, sign: int) -> Rows:
        found = [row for row in gained if row["verdict"] == verdict]
        return sorted(found, key=lambda row: sign * (row["gain"].value or 0.0))

    def names(verdict: str, sign: int) -> list[str]:
        found = those(verdict, sign)
        return [f"{row['aggregator']} ({in_words(row['gain'], '+')})" for row in found]

    better, worse = names("better", -1), names("worse", 1)
    tied = [row["aggregator"] for row in those("tied", 0)]
    sure = [row["aggregator"] for row in those("better", -1) if row["_sure"]]
    remain = f"{', '.join(sure)} remain{'s' if len(sure) == 1 else ''}"
    title = _plain(of.title)
    more = f", and {len(better) - 3} more" if len(better) > 3 else ""
    return {
        "key": of.key,
        "measure": title,
        "title": title[0].upper() + title[1:],
        "mine": next(row["value"].value for row in mine if row["aggregator"] == base),
        "tried": sum(not row["same_as"] for row in gained),
        "better": better,
        "holm": remain if sure else "none remains",
        "others": "; ".join(
            f"{what}: {', '.join(of)}"
            for what, of in ((f"not distinguishable from {base}", tied), ("clearly worse", worse))
            if of
        ),
        "clearly": f"clearly better: {', '.join(better[:3])}{more}"
        if better
        else "no other is clearly better",
        "gained": sorted(gained, key=lambda row: -(row["gain"].value or 0.0)),
    }


PART = PanelStudy(
    name="aggregators",
    title="Ways to make one probability of several answers",
    about="Which aggregator is best, and is any clearly better than the mean of the judges?",
    needs=frozenset({"several", "truth or ratings"}),
    options=AggregatorOptions,
    run=in_thread(measure),
)

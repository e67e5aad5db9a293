"""What bad, changed, missing and slow judges do to a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Column, Frame, across, percent, percents
from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import summary
from scenewright.evals.studies.panel.attacks import (
    Attack,
    AttackKind,
    Breakdown,
    Learning,
    attacked,
    breakdown_points,
    combined,
)
from scenewright.evals.studies.panel.metrics import Quality
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
    sentences_of,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from scenewright.evals.studies.panel.unreliable_judges import (
    CHANGES,
    Change,
    Watched,
    call_seconds,
    changed_judges,
    cut_off,
    modelled_seconds,
    watch,
)

SAYS: Mapping[AttackKind, str] = {
    "yes": "always say yes",
    "no": "always say no",
    "random": "toss a coin",
    "adversarial": "say the opposite of the truth",
    "copies": "copy one another",
    "missing": "give nothing usable",
}
"""Attack → what judges do, after a plural."""
CHANGED: Mapping[Change, str] = {"worse": "reverses {} of the answers", "eager": "sets {} to yes"}
"""Update → what it does to a share of the answers."""
_LIMIT_SHARES = (0.5, 0.75, 0.9, 0.95, 0.99)
"""Shares of the calls that the default time limits let through."""

_RESAMPLES = 400
"""Most resamples of each point of a curve: there are hundreds of them."""


class AttackOptions(Options):
    """Options of the study of attacks and drifts."""

    aggregators: tuple[str, ...] = Field(
        default=("mean", "median", "trimmed", "majority", "dawid_skene", "calibrated"),
        min_length=1,
    )
    """Ways to combine the judges. Those that have nothing to learn from are left out."""
    attacks: tuple[AttackKind, ...] = Field(
        default=("yes", "no", "random", "adversarial", "copies"), min_length=1
    )
    """What bad judges do."""
    strength: float = Field(default=1.0, gt=0.0, le=1.0)
    """Share of the facts on which they do so; of copies, the correlation of their errors."""
    added: bool = False
    """Whether bad judges join the panel, or are some of it."""
    judges: int = Field(default=9, ge=2, le=31)
    """Size of the panel; smaller ones are enlarged by clones of their judges."""
    repeats: int = Field(default=4, ge=1, le=100)
    """Draws of who is bad."""
    missing: tuple[float, ...] = (0.1, 0.3, 0.5)
    """Shares of each judge's answers that go missing at random."""
    shifts: tuple[float, ...] = (0.05, 0.1, 0.2)
    """Shares of a judge's answers that an update changes."""
    streams: int = Field(default=200, ge=50)
    """Orders of the images in which a change is watched for."""
    limits: tuple[float, ...] = ()
    """Seconds that one call of a judge may take; empty: those that 50, 75, 90, 95 and 99 % of the
    calls keep."""
    latency: float = Field(default=3.0, gt=0.0)
    """Median seconds of a call, for tables without times: drawn log-normal."""
    latency_spread: float = Field(default=0.8, ge=0.0)
    """Standard deviation of the logarithm of those seconds."""


Rows = list[dict[str, Any]]
Fates = Mapping[AttackKind, Mapping[str, Breakdown]]
"""Attack → aggregator → how it fares."""
Updates = Mapping[tuple[Change, float], Sequence[Watched]]
"""Change and its size → what is seen of each judge."""


def measure(context: PanelStudyContext, options: AttackOptions) -> PanelStudyResult:
    """Attack the panel, take answers away, watch for changed judges, and limit the time of calls.

    Raises ``PanelStudyError`` for shares outside [0, 1], and if no aggregator can be used.
    """
    table, learn = context.table, context.learn
    for share in (*options.missing, *options.shifts):
        if not 0.0 <= share <= 1.0:
            raise PanelStudyError(f"{share} among missing or shifts: use shares from 0 to 1")
    kinds, judges = tuple(dict.fromkeys(options.attacks)), len(table.judges)
    total = 2 * len(kinds) + len(options.shifts) * judges * 2 + 2
    step = context.steps(total)
    enlarged: dict[AttackKind, dict[str, Breakdown]] = {}
    as_is: dict[AttackKind, dict[str, Breakdown]] = {}
    for kind in kinds:
        attack = Attack(kind=kind, strength=options.strength, added=options.added)
        for found, size in ((enlarged, options.judges), (as_is, 0)):
            if size or judges < options.judges:
                step()
                found[kind] = breakdown_points(
                    table, options.aggregators, attack, learn=learn, judges=size,
                    seed=context.seed, repeats=options.repeats,
                    resamples=min(_RESAMPLES, context.resamples),
                )  # fmt: skip
    names = tuple(name for name in options.aggregators if name in enlarged[kinds[0]])
    if not names:
        raise PanelStudyError(
            f"none of {', '.join(options.aggregators)} can be used with {table.name}: add mean or "
            "dawid_skene"
        )
    quality = Quality(table, context.resamples, context.seed)
    scored = _Scored(quality, Learning(table, learn, context.seed), names)
    missing = [
        row | {"missing": what}
        for what, case in _with_missing(table, options.missing, context.seed).items()
        for row in scored.rows(case)
    ]
    step()
    seconds = call_seconds(table)
    modelled = seconds is None
    if seconds is None:
        seconds = modelled_seconds(table, options.latency, options.latency_spread, context.seed)
    calls = seconds[~np.isnan(seconds)]
    limits = options.limits or tuple(float(x) for x in np.quantile(calls, _LIMIT_SHARES))
    slow: Rows = [
        {
            "limit": None if np.isinf(cut.limit) else cut.limit,
            "_limit": "none" if np.isinf(cut.limit) else f"{cut.limit:.3g}",
            "lost": cut.lost,
            "seconds": float(np.nanmean(cut.wall)),
            **row,
        }
        for cut in cut_off(table, seconds, (*limits, np.inf))
        for row in scored.rows(cut.table)
    ]
    step()
    watched = _watched(context, options, step)
    context.told(total, total)
    panel = next(iter(enlarged[kinds[0]].values()))
    measure = quality.measure
    mine = [row for row in slow if row["aggregator"] == names[0]]
    limited = mine[min(2, len(mine) - 1)]
    names_of: dict[str, str | Column] = {name: name for name in names}
    says: dict[str, str | Column] = {kind: SAYS[kind] for kind in kinds}
    curves, points = _fates(enlarged, as_is)
    delays = [
        {"judge": one.judge, "column": f"{change}_{shift:g}", "cell": _delay(one)}
        for (change, shift), every in watched.items() for one in every
    ]  # fmt: skip
    changes = {
        f"{change}_{shift:g}": Column(
            title=CHANGED[change].format(f"{100 * shift:.0f} %"), digits=0
        )
        for change, shift in watched
    }
    joins = "added to" if options.added else "of"
    broken = [row for row in points if row["panel"] == "enlarged"]
    bad_judges = {"third": ("enlarged", max(1, round(panel.judges / 3)), panel.judges)}
    if as_is:
        bad_judges["one"] = ("as it is", 1, judges)
    timed = f"{measure} with a time limit a call{' (modelled seconds)' if modelled else ''}"
    limit = "inf" if limited["limit"] is None else f"{limited['limit']:.3g}"
    chance = quality.chance
    left_out = [name for name in options.aggregators if name not in names]
    say = sentences_of("attacks")
    values = {
        "updated": () if learn is None else changed_judges(learn, table), "limit": limit,
        "cut": limited, "unlimited": mine[-1], "modelled": modelled, "main": names[0],
        "measure": measure, "chance": chance, "real": judges, "size": panel.judges,
        "left_out": left_out,
    }  # fmt: skip
    fates: list[str] = []
    for kind, by_name in enlarged.items():
        fate = _fate(kind, by_name)
        fates += say(fate, unbroken=not fate["broken"], broken=bool(fate["broken"]))
    frames = [
        Frame.of("breakdown", across(broken, "aggregator", "{attack}", "_point"),
                 "Breakdown point: smallest share of bad judges (%) with which half of the worth "
                 f"is gone ({panel.judges} judges)",
                 percents({kind: SAYS[kind] for kind in kinds}, 0), head="Aggregator",
                 label="{aggregator}", kept=False),
        *(Frame.of(f"attacked_{key}", [
            {"aggregator": name, "honest": honest["quality"]}
            | {row["attack"]: row["quality"] for row in curves
               if (row["panel"], row["aggregator"], row["bad"]) == (which, name, bad)}
            for name in names
            for honest in curves if (honest["panel"], honest["attack"], honest["aggregator"],
                                     honest["bad"]) == (which, kinds[0], name, 0)
        ], f"{measure} with {bad} bad judge{'s' if bad > 1 else ''} {joins} {size}",
            {"honest": "all honest", **says}, head="Aggregator", label="{aggregator}", kept=False)
          for key, (which, bad, size) in bad_judges.items()),
        Frame.of("missing", _wide(missing, "missing"), f"{measure} where answers are missing (the "
                 "panel as it is)", {"scored": percent("facts scored (%)"), **names_of},
                 head="Missing", label="{missing}", kept=False),
        Frame.of("slow", _wide(slow, "_limit"), timed, {
            "lost": percent("answers given up (%)"),
            "seconds": Column(title="seconds an image", digits=2),
            "scored": percent("facts scored (%)"), **names_of,
        }, head="Limit (s)", label="{_limit}", kept=False),
        Frame.of("updates", across(delays, "judge", "{column}", "cell"), "Images after an "
                 "unannounced update until CUSUM raises an alarm: median [95 % of streams]; then "
                 "the images that a two-sample test needs in 80 % of streams", changes,
                 head="Judge", label="{judge}", kept=False),
        Frame.of("attack_curves", curves),
        Frame.of("breakdown_points", points),
        *_updates(watched),
        Frame.of("missing_answers", missing),
        Frame.of("slow_judges", slow),
    ]  # fmt: skip
    return PanelStudyResult(
        findings=(
            *say(values, updated=bool(values["updated"])),
            *fates,
            *say(
                values,
                update=[
                    _noticed(shift, seen)
                    for (change, shift), seen in watched.items()
                    if change == "worse"
                ],
                limit=True,
            ),
        ),
        frames=tuple(frames),
        charts=_charts(curves, slow, watched, measure, chance, modelled),
        figures={
            f"breakdown.{row['attack']}.{row['aggregator']}": {
                "mean": row["share"], "low": row["share_low"], "high": row["share_high"]
            }
            for row in broken
            if None not in (row["share"], row["share_low"], row["share_high"])
        },
        notes=say(
            values,
            breakdown=True,
            undefined=chance == 0.0,
            clones=bool(as_is),
            adversarial="adversarial" in kinds,
            left_out=bool(left_out),
            unwatched=not watched,
            modelled=modelled,
        ),
    )  # fmt: skip


class _Scored:
    """Quality of a table's panel by each aggregator."""

    def __init__(self, quality: Quality, learning: Learning, names: Sequence[str]) -> None:
        self._quality, self._learning, self._names = quality, learning, names

    def rows(self, table: AnswerTable) -> Rows:
        """One row an aggregator: share of the asked facts with a value, and quality."""
        found = []
        for name in self._names:
            likely: Array = combined(name, table, self._learning)
            drawn = self._quality.of(likely)
            figure = summary(drawn.value, drawn.resamples, len(self._quality))
            share = self._quality.scored(likely)
            found.append({"aggregator": name, "scored": share, "quality": figure})
        return found


def _wide(rows: Rows, by: str) -> Rows:
    """Return one row a value of ``by``: a column an aggregator, and the least share scored."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(row[by], dict(row))
        one["scored"] = min(one["scored"], row["scored"])
        one[row["aggregator"]] = row["quality"]
    return list(found.values())


def _with_missing(table: AnswerTable, shares: Sequence[float], seed: int) -> dict[str, AnswerTable]:
    """Return the table with answers missing, by what is missing."""
    every = list(range(len(table.judges)))
    rng = np.random.default_rng([seed, 11])
    found: dict[str, AnswerTable] = {"nothing": table}
    for share in shares:
        attack = Attack(kind="missing", strength=share)
        found[f"{100 * share:.0f} % of the answers, at random"] = attacked(
            table, attack, every, rng
        )
    half = sorted(rng.permutation(every)[: max(1, len(every) // 2)].tolist())
    for kind in dict.fromkeys(fact.kind for fact in table.facts):
        silent = attacked(table, Attack(kind="missing", facts=kind), half, rng)
        found[f"{len(half)} of {len(every)} judges on every {kind}"] = silent
    return found


def _watched(
    context: PanelStudyContext, options: AttackOptions, step: Callable[[], None]
) -> dict[tuple[Change, float], list[Watched]]:
    """Change and its size → what is seen of each judge; empty where there are too few images."""
    found: dict[tuple[Change, float], list[Watched]] = {}
    for change in CHANGES:
        for shift in options.shifts:
            for judge in range(len(context.table.judges)):
                step()
                try:
                    seen = watch(
                        context.table, judge, change, shift,
                        streams=options.streams, seed=context.seed,
                    )  # fmt: skip
                except PanelStudyError:
                    continue
                found.setdefault((change, shift), []).append(seen)
    return found


def _fate(kind: AttackKind, by_name: Mapping[str, Breakdown]) -> dict[str, Any]:
    """Return the values of the sentence about an attack."""
    broken = {name: b for name, b in by_name.items() if b.share is not None}
    whole = [name for name in by_name if name not in broken]
    order = sorted(broken, key=lambda name: broken[name].share or 0.0)
    unsure = False
    if len(order) > 1 and not whole:
        first, last = broken[order[0]], broken[order[-1]]
        unsure = not (first.high is not None and (last.low is None or first.high < last.low))

    def share(found: Breakdown) -> str:
        low, high = ("beyond" if end is None else number(100 * end, 0)
                     for end in (found.low, found.high))  # fmt: skip
        return f"{number(100 * (found.share or 0.0), 0)} % [{low}, {high}]"

    return {
        "says": SAYS[kind],
        "tried": max(next(iter(by_name.values())).shares),
        "broken": "; ".join(f"{name} at {share(broken[name])}" for name in order),
        "whole": f" Never half was lost by {', '.join(whole)}." if whole else "",
        "unsure": unsure,
    }


def _fates(enlarged: Fates, as_is: Fates) -> tuple[Rows, Rows]:
    """Return one row a number of bad judges, and one a breakdown point."""
    curves: Rows = []
    points: Rows = []
    for panel, by_kind in (("enlarged", enlarged), ("as it is", as_is)):
        for kind, by_name in by_kind.items():
            for name, b in by_name.items():
                of = {"panel": panel, "attack": kind, "aggregator": name, "judges": b.judges}
                curves += [
                    {**of, "bad": bad, "share": b.shares[bad], "scored": b.scored[bad],
                     "quality": one, "_percent": 100 * b.shares[bad],
                     "_says": f"judges that {SAYS[kind]}"}
                    for bad, one in enumerate(b.curve)
                ]  # fmt: skip
                ends = {"share": b.share, "share_low": b.low, "share_high": b.high}
                points.append(
                    {**of, "bad": b.bad, **ends, "worse_than_best_judge": b.worse,
                     "_point": _point(b)}
                )  # fmt: skip
    return curves, points


def _point(found: Breakdown) -> tuple[Estimate, str]:
    if found.share is None:
        return Estimate(reason="it never loses half"), "not broken"
    if found.low is None or found.high is None:
        return Estimate(value=found.share), "(interval open above)"
    note = f"({found.bad} bad judge{'s' if found.bad != 1 else ''})"
    return Estimate(value=found.share, low=found.low, high=found.high), note


def _noticed(shift: float, seen: Sequence[Watched]) -> dict[str, Any]:
    """Return the values of the sentence about an unannounced update."""
    middle = [x for one in seen if np.isfinite(x := float(np.median(one.delays)))]
    late = len(seen) - len(middle)
    when = [f"after {_span(middle)} images (median)"] if middle else []
    when += [f"most streams end unnoticed for {late} of {len(seen)} judges"] if late else []
    return {
        "does": CHANGED["worse"].format(f"{100 * shift:.0f} %"),
        "caught": _span([100 * one.caught for one in seen]),
        "images": seen[0].watched,
        "when": ", ".join(when),
    }


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low}–{high}"


def _delay(seen: Watched) -> tuple[Estimate, str]:
    low, middle, high = np.quantile(seen.delays, [0.025, 0.5, 0.975], method="inverted_cdf")
    test = f"; test {'–' if seen.enough is None else seen.enough}"
    late = f"(seen in {100 * seen.caught:.0f} %){test}"
    if not np.isfinite(middle):
        return Estimate(reason="most streams end before it"), late
    if not np.isfinite(high):
        return Estimate(value=float(middle)), late
    return Estimate(value=float(middle), low=float(low), high=float(high)), test


def _updates(watched: Updates) -> list[Frame]:
    seen = [
        ({"judge": one.judge, "change": change, "shift": shift}, one)
        for (change, shift), every in watched.items()
        for one in every
    ]
    return [
        Frame.of("update_delays", [
            {**of, "stream": at, "delay": float(delay) if np.isfinite(delay) else None}
            for of, one in seen for at, delay in enumerate(one.delays)
        ]),
        Frame.of("update_tests", [
            {**of, "images": n, "found": share}
            for of, one in seen for n, share in zip(one.ns, one.found, strict=True)
        ]),
    ]  # fmt: skip


def _charts(
    curves: Rows, slow: Rows, watched: Updates, measure: str, chance: float, modelled: bool
) -> tuple[Chart, ...]:
    """Quality by bad judges; by the seconds of an image; alarms since an update."""
    main = slow[0]["aggregator"]
    lost = f"answers given up (%), {main}"
    by_seconds = [
        {"seconds": row["seconds"], "by": row["aggregator"], "pane": measure,
         "value": row["quality"]}
        for row in slow
    ] + [
        {"seconds": row["seconds"], "by": main, "pane": lost, "value": 100 * row["lost"],
         "text": "no limit" if row["limit"] is None else f"{row['limit']:.2g} s"}
        for row in slow if row["aggregator"] == main
    ]  # fmt: skip
    alarms: Rows = []
    for (change, shift), every in watched.items():
        for x in np.unique(np.linspace(0, every[0].watched, 121).astype(int)):
            shares = np.array([100 * (one.delays <= x).mean() for one in every])
            # The band is from the least to the most.
            alarms.append(
                {"images": float(x), "by": f"{100 * shift:.0f} % changed",
                 "pane": f"an update that {CHANGED[change].format('some')}",
                 "share": Estimate(value=float(shares.mean()), low=float(shares.min()),
                                   high=float(shares.max()))}
            )  # fmt: skip
    seconds = "seconds an image" + (" (modelled)" if modelled else "")
    found = [
        Chart("attacks", [row for row in curves if row["panel"] == "enlarged"], "_percent",
              "quality", series="aggregator", pane="_says", band=True, rules={"": chance},
              title="Quality by the share of bad judges", ylabel=measure,
              xlabel="bad judges (% of the panel)"),
        Chart("slow_judges", by_seconds, "seconds", "value", series="by", pane="pane", band=True,
              text="text", title="Time limits of a call", xlabel=seconds),
    ]  # fmt: skip
    if watched:
        found.append(
            Chart("updates", alarms, "images", "share", series="by", pane="pane", band=True,
                  title="CUSUM on agreement: mean of the judges, band from least to most",
                  xlabel="images since the update", ylabel="streams with an alarm (%)",
                  limits=(0.0, 101.0))
        )  # fmt: skip
    return tuple(found)


PART = PanelStudy(
    name="attacks",
    title="Bad, changed, missing and slow judges",
    about="How many bad judges does each aggregator stand, and how soon is a changed one seen?",
    needs=frozenset({"several", "truth or ratings"}),
    options=AttackOptions,
    run=in_thread(measure),
)

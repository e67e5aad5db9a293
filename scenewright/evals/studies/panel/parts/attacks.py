"""What bad, changed, missing and slow judges do to a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import Figure, summary
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
from scenewright.evals.studies.panel.presentation import (
    bare,
    percent,
    report,
)
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

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


def _result(context: PanelStudyContext, options: AttackOptions) -> PanelStudyResult:
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
    attacked_of = {"third": _with_bad(enlarged, names, max(1, round(panel.judges / 3)))}
    if as_is:
        attacked_of["one"] = _with_bad(as_is, names, 1)
    values = {
        "updated": () if learn is None else changed_judges(learn, table),
        "attacks": [_fate(kind, by_name) for kind, by_name in enlarged.items()],
        "updates": [
            _noticed(shift, seen) for (change, shift), seen in watched.items() if change == "worse"
        ],
        "limit": limited,
        "unlimited": mine[-1],
        "modelled": modelled,
        "main": names[0],
        "measure": measure,
        "chance": f"{quality.chance:g}",
        "real": judges,
        "size": panel.judges,
        "enlarged": bool(as_is),
        "adversarial": "adversarial" in kinds,
        "left_out": [name for name in options.aggregators if name not in names],
        "says": {kind: SAYS[kind] for kind in kinds},
        "names": {name: name for name in names},
        "added": options.added,
        "breakdowns": [
            {"_name": name, **{
                kind: _point(enlarged[kind][name], options.added) for kind in kinds
            }}
            for name in names
        ],
        "attacked": attacked_of,
        "missing": _wide(missing, "missing"),
        "slow": [
            row | {"_at": "inf" if row["limit"] is None else f"{row['limit']:g}",
                   "_title": "none" if row["limit"] is None else f"{row['limit']:.3g}"}
            for row in _wide(slow, "limit")
        ],
        "watched": _delays(watched),
        "changes": {
            f"{change}_{shift:g}": (CHANGED[change].format(percent(shift)), 0)
            for change, shift in watched
        },
        "ends": {
            f"breakdown.{kind}.{name}": Figure(value=b.share, low=b.low, high=b.high)
            for kind, by_name in enlarged.items()
            for name, b in by_name.items()
            if b.low is not None and b.high is not None
        },
    }  # fmt: skip
    return report(
        "attacks",
        values,
        plots={
            "attacks": partial(_draw_attacks, enlarged, measure, quality.chance),
            "slow_judges": partial(_draw_slow, slow, names, measure, modelled),
            "updates": partial(_draw_updates, watched) if watched else None,
        },
        records_of=_records(enlarged, as_is, watched)
        | {"missing_answers": missing, "slow_judges": slow},
    )


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
            row = {"aggregator": name, "scored": share, **bare("quality", figure)}
            found.append(row | {"_quality": figure})
        return found


def _wide(rows: Rows, by: str) -> Rows:
    """Return one row a value of ``by``: a column an aggregator, and the least share scored."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(row[by], dict(row))
        one["scored"] = min(one["scored"], row["scored"])
        one[row["aggregator"]] = row["_quality"]
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
    return {
        "says": SAYS[kind],
        "tried": max(next(iter(by_name.values())).shares),
        "broken": [f"{name} at {_share(broken[name])}" for name in order],
        "whole": whole,
        "unsure": unsure,
    }


def _share(found: Breakdown) -> str:
    ends = [("beyond" if end is None else number(100 * end, 0)) for end in (found.low, found.high)]
    return f"{number(100 * (found.share or 0.0), 0)} % [{ends[0]}, {ends[1]}]"


def _noticed(shift: float, seen: Sequence[Watched]) -> dict[str, Any]:
    """Return the values of the sentence about an unannounced update."""
    middle = [x for one in seen if np.isfinite(x := float(np.median(one.delays)))]
    return {
        "does": CHANGED["worse"].format(percent(shift)),
        "caught": _span([100 * one.caught for one in seen]),
        "images": seen[0].watched,
        "after": _span(middle) if middle else "",
        "late": len(seen) - len(middle),
        "judges": len(seen),
    }


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low}–{high}"


def _point(found: Breakdown, added: bool) -> tuple[Estimate, str]:
    if found.share is None:
        return Estimate(reason="it never loses half"), "not broken"
    if found.low is None or found.high is None:
        return Estimate(value=found.share), "(interval open above)"
    note = f"({found.bad} {'added to' if added else 'of'} {found.judges})"
    return Estimate(value=found.share, low=found.low, high=found.high), note


def _with_bad(fates: Fates, names: Sequence[str], bad: int) -> dict[str, Any]:
    """Quality with all judges honest, and with so many bad ones."""
    first = next(iter(fates.values()))
    rows = [
        {"_name": name, "honest": first[name].curve[0]}
        | {kind: by_name[name].curve[bad] for kind, by_name in fates.items()}
        for name in names
    ]
    return {"bad": bad, "judges": next(iter(first.values())).judges, "rows": rows}


def _delays(watched: Mapping[tuple[Change, float], Sequence[Watched]]) -> Rows:
    """Images until an alarm, one row a judge and one column a change."""
    found: dict[str, dict[str, Any]] = {}
    for (change, shift), every in watched.items():
        for seen in every:
            row = found.setdefault(seen.judge, {"_judge": seen.judge})
            row[f"{change}_{shift:g}"] = _delay(seen)
    return list(found.values())


def _delay(seen: Watched) -> tuple[Estimate, str]:
    low, middle, high = np.quantile(seen.delays, [0.025, 0.5, 0.975], method="inverted_cdf")
    test = f"; test {'–' if seen.enough is None else seen.enough}"
    late = f"(seen in {percent(seen.caught)}){test}"
    if not np.isfinite(middle):
        return Estimate(reason="most streams end before it"), late
    if not np.isfinite(high):
        return Estimate(value=float(middle)), late
    return Estimate(value=float(middle), low=float(low), high=float(high)), test


def _records(
    enlarged: Fates, as_is: Fates, watched: Mapping[tuple[Change, float], Sequence[Watched]]
) -> dict[str, Rows]:
    fates = [
        ({"panel": panel, "attack": kind, "aggregator": name, "judges": b.judges}, b)
        for panel, by_kind in (("enlarged", enlarged), ("as it is", as_is))
        for kind, by_name in by_kind.items()
        for name, b in by_name.items()
    ]
    seen = [
        ({"judge": one.judge, "change": change, "shift": shift}, one)
        for (change, shift), every in watched.items()
        for one in every
    ]
    return {
        "attack_curves": [
            {**of, "bad": bad, "share": b.shares[bad], "scored": b.scored[bad],
             **bare("quality", one)}
            for of, b in fates
            for bad, one in enumerate(b.curve)
        ],
        "breakdown_points": [
            {**of, "bad": b.bad, **bare("share", Figure(value=b.share, low=b.low, high=b.high)),
             "worse_than_best_judge": b.worse}
            for of, b in fates
        ],
        "update_delays": [
            {**of, "stream": at, "delay": float(delay) if np.isfinite(delay) else None}
            for of, one in seen
            for at, delay in enumerate(one.delays)
        ],
        "update_tests": [
            {**of, "images": n, "found": share}
            for of, one in seen
            for n, share in zip(one.ns, one.found, strict=True)
        ],
    }  # fmt: skip


def _draw_attacks(fates: Fates, measure: str, chance: float) -> Plot:
    """Quality against the share of bad judges, one pane an attack."""
    columns = min(3, len(fates))
    rows = -(-len(fates) // columns)
    made, axes = plots.panes(columns, (3.3 * columns + 0.6, 2.9 * rows + 0.7), rows)
    for axis in axes[len(fates) :]:
        axis.set_axis_off()
    for axis, (kind, by_name) in zip(axes, fates.items(), strict=False):
        for at, (name, found) in enumerate(by_name.items()):
            points = [(100 * x, e) for x, e in zip(found.shares, found.curve, strict=True)]
            plots.curve(axis, at, name, points, band=True, markersize=4)
        axis.axhline(chance, color="#555555", linewidth=0.9, linestyle=":")
        title = f"judges that {SAYS[kind]}"
        plots.labelled(axis, "bad judges (% of the panel)", title=title)
    for axis in axes[: len(fates) : columns]:
        axis.set_ylabel(measure)
    return plots.legend(made, axes[0])


def _draw_updates(watched: Mapping[tuple[Change, float], Sequence[Watched]]) -> Plot:
    """Share of streams in which CUSUM has raised an alarm, against the images since the update."""
    changes = list(dict.fromkeys(change for change, _ in watched))
    made, axes = plots.panes(len(changes), (3.6 * len(changes) + 0.6, 3.6))
    for axis, change in zip(axes, changes, strict=True):
        shifts = {shift: seen for (kind, shift), seen in watched.items() if kind == change}
        for at, (shift, every) in enumerate(shifts.items()):
            grid = np.unique(np.linspace(0, every[0].watched, 121).astype(int))
            shares = np.array([[(s.delays <= x).mean() for x in grid] for s in every]) * 100
            # The band is from the least to the most.
            points = [
                (float(x), Figure(value=float(c.mean()), low=float(c.min()), high=float(c.max())))
                for x, c in zip(grid, shares.T, strict=True)
            ]
            label = f"{100 * shift:.0f} % changed"
            plots.curve(axis, at, label, points, band=True, marker="", linewidth=1.6)
        axis.set_ylim(0, 101)
        title = f"an update that {CHANGED[change].format('some')}"
        plots.labelled(axis, "images since the update", title=title)
    axes[0].set_ylabel("streams with an alarm (%)")
    title = "CUSUM on agreement: mean of the judges, band from least to most"
    return plots.legend(made, axes[0], title=title)


def _draw_slow(slow: Rows, names: Sequence[str], measure: str, modelled: bool) -> Plot:
    """Quality, and answers given up, against the seconds of an image."""
    made, (left, right) = plots.panes(2, (8.2, 3.6))
    for at, name in enumerate(names):
        points = [(row["seconds"], row["_quality"]) for row in slow if row["aggregator"] == name]
        plots.curve(left, at, name, points, band=True)
    cuts = [row for row in slow if row["aggregator"] == names[0]]
    wall, lost = ([row[what] * by for row in cuts] for what, by in (("seconds", 1), ("lost", 100)))
    plots.curve(
        right, 0, "", [(x, Figure(value=y)) for x, y in zip(wall, lost, strict=True)], band=True
    )
    # Labels of limits that are close would cover each other; that of no limit is always shown.
    shown: list[tuple[float, float]] = []
    for x, y, row in reversed(list(zip(wall, lost, cuts, strict=True))):
        gaps = (np.hypot((x - a) / np.ptp(wall), (y - b) / max(1.0, *lost)) for a, b in shown)
        if all(gap > 0.08 for gap in gaps):
            text = "no limit" if row["limit"] is None else f"{row['limit']:.2g} s"
            plots.noted(right, text, (x, y))
            shown.append((x, y))
    right.set_ylim(bottom=-1)
    right.margins(x=0.12)
    seconds = "seconds an image" + (" (modelled)" if modelled else "")
    plots.labelled(left, seconds, measure)
    plots.labelled(right, seconds, "answers given up (%)")
    return plots.legend(made, left)


PART = PanelStudy(
    name="attacks",
    title="Bad, changed, missing and slow judges",
    about="How many bad judges does each aggregator stand, and how soon is a changed one seen?",
    needs=frozenset({"several", "truth or ratings"}),
    options=AttackOptions,
    run=in_thread(_result),
)

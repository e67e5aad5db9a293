"""What bad, changed, missing and slow judges do to a panel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.panel.attacks import (
    Attack,
    AttackKind,
    Breakdown,
    Learning,
    attacked,
    breakdown_points,
    combined,
)
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.drift import CHANGES, Change, Watched, changed_judges, watch
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.parts.attacks_found import Attacked
from scenewright.evals.studies.panel.parts.attacks_page import page
from scenewright.evals.studies.panel.quality import Drawn, Quality
from scenewright.evals.studies.panel.resampling import summary
from scenewright.evals.studies.panel.slowness import call_seconds, cut_off, modelled_seconds
from scenewright.evals.studies.panel.table import AnswerTable

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


@dataclass(slots=True)
class _Progress:
    """Steps of unequal studies as one count."""

    told: Callable[[int, int], None]
    total: int
    done: int = 0

    def step(self, n: int = 1) -> None:
        self.done += n
        self.told(min(self.done, self.total), self.total)


async def run(context: PanelStudyContext, options: AttackOptions) -> PanelStudyResult:
    """Measures it all and writes the page."""
    return page(await asyncio.to_thread(_measured, context, options))


def _measured(context: PanelStudyContext, options: AttackOptions) -> Attacked:
    table, learn = context.table, context.learn
    for share in (*options.missing, *options.shifts):
        if not 0.0 <= share <= 1.0:
            raise PanelStudyError(f"{share} among missing or shifts: use shares from 0 to 1")
    names, kinds = options.aggregators, tuple(dict.fromkeys(options.attacks))
    judges = len(table.judges)
    progress = _Progress(context.told, 2 * len(kinds) + len(options.shifts) * judges * 2 + 2)
    found: dict[AttackKind, dict[str, Breakdown]] = {}
    plain: dict[AttackKind, dict[str, Breakdown]] = {}
    for kind in kinds:
        attack = Attack(kind=kind, strength=options.strength, added=options.added)

        def points(size: int, attack: Attack = attack) -> dict[str, Breakdown]:
            progress.step()
            return breakdown_points(
                table, names, attack, learn=learn, judges=size, seed=context.seed,
                repeats=options.repeats, resamples=min(_RESAMPLES, context.resamples),
            )  # fmt: skip

        found[kind] = points(options.judges)
        if judges < options.judges:
            plain[kind] = points(0)
    usable = tuple(name for name in names if name in next(iter(found.values())))
    if not usable:
        raise PanelStudyError(
            f"none of {', '.join(names)} can be used with {table.name}: add mean or dawid_skene"
        )
    quality = Quality(table, context.resamples, context.seed)
    lost = _missing(context, options, usable, quality)
    progress.step()
    seconds = call_seconds(table)
    modelled = seconds is None
    if seconds is None:
        seconds = modelled_seconds(table, options.latency, options.latency_spread, context.seed)
    calls = seconds[~np.isnan(seconds)]
    limits = options.limits or tuple(float(x) for x in np.quantile(calls, _LIMIT_SHARES))
    cuts = cut_off(table, seconds, (*limits, np.inf))
    learning = Learning(table, learn, context.seed)
    slow = [
        {name: _quality(quality, combined(name, cut.table, learning)) for name in usable}
        for cut in cuts
    ]
    progress.step()
    watched = _watched(context, options, progress)
    progress.step(progress.total)
    return Attacked(
        table=table.name,
        real=judges,
        names=usable,
        left_out=tuple(name for name in names if name not in usable),
        measure=quality.measure,
        chance=quality.chance,
        strength=options.strength,
        added=options.added,
        enlarged=found,
        plain=plain,
        missing=lost,
        watched=watched,
        cuts=cuts,
        slow=slow,
        modelled=modelled,
        updated=() if learn is None else changed_judges(learn, table),
    )


def _quality(quality: Quality, likely: Array) -> tuple[Estimate, float]:
    """(quality, share of the asked facts that have a value)."""
    return _estimate(quality.of(likely), len(quality)), quality.scored(likely)


def _estimate(drawn: Drawn, n: int) -> Estimate:
    return Estimate(**summary(drawn.value, drawn.resamples, n).model_dump())


def _missing(
    context: PanelStudyContext, options: AttackOptions, names: tuple[str, ...], quality: Quality
) -> Mapping[str, Mapping[str, tuple[Estimate, float]]]:
    """What is missing → aggregator → quality and share scored, of the panel as it is."""
    table = context.table
    every = list(range(len(table.judges)))
    learning = Learning(table, context.learn, context.seed)
    rng = np.random.default_rng([context.seed, 11])
    cases: dict[str, AnswerTable] = {"nothing": table}
    for share in options.missing:
        attack = Attack(kind="missing", strength=share)
        cases[f"{100 * share:.0f} % of the answers, at random"] = attacked(
            table, attack, every, rng
        )
    half = sorted(rng.permutation(every)[: max(1, len(every) // 2)].tolist())
    who = f"{len(half)} of {len(every)} judges"
    for kind in dict.fromkeys(fact.kind for fact in table.facts):
        attack = Attack(kind="missing", facts=kind)
        silent = attacked(table, attack, half, rng)
        cases[f"{who} on every {kind}"] = silent
    return {
        what: {name: _quality(quality, combined(name, case, learning)) for name in names}
        for what, case in cases.items()
    }


def _watched(
    context: PanelStudyContext, options: AttackOptions, progress: _Progress
) -> dict[tuple[Change, float], list[Watched]]:
    """Change and its size → what is seen of each judge; empty where there are too few images."""
    found: dict[tuple[Change, float], list[Watched]] = {}
    for change in CHANGES:
        for shift in options.shifts:
            for judge in range(len(context.table.judges)):
                progress.step()
                try:
                    seen = watch(
                        context.table, judge, change, shift,
                        streams=options.streams, seed=context.seed,
                    )  # fmt: skip
                except PanelStudyError:
                    continue
                found.setdefault((change, shift), []).append(seen)
    return found


PART = PanelStudy(
    name="attacks",
    title="Bad, changed, missing and slow judges",
    about="How many bad judges does each aggregator stand, and how soon is a changed one seen?",
    needs=frozenset({"several", "truth or ratings"}),
    options=AttackOptions,
    run=run,
)

"""Pilot of a study: a few of its items, one after the other, with every use of a model measured."""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from scenewright.config.settings import Settings, load_settings
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import PartOfSet, open_dataset, reservoir
from scenewright.evals.metrics.base import MetricScore, Need, Sample
from scenewright.evals.runner.config import EvalConfig, panels_of
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.sizing.figures import (
    NOTHING,
    Figures,
    SizingError,
    Use,
    account_of,
    shared_figures,
    spread_of,
)
from scenewright.providers.usage import metered

Does = Literal["draws", "steers", "judges"]


@dataclass(frozen=True, slots=True)
class ModelUse:
    """One use of a model."""

    who: str
    """Id of the model."""
    does: Does
    ended: float
    """End, by ``time.perf_counter``."""
    seconds: float
    """Duration; for an account without waiting for its limits."""
    calls: int
    """Requests to an account."""
    tokens_in: int
    tokens_out: int
    usd: float


@dataclass(slots=True)
class UsageRecorder:
    """Record of all uses of models."""

    seen: list[ModelUse] = field(default_factory=list)
    """Uses of models, in the order in which they ended."""
    local: dict[str, bool] = field(default_factory=dict)
    """Id of a model → whether it runs on the machine."""

    async def measured(self, who: str, does: Does, work: Any) -> Any:
        """Return the result of ``work`` and note its calls, tokens and seconds."""
        begun = time.perf_counter()
        with metered() as spent:
            given = await work
        ended = time.perf_counter()
        usage = spent.usage
        self.seen.append(
            ModelUse(
                who,
                does,
                ended,
                # Calls of one use go out one after the other or side by side: never longer than
                # the use itself.
                min(spent.seconds, ended - begun) if spent.calls else ended - begun,
                spent.calls,
                usage.tokens_in,
                usage.tokens_out,
                spent.usd,
            )
        )
        return given


class _Watched:
    """Proxy of a model that records its uses."""

    def __init__(self, model: Any, does: Does, watch: UsageRecorder) -> None:
        self._model, self._does, self._watch = model, does, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class WatchedBackend(_Watched):
    """Image backend whose uses are recorded."""

    async def generate(self, *args: Any, **options: Any) -> Any:
        """Return the backend's own picture."""
        drawn = self._model.generate(*args, **options)
        return await self._watch.measured(self._model.id, "draws", drawn)


class WatchedJudge(_Watched):
    """Judge whose uses are recorded."""

    async def answer(self, *args: Any, **options: Any) -> Any:
        """Return the judge's own answers."""
        asked = self._model.answer(*args, **options)
        return await self._watch.measured(self._model.id, self._does, asked)


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a cell."""

    item: str
    """Id of the item."""
    at: float
    """Time, by ``time.perf_counter``."""
    cpu: float
    """CPU seconds of the process until then."""
    thread: float
    """CPU seconds of the thread that runs all items."""


class Clock:
    """Metric that notes the time; as the last one it marks the end of a picture's scoring.

    Implements :class:`~scenewright.evals.metrics.base.ItemMetric`.
    """

    name, version = "clock", "1"
    needs: frozenset[Need] = frozenset({"image"})
    higher_is_better = True

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        """One a picture, in order."""

    async def score(self, sample: Sample) -> MetricScore:
        """Note the time."""
        now = time.perf_counter()
        self.marks.append(Mark(sample.item.id, now, time.process_time(), time.thread_time()))
        return MetricScore(value=1.0)


def per_item(
    marks: list[Mark], seen: list[ModelUse]
) -> dict[str, tuple[Mark, Mark, list[ModelUse]]]:
    """Return item → the mark before it, its own last one, and the uses in between.

    The first item has no mark before it and is left out: it has warmed everything up.
    """
    last: dict[str, Mark] = {mark.item: mark for mark in marks}
    ends = list(last.values())
    found: dict[str, tuple[Mark, Mark, list[ModelUse]]] = {}
    for before, end in pairwise(ends):
        found[end.item] = (before, end, [s for s in seen if before.at < s.ended <= end.at])
    return found


def watched_models(
    backends: Mapping[str, Any], steering: Mapping[str, Any], judging: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], UsageRecorder]:
    """Return the models by the same names, watched.

    A judge that steers and reports does the latter.
    """
    watch = UsageRecorder()
    drawers = {name: WatchedBackend(model, "draws", watch) for name, model in backends.items()}
    judges: dict[str, Any] = {n: WatchedJudge(j, "steers", watch) for n, j in steering.items()}
    judges |= {name: WatchedJudge(judge, "judges", watch) for name, judge in judging.items()}
    return drawers, judges, watch


LEAST = 2
"""Fewest items for an interval."""
_MIB = 2**20


class _Few(PartOfSet):
    """Some items of a set."""

    def __init__(self, dataset: Dataset, chosen: Sequence[Item]) -> None:
        super().__init__(dataset, "pilot", *(item.id for item in chosen))
        self._chosen = chosen

    def __iter__(self) -> Iterator[Item]:
        return iter(self._chosen)


async def pilot(
    config: EvalConfig,
    items: int,
    *,
    settings: Settings | None = None,
    root: str | Path | None = None,
    given: EvalModelOverrides | None = None,
    dataset: Dataset | None = None,
    folder: str | Path | None = None,
) -> Figures:
    """Measure ``items`` random items, after one more for warming up.

    It draws and asks for real, in ``folder`` (default: a temporary one), and pays what that costs;
    limits of accounts apply. Metrics of whole sets are left out. Raises ``SizingError`` for fewer
    than two items or if none of them succeeded, else what
    :func:`scenewright.evals.runner.runner.run_eval` raises.
    """
    if items < LEAST:
        raise SizingError(f"a pilot of {items} items gives no interval: take {LEAST} at least")
    begun = time.perf_counter()
    settings = settings or load_settings()
    base = Path(root) if root is not None else Path()
    whole = dataset if dataset is not None else open_dataset(config.dataset, base)
    rng = random.Random("pilot")
    _, chosen = reservoir(whole, items + 1, rng)
    rng.shuffle(chosen)
    if len(chosen) <= LEAST:
        raise SizingError(
            f"the set has {len(chosen)} items, a pilot takes {LEAST} and one that warms up: give "
            "the figures as a file (--figures)"
        )
    eval_models = await build_eval_models(config, settings, given or EvalModelOverrides(), base)
    watched, clock, watch = _watched(config, settings, eval_models)
    alone = config.model_copy(update={"concurrency": 1})
    with tempfile.TemporaryDirectory(prefix="pilot-") as passing:
        place = Path(folder) if folder is not None else Path(passing) / "evaluation"
        few = _Few(whole, chosen)
        results = await run_eval(
            alone, place, settings=settings, root=base, given=watched, dataset=few
        )
        found = per_item(clock.marks, watch.seen)
        if len(found) < LEAST:
            raise SizingError(
                f"of {len(chosen)} items {len(found) + 1} or fewer were drawn: "
                f"{_reason(results.rows('rounds', ['state', 'reason']))}"
            )
        shared = shared_figures(results, config)
    wall = time.perf_counter() - begun
    return _figures(eval_models, found, watch, shared, wall)


def _watched(
    config: EvalConfig, settings: Settings, eval_models: EvalModels
) -> tuple[EvalModelOverrides, Clock, UsageRecorder]:
    """Return the same models, each behind one that watches it."""
    backends: dict[str, Any] = {}
    composers: dict[str, Any] = {}
    steering: dict[str, Any] = {}
    for arm in eval_models.arms:
        generator = eval_models.generators[arm.name]
        if generator is not None:
            backends[arm.backend] = generator.backend
            steering |= dict(zip(arm.profile.judges, generator.judges, strict=False))
    judging: dict[str, Any] = {}
    if eval_models.judge_panels:
        panels = panels_of(config, settings)
        for judge_panel in eval_models.judge_panels:
            judging |= dict(
                zip(panels[judge_panel.configured].judges, judge_panel.judges, strict=True)
            )
    drawers, judges, watch = watched_models(backends, steering, judging)
    clock = Clock()
    return (
        EvalModelOverrides(drawers, composers, judges, (*eval_models.of_pictures, clock)),
        clock,
        watch,
    )


def _figures(
    eval_models: EvalModels,
    found: Mapping[str, tuple[Mark, Mark, list[ModelUse]]],
    watch: UsageRecorder,
    shared: dict[str, Any],
    wall: float,
) -> Figures:
    arms = len(eval_models.arms)
    local = [account_of(seen.who) == "" for seen in watch.seen]
    alone = spread_of([(end.at - begin.at) / arms for begin, end, _ in found.values()])
    return Figures(
        source=f"a pilot of {len(found)} items in {arms} arms",
        cells=len(found) * arms,
        models={who: _use(who, found, arms) for who in sorted({s.who for s in watch.seen})},
        alone=alone,
        cpu=spread_of([(end.cpu - begin.cpu) / arms for begin, end, _ in found.values()]),
        process=spread_of([(end.thread - begin.thread) / arms for begin, end, _ in found.values()]),
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        accelerator=any(local) and _accelerated(),
        startup=max(0.0, wall - alone.mean * arms * (len(found) + 1)),
        peak_mib=_peak_mib(),
        notes=tuple(_notes(eval_models)),
        **shared,
    )


def _use(who: str, found: Mapping[str, tuple[Mark, Mark, list[ModelUse]]], arms: int) -> Use:
    """Return the usage of the model ``who`` over all items."""
    each: dict[str, list[ModelUse]] = defaultdict(list)
    for item, (_, _, seen) in found.items():
        each[item] = [one for one in seen if one.who == who]
    uses = [one for seen in each.values() for one in seen]
    if not uses:
        # Only the item that warmed up used it.
        return Use(does="judges", account=account_of(who), uses=NOTHING, seconds=NOTHING)
    count = len(uses)
    account = account_of(who)
    # Each request of an account is counted where it ends; one that is never metered is one call.
    calls = sum(max(one.calls, 1) for one in uses) / count if account else 0.0
    return Use(
        does=uses[0].does,
        account=account,
        uses=spread_of([len(seen) / arms for seen in each.values()]),
        seconds=spread_of([one.seconds for one in uses]),
        calls=calls,
        tokens_in=sum(one.tokens_in for one in uses) / count,
        tokens_out=sum(one.tokens_out for one in uses) / count,
        # A model whose price is not known counts 0: that is no price.
        usd=(sum(one.usd for one in uses) / count) or None,
    )


def _notes(eval_models: EvalModels) -> Iterator[str]:
    composers = [
        generator.composer for generator in eval_models.generators.values() if generator is not None
    ]
    if any(getattr(composer, "chat", None) is not None for composer in composers):
        yield "requests and dollars of language models that word prompts are not in the figures"
    if any(arm.loops and arm.profile.strategy == "director" for arm in eval_models.arms):
        yield "requests and dollars of language models that direct loops are not in the figures"
    if eval_models.of_sets:
        yield "metrics of whole sets are worked out at the end; their time is not in the figures"


def _accelerated() -> bool:
    """Return whether models on the machine compute on an accelerator."""
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _peak_mib() -> float:
    """Return most memory of the process until now."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / _MIB if sys.platform == "darwin" else peak / 1024


def _reason(rows: Sequence[Mapping[str, Any]]) -> str:
    reasons = [row["reason"] for row in rows if row["state"] == "failed"]
    return reasons[0] if reasons else "no picture could be scored"

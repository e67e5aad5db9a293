"""Pilot of a study: a few of its items, one after the other, with every use of a model measured."""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    Figures,
    SizingError,
    Spread,
    Use,
    shared_figures,
    spread_of,
)
from scenewright.providers.usage import Meter, metered

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
    spent: Meter
    """Requests to an account, their tokens and dollars."""


class WatchedModel:
    """Image backend or judge that records its uses."""

    def __init__(self, model: Any, does: Does, seen: list[ModelUse]) -> None:
        """Add the uses of ``model`` to ``seen``, in the order in which they end."""
        self._model, self._does, self._seen = model, does, seen

    def __getattr__(self, name: str) -> Any:
        """Return what the model has."""
        return getattr(self._model, name)

    async def generate(self, *args: Any, **options: Any) -> Any:
        """Return the backend's own picture."""
        return await self._measured(self._model.generate(*args, **options))

    async def answer(self, *args: Any, **options: Any) -> Any:
        """Return the judge's own answers."""
        return await self._measured(self._model.answer(*args, **options))

    async def _measured(self, work: Awaitable[Any]) -> Any:
        begun = time.perf_counter()
        with metered() as spent:
            given = await work
        ended = time.perf_counter()
        # Calls of one use go out one after the other or side by side: never longer than the use.
        seconds = min(spent.seconds, ended - begun) if spent.calls else ended - begun
        self._seen.append(ModelUse(self._model.id, self._does, ended, seconds, spent))
        return given


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


MeasuredItem = tuple[Mark, Mark, list[ModelUse]]
"""The mark before an item, its own last one, and the uses in between."""


def per_item(marks: list[Mark], seen: list[ModelUse]) -> list[MeasuredItem]:
    """Return the measured items.

    The first item has no mark before it and is left out: it has warmed everything up.
    """
    ends = list({mark.item: mark for mark in marks}.values())
    return [
        (before, end, [use for use in seen if before.at < use.ended <= end.at])
        for before, end in pairwise(ends)
    ]


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
    clock, seen = Clock(), list[ModelUse]()
    watched = _watched(config, settings, eval_models, clock, seen)
    alone = config.model_copy(update={"concurrency": 1})
    with tempfile.TemporaryDirectory(prefix="pilot-") as passing:
        place = Path(folder) if folder is not None else Path(passing) / "evaluation"
        few = _Few(whole, chosen)
        results = await run_eval(
            alone, place, settings=settings, root=base, given=watched, dataset=few
        )
        found = per_item(clock.marks, seen)
        if len(found) < LEAST:
            raise SizingError(
                f"of {len(chosen)} items {len(found) + 1} or fewer were drawn: "
                f"{_reason(results.rows('rounds', ['state', 'reason']))}"
            )
        shared = shared_figures(results, config)
    wall = time.perf_counter() - begun
    return _figures(eval_models, found, shared, wall)


def _watched(
    config: EvalConfig,
    settings: Settings,
    eval_models: EvalModels,
    clock: Clock,
    seen: list[ModelUse],
) -> EvalModelOverrides:
    """Return the same models, each behind one that watches it.

    A judge that steers and reports does the latter.
    """
    backends: dict[str, Any] = {}
    judges: dict[str, Any] = {}
    for arm in eval_models.arms:
        generator = eval_models.generators[arm.name]
        if generator is not None:
            backends[arm.backend] = WatchedModel(generator.backend, "draws", seen)
            for name, judge in zip(arm.profile.judges, generator.judges, strict=False):
                judges[name] = WatchedModel(judge, "steers", seen)
    panels = panels_of(config, settings) if eval_models.judge_panels else {}
    for judge_panel in eval_models.judge_panels:
        names = panels[judge_panel.configured].judges
        for name, judge in zip(names, judge_panel.judges, strict=True):
            judges[name] = WatchedModel(judge, "judges", seen)
    return EvalModelOverrides(backends, {}, judges, (*eval_models.of_pictures, clock))


def _figures(
    eval_models: EvalModels, found: Sequence[MeasuredItem], shared: dict[str, Any], wall: float
) -> Figures:
    arms = len(eval_models.arms)

    def of_marks(name: str) -> Spread:
        return spread_of(
            [(getattr(end, name) - getattr(begin, name)) / arms for begin, end, _ in found]
        )

    alone = of_marks("at")
    names = sorted({use.who for _, _, uses in found for use in uses})
    models = {who: _use([[u for u in s if u.who == who] for *_, s in found], arms) for who in names}
    return Figures(
        source=f"a pilot of {len(found)} items in {arms} arms",
        cells=len(found) * arms,
        models=models,
        alone=alone,
        cpu=of_marks("cpu"),
        process=of_marks("thread"),
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        accelerator=any(not use.account for use in models.values()) and _accelerated(),
        startup=max(0.0, wall - alone.mean * arms * (len(found) + 1)),
        peak_mib=_peak_mib(),
        notes=tuple(_notes(eval_models)),
        **shared,
    )


def _use(each: Sequence[Sequence[ModelUse]], arms: int) -> Use:
    """Return the usage of a model over all items, from its uses for each of them."""
    uses = [use for seen in each for use in seen]
    spent = [use.spent for use in uses]
    return Use.measured(
        uses[0].who,
        uses[0].does,
        spread_of([len(seen) / arms for seen in each]),
        [use.seconds for use in uses],
        len(uses),
        # Each request of an account is counted where it ends; one that is never metered is one.
        calls=sum(max(one.calls, 1) for one in spent),
        tokens_in=sum(one.usage.tokens_in for one in spent),
        tokens_out=sum(one.usage.tokens_out for one in spent),
        usd=sum(one.usd for one in spent),
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

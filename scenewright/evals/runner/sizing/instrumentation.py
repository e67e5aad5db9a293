"""Models that are watched at work: what each use of them takes, told apart by cell."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from scenewright.evals.metrics.base import MetricScore, Need, Sample
from scenewright.providers.usage import metered

Does = Literal["draws", "steers", "judges"]


@dataclass(frozen=True, slots=True)
class ModelUse:
    """One use of a model."""

    who: str
    """Id of the model."""
    does: Does
    """What for."""
    ended: float
    """When it was over, by ``time.perf_counter``."""
    seconds: float
    """What it took; of an account without waiting for its limits."""
    calls: int
    """Requests to an account."""
    tokens_in: int
    """Tokens."""
    tokens_out: int
    """Tokens."""
    usd: float
    """Dollars."""


@dataclass(slots=True)
class UsageRecorder:
    """All that was seen."""

    seen: list[ModelUse] = field(default_factory=list)
    """Uses of models, in the order in which they ended."""
    local: dict[str, bool] = field(default_factory=dict)
    """Id of a model → whether it runs on the machine."""

    async def measured(self, who: str, does: Does, work: Any) -> Any:
        """What ``work`` gives; its calls, tokens and seconds are noted."""
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
    """Stands before a model and is taken for it."""

    def __init__(self, model: Any, does: Does, watch: UsageRecorder) -> None:
        self._model, self._does, self._watch = model, does, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class WatchedBackend(_Watched):
    """Implements :class:`~scenewright.core.ports.backend.ImageBackend`."""

    async def generate(self, *args: Any, **options: Any) -> Any:
        """The backend's own picture."""
        drawn = self._model.generate(*args, **options)
        return await self._watch.measured(self._model.id, "draws", drawn)


class WatchedJudge(_Watched):
    """Implements :class:`~scenewright.core.ports.judge.Judge`."""

    async def answer(self, *args: Any, **options: Any) -> Any:
        """The judge's own answers."""
        asked = self._model.answer(*args, **options)
        return await self._watch.measured(self._model.id, self._does, asked)


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a cell."""

    item: str
    """Its item."""
    at: float
    """When, by ``time.perf_counter``."""
    cpu: float
    """Seconds of processor that the process had used until then."""
    thread: float
    """Seconds of processor of the thread that runs all items."""


class Clock:
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`: the last metric of all, which
    notes when it is asked: a picture is then drawn, judged and scored."""

    name, version = "clock", "1"
    needs: frozenset[Need] = frozenset({"image"})
    higher_is_better = True

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        """One a picture, in their order."""

    async def score(self, sample: Sample) -> MetricScore:
        """Notes the time."""
        now = time.perf_counter()
        self.marks.append(Mark(sample.item.id, now, time.process_time(), time.thread_time()))
        return MetricScore(value=1.0)


def per_item(
    marks: list[Mark], seen: list[ModelUse]
) -> dict[str, tuple[Mark, Mark, list[ModelUse]]]:
    """Item → the mark before it, its own last one, and the uses in between.

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
    """The models by the same names, watched; a judge that steers and reports does the latter."""
    watch = UsageRecorder()
    drawers = {name: WatchedBackend(model, "draws", watch) for name, model in backends.items()}
    judges: dict[str, Any] = {n: WatchedJudge(j, "steers", watch) for n, j in steering.items()}
    judges |= {name: WatchedJudge(judge, "judges", watch) for name, judge in judging.items()}
    return drawers, judges, watch

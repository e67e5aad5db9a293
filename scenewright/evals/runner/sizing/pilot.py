"""A pilot: a few items of the very study, one after the other, with every model watched."""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.config.settings import Settings, load_settings
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.runner.arms import panels_of
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.sizing.errors import SizingError
from scenewright.evals.runner.sizing.figures import NOTHING, Figures, Use, spread_of
from scenewright.evals.runner.sizing.instrumentation import (
    Clock,
    Mark,
    ModelUse,
    UsageRecorder,
    per_item,
    watched_models,
)
from scenewright.evals.runner.sizing.tables import account_of, shared_figures

LEAST = 2
"""Fewest items that tell a spread."""
_MIB = 2**20
_DRAW_OF_SAMPLE = "pilot"


@dataclass(frozen=True)
class _Few:
    """Some items of a set."""

    whole: Dataset
    chosen: Sequence[Item]

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def source(self) -> str:
        return self.whole.source

    @property
    def licence(self) -> str:
        return self.whole.licence

    @property
    def fingerprint(self) -> str:
        return f"{self.whole.fingerprint} pilot {[item.id for item in self.chosen]}"

    @property
    def left_out(self) -> Mapping[str, int]:
        return {}

    def __iter__(self) -> Iterator[Item]:
        return iter(self.chosen)


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
    """Figures of ``items`` items drawn by lot, after one more that warms everything up.

    It draws and asks for real, in ``folder`` (default: one that is removed afterwards), and pays
    what that costs; limits of accounts hold. Metrics of whole sets are left out. Raises
    ``SizingError`` for fewer than two items or if nothing of them succeeded, else what
    :func:`scenewright.evals.runner.runner.run_eval` raises.
    """
    if items < LEAST:
        raise SizingError(f"a pilot of {items} items tells no spread: take {LEAST} at least")
    begun = time.perf_counter()
    settings = settings or load_settings()
    base = Path(root) if root is not None else Path()
    whole = dataset if dataset is not None else open_dataset(config.dataset, base)
    chosen = _by_lot(whole, items + 1)
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


def _by_lot(items: Dataset, count: int) -> list[Item]:
    """``count`` of the items, each as likely; all of a smaller set."""
    rng = random.Random(_DRAW_OF_SAMPLE)
    kept: list[Item] = []
    for at, item in enumerate(items):
        if at < count:
            kept.append(item)
        elif (place := rng.randrange(at + 1)) < count:
            kept[place] = item
    rng.shuffle(kept)
    return kept


def _watched(
    config: EvalConfig, settings: Settings, eval_models: EvalModels
) -> tuple[EvalModelOverrides, Clock, UsageRecorder]:
    """The same models, each behind one that watches it."""
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
    """What the model ``who`` did in all items."""
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
    """Whether models on the machine compute on an accelerator."""
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _peak_mib() -> float:
    """Most memory of the process until now."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / _MIB if sys.platform == "darwin" else peak / 1024


def _reason(rows: Sequence[Mapping[str, Any]]) -> str:
    reasons = [row["reason"] for row in rows if row["state"] == "failed"]
    return reasons[0] if reasons else "no picture could be scored"

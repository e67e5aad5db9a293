"""Measured figures that a study is sized from: of a pilot, or of a finished evaluation.

A pilot does a few of the study's items, one after the other, with every use of a model measured.
"""

from __future__ import annotations

import math
import os
import random
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scenewright.config.settings import Settings, load_settings
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import PartOfSet, open_dataset, reservoir
from scenewright.evals.metrics.base import MetricScore, Need, Sample
from scenewright.evals.runner.config import EvalConfig, panels_of
from scenewright.evals.runner.forecast import account_of
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.time_forecast import NOTHING, Figures, SizingError, Spread, Use
from scenewright.evals.statistics.estimates import mean
from scenewright.evals.store.results import ANSWERS, IMAGES, JOURNAL, TABLES, Results
from scenewright.providers.usage import Meter, metered

Does = Literal["draws", "steers", "judges"]


def spread_of(values: Sequence[float]) -> Spread:
    """Return mean with its 95% bootstrap interval (2,000 resamples); 0 for no values.

    One value gives no interval: its interval is half to twice of it.
    """
    if not len(values):
        return NOTHING
    found = mean(np.asarray(values, float)[:, None])
    value = float(found.value or 0.0)
    if found.low is None or found.high is None:
        return Spread(mean=value, low=value / 2, high=value * 2)
    return Spread(mean=value, low=min(value, found.low), high=max(value, found.high))


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


def _measured(
    who: str,
    does: Does,
    uses: Spread,
    seconds: Sequence[float],
    count: int,
    calls: float,
    tokens_in: float,
    tokens_out: float,
    usd: float,
) -> Use:
    """Return the use of a model that was measured ``count`` times.

    ``calls``, tokens and dollars are those of all these uses together. A model whose price is not
    known took 0 dollars: that is no price.
    """
    account = account_of(who)
    return Use(
        does=does,
        account=account,
        uses=uses,
        seconds=spread_of(seconds),
        calls=calls / count if account else 0.0,
        tokens_in=tokens_in / count,
        tokens_out=tokens_out / count,
        usd=usd / count or None,
    )


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
        return await self._watch(self._model.generate(*args, **options))

    async def answer(self, *args: Any, **options: Any) -> Any:
        """Return the judge's own answers."""
        return await self._watch(self._model.answer(*args, **options))

    async def _watch(self, work: Awaitable[Any]) -> Any:
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
        self.marks: dict[str, Mark] = {}
        """Item → the end of its last picture, in order."""

    async def score(self, sample: Sample) -> MetricScore:
        """Note the time."""
        item, now = sample.item.id, time.perf_counter()
        self.marks[item] = Mark(item, now, time.process_time(), time.thread_time())
        return MetricScore(value=1.0)


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
        # The first item has no mark before it and is left out: it has warmed everything up.
        spans = list(pairwise(clock.marks.values()))
        if len(spans) < LEAST:
            raise SizingError(
                f"of {len(chosen)} items {len(spans) + 1} or fewer were drawn: "
                f"{_reason(results.rows('rounds', ['state', 'reason']))}"
            )
        shared = _shared_figures(results, config)
    return _figures(eval_models, spans, seen, shared, time.perf_counter() - begun)


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
    eval_models: EvalModels,
    spans: Sequence[tuple[Mark, Mark]],
    seen: Sequence[ModelUse],
    shared: Mapping[str, Any],
    wall: float,
) -> Figures:
    """Return the figures of items, each between two marks."""
    arms = len(eval_models.arms)
    each = [[use for use in seen if a.at < use.ended <= b.at] for a, b in spans]

    def of_marks(name: str) -> Spread:
        return spread_of([(getattr(b, name) - getattr(a, name)) / arms for a, b in spans])

    alone = of_marks("at")
    names = sorted({use.who for uses in each for use in uses})
    models = {who: _use([[u for u in s if u.who == who] for s in each], arms) for who in names}
    on_machine = any(not use.account for use in models.values())
    return Figures(
        source=f"a pilot of {len(spans)} items in {arms} arms",
        cells=len(spans) * arms,
        models=models,
        alone=alone,
        cpu=of_marks("cpu"),
        process=of_marks("thread"),
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        accelerator=on_machine and _accelerated(),
        startup=max(0.0, wall - alone.mean * arms * (len(spans) + 1)),
        peak_mib=_peak_mib(),
        notes=tuple(_notes(eval_models)),
        **shared,
    )


def _use(each: Sequence[Sequence[ModelUse]], arms: int) -> Use:
    """Return the usage of a model over all items, from its uses for each of them."""
    uses = [use for seen in each for use in seen]
    spent = [use.spent for use in uses]
    return _measured(
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
    drawing = [one for one in eval_models.generators.values() if one is not None]
    if any(getattr(one.composer, "chat", None) is not None for one in drawing):
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


_ARM = ["item", "arm"]
_SPENT = ["tokens_in", "tokens_out", "usd"]
_Row = Mapping[str, Any]


def figures_from(folder: str | Path) -> Figures:
    """Return the figures of a finished evaluation. Raises ``SizingError`` and ``EvalError``.

    Its items ran side by side, so that seconds of models on the machine include waiting for each
    other, and loops do not tell apart what draws and what steers them: a pilot knows more.
    """
    results = Results(folder)
    columns = [*_ARM, "backend", "state", "kept", "images_drawn", "seconds", *_SPENT]
    rounds = [row for row in results.rows("rounds", columns) if row["state"] == "done"]
    if not rounds:
        raise SizingError(f"{folder} holds no finished picture: let the evaluation run first")
    cells = len({(row["item"], row["arm"]) for row in rounds})
    models = dict(_drawers(results, rounds, cells)) | dict(_judges(results, cells))
    if not models:
        raise SizingError(f"{folder} drew nothing and asked no model: there is nothing to size")
    notes = ["the figures are of items that ran side by side, as their tables tell"]
    config = EvalConfig.model_validate(results.manifest["config"])
    if any(config.condition_of(name).rounds > 1 for name in config.conditions):
        notes.append(
            "loops: the seconds and tokens of judges that steer are counted as drawing, and their "
            "requests not at all; a pilot tells them apart"
        )
    return Figures(
        source=f"tables of {Path(folder).name}",
        cells=cells,
        models=models,
        notes=tuple(notes),
        **_shared_figures(results, config),
    )


def _shared_figures(results: Results, config: EvalConfig) -> dict[str, Any]:
    """Return sizes, loops and void facts, which are read from tables for a pilot too."""
    names = [*_ARM, "condition", "state", "round", "image", "images_drawn"]
    rows = [row for row in results.rows("rounds", names) if row["state"] == "done"]
    cells = _grouped(rows, lambda row: (row["item"], row["arm"]))
    most = {name: config.condition_of(name).rounds for name in config.conditions}
    loops = [group for group in cells.values() if most[group[0]["condition"]] > 1]
    further = sum(len(group) - 1 for group in loops)
    drawn = sum(row["images_drawn"] for group in loops for row in group if row["round"] > 0)
    files = {p.stem: p.stat().st_size for p in (results.folder / IMAGES).rglob("*.png")}
    states = results.table("verdicts", ["state"]).column("state").to_pylist()
    return {
        "picture_bytes": spread_of([float(size) for size in files.values()]),
        "row_bytes": _bytes_of(results.folder) / max(len(cells), 1),
        "rounds": sum(map(len, cells.values())) / max(len(cells), 1),
        "go_on": goes_on([len(g) for g in loops], [most[g[0]["condition"]] for g in loops]),
        "more_pictures": max(1.0, drawn / further) if further else 2.0,
        "void_share": states.count("void") / len(states) if states else None,
    }


def _exactly(value: float) -> Spread:
    return Spread(mean=value, low=value, high=value)


def _bytes_of(folder: Path) -> int:
    """Return bytes of all but the pictures: tables, journal, answers and run folders."""
    tables = [folder / f"{table}.parquet" for table in TABLES]
    kept = [folder / name for name in (JOURNAL, ANSWERS)]
    kept += [file for file in (folder / "runs").rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in (*tables, *kept) if file.is_file())


def _drawers(results: Results, rounds: Sequence[_Row], cells: int) -> Iterator[tuple[str, Use]]:
    drawn_by = {
        arm: models["backend"]["id"] for arm, models in results.manifest["models"]["arms"].items()
    }
    paid = [row for row in rounds if row["images_drawn"] and row["arm"] in drawn_by]
    for who, rows in _grouped(paid, lambda row: drawn_by[row["arm"]]).items():
        count = sum(row["images_drawn"] for row in rows)
        each = [row["seconds"] / row["images_drawn"] for row in rows]
        uses = _exactly(count / cells)
        yield who, _measured(who, "draws", uses, each, count, count, **_took(rows))


def _judges(results: Results, cells: int) -> Iterator[tuple[str, Use]]:
    look = [*_ARM, "panel", "round"]
    rows = results.rows("answers", [*look, "judge", "seconds", *_SPENT])
    answered = [row for row in rows if row["seconds"]]
    for who, of in _grouped(answered, lambda row: str(row["judge"])).items():
        looks = _grouped(of, lambda row: tuple(str(row[name]) for name in look)).values()
        each = [math.fsum(row["seconds"] for row in some) for some in looks]
        # A call shares its seconds evenly among its answers: equal ones are of one call.
        calls = sum(len({row["seconds"] for row in some}) for some in looks)
        uses = _exactly(len(looks) / cells)
        yield who, _measured(who, "judges", uses, each, len(looks), calls, **_took(of))


def _took(rows: Sequence[_Row]) -> dict[str, float]:
    """Return tokens in, tokens out and dollars of ``rows``."""
    return {name: sum(row[name] for row in rows) for name in _SPENT}


def _grouped(rows: Sequence[_Row], key: Callable[[_Row], Any]) -> dict[Any, list[_Row]]:
    groups: dict[Any, list[_Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)


def goes_on(rounds: Sequence[int], most: Sequence[int]) -> float:
    """Return the share of rounds after which a loop went on, of those after which it could have.

    ``rounds`` that loops took, and ``most`` that each was allowed; the maximum-likelihood estimate
    of the probability in :func:`~scenewright.evals.runner.time_forecast.expected_rounds`. 0 without
    a loop.
    """
    went = sum(taken - 1 for taken in rounds)
    could = sum(min(taken, bound - 1) for taken, bound in zip(rounds, most, strict=True))
    return went / could if could else 0.0

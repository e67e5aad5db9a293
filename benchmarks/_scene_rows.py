"""A row a scene, measured in several processes with models of their own; goes on after a kill."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from benchmarks._pool import Progress, unordered
from benchmarks._rows import Row, Rows
from scenewright.config.settings import Profile
from scenewright.core.scene import SceneGraph
from scenewright.runs.model_factory.profiles import build_run_models, warm


class MeasuredScene(Row):
    """What every row of a scene tells."""

    scene: str
    """Digest of the scene."""
    level: str
    """Its complexity level."""
    seconds: float = Field(ge=0.0)
    """Wall time of all runs."""


S = TypeVar("S", bound=MeasuredScene)
Measure = Callable[..., Coroutine[Any, Any, S]]
"""Called with scene, its number, profile, team, ``fingerprint`` and ``scratch``."""

# The models of a process of the pool.
_state: dict[str, Any] = {}


def _prepare(
    measure: Measure[S], profile: Profile, fingerprint: str, scratch: Path, realism: bool
) -> None:
    """Load the models of this process; its run folders go below ``scratch``."""
    run_models = asyncio.run(build_run_models(profile, realism=realism))
    asyncio.run(warm(run_models))
    models = {
        "profile": profile,
        "team": run_models,
        "fingerprint": fingerprint,
        "scratch": scratch,
    }
    _state.update(measure=measure, models=models)


def _work(task: tuple[int, SceneGraph]) -> Any:
    """Measure one scene with the models of this process."""
    at, scene = task
    return asyncio.run(_state["measure"](scene, at, **_state["models"]))


def collect(
    measure: Measure[S],
    scenes: Mapping[int, SceneGraph],
    rows: Rows[S],
    profile: Profile,
    processes: int,
    *,
    realism: bool = False,
) -> list[S]:
    """One row a scene, by number: those that ``rows`` has, and the rest measured now.

    ``measure`` is a function of a module, so that a process can be given it. ``realism``: whether
    its team has judges of realism.
    """
    known = {
        at: row
        for at, scene in scenes.items()
        if (row := rows.get(at)) is not None and row.scene == scene.digest
    }
    tasks = [(at, scene) for at, scene in scenes.items() if at not in known]
    if rows.stale:
        print(
            f"{rows.stale} rows of other weights, options or code are left aside", file=sys.stderr
        )
    if known:
        print(f"{len(known)} scenes were measured before", file=sys.stderr)
    progress = Progress(len(scenes), sys.stderr, before=len(known))
    if tasks:
        # What a killed process left there belongs to nobody: the rows' lock is ours.
        scratch = rows.path.parent / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        given = (measure, profile, rows.fingerprint, scratch, realism)
        for row in unordered(_work, tasks, min(processes, len(tasks)), _prepare, given):
            rows.add(row)
            known[row.at] = row
            progress.step(f"scene {row.at}: {row.level}, {row.seconds:.0f} s")
        shutil.rmtree(scratch, ignore_errors=True)
    return [known[at] for at in sorted(known)]

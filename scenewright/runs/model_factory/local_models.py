"""Models on this machine, built from their names: what a pipeline or a judge of a profile is.

Models are shared by the process (:data:`SHARED`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from scenewright.config.profiles import BackendSpec, LocalJudgeSpec
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.judge import Judge

T = TypeVar("T")

IMPORTING = threading.Lock()
"""Held while model libraries are imported: begun in several threads at once, their imports trip
over each other."""
MINIATURE_WEIGHTS = Path(__file__).parents[2] / "miniature" / "weights"
_MINIATURE = "miniature/"


class Registry:
    """Objects by key, each made once; makers of different keys run side by side."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._objects: dict[str, Any] = {}

    def get(self, key: str, make: Callable[[], T]) -> T:
        """The object of ``key``, made by ``make`` at the first call; a failed try is not kept."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._objects:
                self._objects[key] = make()
            return cast(T, self._objects[key])

    async def aclose(self) -> None:
        """Free every model."""
        with self._guard:
            objects, self._objects = list(self._objects.values()), {}
        await asyncio.gather(*(item.aclose() for item in objects))


SHARED = Registry()
"""The models of this process."""


def make_backend(spec: BackendSpec) -> ImageBackend:
    """A new backend of ``spec``; raises ``BackendError`` if its files are not there."""
    # Imported here: a run with a scripted or remote backend must not load torch.
    with IMPORTING:
        from scenewright.tools.backends.adapter import IPAdapterSource
        from scenewright.tools.backends.diffusers import DiffusersBackend
        from scenewright.tools.backends.pipeline import import_pipelines

        import_pipelines()
    options: dict[str, Any] = spec.model_dump(
        include={"device", "dtype", "scheduler", "variant", "offload", "compile", "slicing"}
    )
    options["default_size"] = spec.size
    if spec.model == "miniature":
        adapter = IPAdapterSource(repository=str(MINIATURE_WEIGHTS / "ip-adapter"))
        return DiffusersBackend(
            str(backend_folder(spec.model)), name="miniature", ip_adapter=adapter, **options
        )
    source = IPAdapterSource(**spec.adapter.model_dump()) if spec.adapter is not None else None
    return DiffusersBackend(spec.model, ip_adapter=source, **options)


def make_local_judge(model: str, how: LocalJudgeSpec | None = None) -> Judge:
    """A new judge ``local:model``; raises ``JudgeError`` if its files are not there."""
    with IMPORTING:
        from scenewright.agents.judges.local import LocalJudge

    if model.startswith(_MINIATURE):
        return LocalJudge(judge_folder(model), name=model, how=how)
    return LocalJudge(model, how=how)


def make_local_decision_judge(model: str, how: LocalJudgeSpec | None = None) -> Judge:
    """A new judge ``decision:local/model``; raises ``JudgeError`` if its files are not there."""
    with IMPORTING:
        from scenewright.agents.judges.decisions.local import LocalDecisionJudge

    if model.startswith(_MINIATURE):
        config = MINIATURE_WEIGHTS / "decision.json"
        return LocalDecisionJudge(judge_folder(model), name=model, config=config, how=how)
    return LocalDecisionJudge(model, how=how)


def judge_folder(model: str) -> Path:
    """Where the judge ``local:model`` lies, unless ``model`` names a hub repository."""
    if model.startswith(_MINIATURE):
        return MINIATURE_WEIGHTS / "judges" / model.removeprefix(_MINIATURE)
    return Path(model).expanduser()


def backend_folder(model: str) -> Path:
    """Where the pipeline ``diffusers:model`` lies, unless ``model`` names a hub repository."""
    return MINIATURE_WEIGHTS / "generator" if model == "miniature" else Path(model).expanduser()

"""Scripted models that workers of a cluster build anew; their books are files below a folder."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from scenewright.evals.runner.model_setup import EvalModelOverrides
from tests.doubles import CallBook, ScriptedBackend
from tests.evals.eval_sets import scripted
from tests.evals.served_judges import RemoteJudge

PLAIN = "tests.evals.runner.engines.engine_models:plain"
SLOW = "tests.evals.runner.engines.engine_models:slow"
DEADLY = "tests.evals.runner.engines.engine_models:deadly"
OTHERS = "tests.evals.runner.engines.engine_models:others"
EXCHANGED = "tests.evals.runner.engines.engine_models:exchanged"


class SlowBackend(ScriptedBackend):
    """Takes its time, and leaves the id of its process in a folder."""

    async def generate(self, *args: object, **options: object) -> object:
        (self.book.path.parent / "pids" / str(os.getpid())).touch()  # type: ignore[union-attr]
        await asyncio.sleep(0.05)
        return await super().generate(*args, **options)  # type: ignore[arg-type]


class DeadlyBackend(ScriptedBackend):
    """Kills its process."""

    async def generate(self, *args: object, **options: object) -> object:
        os._exit(1)


def plain(root: Path) -> EvalModelOverrides:
    """Models with a book."""
    return scripted(CallBook(root / "book"))


def slow(root: Path) -> EvalModelOverrides:
    """The same, slowly."""
    (root / "pids").mkdir(exist_ok=True)
    return _with(plain(root), SlowBackend)


def deadly(root: Path) -> EvalModelOverrides:
    """A backend that kills its worker."""
    return _with(plain(root), DeadlyBackend)


def others(root: Path) -> EvalModelOverrides:
    """Other weights in each process."""
    found = plain(root)
    drawing = replace(found.backends["miniature"], version=str(os.getpid()))  # type: ignore[type-var]
    return replace(found, backends={"miniature": drawing})


def exchanged(root: Path) -> EvalModelOverrides:
    """A judge behind an API whose model is another one after 60 sentinel questions of a process."""
    found = plain(root)
    judge = RemoteJudge("c", level=lambda fact: 0, after=60)
    return replace(found, judges={**found.judges, "local:miniature/judge-c": judge})


def _with(given: EvalModelOverrides, kind: type[ScriptedBackend]) -> EvalModelOverrides:
    drawing = given.backends["miniature"]
    assert isinstance(drawing, ScriptedBackend)
    return replace(given, backends={"miniature": kind(drawing.quality, drawing.book)})

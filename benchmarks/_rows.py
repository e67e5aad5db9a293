"""Rows of scenes that are measured once each: in several processes, in a file that survives a kill.

A row names what it was measured with by a fingerprint, so that rows of other weights, options or
code stay in the file and are not used.
"""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import hashlib
import inspect
import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmarks._harness import (
    PROCESSES,
    BenchmarkError,
    Option,
    Progress,
    folder,
    work_folder,
)
from benchmarks._provenance import code_of, machine_class
from benchmarks._scenes import LEVELS, AnyLevel, balanced_scenes, level_at
from scenewright.config.profiles import Profile
from scenewright.core.scene import SceneGraph
from scenewright.evals.store.json_lines import append_lines, read_lines
from scenewright.runs.model_factory.profiles import RunModels, build_run_models, warm


class RowsError(BenchmarkError):
    """A file of rows that cannot be used; says what to do."""


class PoolError(BenchmarkError):
    """A process that ended without a result; says what to do."""


class Row(BaseModel):
    """One row of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str
    """What it was measured with: see :func:`fingerprint_of`."""
    at: int
    """Number of its scene, from 0."""


class MeasuredScene(Row):
    """A row of a scene."""

    scene: str
    """Digest of the scene."""
    level: str
    seconds: float = Field(ge=0.0)
    """Wall time of all runs."""


T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R", bound=Row)
S = TypeVar("S", bound=MeasuredScene)


def scene_options(scenes: int, default: Path) -> dict[str, Option]:
    """Return the command-line options of a study: ``--scenes``, ``--processes`` and ``--work``."""
    return {
        "scenes": Option(scenes, "scenes", least=1),
        "processes": PROCESSES,
        "work": folder(f"folder of the rows (default: {default})"),
    }


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """Return sixteen hex digits that name ``parts``: JSON data, and pydantic models in it."""
    text = json.dumps(
        parts, sort_keys=True, allow_nan=False, default=lambda part: part.model_dump(mode="json")
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Rows(Generic[R]):
    """Rows of one fingerprint in a file that may hold others; one process writes at a time."""

    def __init__(self, path: Path, kind: type[R], fingerprint: str) -> None:
        """Open or make ``path`` and read it.

        Raises ``RowsError`` if another process writes there or a line is not a row.
        """
        self.path = path
        self.fingerprint = fingerprint
        self.stale = 0
        """Rows of other fingerprints."""
        self._rows: dict[int, R] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Takes out a last line that a kill cut off.
            append_lines(path, [])
            for number, data in read_lines(path):
                if data.get("fingerprint") != fingerprint:
                    self.stale += 1
                    continue
                try:
                    row = kind.model_validate(data)
                except ValidationError as error:
                    raise ValueError(f"line {number}: {str(error).splitlines()[0]}") from error
                self._rows[row.at] = row
        except BlockingIOError:
            self._file.close()
            raise RowsError(
                f"another process writes to {path}: wait for it, or name another --work folder"
            ) from None
        except ValueError as error:
            self._file.close()
            raise RowsError(
                f"{path}, {error}: not a row of this benchmark. Delete the line, or name another "
                "--work folder"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def get(self, at: int) -> R | None:
        """Return the newest row of scene ``at``; None if it was not measured."""
        return self._rows.get(at)

    def add(self, row: R) -> None:
        """Store ``row`` durably; raises ``ValueError`` if it is not of this fingerprint."""
        if row.fingerprint != self.fingerprint:
            raise ValueError(f"a row of {row.fingerprint} among rows of {self.fingerprint}")
        append_lines(self.path, [row.model_dump_json()])
        self._rows[row.at] = row


@dataclasses.dataclass(frozen=True)
class SceneStudy(Generic[S]):
    """Scenes that are measured once each, with the models of a profile."""

    row: type[S]
    measure: Callable[..., Coroutine[Any, Any, dict[str, Any]]]
    """A function of a module from scene, number, profile, models and a folder for temporary files
    to the fields that its row adds."""
    profile: Profile
    fingerprint: str
    realism: bool = False
    """Whether the models include judges of realism."""
    levels: Sequence[AnyLevel] = LEVELS
    """Levels that its scenes have in turn."""

    @classmethod
    def of(
        cls,
        row: type[S],
        measure: Callable[..., Coroutine[Any, Any, dict[str, Any]]],
        profile: Profile,
        *,
        realism: bool = False,
        levels: Sequence[AnyLevel] = LEVELS,
        **parts: Any,
    ) -> SceneStudy[S]:
        """Return the study whose fingerprint names profile, weights, code, machine, ``parts``."""
        made = asyncio.run(build_run_models(profile, realism=realism))
        judges = (*made.loop_judges, *made.report_judges)
        judges += (*made.realism_judges, *made.realism_report_judges)
        models = [[one.id, one.fingerprint] for one in (made.backend, made.composer, *judges)]
        described = profile.model_dump(mode="json", exclude={"about"})
        decides = {
            "profile": described,
            "models": models,
            "code": code_of(Path(inspect.getfile(measure)).stem),
            "machine": machine_class(),
            **parts,
        }
        return cls(row, measure, profile, fingerprint_of(decides), realism, levels)

    async def measured(
        self, scene: SceneGraph, at: int, models: RunModels, scratch: Path | None = None
    ) -> S:
        """Measure scene number ``at``."""
        begun = time.perf_counter()
        found = await self.measure(scene, at, self.profile, models, scratch)
        return self.row(
            fingerprint=self.fingerprint,
            at=at,
            scene=scene.digest,
            level=level_at(at, self.levels),
            seconds=time.perf_counter() - begun,
            **found,
        )

    def balanced(
        self,
        options: Namespace,
        default: Path,
        *,
        quick: int,
        first: int = 0,
        file: str = "rows.jsonl",
    ) -> list[S]:
        """Return the rows of ``options.scenes`` held-out scenes, or of ``quick`` in a quick run.

        The levels come in turn, each as often; ``first`` is the number of the first scene. Rows are
        in ``file`` of the folder ``options.work``, by default ``default``.
        """
        count = quick if options.quick else options.scenes + -options.scenes % len(self.levels)
        scenes = dict(enumerate(balanced_scenes(count, self.levels, first), first))
        with work_folder(options, default) as work:
            return self.rows(scenes, work / file, options.processes)

    def rows(self, scenes: Mapping[int, SceneGraph], file: Path, processes: int) -> list[S]:
        """Return one row a scene, by number: those in ``file``, and the rest measured now."""
        with Rows(file, self.row, self.fingerprint) as rows:
            known = {
                at: row
                for at, scene in scenes.items()
                if (row := rows.get(at)) is not None and row.scene == scene.digest
            }
            tasks = [(at, scene) for at, scene in scenes.items() if at not in known]
            if rows.stale:
                print(f"{rows.stale} rows of other weights, options or code are not used")
            if known:
                print(f"{len(known)} scenes were measured before")
            progress = Progress(len(scenes), before=len(known))
            # What a killed process left there belongs to nobody: the lock of the rows is ours.
            scratch = file.parent / "scratch"
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            given = (self, scratch)
            for row in unordered(_work, tasks, min(processes, len(tasks)), _prepare, given):
                rows.add(row)
                known[row.at] = row
                progress.step(f"scene {row.at}: {row.level}, {row.seconds:.0f} s")
            shutil.rmtree(scratch, ignore_errors=True)
        return [known[at] for at in sorted(known)]


# Study, models and folder of a process of the pool.
_state: list[Any] = []


def _prepare(study: SceneStudy[Any], scratch: Path) -> None:
    models = asyncio.run(build_run_models(study.profile, realism=study.realism))
    asyncio.run(warm(models))
    _state[:] = [study, models, scratch]


def _work(task: tuple[int, SceneGraph]) -> Any:
    (at, scene), (study, models, scratch) = task, _state
    return asyncio.run(study.measured(scene, at, models, scratch))


def unordered(
    work: Callable[[T], D],
    tasks: Sequence[T],
    processes: int,
    prepare: Callable[..., None],
    arguments: tuple[Any, ...] = (),
) -> Iterator[D]:
    """Yield ``work(task)`` of every task as they are done, each process with one torch thread.

    ``prepare(*arguments)`` runs once a process; functions and arguments are pickled. The processes
    end with this one, however it ends. Raises what a task raises, and ``PoolError`` if a process
    was killed.
    """
    if not tasks:
        return
    # Read when torch is imported: the processes must not take each other's cores.
    os.environ["OMP_NUM_THREADS"] = "1"
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _begin, (prepare, arguments)
    )
    try:
        waiting = {pool.submit(work, task) for task in tasks}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        if isinstance(error, BrokenProcessPool):
            raise PoolError(
                "a process of the benchmark was ended (out of memory?): give the same command "
                "again, with fewer --processes; what was measured is kept"
            ) from error
        raise
    pool.shutdown()


def _begin(prepare: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    import torch

    # The parent alone answers Ctrl-C: it stores what has come in and ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    torch.set_num_threads(1)
    prepare(*arguments)


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)

"""An evaluation in a process of its own: to be measured, or killed.

``python -m benchmarks._evaluation FOLDER`` reads ``work.json`` there (:class:`Work`), runs in the
folder with its settings file and adds a JSON line to ``said.jsonl`` when all workers are ready, and
one at the end: seconds, peak memory, and the times at which items were finished.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks._mock import COLORS, PREDICATES, THINGS, Child
from benchmarks._models import InstantBackend, InstantJudge
from scenewright.config.settings import load_settings
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.progress import Progress
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import JOURNAL

EVAL = "eval"
"""Folder of the evaluation in that of the process."""
_PHOTOS = 16


@dataclass(frozen=True, slots=True)
class Work:
    """What a process does."""

    config: Mapping[str, Any]
    """Fields of the evaluation's configuration beside those that all have."""
    items: int = 0
    """Numbered scenes; 0: the dataset of ``config``."""
    photos: bool = False
    """Whether items have originals; then nothing is drawn."""
    models: str = ""
    """``drawing`` or ``instant``: a function below that gives models; empty: those of the
    settings."""
    workers: int = 0
    """Workers of Ray's; 0: the local engine."""
    address: str = ""
    """The cluster."""


class NumberedScenes:
    """``n`` scenes of four things and four relations, each made when it is asked for."""

    name, source, licence = "numbered", "made for the benchmark", ""
    left_out: Mapping[str, int] = {}

    def __init__(self, n: int, photos: Path | None = None) -> None:
        """Share the pictures of the folder ``photos`` as originals."""
        self.n = n
        self.photos = photos
        self.fingerprint = f"numbered-1-{n}-{photos is not None}"

    def __iter__(self) -> Iterator[Item]:
        for at in range(self.n):
            photo = None if self.photos is None else str(self.photos / f"{at % _PHOTOS}.png")
            yield Item(id=f"scene-{at}", scene=scene(at), image=photo, category=f"c{at % 5}")


def scene(number: int) -> SceneGraph:
    """Return the scene of that number: no two of the first million are equal."""
    rng = random.Random(f"runner {number}")
    names = rng.sample(THINGS, 4)
    things = [
        SceneObject(id=f"{name}.1", name=name, attributes=Attributes({"color": rng.choice(COLORS)}))
        for name in names
    ]
    relations = [
        Relation(source=things[a].id, predicate=rng.choice(PREDICATES), target=things[b].id)
        for a, b in ((0, 1), (1, 2), (2, 3), (3, 0))
    ]
    return SceneGraph(objects=tuple(things), relations=tuple(relations))


def drawing(root: Path) -> EvalModelOverrides:
    """Return a backend that takes no time; judges are those of the profile."""
    return EvalModelOverrides(backends={"miniature": InstantBackend()})


def instant(root: Path) -> EvalModelOverrides:
    """Return models that take no time."""
    judges = {"local:instant": InstantJudge("r")}
    return EvalModelOverrides(backends={"miniature": InstantBackend()}, judges=judges)


def child(folder: Path, work: Work, env: Mapping[str, str] | None = None) -> Child:
    """Return the process that does ``work`` in ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "work.json").write_text(json.dumps(asdict(work)), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks._evaluation", str(folder.resolve())]
    return Child(command, Path.cwd(), str(folder.resolve() / "process.log"), env)


def said(folder: Path) -> list[dict[str, Any]]:
    """Return the lines that the processes of ``folder`` wrote."""
    file = folder / "said.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def finished(folder: Path, process: Child) -> dict[str, Any]:
    """Wait for the end of a process and return its last line; ``RuntimeError`` if it fails."""
    while process.poll() is None:
        time.sleep(0.05)
    if process.poll():
        raise RuntimeError(f"the evaluation in {folder} failed: {process.said()}")
    return said(folder)[-1]


async def evaluate(folder: Path, work: Work) -> None:
    """Do ``work`` in ``folder``."""
    from scenewright.evals.runner.engines.ray_engine import RayEngine
    from scenewright.evals.runner.task import LocalEngine

    os.chdir(folder)
    photos = folder / "photos" if work.photos else None
    if photos is not None:
        photos.mkdir(exist_ok=True)
        for at in range(_PHOTOS):
            photo = Image.new("RGB", (64, 64), (at * 15, 90, 40))
            # A picture of one colour is not asked about.
            photo.paste((20, 60, 220), (8, 8, 30, 40))
            photo.save(photos / f"{at}.png")
    # Sentinel questions begin at random: the calls of two runs could not be compared.
    alike = {"name": "bench", "side_by_side": False, "sentinels": 0.0}
    config = EvalConfig.model_validate({"dataset": {"name": "numbered"}, **alike, **work.config})
    where = f"{__spec__.name}:{work.models}" if work.models else ""
    given = globals()[work.models](folder) if work.models and not work.workers else None
    ray = RayEngine(work.workers, work.address, given=where) if work.workers else None
    wanted = f"drawing and judging{f', {work.workers} workers' if work.workers else ''}"
    ready: list[float] = []
    begun = time.time()

    def note(now: Progress) -> None:
        if now.doing == wanted and not ready:
            ready.append(time.time())
            _say(folder, ready=ready[0])

    await run_eval(
        config,
        EVAL,
        settings=load_settings(),
        given=given,
        dataset=NumberedScenes(work.items, photos) if work.items else None,
        on_progress=note,
        engine=ray or LocalEngine(),
    )
    seconds = time.time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with closing(sqlite3.connect(Path(EVAL) / JOURNAL)) as journal:
        rows = journal.execute("SELECT at FROM units WHERE kind = 'judge' AND state = 'done'")
        times = [at for (at,) in rows]
    _say(folder, begun=begun, seconds=seconds, peak_mib=peak, finished=times)


def _say(folder: Path, **line: Any) -> None:
    with open(folder / "said.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    asyncio.run(evaluate(place, Work(**json.loads((place / "work.json").read_text()))))

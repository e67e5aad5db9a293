"""One sitting of an evaluation, in a process of its own: how long it took to begin, and how fast it
was then.

``python -m benchmarks._scale_process FOLDER`` reads ``work.json`` there and adds a line to
``told.jsonl`` when all workers are ready, and one at its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks._instant import InstantBackend, InstantJudge
from benchmarks._runner_process import NumberedScenes
from scenewright.config.settings import load_settings
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.progress import Progress
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.paths import JOURNAL

Kind = Literal["miniature", "api", "instant"]
KEY = "BENCH_SCALE_KEY"
"""Environment variable with the key of the lab's account."""
TOLD = "told.jsonl"
_JUDGE = {"api": "lab:instant", "instant": "local:instant"}
_TOML = """\
[accounts.lab]
provider = "openai"
base_url = "{url}/v1"
key_variable = "{key}"
requests_per_minute = {per_minute}
window = {window}
concurrent = 64
"""


@dataclass(frozen=True, slots=True)
class Work:
    """What a sitting does."""

    kind: Kind
    """``miniature``: drawn and judged by the package's own models; ``api``: drawn at once, judged
    behind an API; ``instant``: models that take no time."""
    items: int
    """Items."""
    concurrency: int
    """Items at work in each worker."""
    workers: int
    """Workers of Ray's; 0: the local engine."""
    address: str = ""
    """The cluster."""


def drawing(root: Path) -> EvalModelOverrides:
    """What draws at once; judges are those of the profile."""
    return EvalModelOverrides(backends={"miniature": InstantBackend()})


def instant(root: Path) -> EvalModelOverrides:
    """Models that take no time."""
    judges = {"local:instant": InstantJudge("scale")}
    return EvalModelOverrides(backends={"miniature": InstantBackend()}, judges=judges)


_GIVEN = {"api": drawing, "instant": instant}


def account(folder: Path, url: str, per_minute: int, window: float) -> None:
    """Write the settings of the account at the lab."""
    text = _TOML.format(url=url, key=KEY, per_minute=per_minute, window=window)
    (folder / "scenewright.toml").write_text(text, encoding="utf-8")


def steady_rate(finished: Sequence[float], ready: float, at_work: int) -> float:
    """Items a second while all are at work: from the first round of items that were finished after
    all workers were ``ready`` to the last round. Raises ``ValueError`` for too few items."""
    times = sorted(at for at in finished if at > ready)
    # What is begun together ends together; at the end ever fewer are at work.
    held = times[at_work - 1 : len(times) - at_work]
    if len(held) < 2:
        raise ValueError(
            f"{len(times)} items were finished after all workers were ready, {at_work} at a time: "
            "too few for a rate"
        )
    return (len(held) - 1) / (held[-1] - held[0])


async def sit(folder: Path, work: Work) -> None:
    """Do ``work`` in ``folder``, and tell of it."""
    from scenewright.evals.runner.engines.local import LocalEngine
    from scenewright.evals.runner.engines.ray_engine import RayEngine

    os.chdir(folder)
    begun = time.time()
    ready: list[float] = []
    wanted = (
        f"drawing and judging, {work.workers} workers" if work.workers else "drawing and judging"
    )

    def note(now: Progress) -> None:
        if now.doing == wanted and not ready:
            ready.append(time.time())
            _tell(ready=ready[0])

    config: dict[str, Any] = {
        "name": "scale",
        "dataset": {"name": "numbered"},
        "conditions": ["triplets"],
        "asking": "together",
        "side_by_side": False,
        "concurrency": work.concurrency,
        "allow_loop_judges": True,
    }
    if work.kind in _JUDGE:
        config["panels"] = {"own": {"judges": [_JUDGE[work.kind]]}}
    make = _GIVEN.get(work.kind)
    where = f"{__spec__.name}:{make.__name__}" if make is not None else ""
    on_ray = RayEngine(work.workers, work.address, given=where) if work.workers else None
    await run_eval(
        EvalConfig.model_validate(config),
        "eval",
        settings=load_settings(),
        given=make(Path()) if make is not None and on_ray is None else None,
        dataset=NumberedScenes(work.items),
        on_progress=note,
        engine=on_ray or LocalEngine(),
    )
    with closing(sqlite3.connect(Path("eval") / JOURNAL)) as journal:
        rows = journal.execute("SELECT at FROM units WHERE kind = 'judge' AND state = 'done'")
        finished = [at for (at,) in rows]
    if len(finished) != work.items:
        raise RuntimeError(f"{len(finished)} of {work.items} pictures were judged")
    at_work = max(1, work.workers) * work.concurrency
    _tell(
        startup=ready[0] - begun,
        rate=steady_rate(finished, ready[0], at_work),
        seconds=time.time() - begun,
    )


def _tell(**told: float) -> None:
    with open(TOLD, "a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


def written(folder: Path, work: Work) -> None:
    """Leave ``work`` for the process."""
    (folder / "work.json").write_text(json.dumps(asdict(work)), encoding="utf-8")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    asyncio.run(sit(place, Work(**json.loads((place / "work.json").read_text()))))

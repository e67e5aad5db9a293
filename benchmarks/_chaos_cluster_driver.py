"""An evaluation whose models are all in a lab, in a process of its own: to be killed.

``python -m benchmarks._chaos_cluster_driver FOLDER ITEMS CONCURRENCY [ADDRESS WORKERS]``: on the
Ray cluster at that address, or with the local engine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks._runner_process import NumberedScenes
from scenewright.config.settings import load_settings
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.runner import run_eval

PAINTER, JUDGE = "chaos-painter", "chaos-judge"
"""API keys at the lab: an account each."""
KEYS = {"BENCH_CHAOS_PAINTER": PAINTER, "BENCH_CHAOS_JUDGE": JUDGE}
PER_MINUTE = 12_000
"""Requests a minute that each account allows."""
EVAL = "eval"
"""Folder of the evaluation."""
JUDGE_ID = "looker:instant"
# A call outlasts a lab that is away for as long as one takes to start, on a machine at work.
_TOML = """\
answers = "{database}"
shared_limits = "{database}"

[accounts.painter]
provider = "openai"
base_url = "{lab}/v1"
key_variable = "BENCH_CHAOS_PAINTER"
requests_per_minute = {per_minute}
attempts = 30

[accounts.looker]
provider = "openai"
base_url = "{lab}/v1"
key_variable = "BENCH_CHAOS_JUDGE"
requests_per_minute = {per_minute}
attempts = 30

[profiles.lab]
backend = {{ kind = "painter", model = "instant-image" }}
judges = ["looker:judge-a"]
report_judges = ["{judge}"]
"""


class Driver:
    """Starts an evaluation, kills it and starts it again, in one folder."""

    def __init__(
        self,
        folder: Path,
        lab: str,
        database: str,
        items: int,
        concurrency: int,
        cluster: tuple[str, int] | None,
    ) -> None:
        """``folder`` is made; ``cluster``: its address and the workers, none: the local engine."""
        folder.mkdir(parents=True)
        text = _TOML.format(lab=lab, database=database, per_minute=PER_MINUTE, judge=JUDGE_ID)
        (folder / "scenewright.toml").write_text(text, encoding="utf-8")
        self._folder = folder
        self._more = [str(items), str(concurrency), *map(str, cluster or ())]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        module = "benchmarks._chaos_cluster_driver"
        with open(self._folder / "driver.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(self._folder.resolve()), *self._more],
                env={**os.environ, **KEYS},
                stdout=log,
                stderr=log,
            )

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def told(self) -> str:
        """The end of what it wrote."""
        return (self._folder / "driver.log").read_text(errors="replace")[-3000:]


async def evaluate(folder: Path, items: int, concurrency: int, address: str, workers: int) -> None:
    """The evaluation; ``address``: the cluster, empty: the local engine."""
    from scenewright.evals.runner.engines.local import LocalEngine
    from scenewright.evals.runner.engines.ray_engine import RayEngine

    os.chdir(folder)
    config = EvalConfig.model_validate(
        {
            "name": "chaos",
            "dataset": {"name": "numbered"},
            "backends": ["lab"],
            "conditions": ["triplets"],
            "side_by_side": False,
            "panels": {"looking": {"judges": [JUDGE_ID]}},
            # One request a step: what a step has kept is all that it asked for.
            "asking": "together",
            "concurrency": concurrency,
        }
    )
    await run_eval(
        config,
        EVAL,
        settings=load_settings(),
        dataset=NumberedScenes(items),
        engine=RayEngine(workers, address) if address else LocalEngine(),
    )


if __name__ == "__main__":
    place, count, at_once, *cluster = sys.argv[1:]
    where, hired = (cluster[0], int(cluster[1])) if cluster else ("", 1)
    asyncio.run(evaluate(Path(place), int(count), int(at_once), where, hired))

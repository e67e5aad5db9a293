"""A Ray cluster on hosts that share no files, and evaluations on it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._hosts import HOME, Host
from scenewright.evals.store.results import Results

PATIENCE = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}
"""How long the head waits for a machine that says nothing; read by ``ray start``."""
_UNITS = {"rounds": ("item", "arm", "state"), "scores": ("item", "arm", "panel", "metric", "part")}
TABLES = ("items", "rounds", "answers", "verdicts", "scores")
SHARED, OWN = "BENCH_HOSTS_SHARED", "BENCH_HOSTS_OWN"
"""Hold an API key of all hosts, and one of each: its name, so that the lab counts hosts apart."""
_PORT = 6379
_START_SECONDS = 120
# The least that Ray takes is 75 MB; pictures go to the desk as arguments of calls.
_SMALL = ("--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats")


@dataclass(frozen=True, slots=True)
class Case:
    """An evaluation."""

    name: str
    """Its folder on the host."""
    config: str
    """TOML."""
    settings: str
    """TOML."""


def environment(host: Host) -> dict[str, str]:
    """What Ray and all that it starts on ``host`` find in their environment."""
    keys = {SHARED: "shared", OWN: host.name}
    return {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", **keys, **PATIENCE}


class Cluster:
    """One machine of Ray a host; the first is the head."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        """Starts it."""
        self.head = hosts[0]
        self._start(self.head, "--head", f"--port={_PORT}", "--include-dashboard=false")()
        for joined in [self.join(host) for host in hosts[1:]]:
            joined()

    def join(self, host: Host) -> Callable[[], None]:
        """Begin to add ``host``; what is returned waits until it is in."""
        return self._start(host, f"--address={self.head.address}:{_PORT}")

    def _start(self, host: Host, *options: str) -> Callable[[], None]:
        file = host.path(f"{HOME}/ray.log")
        command = [_script("ray"), "start", f"--node-ip-address={host.address}", *options, *_SMALL]
        with file.open("a") as log:
            process = host.popen(command, environment(host), stdout=log, stderr=log)

        def started() -> None:
            if process.wait(_START_SECONDS):
                raise RuntimeError(f"{host.name}: Ray did not start: {file.read_text()}")

        return started

    def evaluation(self, case: Case, out: str, workers: int | None) -> subprocess.Popen[str]:
        """Start ``scenewright eval run`` on the head into the folder ``out``; no ``workers``: with
        the local engine."""
        folder = self.head.path(f"{HOME}/{case.name}")
        folder.mkdir(exist_ok=True)
        (folder / "case.toml").write_text(case.config, encoding="utf-8")
        (folder / "scenewright.toml").write_text(case.settings, encoding="utf-8")
        command = [sys.executable, "-m", "scenewright", "eval", "run", "case.toml"]
        command += ["--out", out, "--yes", "--quiet", "--json"]
        if workers is not None:
            command += ["--engine", "ray", "--address", "auto", "--workers", str(workers)]
        with (folder / f"{out}.log").open("w") as log:
            return self.head.popen(
                command, environment(self.head), f"{HOME}/{case.name}", stdout=log, stderr=log
            )

    def finished(
        self, process: subprocess.Popen[str], case: Case, out: str, copy: Path, seconds: float
    ) -> Results:
        """The results of an evaluation that was started, copied into ``copy``.

        Raises ``RuntimeError`` if it fails, leaves something unscored or takes too long.
        """
        folder = self.head.path(f"{HOME}/{case.name}")
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = -1
        if status:
            why = "did not end" if status < 0 else f"gave {status}"
            raise RuntimeError(f"{case.name} {out} {why}: {(folder / f'{out}.log').read_text()}")
        shutil.copytree(folder / out, copy)
        return Results(copy)


def until(reached: Callable[[], bool], process: subprocess.Popen[str], what: str) -> None:
    """Wait for ``reached``. ``RuntimeError`` if the process ends before."""
    while not reached():
        if process.poll() is not None:
            raise RuntimeError(f"it ended ({process.returncode}) before {what}")
        time.sleep(0.05)


def compared(found: Results, wanted: Results) -> tuple[float, int]:
    """Share of the rows of ``wanted`` that ``found`` has, but for their times, at the same place;
    and how many drawings, scores and pictures it lacks."""
    rows = equal = lost = 0
    for table in TABLES:
        mine, theirs = _rows(found, table), _rows(wanted, table)
        rows += max(len(mine), len(theirs))
        equal += sum(one == other for one, other in zip(mine, theirs, strict=False))
    # A picture that is drawn again may hold something else, which is then asked about.
    for table, columns in _UNITS.items():
        units = [{tuple(row[c] for c in columns) for row in r.rows(table)} for r in (wanted, found)]
        lost += len(units[0] - units[1])
    names = {row["image"] for row in found.rows("rounds") if row["image"]}
    lost += sum(not (found.folder / "images" / f"{name}.png").is_file() for name in names)
    return equal / rows, lost


def _rows(results: Results, table: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in results.rows(table)]


def _script(name: str) -> str:
    return str(Path(sys.executable).parent / name)

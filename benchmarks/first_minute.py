"""The first minute of a new user: set-up, help, doctor and a first picture, in seconds.

``python -m benchmarks.first_minute [--quick] [--tests]``. The commit is cloned into an empty folder
without an environment. ``demo_seconds.uv`` and ``demo_seconds.pip`` are ``make demo`` from there to
the page, by either installer (each with an empty cache of its own), ``environment_mib.*`` the
size of what they install and ``demo_ratio`` the second over the first.

In the environment by uv: ``help_seconds`` of ``scenewright --help``, ``doctor_seconds`` of
``doctor``, ``doctor_profile_seconds`` of ``doctor --profile miniature``, which loads its models,
and ``first_picture_seconds`` of ``refine`` with one round, each in a process of its own, and beside
them ``floor_seconds``, a process that imports torch alone.
``--tests`` adds ``test_cpu_seconds``, the processor time of ``make test`` in that clone, and
``test_seconds``.

``--quick`` measures the commands in the environment that runs it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._harness import BenchmarkError, Option, benchmark, intervals

ROOT = Path(__file__).resolve().parent.parent
RUNS = 5
COMMANDS: Mapping[str, Sequence[str]] = {
    "help_seconds": ("bin/scenewright", "--help"),
    "doctor_seconds": ("bin/scenewright", "doctor"),
    "doctor_profile_seconds": ("bin/scenewright", "doctor", "--profile", "miniature"),
    "first_picture_seconds": ("bin/scenewright", "refine", "red ball on table", "--rounds", "1",
                              "--fresh"),
    "floor_seconds": ("bin/python", "-c", "import torch"),
}  # fmt: skip


def timed(command: Sequence[str], folder: Path, **variables: str) -> float:
    """Run a command in ``folder`` and return its seconds; raises ``BenchmarkError`` if it fails."""
    clean = {key: value for key, value in os.environ.items() if key not in _OF_THIS_PROCESS}
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, env=clean | variables, capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    # 1: finished, though a fact is missing.
    if done.returncode not in (0, 1):
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise BenchmarkError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{tail}")
    return seconds


_OF_THIS_PROCESS = (
    "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "OMP_NUM_THREADS", "INSTALLER"
)  # fmt: skip


def environment_mib(folder: Path) -> float:
    """Return the size of the files below ``folder``, each counted once."""
    seen: dict[tuple[int, int], int] = {}
    for root, _, files in os.walk(folder):
        for name in files:
            found = os.lstat(os.path.join(root, name))
            seen[found.st_dev, found.st_ino] = found.st_size
    return sum(seen.values()) / 2**20


def cloned(place: Path) -> Path:
    """Clone the commit into ``place``."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place)], check=True)
    return place


def commands(environment: Path, folder: Path, runs: int) -> dict[str, Any]:
    """Return the seconds of each command, the first run of each left out: it fills file caches."""
    rows: list[dict[str, float]] = []
    for at in range(runs + 1):
        row = {
            name: timed([environment / command[0], *command[1:]], folder)
            for name, command in COMMANDS.items()
        }
        print(" ".join(f"{name} {value:.2f}" for name, value in row.items()), file=sys.stderr)
        if at:
            rows.append(row)
    return intervals(rows)


def tests(clone: Path) -> dict[str, float]:
    """Return the seconds of ``make test``; nothing, with a word, where a test failed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        seconds = timed(["make", "test"], clone)
    except BenchmarkError as error:
        print(f"test_seconds is left out: {error}", file=sys.stderr)
        return {}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return {"test_seconds": seconds, "test_cpu_seconds": used}


@benchmark(
    "the commands alone, in this environment",
    clean=True,
    tests=Option(False, "measure `make test` too", more={"action": "store_true"}),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the set-up, then the commands."""
    with tempfile.TemporaryDirectory(prefix="first-minute-") as made:
        place = Path(made)
        if options.quick:
            return 1, commands(Path(sys.prefix), place, 1)
        figures: dict[str, Any] = {}
        clones = {}
        for installer in ("pip", "uv"):
            clones[installer] = clone = cloned(place / installer)
            caches = {"PIP_CACHE_DIR": str(place / f"cache-{installer}"),
                      "UV_CACHE_DIR": str(place / f"cache-{installer}-uv")}  # fmt: skip
            seconds = timed(["make", "demo"], clone, INSTALLER=installer, **caches)
            print(f"make demo by {installer}: {seconds:.0f} s", file=sys.stderr)
            figures[f"demo_seconds.{installer}"] = seconds
            figures[f"environment_mib.{installer}"] = environment_mib(clone / ".venv")
        figures["demo_ratio"] = figures["demo_seconds.pip"] / figures["demo_seconds.uv"]
        figures |= commands(clones["uv"] / ".venv", place, RUNS)
        if options.tests:
            figures |= tests(clones["uv"])
        return RUNS, figures


if __name__ == "__main__":
    main()

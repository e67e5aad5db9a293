"""An evaluation that is killed goes on: nothing is lost, and what was done is not done again."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted
from tests.evals.kill_eval import AT_ONCE, ITEMS

ROOT = Path(__file__).resolve().parents[2]
KILLED_AT = (30, 50, 70)
"""Lines that a process notes in the book of calls before it is killed."""
_SECONDS = 600.0


def ended(place: Path, most: float) -> int:
    """The exit status of a process that goes on with it, and is killed after ``most`` lines."""
    return subprocess.run(
        [sys.executable, "-m", "tests.evals.kill_eval", str(place), str(most)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=_SECONDS,
    ).returncode


@pytest.mark.slow
async def test_three_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    for most in KILLED_AT:
        assert ended(tmp_path, most) == -signal.SIGKILL
    assert ended(tmp_path, math.inf) == 0
    found = Results(tmp_path / "eval")
    calm = await run_eval(
        config(conditions=["triplets", "feedback"], concurrency=AT_ONCE),
        tmp_path / "calm",
        given=scripted(),
        dataset=ListedSet(scene_items(ITEMS)),
    )
    for table in ("items", "verdicts", "scores"):
        assert found.table(table).equals(calm.table(table)), table
    kept = [row["image"] for row in found.rows("rounds") if row["kept"]]
    assert kept == [row["image"] for row in calm.rows("rounds") if row["kept"]]
    # Only what was under way at a kill may have ended again: a call had ended, but its answer
    # was not stored yet. A call of a judge notes a line for each of its facts.
    lines = (tmp_path / "book").read_text().splitlines()
    again: dict[str, int] = {}
    for line, count in Counter(lines).items():
        if line.startswith(("end generate", "end answer")):
            call = line.rpartition(" ")[0] if "answer" in line else line
            again[call] = max(again.get(call, 0), count - 1)
    assert sum(again.values()) <= AT_ONCE * len(KILLED_AT)
    assert max(again.values()) <= len(KILLED_AT)

"""An evaluation that is killed goes on: nothing is lost, and what was done is not done again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted
from tests.evals.kill_eval import AT_ONCE, ITEMS

ROOT = Path(__file__).resolve().parents[2]
KILLED_AT = (30, 80, 150)
"""Lines of the book of calls after which the process is killed."""
_SECONDS = 120.0


def begun(place: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.evals.kill_eval", str(place)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def lines(place: Path) -> list[str]:
    book = place / "book"
    return book.read_text().splitlines() if book.exists() else []


@pytest.mark.slow
async def test_three_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    for count in KILLED_AT:
        process = begun(tmp_path)
        until = time.monotonic() + _SECONDS
        while len(lines(tmp_path)) < count and time.monotonic() < until:
            assert process.poll() is None, "it ended before it was killed"
            await asyncio.sleep(0.002)
        process.kill()
        process.wait()
    last = begun(tmp_path)
    assert last.wait(_SECONDS) == 0
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
    # Only what was under way at a kill may have ended twice: a call had ended, but its answer
    # was not stored yet. A call of a judge notes a line for each of its facts.
    ended = Counter(
        line for line in lines(tmp_path) if line.startswith(("end generate", "end answer"))
    )
    twice = {line.split()[-2] for line, count in ended.items() if count > 1 and "answer" in line}
    twice |= {line for line, count in ended.items() if count > 1 and "generate" in line}
    assert len(twice) <= AT_ONCE * len(KILLED_AT)
    assert max(ended.values()) <= 2

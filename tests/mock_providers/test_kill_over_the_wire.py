"""A run that is killed with requests under way is billed for each of them once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scenewright.mock_providers import MockSettings, serving_thread

pytestmark = pytest.mark.slow

RUNNER = Path(__file__).with_name("kill_runner.py")


def killed(folder: Path, strategy: str, kills: int) -> dict[str, Any]:
    """What a run of ``strategy`` and its lab tell after so many kills."""
    with serving_thread(MockSettings(latency=0.15)) as lab:
        done = subprocess.run(
            [sys.executable, str(RUNNER), lab.url, str(folder), strategy, str(kills)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "KEY_OF_THE_LAB": "key-of-the-run"},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("strategy", ["feedback", "director"])
def test_a_killed_run_pays_for_nothing_twice(tmp_path: Path, strategy: str) -> None:
    told = killed(tmp_path / "run", strategy, kills=5)
    lab = told["lab"]
    assert told["kills"] == 5
    # What was under way came again, and its work was not done again.
    assert lab["replayed"] > 0
    assert lab["executed_twice"] == 0
    paid = told["drawn"] + told["judged"] + told["replied"] + told["composed"]
    assert min(told["drawn"], told["judged"], told["composed"]) > 0
    assert lab["executed"] == paid
    tokens = told["usage"]["tokens_in"] + told["usage"]["tokens_out"]
    assert tokens <= lab["tokens_in"] + lab["tokens_out"]

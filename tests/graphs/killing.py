"""Starts ``kill_runner.py`` and reads what it tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RUNNER = Path(__file__).with_name("kill_runner.py")


def cases_of(*scenario: str) -> list[dict[str, Any]]:
    """One line a case of the runner. The runs lie in memory where the system offers that."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="scenewright-kill-", dir=memory) as folder:
        done = subprocess.run(
            [sys.executable, str(RUNNER), folder, *scenario],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return [json.loads(line) for line in done.stdout.splitlines()]


def of(cases: list[dict[str, Any]], way: str) -> list[dict[str, Any]]:
    """The cases of one way of killing."""
    return [case for case in cases if case["way"] == way]

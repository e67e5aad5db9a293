"""llama.cpp in an environment of its own, which `make test-real` makes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0


@contextmanager
def serving(model: str) -> Iterator[str]:
    """Serve one of the models of ``server.py``; its address, up to and with the version.

    Skips the test where the environment is not there.
    """
    python = Path(os.environ.get("REAL_PYTHON") or ROOT / ".venv-real" / "bin" / "python")
    if not python.exists():
        pytest.skip("no environment with llama.cpp: `make test-real` sets it up")
    server = subprocess.Popen(
        [python, Path(__file__).with_name("server.py"), model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        told = server.stdout.readline().strip()
        if not told:
            _, errors = server.communicate(timeout=START_SECONDS)
            pytest.fail(f"the server did not start:\n{errors[-2000:]}")
        yield f"{told}/v1"
    finally:
        server.terminate()
        server.communicate(timeout=START_SECONDS)

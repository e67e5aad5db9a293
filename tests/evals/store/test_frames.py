"""Results as pandas DataFrames, and what is said where pandas is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scenewright.evals.errors import EvalError
from scenewright.evals.store.results import Results
from tests.evals.reporting.made import Made, write_evaluation

_PEERS = """
import sys
sys.modules["pandas"] = None
from scenewright.cli.main import app
sys.argv = ["scenewright", "eval", "peers", sys.argv[1]]
app()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_evaluation(tmp_path / "e", Made(items=4, pictures=False))


def test_without_pandas_one_sentence_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(folder)
    assert len(results.frame("items")) == 4
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(EvalError) as caught:
        results.frame("items")
    assert str(caught.value) == (
        "a DataFrame needs pandas: pip install 'scenewright[evals]', or use table()"
    )
    assert results.table("items").num_rows == 4


def test_a_command_that_needs_pandas_says_so_too(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PEERS, str(folder)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "pip install 'scenewright[evals]'" in done.stderr
    assert "Traceback" not in done.stderr

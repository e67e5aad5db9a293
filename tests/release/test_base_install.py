"""The base install does without the libraries of evaluations."""

from __future__ import annotations

import subprocess
import sys

_WITHOUT = """
import sys
for name in ("datasets", "matplotlib", "pandas", "pyarrow", "torchmetrics", "wordcloud"):
    sys.modules[name] = None
from typer.testing import CliRunner
import scenewright.evals.gate.pytest_plugin, scenewright.runs.api, scenewright.service.app
from scenewright.cli.main import app
for command in sys.argv[1:]:
    done = CliRunner().invoke(app, command.split(","))
    print(done.exit_code, " ".join(done.output.split()))
"""


def test_what_the_base_install_lacks_is_named() -> None:
    commands = ("refine,red ball,--plan", "strategies", "study,list", "gate,a,b")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, *commands], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    plan, strategies, *lacking = done.stdout.splitlines()
    assert plan.startswith("0 ")
    assert strategies.startswith("0 ")
    assert len(lacking) == 2
    for line in lacking:
        assert line.startswith("3 ")
        assert "pip install 'scenewright[evals]'" in line

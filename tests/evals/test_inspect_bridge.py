"""The bridge to inspect_ai, tried with the real inspect_ai.

Its packages are older than some that the tests need here, so the cases of ``inspect_*_cases.py``
run in an environment of their own: `make inspect` makes it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted(Path(__file__).parent.glob("inspect_*_cases.py"))
RUN_SECONDS = 540.0


def cases() -> list[str]:
    """Names of the tests in :data:`CASES`."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in CASES]
    functions = [n for tree in trees for n in tree.body if isinstance(n, ast.FunctionDef)]
    return [node.name for node in functions if node.name.startswith("test_")]


@pytest.fixture(scope="module")
def python() -> Path:
    """A Python that has inspect_ai and this package; skips where there is none."""
    found = Path(os.environ.get("INSPECT_PYTHON") or ROOT / ".venv-inspect" / "bin" / "python")
    if not found.exists():
        pytest.skip("no environment with inspect_ai: `make inspect` sets it up")
    tried = subprocess.run([found, "-c", "import inspect_ai, scenewright, pytest"], cwd=ROOT)
    if tried.returncode:
        pytest.skip(
            f"{found} cannot import inspect_ai and this package: `make inspect` sets up one that "
            "can, or set INSPECT_PYTHON to another"
        )
    return found


def environment() -> dict[str, str]:
    """Of a process of its own: nothing of the session outside reaches it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("INSPECT_", "PYTEST_"))}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def outcomes(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Name of a case → what went wrong in it, empty where nothing did; one run of all."""
    report = tmp_path_factory.mktemp("inspect") / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "--show-capture=no", f"--junitxml={report}"]
    done = subprocess.run(
        [python, "-m", "pytest", *options, *CASES],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert report.exists(), f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = [str(child.text) for child in case if child.tag in ("failure", "error", "skipped")]
        found.setdefault(case.attrib["name"].partition("[")[0], []).extend(wrong)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", cases())
def test_case(name: str, outcomes: dict[str, list[str]]) -> None:
    assert name in outcomes, "it did not run"
    assert not outcomes[name], "\n".join(outcomes[name])


@pytest.mark.slow
def test_the_command_finds_task_and_scorer_by_their_names(python: Path, tmp_path: Path) -> None:
    inspect = python.with_name("inspect")

    def called(*arguments: str) -> str:
        done = subprocess.run(
            [inspect, *arguments],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    models = "models=tests.evals.eval_sets:scripted"
    called(
        *("eval", "scenewright/scene_bench", "--display", "plain", "--log-dir", "logs"),
        *("-T", "dataset=miniature", "-T", "options={n: 2}", "-T", "backend=miniature"),
        *("-T", models),
    )
    (log,) = (tmp_path / "logs").glob("*.eval")
    called(
        *("score", str(log), "--scorer", "scenewright/sgscore", "--action", "append"),
        *("--overwrite", "--display", "none", "-S", models, "-S", "part=objects"),
    )
    told = json.loads(called("log", "dump", str(log)))
    assert told["status"] == "success"
    assert told["eval"]["task"] == "scenewright/scene_bench"
    for sample in told["samples"]:
        whole, objects = sample["scores"].values()
        assert objects["value"] == whole["metadata"]["parts"]["objects"]


def test_the_entry_point_names_the_bridge() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    place = project["entry-points"]["inspect_ai"]["scenewright"]
    assert (ROOT / place.replace(".", "/") / "__init__.py").is_file()


def test_nothing_but_the_bridge_needs_inspect() -> None:
    package = ROOT / "scenewright"
    users = {
        path.parent
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) inspect_ai", path.read_text("utf-8"), re.MULTILINE)
    }
    assert users == {package / "evals" / "inspect_ai"}
    assert "inspect_ai" not in sys.modules

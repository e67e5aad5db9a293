"""The GitHub Action: its file, and its commands as a shell script."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "integrations" / "github-action"
CONFIG = """\
name = "gate"
[dataset]
name = "miniature"
options = { n = 10 }
"""


def action() -> dict[str, object]:
    return yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))


def test_every_input_and_output_is_described_and_used() -> None:
    text = (ACTION / "action.yml").read_text(encoding="utf-8")
    found = action()
    assert found["runs"]["using"] == "composite"
    for name, entry in found["inputs"].items():
        assert entry["description"].endswith(".")
        assert f"inputs.{name}" in text.partition("runs:")[2]
        assert entry.get("required") or "default" in entry
    for entry in found["outputs"].values():
        assert entry["value"].startswith("${{ steps.gate.outputs.")
    for step in found["runs"]["steps"]:
        assert "uses" in step or step["shell"] == "bash"
        # The text of an input is never part of a script.
        assert "${{" not in step.get("run", "")


def test_the_script_reads_what_the_action_gives_it() -> None:
    step = next(step for step in action()["runs"]["steps"] if step.get("id") == "gate")
    script = (ACTION / "gate.sh").read_text(encoding="utf-8")
    read = set(re.findall(r"\$\{?([A-Z_]+)\b", script)) - {"BASH_SOURCE"}
    assert read == set(step["env"])
    assert os.access(ACTION / "gate.sh", os.X_OK)


def run(place: Path, command: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the script with a command ``scenewright`` that is ``command``."""
    tools = place / "bin"
    tools.mkdir(exist_ok=True)
    for name, text in (("scenewright", command), ("python", f'exec "{sys.executable}" "$@"')):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    given = {
        **{"BASELINE": "miniature", "CANDIDATE": "miniature", "OUT": "out", "MARGIN": "0.03"},
        **{"ALPHA": "0.05", "POWER": "0.9", "LIMIT_USD": "5", **inputs},
    }
    env = {
        **os.environ,
        **given,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(place / "output"),
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        ["bash", str(ACTION / "gate.sh")],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


RESULT = {
    "verdict": "undecided",
    "candidate": "b",
    "baseline": "a",
    "reason": "Undecided.",
    "scenes": 3,
    "metric": "sgscore",
    "before": 0.5,
    "after": 0.25,
    "difference": -0.25,
    "low": -0.9,
    "high": 0.4,
    "kinds": {},
    "left_out": {"unscored in both": 2},
    "notes": ["attribute facts: 9 scenes lost some"],
}


@pytest.mark.parametrize(
    ("code", "undecided", "ends"), [(4, "fail", 4), (4, "pass", 0), (1, "pass", 1), (3, "pass", 3)]
)
def test_the_job_ends_as_the_gate_does(
    tmp_path: Path, code: int, undecided: str, ends: int
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "gate.json").write_text(json.dumps(RESULT), encoding="utf-8")
    changes = "steps=2\n\nprompt=a b; $(touch stolen)\n"
    command = f'printf "%s\\n" "$@" > arguments; exit {code}'
    found = run(tmp_path, command, UNDECIDED=undecided, SET=changes, LIMIT="7", CONFIG="x.toml")
    assert found.returncode == ends, found.stderr
    said = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    assert said[:3] == ["gate", "miniature", "miniature"]
    assert [said[at + 1] for at, word in enumerate(said) if word == "--set"] == [
        "steps=2",
        "prompt=a b; $(touch stolen)",
    ]
    assert said[said.index("--limit") + 1] == "7"
    assert not (tmp_path / "stolen").exists()
    assert (tmp_path / "output").exists() == (code != 3)
    if code != 3:
        outputs = (tmp_path / "output").read_text(encoding="utf-8").splitlines()
        assert "verdict=undecided" in outputs
        assert "difference=-0.25" in outputs
        summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
        assert "0.500 → 0.250, -0.250 (95 %: -0.900 to +0.400), over 3 scenes" in summary
        assert "2 scenes left out: unscored in both" in summary
        assert "- attribute facts: 9 scenes lost some." in summary


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_script_gates_the_miniature(tmp_path: Path) -> None:
    (tmp_path / "gate.toml").write_text(CONFIG, encoding="utf-8")
    command = f'exec "{sys.executable}" -m scenewright "$@"'
    found = run(tmp_path, command, CONFIG="gate.toml", SET="steps=2", MARGIN="0.3")
    assert found.returncode in (0, 1, 4), found.stderr
    result = json.loads((tmp_path / "out" / "gate.json").read_text(encoding="utf-8"))
    codes = {"not worse": 0, "worse": 1, "undecided": 4}
    assert codes[result["verdict"]] == found.returncode
    assert result["candidate"] == "miniature, steps=2"
    assert result["pictures"] == 20
    assert (tmp_path / "out" / "report" / "index.html").exists()
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert result["reason"] in summary
    assert "| object |" in summary

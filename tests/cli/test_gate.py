"""``scenewright gate`` on finished evaluations of scripted models: exit codes, output, errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.runner.runner import run_eval
from tests.evals.gate.gate_models import BASELINE, SET, gate_config, models

RUN = CliRunner()


@pytest.fixture(scope="module")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluations ``old``, ``same`` and ``bad`` of the same scenes."""
    place = tmp_path_factory.mktemp("evals")

    async def made() -> None:
        for name, profile in (("old", "miniature"), ("bad", "miniature-edit")):
            config = gate_config().model_copy(update={"name": name, "backends": (profile,)})
            await run_eval(config, place / name, given=models(candidate=60), dataset=SET)
        config = gate_config().model_copy(update={"name": "same", "backends": ("miniature-edit",)})
        await run_eval(config, place / "same", given=models(candidate=BASELINE), dataset=SET)

    asyncio.run(made())
    return place


@pytest.mark.parametrize(
    ("candidate", "options", "code", "verdict"),
    [
        ("same", ["--margin", "0.1"], 0, "not worse"),
        ("bad", [], 1, "worse"),
        ("bad", ["--limit", "3"], 4, "undecided"),
        ("same", [], 4, "undecided"),
    ],
)
def test_the_exit_code_is_the_verdict(
    evals: Path, tmp_path: Path, candidate: str, options: list[str], code: int, verdict: str
) -> None:
    command = ["gate", str(evals / "old"), str(evals / candidate), "--out", str(tmp_path), *options]
    found = RUN.invoke(app, [*command, "--quiet"])
    assert found.exit_code == code, found.output
    assert found.stdout.startswith(f"{verdict}  ")
    page = tmp_path / "report" / "index.html"
    assert str(page) in found.stdout
    assert f": {verdict}</h1>" in page.read_text(encoding="utf-8")
    again = RUN.invoke(app, [*command, "--json"])
    assert again.exit_code == code
    data = json.loads(again.stdout)
    assert data["verdict"] == verdict
    assert data["passed"] == (code == 0)
    assert data["page"] == str(page)
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == verdict


def test_kinds_of_facts_are_told(evals: Path, tmp_path: Path) -> None:
    found = RUN.invoke(
        app, ["gate", str(evals / "old"), str(evals / "bad"), "-o", str(tmp_path / "g")]
    )
    assert "lost" in found.stdout
    assert "object" in found.stdout
    assert "relation" in found.stdout
    assert "a test of fixed size needs" in found.stdout


def test_a_part_of_a_score_can_decide(evals: Path, tmp_path: Path) -> None:
    command = ["gate", str(evals / "old"), str(evals / "bad"), "-o", str(tmp_path / "g"), "--json"]
    found = RUN.invoke(app, [*command, "--metric", "sgscore.fact_recall"])
    assert found.exit_code == 1
    assert json.loads(found.stdout)["metric"] == "sgscore.fact_recall"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["OLD", "gone/eval"], "gone/eval holds no evaluation"),
        (["OLD", "nothing"], "no profile 'nothing'"),
        (["miniature", "miniature"], "two profiles need scenes"),
        (["OLD", "SAME", "--set", "steps=3"], "its settings cannot be changed"),
        (["OLD", "SAME", "--margin", "2"], "margin"),
        (["OLD", "SAME", "--metric", "clipscore"], "no scores of clipscore by any panel"),
        (["OLD", "SAME", "--panel", "q"], "common ones: sgscore by p, sgscore.attributes by p"),
        (["OLD", "miniature", "--config", "gone.toml"], "gone.toml"),
        (["a", "b", "--data", "miniature", "--config", "x.toml"], "both name scenes"),
        (["a", "miniature", "--data", "miniature"], "no profile 'a'"),
        (["OLD", "SAME", "--judges", "x:y"], "--judges needs --config or --data"),
    ],
)
def test_wrong_input_is_one_line(
    evals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"OLD": str(evals / "old"), "SAME": str(evals / "same")}
    found = RUN.invoke(app, ["gate", *(names.get(each, each) for each in arguments)])
    assert found.exit_code in (2, 3)
    assert said in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.rglob("gate.json"))


def test_the_help_teaches() -> None:
    found = RUN.invoke(app, ["gate", "--help"])
    assert found.exit_code == 0
    for text in ("Exit codes: 0 not worse; 1 worse", "Examples of use", "--margin", "--set"):
        assert text in found.stdout

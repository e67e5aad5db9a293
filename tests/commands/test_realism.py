"""``scenewright realism train``, ``ablate`` and ``evaluate``: from rated objects to tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.agents.realism.olip_files import load_olip
from scenewright.cli import app
from tests.agents.realism.blips import save_tiny_blip
from tests.evals.realism.rated_sets import write_rated

SMALL = ("--widths", "12,8", "--heads", "4", "--epochs", "2", "--batch", "8", "--device", "cpu")


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_blip(tmp_path_factory.mktemp("blip"))


@pytest.fixture(scope="module")
def rated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set")
    write_rated(folder, pictures=12)
    return folder


def called(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["realism", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_train_then_evaluate(rated: Path, blip: Path, tmp_path: Path) -> None:
    code, shown, told = called("train", rated, tmp_path / "olip", "--encoder", blip, *SMALL)
    assert code == 0, told
    assert "OLIP" in shown
    assert "Random" in shown
    assert "features of objects 24/24" in told
    saved = load_olip(tmp_path / "olip")
    assert saved.model.config.embedding == 16
    assert Path(saved.encoder) == blip.resolve()
    # The same again trains nothing and says the same.
    before = (tmp_path / "olip" / "model.safetensors").read_bytes()
    code, again, _ = called(
        "train", rated, tmp_path / "olip", "--encoder", blip, *SMALL, "--json", "--quiet"
    )
    assert code == 0
    assert json.loads(again) == saved.report
    assert (tmp_path / "olip" / "model.safetensors").read_bytes() == before

    code, shown, told = called(
        "evaluate", rated, f"olip:{tmp_path / 'olip'}", "--out", tmp_path / "table", "--json"
    )
    assert code == 0, told
    row, random = json.loads(shown)
    assert random["name"] == "Random"
    trained = saved.report["test"][0]
    for column, figures in row["columns"].items():
        wanted = trained["columns"][column]
        assert figures["mae"]["value"] == pytest.approx(wanted["mae"]["value"], abs=2e-3)
    assert "| Random |" in (tmp_path / "table" / "evaluation.md").read_text()


def test_ablate_writes_the_table(rated: Path, blip: Path, tmp_path: Path) -> None:
    code, shown, told = called("ablate", rated, tmp_path, "--encoder", blip, *SMALL)
    assert code == 0, told
    assert "– Full image" in shown
    rows = json.loads((tmp_path / "ablations.json").read_text())
    assert [row["variant"] for row in rows][-1] == "literal"
    assert "Literal reading" in (tmp_path / "ablations.md").read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--widths", "12,zero"), "write whole numbers"),
        (("--encoder", "no/such-blip-here"), "not on this machine"),
    ],
)
def test_wrong_options_are_told(
    change: tuple[str, str], said: str, rated: Path, blip: Path, tmp_path: Path
) -> None:
    code, _, told = called("train", rated, tmp_path / "o", "--encoder", blip, *SMALL, *change)
    assert code == 2
    assert said in told
    assert not (tmp_path / "o" / "config.json").exists()


def test_a_folder_that_is_no_set_is_told(blip: Path, tmp_path: Path) -> None:
    code, _, told = called("train", tmp_path, tmp_path / "o", "--encoder", blip, *SMALL)
    assert code == 2
    assert "objects.jsonl" in told


def test_an_unknown_part_is_told(rated: Path) -> None:
    code, _, told = called("evaluate", rated, "olip:nothing", "--part", "rest")
    assert code == 2
    assert "choose test, validation, train or all" in told

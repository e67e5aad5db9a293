"""``scenewright object-realism train``, ``ablate``, ``evaluate``: rated objects to tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.human_ratings.rated_objects import read_objects, write_objects
from scenewright.tools.vision.realism.olip_files import load_olip
from tests.evals.studies.olip.rated_sets import write_rated
from tests.tools.vision.realism.blips import save_tiny_blip

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
    done = CliRunner().invoke(app, ["object-realism", *map(str, arguments)])
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
    row, *floors = json.loads(shown)
    assert [floor["name"] for floor in floors] == [
        *("Constant (mean)", "Constant (median)", "Majority class", "Random")
    ]
    assert row["seen"] == 0
    trained = saved.report["test"][0]
    for column, figures in row["columns"].items():
        wanted = trained["columns"][column]
        assert figures["mae"]["value"] == pytest.approx(wanted["mae"]["value"], abs=2e-3)
    table = (tmp_path / "table" / "evaluation.md").read_text()
    assert "| Random |" in table
    assert "| Constant (mean) |" in table


@pytest.fixture(scope="module")
def heads(rated: Path, blip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained with a seed that nobody tells to ``evaluate``."""
    out = tmp_path_factory.mktemp("heads") / "olip"
    code, _, told = called("train", rated, out, "--encoder", blip, *SMALL, "--seed", "1", "-q")
    assert code == 0, told
    return out


def measured(*arguments: str | Path) -> list[dict[str, Any]]:
    code, shown, told = called("evaluate", *arguments, "--json", "--quiet")
    assert code == 0, told
    found: list[dict[str, Any]] = json.loads(shown)
    return found


def test_evaluate_measures_on_the_saved_test_part_whatever_the_seed(
    rated: Path, heads: Path, tmp_path: Path
) -> None:
    saved = load_olip(heads)
    trained = saved.report["test"][0]
    kept = tmp_path / "kept"
    for seed in ("0", "1", "7"):
        row, *_ = measured(rated, f"olip:{heads}", "--work", kept, "--seed", seed)
        assert row["objects"] == trained["objects"]
        for column, figures in row["columns"].items():
            wanted = trained["columns"][column]["mae"]["value"]
            assert figures["mae"]["value"] == pytest.approx(wanted, abs=2e-3)
    _, _, told = called("evaluate", rated, f"olip:{heads}", "--work", kept)
    assert "parts: as saved with the heads" in told
    record = saved.trained_on
    assert record is not None
    assert (len(record.train), len(record.validation), len(record.test)) == (10, 1, 1)


def test_the_parts_follow_the_pixels_and_not_the_names(
    rated: Path, heads: Path, tmp_path: Path
) -> None:
    other = tmp_path / "renamed"
    other.mkdir()
    objects = read_objects(rated)
    moved = [
        item.model_copy(update={"image": f"other-{item.image.removesuffix('.png')}.bmp"})
        for item in reversed(objects)
    ]
    for before, after in zip(reversed(objects), moved, strict=True):
        Image.open(rated / before.image).save(other / after.image)
    write_objects(other, moved)
    row, *_ = measured(other, f"olip:{heads}", "--work", tmp_path / "kept")
    trained = load_olip(heads).report["test"][0]
    assert (row["objects"], row["seen"]) == (trained["objects"], 0)


@pytest.mark.parametrize("part", ["train", "validation", "all"])
def test_heads_are_refused_on_what_they_were_trained_on(
    rated: Path, heads: Path, tmp_path: Path, part: str
) -> None:
    asked = (rated, f"olip:{heads}", "--part", part, "--work", tmp_path / "kept")
    code, _, told = called("evaluate", *asked)
    assert code == 2
    seen, of = {"train": (20, 20), "validation": (2, 2), "all": (22, 24)}[part]
    assert f"was trained on {seen} of the {of} objects" in " ".join(told.split())
    assert "--part test" in told
    row, *floors = measured(*asked, "--allow-overlap")
    assert row["seen"] == seen
    assert all(floor["seen"] == 0 for floor in floors)
    # There is no training part to take constants from: the best ones stand there, named so.
    own = part in ("train", "all")
    assert floors[0]["name"] == f"Constant (mean){' of these objects' if own else ''}"
    _, shown, _ = called("evaluate", *asked, "--allow-overlap", "--quiet")
    assert shown.splitlines()[-1] == f"olip:{heads} (trained on {seen} of {of})"


def test_heads_without_a_record_are_measured_only_on_request(
    rated: Path, heads: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    for name in ("model.safetensors", "report.json"):
        shutil.copy(heads / name, old)
    config = json.loads((heads / "config.json").read_text())
    config["encoder"]["model"] = load_olip(heads).encoder
    del config["split"]
    (old / "config.json").write_text(json.dumps(config))
    asked = (rated, f"olip:{old}", "--work", tmp_path / "kept")
    code, _, told = called("evaluate", *asked)
    assert code == 2
    assert "without the pictures it was trained on" in " ".join(told.split())
    assert "--allow-overlap" in told
    row, *_ = measured(*asked, "--allow-overlap")
    assert row["seen"] is None
    _, shown, _ = called("evaluate", *asked, "--allow-overlap", "--quiet")
    assert shown.splitlines()[-1] == f"olip:{old} (trained on unknown pictures)"


def test_another_set_has_parts_of_its_own(heads: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_rated(other, pictures=10, objects=1)
    row, *_ = measured(other, f"olip:{heads}", "--part", "all", "--work", tmp_path / "kept")
    assert (row["objects"], row["seen"]) == (10, 0)


def test_ablate_writes_the_table(rated: Path, blip: Path, tmp_path: Path) -> None:
    code, shown, told = called("ablate", rated, tmp_path, "--encoder", blip, *SMALL)
    assert code == 0, told
    assert "– Full image" in shown
    rows = json.loads((tmp_path / "ablations.json").read_text())
    names = [row["variant"] for row in rows]
    assert names[-5:] == ["literal", "constant_mean", "constant_median", "majority", "random"]
    assert "| Constant (mean) |" in (tmp_path / "ablations.md").read_text()
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
    assert "use one of train, validation, test, all" in told

"""``python -m benchmarks.reproduce``: what it writes, and what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import _harness, reproduce
from scenewright.evals.studies.registry import STUDIES
from tests.evals.studies.scene_bench.study_results import FALL, HEIGHTS, Made


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The benchmarks' results folder, and models that draw nothing."""
    made = Made()
    monkeypatch.setattr("scenewright.evals.studies.running._perform", lambda *a: made(*a[4:]))
    monkeypatch.setattr(_harness, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(_harness, "measured_commit", lambda started: "0123456789ab")
    monkeypatch.setattr(reproduce, "FOLDER", tmp_path / "results" / "reproduce")
    return tmp_path / "results"


def test_all_files_and_the_figures_are_written(results: Path, tmp_path: Path) -> None:
    reproduce.main(["--scenes", "40", "--work", str(tmp_path / "work")])
    folder = results / "reproduce"
    for study in STUDIES.values():
        for ending in ("md", "csv", "json", "svg"):
            assert (folder / f"{study.file}.{ending}").stat().st_size > 0
    assert "Of " in (folder / "index.md").read_text(encoding="utf-8")
    figures = json.loads((results / "reproduce.json").read_text(encoding="utf-8"))["figures"]
    assert figures["agrees"] > 0
    low, mean, high = (figures["sgscore.feedback.last"][key] for key in ("low", "mean", "high"))
    assert low < mean < high
    # SGScore lies half of what relations lack below the objects' recall, at 5.5 relations.
    bare = 100 * (HEIGHTS["triplets"] - 5.5 * FALL - 0.1)
    assert figures["sgscore.triplets.kept"]["mean"] == pytest.approx(bare, abs=1)
    assert bare < mean
    assert figures["psg.composition.overall"]["mean"] == pytest.approx(49, abs=2)
    assert figures["aw_ccta.composed + sharp"]["mean"] == pytest.approx(0.72, abs=0.05)
    assert not any("paper" in key for key in figures)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--quick"], marks=pytest.mark.slow),
        ["--only", "attributes", "--scenes", "2"],
    ],
)
def test_a_part_leaves_the_figures_alone(
    results: Path, tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce.main([*arguments, "--work", str(tmp_path / "work")])
    assert not (results / "reproduce.json").exists()
    assert (results / "reproduce").exists() == (arguments[0] == "--only")
    assert "not written" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--scenes", "1"], "must be 2 or more"), (["--only", "table99"], "unknown study 'table99'")],
)
def test_wrong_arguments(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        reproduce.main(arguments)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err

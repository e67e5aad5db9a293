"""The command of the loop's benchmark: what it takes and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import loop
from benchmarks._loop import Accuracy
from scenewright.config.profiles import BUILT_IN

PROFILE = BUILT_IN["miniature"]
JUDGE = PROFILE.report_judges[0].rpartition("/")[2]


def test_changes_are_numbers_lists_or_text() -> None:
    items = ["weight_best=0.7", "strategy=resample", 'judges=["local:x"]', "steps = 8"]
    assert loop.parse_changes(items) == {
        "weight_best": 0.7,
        "strategy": "resample",
        "judges": ["local:x"],
        "steps": 8,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "weight_best"], "FIELD=VALUE"),
        (["--set", "=1"], "FIELD=VALUE"),
        (["--set", "weight=1"], "weight_missing"),
        (["--set", "weight_best=99"], "weight_best"),
        (["--scenes", "0"], "1 or more"),
        (["--processes", "0"], "1 or more"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_loaded(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        loop.main(arguments)
    assert message in capsys.readouterr().err


def report(folder: Path, **attribute: float) -> None:
    figures = {"sensitivity": 0.9, "specificity": 0.8, "true": 30, "false": 20}
    painted = {"object": figures, "relation": figures, "attribute": figures}
    hard = {**painted, "attribute": {**figures, **attribute}}
    place = folder / "judges" / JUDGE
    place.mkdir(parents=True, exist_ok=True)
    told = {"painted": painted, "very_hard": hard, "adversarial": painted}
    (place / "report.json").write_text(json.dumps(told))


def test_the_accuracy_is_that_of_the_report_judge_on_the_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MINIATURE_WEIGHTS", tmp_path)
    found, lacking = loop.accuracy_of(PROFILE)
    assert found == {}
    assert f"evaluate {JUDGE}" in lacking
    report(tmp_path, sensitivity=0.7)
    found, lacking = loop.accuracy_of(PROFILE)
    assert found["hard"]["relation"] == Accuracy(0.9, 0.8, 30, 20)
    assert found["very_hard"]["attribute"] == Accuracy(0.7, 0.8, 30, 20)
    assert lacking == ""
    report(tmp_path, sensitivity=0.5, specificity=0.6)
    found, lacking = loop.accuracy_of(PROFILE)
    assert "attributes of level very_hard" in lacking
    assert "objects" not in lacking


def test_several_report_judges_have_no_joint_accuracy() -> None:
    several = PROFILE.model_copy(update={"report_judges": ("local:x", "local:y")})
    found, lacking = loop.accuracy_of(several)
    assert found == {}
    assert "several" in lacking

"""``scenewright real-bench filter`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks._metrics_models import save_clip
from scenewright.cli.main import app
from scenewright.evals.studies.real.real_scorer import RealRow, write_rows
from tests.doubles import painted


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Four pictures of two classes beside their rows; one is unscored."""
    rows = []
    for at, (label, score) in enumerate((("cat", 0.9), ("cat", 0.4), ("dog", 0.7), ("dog", None))):
        painted((32, 32), (50 * at, 9, 9)).save(tmp_path / f"{at}.png")
        rows.append(
            RealRow(
                image=f"{at}.png", label=label, s_att=score, attributes=3, plan="p",
                s_style=None if score is None else 1.0, combined=score,
                reason="" if score is not None else "the judge refused",
            )
        )  # fmt: skip
    return write_rows(tmp_path / "scores.jsonl", rows)


def called(*arguments: object, code: int = 0) -> Any:
    """What the command prints; it must end with ``code``."""
    result = CliRunner().invoke(app, ["real-bench", "filter", *map(str, arguments), "--quiet"])
    assert result.exit_code == code, result.output
    return result


def test_the_best_are_kept_and_the_rest_is_told(scores: Path, tmp_path: Path) -> None:
    out = tmp_path / "best"
    shown = called(scores, "--top", 1, "--out", out).stdout
    answer = json.loads((out / "filter.json").read_text())["answer"]["sentence"]
    assert answer == (
        "2 of 4 pictures are kept, with a mean combined score of 0.800 against 0.667 of all that "
        "were ranked; of the rest, 1 beyond the best and 1 unscored."
    )
    assert " ".join(shown.split()).startswith(answer)
    assert "unscored: 3.png: the judge refused" in shown
    lines = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert {one["image"]: one["why"] for one in lines} == {
        "0.png": "kept", "1.png": "rank", "2.png": "kept", "3.png": "unscored",
    }  # fmt: skip
    assert (out / "kept" / "cat" / "0.png").resolve() == (scores.parent / "0.png").resolve()
    assert (out / "index.html").is_file()


def test_a_class_of_which_nothing_is_kept_has_its_own_exit_code(
    scores: Path, tmp_path: Path
) -> None:
    told = called(
        *(scores, "--least", 0.8, "--out", tmp_path / "best", "--json", "--no-page"), code=1
    ).stdout
    found = json.loads(told)
    assert found["kept"] == 1
    assert found["classes"]["dog"]["counts"] == {"least": 1, "unscored": 1}
    assert not (tmp_path / "best" / "index.html").exists()


def test_style_can_be_scored_on_the_way(scores: Path, tmp_path: Path) -> None:
    clip = save_clip(tmp_path / "clip")
    out = tmp_path / "best"
    called(scores, "--top", 1, "--style", clip, "--by", "s_style", "--out", out)
    lines = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert all(0 < one["row"]["s_style"] < 1 for one in lines)
    assert all(one["rank"] for one in lines)
    assert (out / "style.sqlite").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--top", "1", "--by", "beauty"), "--by 'beauty': use combined"),
        ((), "choose what to keep"),
        (("--top", "1", "--judges", "openai:gpt-4o"), "need --schema"),
    ],
)
def test_wrong_options_are_told(
    scores: Path, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    assert told in called(scores, *arguments, "--out", tmp_path / "best", code=2).stderr
    assert not (tmp_path / "best").exists()


def test_scores_that_are_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = called(tmp_path / "empty", "--top", 1, "--out", tmp_path / "best", code=3)
    assert "holds neither scores.jsonl" in found.stderr


def test_the_result_may_not_lie_among_the_pictures(scores: Path, tmp_path: Path) -> None:
    arguments = (tmp_path, "--schema", "s.json", "--top", 1, "--out", tmp_path / "best")
    assert "outside of it" in called(*arguments, code=3).stderr

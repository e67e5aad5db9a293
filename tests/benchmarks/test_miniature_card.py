"""The model card is a function of the result and the training record; it claims no more."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from benchmarks import miniature
from benchmarks._harness import RESULTS
from benchmarks._miniature_models import Stage, read_training
from benchmarks._miniature_pictures import SCORES
from benchmarks._scenes import LEVELS
from benchmarks.miniature import LICENSE, card, figure, trend

ROOT = Path(__file__).resolve().parents[2]
CARD = ROOT / "docs" / "model-card.md"


def spread(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.01, "high": mean + 0.01}


def result(**more: Any) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "sizes.denoiser.parameters": 2_273_432,
        "sizes.denoiser.mib": 4.358,
        "sizes.total.parameters": 9_703_035,
        "sizes.total.mib": 18.678,
        "sizes.limit_mib": 80.0,
        "autoencoder.l1": spread(4.14),
        "autoencoder.l1.thin": spread(27.45),
        "autoencoder.psnr": spread(27.9),
        "guidance.n": 48,
        "guidance.facts.1": spread(0.66),
        "guidance.facts.3": spread(0.87),
        "guidance.facts.10": spread(0.5),
        "guidance.gain.3": spread(0.21),
        "guidance.gain.10": spread(-0.16),
        "adapter.weight": 0.5,
        "adapter.absent.n": 31,
        "adapter.zero.n": 8,
        "adapter.zero.same": 1.0,
        "judges.paintings": 200,
        "judges.judge-z.role": "studies",
    }
    for level in LEVELS:
        figures |= {f"levels.{level}.n": 40, f"levels.{level}.prompts_cut": 0.0}
        figures |= {f"levels.{level}.report.{score}": spread(0.8) for score in SCORES}
    for arm, mean in (("prompt", 0.0), ("shown", 0.625), ("unrelated", 0.25)):
        figures[f"adapter.absent.{arm}.appears"] = spread(mean)
        figures[f"adapter.absent.{arm}.facts"] = spread(0.7)
    for arm in ("prompt", "unrelated"):
        figures[f"adapter.absent.gain_over_{arm}.appears"] = spread(0.375)
        figures[f"adapter.absent.gain_over_{arm}.facts"] = spread(0.02)
    for title in ("painted", "weathered"):
        key = f"judges.judge-z.{title}.object"
        figures |= {f"{key}.n": 512, f"{key}.sensitivity": spread(0.987)}
    return {
        "name": "miniature",
        "commit": "abc1234",
        "date": "2026-01-02",
        "machine": {"device": "cpu", "torch": "9.9"},
        "n": 120,
        "figures": figures | more,
    }


def section(text: str, title: str) -> str:
    return text.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_every_figure_stands_in_its_section() -> None:
    text = card(result(), {})
    assert "| `denoiser` | 2,273,432 | 4.36 |" in section(text, "Models")
    assert "| all, every file | 9,703,035 | 18.68 |" in section(text, "Models")
    assert "80 MiB" in section(text, "Models")
    assert "(under 5 pixels) | 27.45 [27.44, 27.46] |" in section(text, "Autoencoder")
    assert "| hard | report | 40 | 0.800 [0.790, 0.810] |" in section(text, "Text to image")
    assert "| `judge-z` | weathered | object | 512 | 0.987 [0.977, 0.997]" in section(
        text, "Judges on paintings"
    )
    assert "`judge-z` is in no panel" in text
    assert "`abc1234`" in text
    assert "2026-01-02" in text


def test_guidance_is_in_the_order_of_the_scales_and_said_as_it_was_measured() -> None:
    text = section(card(result(), {}), "Guidance")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert rows[2:] == ["| 1", "| 3", "| 10"]
    assert "| +0.210 [+0.200, +0.220] | rises |" in text
    assert "| -0.160 [-0.170, -0.150] | falls |" in text


def test_references_are_compared_with_a_picture_of_something_else() -> None:
    text = section(card(result(), {}), "References")
    assert "(31 cases)" in text
    assert "| the prompt and a picture of the thing | 0.625 [0.615, 0.635] |" in text
    assert "an absent thing to appear rises" in text
    assert "to get its colour was not compared" in text
    weak = {"mean": 0.1, "low": -0.1, "high": 0.3}
    unsure = card(result(**{"adapter.absent.gain_over_unrelated.appears": weak}), {})
    assert "appear does not clearly change" in section(unsure, "References")
    assert "leaves out" not in text, "what was not measured has no table"


def test_trainings_are_told_stage_by_stage_or_said_to_be_unknown() -> None:
    stages = [
        Stage(steps=3300, batch=32, seconds=5400.4, device="CPU, 2 cores"),
        Stage(steps=900, batch=4, seconds=60, device="1 × H100", part="decoder"),
    ]
    text = section(card(result(), {"autoencoder": stages, "judge-z": []}), "Training")
    assert "| `autoencoder` | 3,300 | 32 | 5,400 | CPU, 2 cores |" in text
    assert "| `autoencoder` (decoder) | 900 | 4 | 60 | 1 × H100 |" in text
    assert "| `judge-z` | not recorded | not recorded |" in text


def test_labels_are_told_with_who_looked_and_what_was_left_out() -> None:
    title = "Judges on generated pictures"
    assert section(card(result(), {}), title).strip() == "No pictures are labelled."
    counts = {
        f"labels.{kind}.{mark}": n
        for kind, n in (("object", 7), ("attribute", 5), ("relation", 3))
        for mark in ("true", "false", "unclear")
    }
    labels = {
        "labels.pictures": 36,
        "labels.seen_by": "two readers",
        **counts,
        "labels.judge-z.object.n": 90,
        "labels.judge-z.object.accuracy": spread(0.944),
    }
    text = section(card(result(**labels), {}), title)
    assert "36 pictures" in text
    assert "by two readers" in text
    assert "relations 3 true, 3 false, 3 unclear" in text
    assert "| `judge-z` | object | 90 | 0.944 [0.934, 0.954] |" in text


def test_it_reads_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = card(result(), {})
    monkeypatch.chdir(tmp_path)
    assert card(result(), {}) == before
    assert card(json.loads(json.dumps(result())), {}) == before


def test_tables_are_even() -> None:
    rows = [line for line in card(result(), {}).splitlines() if line.startswith("|")]
    blocks: list[list[int]] = [[]]
    for line in card(result(), {}).splitlines():
        if line.startswith("|"):
            blocks[-1].append(line.count("|"))
        elif blocks[-1]:
            blocks.append([])
    assert rows
    assert all(len(set(block)) <= 1 for block in blocks)


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        (0.12345, {}, "0.123"),
        (1234, {}, "1,234"),
        (None, {}, "–"),
        (spread(0.5), {"digits": 1}, "0.5 [0.5, 0.5]"),
        (spread(0.5), {"digits": 2, "sign": True}, "+0.50 [+0.49, +0.51]"),
    ],
)
def test_figures_in_words(value: Any, options: dict[str, Any], words: str) -> None:
    assert figure(value, **options) == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.01, 0.2, "rises"), (-0.2, -0.01, "falls"), (-0.01, 0.01, "does not clearly")],
)
def test_a_trend_is_claimed_only_where_the_interval_leaves_out_zero(
    low: float, high: float, words: str
) -> None:
    assert trend({"mean": (low + high) / 2, "low": low, "high": high}).startswith(words)
    assert trend(None) == "was not compared"


def test_the_licence_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == LICENSE


def test_the_command_writes_the_card_of_the_last_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "miniature.json").write_text(json.dumps(result()), encoding="utf-8")
    monkeypatch.setattr(miniature, "RESULTS", tmp_path)
    monkeypatch.setattr(miniature, "ROOT", tmp_path)
    monkeypatch.setattr(miniature, "CARD", tmp_path / "card.md")
    miniature.main(["--card-only"])
    assert (tmp_path / "card.md").read_text(encoding="utf-8") == card(result(), read_training())
    assert "written to card.md" in capsys.readouterr().out
    (tmp_path / "miniature.json").unlink()
    with pytest.raises(SystemExit, match=r"python -m benchmarks\.miniature"):
        miniature.main(["--card-only"])


@pytest.mark.skipif(
    not (RESULTS / "miniature.json").is_file(), reason="no full result has been measured"
)
def test_the_committed_card_is_that_of_the_committed_result() -> None:
    measured = json.loads((RESULTS / "miniature.json").read_text(encoding="utf-8"))
    wanted = card(measured, read_training())
    assert CARD.read_text(encoding="utf-8") == wanted, (
        "write it again with 'python -m benchmarks.miniature --card-only'"
    )

"""``scenewright eval plan`` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.cli.eval_plan import sentence
from scenewright.cli.main import app

RUN = CliRunner()
FIGURES = """\
source = "a rehearsal"
cores = 2
alone = 3.0
picture_bytes = 1000
row_bytes = 24
go_on = 0.5

[models."local:painter"]
does = "draws"
seconds = { mean = 2.0, low = 1.5, high = 2.5 }

[models."seer:model"]
does = "judges"
account = "seer"
seconds = 0.5
tokens_in = 900
tokens_out = 100
"""
SETTINGS = """\
[accounts.seer]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
requests_per_minute = 60
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("figures.toml").write_text(FIGURES, encoding="utf-8")
    Path("scenewright.toml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def planned(*arguments: str, code: int = 0) -> dict:  # type: ignore[type-arg]
    found = RUN.invoke(app, ["eval", "plan", *arguments, "--figures", "figures.toml", "--json"])
    assert found.exit_code == code, found.output
    told: dict = json.loads(found.stdout)  # type: ignore[type-arg]
    return told


def test_numbers_are_sized(place: Path) -> None:
    told = planned("--images", "3600", "--disk", "1", "--workers", "4,1,2")
    assert [size["workers"] for size in told["sweep"]] == [1, 2, 4]
    one, two, four = told["sweep"]
    # One drawing after the other: two seconds each, and the last one's judging.
    assert one["hours"] == pytest.approx((3600 * 2 + 1) / 3600)
    assert one["binding"]["kind"] == "drawing"
    assert one["next"]["stage"] == "requests a minute of seer"
    assert four["binding"]["kind"] == "requests"
    assert one["hours"] >= two["hours"] >= four["hours"]
    assert one["least_hours"] < one["hours"] < one["most_hours"]
    assert told["unpriced"] == ["seer:model"]
    assert told["bytes"]["mean"] == pytest.approx(3600 * 1024)


def test_a_deadline_names_machines_or_the_limit(place: Path) -> None:
    found = planned("--images", "3600", "--deadline", "1.1", "--disk", "1")["deadline"]
    assert found["workers"] == 2
    late = planned("--images", "3600", "--deadline", "0.5", "--disk", "1", code=1)["deadline"]
    assert late["workers"] is None
    (limit,) = late["limits"]
    assert limit["limit"] == 60
    assert 120 < limit["needed"] < 125


def test_ways_of_drawing_and_judges_multiply(place: Path) -> None:
    once = planned("--images", "10", "--disk", "1")
    told = planned("--images", "10", "--backends", "3", "--judges", "2", "--disk", "1")
    assert told["cells"] == 3 * once["cells"] == 30
    requests = [s for s in told["stages"] if s["kind"] == "requests"]
    before = [s for s in once["stages"] if s["kind"] == "requests"]
    assert requests[0]["cells_per_hour"] == pytest.approx(before[0]["cells_per_hour"] / 2)


def test_a_small_disk_is_told_and_fails(place: Path) -> None:
    found = RUN.invoke(
        app, ["eval", "plan", "--images", "3600000", "--figures", "figures.toml", "--disk", "1"]
    )
    assert found.exit_code == 1
    assert "the disk is too small" in found.stdout


def test_people_read_the_bottleneck(place: Path) -> None:
    asked = "eval plan --images 3600 --figures figures.toml --machine-usd 2 --disk 1 --deadline 0.5"
    found = RUN.invoke(app, asked.split())
    assert "The bottleneck is drawing by local:painter on the machine" in found.stdout
    assert "no price is known for seer:model" in found.stdout
    assert "requests a minute of seer must be" in found.stdout
    assert "$4.00" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--images", "5"], "--pilot N, --from FOLDER, --figures FILE"),
        (["--figures", "figures.toml"], "name a CONFIG, or --images N"),
        (["--images", "5", "--pilot", "3"], "a pilot runs items of a CONFIG"),
        (["--images", "5", "--figures", "figures.toml", "--workers", "0"], "such as 1,2,4,8"),
        (["--images", "5", "--figures", "figures.toml", "--deadline", "0"], "above 0"),
        (["--images", "5", "--figures", "figures.toml", "--rounds", "2", "--judges", "1"], ""),
    ],
)
def test_wrong_input_is_told(place: Path, arguments: list[str], told: str) -> None:
    found = RUN.invoke(app, ["eval", "plan", *arguments])
    assert told in found.output.replace("\n", " ")
    assert found.exit_code == (2 if told else 0)


def test_a_file_that_is_not_there_is_told(place: Path) -> None:
    found = RUN.invoke(app, ["eval", "plan", "--images", "5", "--figures", "lost.toml"])
    assert "lost.toml cannot be read" in found.output
    assert found.exit_code == 3


def test_the_sentence_says_when_nothing_else_would_help() -> None:
    size = {
        "workers": 2,
        "hours": 1.0,
        "binding": {"stage": "items at work"},
        "remedy": "more items at work",
        "next": {"stage": "items at work", "hours": 1.0},
    }
    assert "Without" not in sentence(size)
    assert sentence(size).startswith("On 2 machines it takes 1.0 h")


def test_a_pilot_of_a_configuration_is_run_and_kept(place: Path) -> None:
    Path("mine.toml").write_text(
        'name = "mine"\n[dataset]\nname = "miniature"\noptions = { n = 6 }\n', encoding="utf-8"
    )
    found = RUN.invoke(
        app, ["eval", "plan", "mine.toml", "--pilot", "2", "--save", "kept.toml", "--json"]
    )
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert told["cells"] == 6
    again = RUN.invoke(app, ["eval", "plan", "mine.toml", "--figures", "kept.toml", "--json"])
    assert json.loads(again.stdout)["sweep"] == told["sweep"]
    assert not (place / "evals").exists()

"""``scenewright eval`` as a user runs it, with models of a mock server on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.store.results import Results
from scenewright.mock_providers.serving import serving_thread
from scenewright.mock_providers.settings import MockSettings
from scenewright.providers import day_quota

RUN = CliRunner()
CONFIG = """\
name = "trial"
about = "Four scenes."
backends = ["lab"]
conditions = ["triplets"]
seeds = [0, 1]
side_by_side = true
limit_usd = 0.0
[dataset]
name = "table"
path = "scenes.jsonl"
"""
SCENES = ["red ball on table", "dog left of cat", "tree behind house; car left of house", "lamp"]


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    """The address of a mock server."""
    with serving_thread(MockSettings()) as served:
        yield served.url


@pytest.fixture
def place(lab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with settings, a set and a configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY_OF_THE_LAB", f"key of {tmp_path}")
    Path("scenewright.toml").write_text(
        f'[accounts.lab]\nprovider = "openai"\nbase_url = "{lab}/v1"\n'
        'key_variable = "KEY_OF_THE_LAB"\n'
        '[profiles.lab]\nbackend = { kind = "lab", model = "instant-image" }\n'
        'judges = ["lab:judge-a"]\nreport_judges = ["lab:instant"]\n',
        encoding="utf-8",
    )
    folder = tmp_path / "configs"
    folder.mkdir()
    rows = [{"id": f"s{at}", "scene": text} for at, text in enumerate(SCENES)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "scenes.jsonl").write_text(lines, encoding="utf-8")
    (folder / "trial.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def test_a_plan_is_shown_and_nothing_is_drawn(place: Path) -> None:
    found = RUN.invoke(app, ["eval", "plan", "configs/trial.toml", "--json"])
    assert found.exit_code == 0, found.output
    plan = json.loads(found.stdout)
    assert plan["items"] == 4
    assert plan["pictures"] == [8, 8]
    judge = next(model for model in plan["models"] if model["does"] == "judges")
    # Three scenes have relations, which are asked in a second call; two seeds.
    assert judge["least"]["calls"] == 14
    assert judge["least"]["tokens_in"] > 0
    assert not (place / "evals").exists()


def test_it_runs_goes_on_and_writes_tables(place: Path) -> None:
    found = RUN.invoke(app, ["eval", "run", "configs/trial.toml", "--yes"])
    assert found.exit_code == 0, found.output
    assert "4 items × 2 arms" in found.stderr
    results = Results(place / "evals" / "trial")
    assert results.table("rounds").num_rows == 8
    assert len({row["image"] for row in results.rows("rounds")}) == 8
    answers = results.rows("answers")
    assert {row["judge"] for row in answers} == {"lab:instant"}
    plan = json.loads(RUN.invoke(app, ["eval", "plan", "configs/trial.toml", "--json"]).stdout)
    assert plan["done"] == 4
    judge = next(model for model in plan["models"] if model["does"] == "judges")
    # What was expected is near what the calls took; facts of absent things were not asked.
    spent = sum(row["tokens_in"] for row in answers)
    assert 0.5 * judge["most"]["tokens_in"] < spent < 1.2 * judge["most"]["tokens_in"]
    again = RUN.invoke(app, ["eval", "run", "configs/trial.toml", "--yes", "--json", "--quiet"])
    assert again.exit_code == 0, again.output
    summary = json.loads(again.stdout)
    assert {row["metric"] for row in summary["scores"]} == {"sgscore"}
    assert summary["totals"]["images"] == 8


def test_above_the_limit_it_does_not_begin_unasked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "prices.toml").write_text(
        '["lab:instant"]\ninput = 1000.0\noutput = 1000.0\nas_of = 2026-01-01\n', encoding="utf-8"
    )
    monkeypatch.setenv("SCENEWRIGHT_PRICES", "prices.toml")
    found = RUN.invoke(app, ["eval", "run", "configs/trial.toml"])
    assert found.exit_code == 2
    assert "the limit is $0: add --yes, or raise limit_usd" in found.stderr
    assert not (place / "evals").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('conditions = ["triplet"]', "there is no condition 'triplet': use one of triplets"),
        ('backends = ["nothing"]', "nothing"),
        ('metrics = ["sgscor"]', "unknown metric 'sgscor': use one of"),
        ("seeds = [1, 1]", "seeds lists something twice"),
        ('nam = "x"', "did you mean 'name'?"),
    ],
)
def test_a_wrong_configuration_says_where(place: Path, line: str, said: str) -> None:
    text = CONFIG
    key = line.partition(" =")[0]
    kept = [row for row in text.splitlines() if not row.startswith(f"{key} =")]
    (place / "wrong.toml").write_text("\n".join([line, *kept]), encoding="utf-8")
    (place / "scenes.jsonl").write_text('{"id": "a", "scene": "ball"}\n', encoding="utf-8")
    found = RUN.invoke(app, ["eval", "run", "wrong.toml"])
    assert found.exit_code in (2, 3)
    assert said in found.stderr
    (error,) = (line for line in found.stderr.splitlines() if line.startswith("error"))
    assert said in error


def test_metrics_are_listed() -> None:
    found = RUN.invoke(app, ["eval", "metrics"])
    assert found.exit_code == 0
    assert "sgscore" in found.stdout


def test_a_folder_without_an_evaluation_is_refused(tmp_path: Path) -> None:
    found = RUN.invoke(app, ["eval", "export", str(tmp_path)])
    assert found.exit_code == 3
    assert "holds no evaluation" in found.stderr


def test_sentinel_pictures_are_told_in_plan_summary_and_refused_out_of_range(place: Path) -> None:
    config = Path("configs/trial.toml")
    config.write_text(CONFIG.replace("limit_usd", "sentinels = 1.0\nlimit_usd"), encoding="utf-8")
    plan = json.loads(RUN.invoke(app, ["eval", "plan", str(config), "--json"]).stdout)
    watched = next(model for model in plan["models"] if model["does"] == "is watched")
    assert watched["model"] == "lab:instant"
    assert watched["most"]["calls"] > 2
    asked = ["eval", "run", str(config), "--yes", "--quiet"]
    summary = json.loads(RUN.invoke(app, [*asked, "--json"]).stdout)
    took = summary["sentinels"]["lab:instant"]
    assert took["pictures"] >= 2
    assert took["questions"] == 6 * took["pictures"]
    again = RUN.invoke(app, asked)
    assert f"lab:instant: {took['pictures']} sentinel pictures, " in again.output
    none = [*asked, "--json", "--sentinels", "0", "--out", "evals/none"]
    assert json.loads(RUN.invoke(app, none).stdout)["sentinels"] == {}
    wrong = RUN.invoke(app, [*asked, "--sentinels", "2"])
    assert wrong.exit_code == 2
    assert "--sentinels" in wrong.output


def test_a_model_swapped_in_the_middle_stops_it_and_is_split_where_that_is_asked(
    lab: str, place: Path
) -> None:
    asked = ["eval", "run", "configs/trial.toml", "--yes", "--quiet"]
    config = Path("configs/trial.toml")
    config.write_text(CONFIG.replace("limit_usd", "concurrency = 1\nlimit_usd"), encoding="utf-8")
    swaps = f"{lab}/lab/swaps"
    order = {"model": "instant", "by": "judge-a", "after": 3, "told": "instant-2026-11"}
    typed = {"Content-Type": "application/json"}
    urlopen(Request(swaps, json.dumps(order).encode(), typed, method="POST"))
    try:
        stopped = RUN.invoke(app, asked)
        assert stopped.exit_code == 3
        said = " ".join(stopped.output.split())
        assert "lab:instant was served as instant (" in said
        assert "and is now served as instant-2026-11" in said
        assert "--on-model-change split" in said
        split = RUN.invoke(app, [*asked, "--on-model-change", "split", "--json"])
    finally:
        urlopen(Request(swaps, method="DELETE"))
    assert split.exit_code == 0
    summary = json.loads(split.stdout)
    assert {row["panel"] for row in summary["scores"]} >= {
        "report@instant", "report@instant-2026-11",
    }  # fmt: skip
    assert "lab:instant was served as instant (" in summary["model_changes"][0]
    by: dict[tuple[str, str, str], set[str]] = {}
    for row in Results("evals/trial").rows("answers"):
        by.setdefault((row["item"], row["arm"], row["panel"]), set()).add(row["model"])
    assert all({panel.partition("@")[2]} == told for (_, _, panel), told in by.items())


def test_a_day_that_is_too_short_is_told_before_and_kept_across_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    noon = SimpleNamespace(time=lambda: 1_795_435_200.0, monotonic=time.monotonic)
    monkeypatch.setattr(day_quota, "time", noon)
    known = (place / "scenewright.toml").read_text()
    limited = known.replace("[profiles.lab]", "requests_per_day = 10\npatience = 1\n[profiles.lab]")
    (place / "scenewright.toml").write_text(limited)
    # Eight pictures, and fourteen looks at them.
    plan = json.loads(RUN.invoke(app, ["eval", "plan", "configs/trial.toml", "--json"]).stdout)
    assert plan["notes"][0].startswith(
        "note: lab takes up to 22 requests and may send 10 a day, of which 10 are left today: "
        "it pauses until midnight (UTC) 2 times"
    )
    found = RUN.invoke(app, ["eval", "run", "configs/trial.toml", "--yes"])
    assert found.exit_code == 1, found.output
    # Pictures and looks take turns: either may meet the limit first.
    results = Results(place / "evals" / "trial")
    reasons = {
        row["reason"]
        for table, state in (("answers", "unscored"), ("rounds", "failed"))
        for row in results.rows(table)
        if row["state"] == state
    }
    assert reasons
    assert all("requests_per_day of the account (10) is used up" in text for text in reasons)
    # The next run of the same day sends nothing at all.
    other = ["eval", "run", "configs/trial.toml", "--yes", "--out", "evals/other"]
    assert RUN.invoke(app, other).exit_code == 1
    rows = Results(place / "evals" / "other").rows("rounds")
    assert {row["state"] for row in rows} == {"failed"}


def test_a_configuration_that_cannot_be_used_is_wrong_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text("name = ")
    for name, told in (("nofile.toml", "cannot be read"), ("wrong.toml", "is not valid TOML")):
        done = RUN.invoke(app, ["eval", "run", name])
        assert done.exit_code == 2
        assert f"{name} {told}" in " ".join(done.stderr.split())

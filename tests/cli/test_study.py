"""``scenewright study`` as a user runs it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.evals.studies.panel.simulator import SimulatedJudge, SimulationSpec, simulate
from scenewright.evals.studies.panel.sources.tables import write_table
from scenewright.evals.studies.panel.study import PARTS, StudyConfig
from scenewright.miniature.painter import paint
from scenewright.mock_providers.serving import serving_thread
from scenewright.mock_providers.settings import MockSettings

CONFIG = """\
name = "mine"
about = "Of a test."
parts = ["composition", "people"]
resamples = 100
[source]
kind = "table"
path = "answers.csv"
"""


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["study", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a configuration and its table."""
    monkeypatch.chdir(tmp_path)
    judges = tuple(
        SimulatedJudge(id=name, sensitivity=0.9, specificity=0.8) for name in ("one", "two")
    )
    (tmp_path / "configs").mkdir()
    table = simulate(SimulationSpec(judges=judges, n_items=12))
    write_table(table, tmp_path / "configs" / "answers.csv")
    (tmp_path / "configs" / "mine.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def test_a_study_is_run_and_gone_on_with(place: Path) -> None:
    code, out, err = run("run", "configs/mine.toml")
    assert code == 0, err
    folder = place / "studies" / "mine"
    assert "composition  done" in out
    assert "people       left out" in out
    assert "it needs human ratings of images" in " ".join(out.split())
    assert "1 of 3: reading the answers" in err
    assert (folder / "index.html").is_file()
    before = (folder / "composition" / "part.json").stat().st_mtime_ns
    code, out, _ = run("run", "configs/mine.toml", "--json", "--quiet")
    assert code == 0
    told = json.loads(out)
    assert told["parts"]["composition"]["state"] == "done"
    assert told["table"]["images"] == 12
    assert (folder / "composition" / "part.json").stat().st_mtime_ns == before


def test_the_plan_runs_nothing(place: Path) -> None:
    code, out, _ = run("run", "configs/mine.toml", "--plan", "--out", "there")
    assert code == 0
    assert "answers   table answers.csv" in out
    assert "parts     people, composition" in out
    code, out, _ = run("run", "configs/mine.toml", "--plan", "--json")
    assert json.loads(out)["questions"] == 0
    assert [path.name for path in place.iterdir()] == ["configs"]


def test_the_source_may_lie_elsewhere(place: Path) -> None:
    (place / "configs" / "answers.csv").rename(place / "other.csv")
    code, _, err = run("run", "configs/mine.toml", "-q")
    assert code == 2
    assert "answers.csv cannot be read" in err
    code, _, err = run("run", "configs/mine.toml", "-q", "--path", "other.csv", "--part", "people")
    assert code == 0, err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["configs/gone.toml"], "cannot be read"),
        (["configs/mine.toml", "--part", "powr"], "unknown study 'powr': use one of"),
    ],
)
def test_wrong_input_is_told(place: Path, arguments: list[str], said: str) -> None:
    code, _, err = run("run", *arguments)
    assert code == 2
    assert said in err
    assert not (place / "studies").exists()


def test_the_parts_are_listed_with_their_options() -> None:
    code, out, _ = run("parts", "--json")
    assert code == 0
    told = json.loads(out)
    assert list(told) == list(PARTS)
    assert all(about["about"] for part in told.values() for about in part["options"].values())
    code, out, _ = run("parts")
    assert code == 0
    assert "needs: live" in out


def test_an_example_is_a_configuration() -> None:
    code, out, _ = run("example", "--kind", "dsg")
    assert code == 0
    assert StudyConfig.model_validate(tomllib.loads(out)).source.kind == "dsg"


def test_above_the_limit_nobody_is_asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, name in enumerate(("dog", "ball")):
        thing = SceneObject(id=f"{name}.1", name=name, attributes=Attributes({"color": "red"}))
        paint(SceneGraph(objects=(thing,)), seed=at).image.save(place / "configs" / f"{name}.png")
    rows = "".join(f"{name}.png,{name},1\n{name}.png,cat,0\n" for name in ("dog", "ball"))
    labels = "image,subject,holds\n" + rows
    (place / "configs" / "labels.csv").write_text(labels, encoding="utf-8")
    (place / "configs" / "labels.toml").write_text(
        'name = "labels"\nparts = ["people"]\nlimit_usd = 0.0\nresamples = 100\n'
        '[source]\nkind = "labels"\npath = "labels.csv"\njudges = ["lab:instant"]\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("KEY_OF_THE_LAB", f"key of {place}")
    monkeypatch.setenv("SCENEWRIGHT_PRICES", "prices.toml")
    prices = '["lab:instant"]\ninput = 1000.0\noutput = 1000.0\nas_of = 2026-01-01\n'
    (place / "prices.toml").write_text(prices, encoding="utf-8")
    with serving_thread(MockSettings()) as lab:
        (place / "scenewright.toml").write_text(
            f'[accounts.lab]\nprovider = "openai"\nbase_url = "{lab.url}/v1"\n'
            'key_variable = "KEY_OF_THE_LAB"\n',
            encoding="utf-8",
        )
        code, out, _ = run("run", "configs/labels.toml", "--plan", "--json")
        told = json.loads(out)
        assert (code, told["questions"]) == (0, 4)
        assert [model["model"] for model in told["models"]] == ["lab:instant"]
        assert told["usd"] > 0.0
        code, _, err = run("run", "configs/labels.toml")
        assert code == 2
        assert "the limit is $0: add --yes, or raise limit_usd" in err
        assert not (place / "studies").exists()
        code, _, err = run("run", "configs/labels.toml", "--yes")
        assert code == 0, err
    found = json.loads((place / "studies" / "labels" / "study.json").read_text(encoding="utf-8"))
    assert found["table"]["answers"] + found["table"]["unscored"] == 4
    assert found["table"]["facts_with_truth"] == 4

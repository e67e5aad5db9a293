"""Recipes of public benchmarks: what they say, and each from the command to its scores."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.datasets import base
from scenewright.evals.datasets.base import sources
from scenewright.evals.errors import ConfigError
from scenewright.evals.recipes.recipe import (
    BEST,
    FOLDER,
    LOOP,
    OURS,
    load_evaluation,
    load_recipe,
    recipe_names,
)
from scenewright.evals.store.results import Results
from scenewright.mock_providers.serving import serving_thread
from scenewright.mock_providers.settings import MockSettings
from tests.evals.datasets.store import serving
from tests.evals.recipes.benchmark_files import WRITERS, write_all

RUN = CliRunner()
NAMES = recipe_names()
ASKED = ("conceptmix", "dsg1k", "genai-bench", "geneval2", "oneig", "t2i-compbench", "tifa", "wise")


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    """The address of a mock server that draws and judges."""
    with serving_thread(MockSettings()) as served:
        yield served.url


@pytest.fixture
def place(lab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a profile, and a folder of sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY_OF_THE_LAB", f"key of {tmp_path}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SCENEWRIGHT_DATA", str(tmp_path / "data"))
    Path("scenewright.toml").write_text(
        f'[accounts.lab]\nprovider = "openai"\nbase_url = "{lab}/v1"\n'
        'key_variable = "KEY_OF_THE_LAB"\n'
        '[profiles.lab]\nbackend = { kind = "lab", model = "instant-image" }\n'
        'judges = ["lab:judge-a"]\nreport_judges = ["lab:instant"]\nstrategy = "feedback"\n',
        encoding="utf-8",
    )
    return tmp_path


def test_there_is_one_for_every_benchmark() -> None:
    assert {*NAMES} == {*ASKED, "wise-legacy"}


@pytest.mark.parametrize("name", NAMES)
def test_it_says_all_that_a_number_needs(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe is not None
    assert recipe.name == name
    assert recipe.licence
    assert recipe.differs
    assert recipe.untried
    assert recipe.evaluation["dataset"]["name"] in sources()
    config = recipe.config(("miniature",), ("local:miniature/judge-a",), loop=4, limit=7, images=2)
    assert config.metrics[-1].name == OURS
    assert all(m.options["judges"] == ["local:miniature/judge-a"] for m in config.metrics)
    assert (config.dataset.limit, config.seeds, config.recipe) == (7, (0, 1), name)
    loop, best = (config.condition_of(one) for one in (LOOP, BEST))
    # Equal work: as many pictures, and the same reasons to stop.
    assert loop.model_dump(exclude={"profile"}) == best.model_dump(exclude={"profile"})
    assert loop.images == 4


def test_a_file_is_a_recipe_too(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    text = (FOLDER / "conceptmix.toml").read_text(encoding="utf-8")
    own.write_text(text.replace('name = "conceptmix"', 'name = "own"', 1), encoding="utf-8")
    config = load_evaluation(str(own), ["miniature"])
    assert (config.name, config.recipe) == ("own", str(own))
    own.write_text(text.replace('metric = "all_correct"', 'metric = "dsg"'), encoding="utf-8")
    with pytest.raises(ConfigError, match="scores name 'dsg', which is not one of the metrics"):
        load_evaluation(str(own))


def test_the_models_own_report_judges_answer_unless_others_are_named(place: Path) -> None:
    config = load_evaluation("geneval2", ["lab"])
    assert all(metric.options["profile"] == "lab" for metric in config.metrics)
    with pytest.raises(ConfigError, match="lab, miniature have different report judges"):
        load_evaluation("geneval2", ["lab", "miniature"])
    both = load_evaluation("geneval2", ["lab", "miniature"], judges=("lab:instant",))
    assert both.backends == ("lab", "miniature")
    assert all(metric.options["judges"] == ["lab:instant"] for metric in both.metrics)


def test_what_is_neither_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file or recipe geneval3: the recipes are conceptmix"):
        load_evaluation("geneval3")
    plain = tmp_path / "plain.toml"
    plain.write_text('name = "x"\n[dataset]\nname = "miniature"\n', encoding="utf-8")
    assert load_evaluation(str(plain)).recipe == ""
    with pytest.raises(ConfigError, match="it names its loop itself"):
        load_evaluation(str(plain), loop=3)


def test_recipes_are_listed_and_shown() -> None:
    every = RUN.invoke(app, ["eval", "recipes"])
    assert all(name in every.stdout for name in NAMES)
    one = RUN.invoke(app, ["eval", "recipes", "geneval2"])
    assert "licence: CC BY-NC 4.0" in one.stdout
    assert RUN.invoke(app, ["eval", "recipes", "none"]).exit_code == 2


def test_a_set_that_is_not_here_says_how_to_fetch_it(place: Path) -> None:
    found = RUN.invoke(app, ["eval", "run", "geneval2", "-m", "lab", "--yes"])
    assert found.exit_code == 2
    assert "scenewright data get geneval2" in found.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_runs_from_its_prompts_to_its_scores(name: str, place: Path) -> None:
    write_all(place / "data")
    with serving() as store:
        recipe = load_recipe(name)
        assert recipe is not None
        found = RUN.invoke(app, ["eval", "run", name, "-m", "lab", "--yes", "--include-doubtful"])
    assert found.exit_code in (0, 1), found.output
    assert store.requests == []
    folder = place / "evals" / recipe.name
    scores = Results(folder).rows("scores")
    metrics = {row["metric"] for row in scores if row["value"] is not None}
    assert metrics == {score.metric for score in recipe.scores} | {OURS}
    values = [row["value"] for row in scores if row["part"] == "" and row["value"] is not None]
    assert all(0.0 <= value <= 1.0 and math.isfinite(value) for value in values)
    page = (folder / "benchmark.md").read_text(encoding="utf-8")
    assert "ours: grounded facts" in page
    assert recipe.scores[0].name in found.stdout
    again = RUN.invoke(app, ["eval", "benchmark", str(folder), "--json"])
    rows = json.loads(again.stdout)
    assert {row["column"] for row in rows} == {"lab/prompt"}


def test_a_loop_stands_beside_the_best_of_as_many_pictures(place: Path) -> None:
    write_all(place / "data")
    plan = RUN.invoke(app, ["eval", "plan", "conceptmix", "-m", "lab", "--loop", "3", "--json"])
    assert plan.exit_code == 0, plan.output
    assert json.loads(plan.stdout)["arms"] == 3
    found = RUN.invoke(app, ["eval", "run", "conceptmix", "-m", "lab", "--loop", "3", "--yes"])
    assert found.exit_code in (0, 1), found.output
    rows = Results(place / "evals" / "conceptmix").frame("rounds")
    drawn = rows.groupby(["condition", "item"]).size()
    assert drawn["prompt"].max() == 1
    assert max(drawn["loop"].max(), drawn["best_of_n"].max()) <= 3
    # Both begin with one picture.
    first = rows[(rows["round"] == 0) & (rows["condition"] != "prompt")]
    assert first.groupby("item")["image"].nunique().max() == 1
    page = (place / "evals" / "conceptmix" / "benchmark.md").read_text(encoding="utf-8")
    assert "lab: loop − best of N" in page
    assert "pictures of an item" in page


def test_prompts_are_fetched_by_the_users_command(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = place / "published"
    WRITERS["geneval2"](made)
    with serving() as store:
        store.files = {f.name: f.read_bytes() for f in made.iterdir()}
        known = sources()["geneval2"]
        here = known.model_copy(update={"files": tuple(
            file.model_copy(update={"address": f"{store.url}/{file.name}"})
            for file in known.files
        )})  # fmt: skip
        monkeypatch.setattr(base, "sources", lambda: {"geneval2": here})
        got = RUN.invoke(app, ["data", "get", "geneval2", "--yes"])
    assert got.exit_code == 0, got.output
    assert "CC BY-NC 4.0" in got.output
    assert "Not for commercial use" in got.output
    assert (place / "data" / "geneval2" / "geneval2_data.jsonl").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_runs_with_the_miniature(name: str, place: Path) -> None:
    write_all(place / "data")
    found = RUN.invoke(
        app,
        ["eval", "run", name, "-m", "miniature", "-j", "local:miniature/judge-c", "--loop", "2",
         "--limit", "2", "--include-doubtful", "--yes"],
    )  # fmt: skip
    assert found.exit_code in (0, 1), found.output
    scores = Results(place / "evals" / name).rows("scores")
    ours = [row["value"] for row in scores if row["metric"] == OURS and row["part"] == ""]
    assert len(ours) == 6
    assert None not in ours

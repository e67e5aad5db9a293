"""Configurations of studies: the examples, and what is wrong in one."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from scenewright.evals.studies.panel.simulator import SimulationSpec, simulate
from scenewright.evals.studies.panel.study import (
    PARTS,
    Options,
    PanelStudy,
    StudyConfig,
    example_of,
    load_study,
    part_of,
)
from scenewright.evals.studies.panel.table import PanelStudyError

ASSETS = files("scenewright.evals.studies.panel").joinpath("assets", "examples")
EXAMPLES = {
    kind: example_of(kind)
    for kind in (file.name.removesuffix(".toml") for file in ASSETS.iterdir())
}
ROOT = Path(__file__).resolve().parents[4]
STUDIES = sorted(path for path in ROOT.glob("examples/study-*.toml"))


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_the_examples_are_configurations_of_their_kind(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(EXAMPLES[kind], encoding="utf-8")
    assert load_study(file).source.kind == kind


def test_there_is_an_example_of_every_kind() -> None:
    kinds = StudyConfig.model_json_schema()["properties"]["source"]["discriminator"]["mapping"]
    assert set(EXAMPLES) == set(kinds)


def test_the_example_of_a_simulation_can_be_simulated() -> None:
    source: Any = StudyConfig.model_validate(tomllib.loads(EXAMPLES["simulation"])).source
    table = simulate(SimulationSpec.model_validate(source.spec))
    assert len(table.judges) == 3
    assert len({image.model for image in table.images}) == 2


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_the_files_in_examples_can_be_read(path: Path) -> None:
    from scenewright.evals.runner.config import load_config

    if path.stem.endswith("-evaluation"):
        load_config(path)
        return
    config = load_study(path)
    for name in config.parts or PARTS:
        config.options_of(part_of(name))


BASE = 'name = "x"\n[source]\nkind = "table"\npath = "a.csv"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BASE.replace("table", "tabel"), "source: unknown 'kind' 'tabel'"),
        (BASE + "ratings = 'r.csv'\n", "source.table.ratings: unknown key"),
        ('parts = ["powr"]\n' + BASE, "unknown part 'powr': use one of people"),
        ('parts = ["power", "power"]\n' + BASE, "parts lists one twice"),
        ("parts = []\n" + BASE, "parts is empty"),
        (BASE + "[part.powr]\n", "unknown part 'powr'"),
        ('parts = ["power"]\n' + BASE + "[part.people]\n", "parts does not list it"),
        ("resamples = 5\n" + BASE, "resamples: must be at least 100"),
        ('name = "x"\n', "source: is required"),
        ('name = "x"\n[source]\nkind = "painted"\njudges = ["a:b", "a:b"]\n', "lists one twice"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_field(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PanelStudyError) as error:
        load_study(file)
    assert str(file) in str(error.value)
    assert said in str(error.value)


class Some(Options):
    """Options for a test."""

    times: int = Field(default=1, ge=1)
    """How often."""


def test_options_are_checked_against_their_part() -> None:
    async def run(context: Any, options: Any) -> Any:
        raise AssertionError

    part = PanelStudy("power", "t", "a", frozenset(), Some, run)
    base = {"name": "x", "source": {"kind": "table", "path": "a.csv"}}
    config = StudyConfig.model_validate({**base, "part": {"power": {"times": 3}}})
    assert config.options_of(part) == Some(times=3)
    wrong = StudyConfig.model_validate({**base, "part": {"power": {"time": 3}}})
    with pytest.raises(PanelStudyError, match=r"\[part.power\] time: unknown key.*options: times"):
        wrong.options_of(part)
    # `scenewright study parts` tells what they mean.
    assert Some.model_fields["times"].description == "How often."


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_whole(name: str) -> None:
    part = part_of(name)
    assert part.name == name
    assert part.title
    assert part.about
    part.options()
    assert [n for n, field in part.options.model_fields.items() if not field.description] == []
    page = (ROOT / "docs" / "panel-studies.md").read_text(encoding="utf-8")
    assert re.search(rf"(?im)^## .*\b{name}\b|`{name}`", page)


@pytest.mark.parametrize("part", ["people", "composition", "frontier", "attacks", "aggregators"])
def test_a_wrong_aggregator_is_an_error_with_a_suggestion(part: str) -> None:
    option = "names" if part == "aggregators" else "aggregators"
    study = StudyConfig.model_validate(
        {
            "name": "x",
            "source": {"kind": "table", "path": "a.csv"},
            "part": {part: {option: ["mean", "agrement"]}},
        }
    )
    with pytest.raises(PanelStudyError, match=r"'agrement': did you mean agreement\?"):
        study.options_of(part_of(part))

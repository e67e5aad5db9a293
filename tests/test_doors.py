"""Every door for files of people takes them as they are, and says what is wrong with one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.cli.parse import read_boxes
from scenewright.cli.real_bench_schema import read_texts
from scenewright.config.settings import load_settings
from scenewright.core.closed_vocabulary import read_vocabulary
from scenewright.core.errors import ScenewrightError
from scenewright.core.formats import load_scene
from scenewright.core.predicate_statistics import load_predicates
from scenewright.evals.annotation.config import load_annotate_config
from scenewright.evals.annotation.quality import read_answers
from scenewright.evals.annotation.text_stages import read_synonyms
from scenewright.evals.datasets.base import DatasetSpec
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.human_ratings.rated_objects import read_objects
from scenewright.evals.runner.config import load_config
from scenewright.evals.studies.panel.study import load_study
from scenewright.evals.studies.real.ranking import read_labels
from scenewright.evals.studies.real.schema import read_schemas
from scenewright.evals.studies.scene_bench.attributes import objects_of
from scenewright.providers.usage import PriceTable
from scenewright.runs.model_factory.extractors import spec_of
from scenewright.tools.vision.detection.files import read_detections
from scenewright.tools.vision.extraction.meta_classes import load_meta_classes
from scenewright.tools.vision.extraction.score_table import ScoreTable
from scenewright.tools.vision.extraction.world import load_world


@dataclass(frozen=True)
class Door:
    """One place where a file of a person is read."""

    name: str
    """Of the file."""
    text: str
    read: Callable[[Path], Any]


def items_of(kind: str) -> Callable[[Path], Any]:
    """Return a door that reads the items of a set."""
    return lambda path: [
        item.model_dump(exclude={"image"})
        for item in open_dataset(DatasetSpec(name=kind, path=str(path)))
    ]


def rated(path: Path) -> Any:
    """Read rated objects beside their picture."""
    (path.parent / "p.png").write_bytes(b"")
    return read_objects(path)


def vocabulary(path: Path) -> Any:
    """Read the vocabulary of a folder."""
    return read_vocabulary(path.parent)


def settings(path: Path) -> Any:
    """Read the settings file of the working folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        return load_settings().model_dump(mode="json")


def shifted_scores(path: Path) -> Any:
    """Read scores of pairs."""
    return ScoreTable.load(path).scores(Image.new("RGB", (4, 4)), ())


_BOX = '[{"name": "dög", "box": [10, 10, 50, 50]}]'
_ANSWERS = "image_id,source,relation,target,answer\n1,dög.1,on,mat.1,yes\n"
_WORLD = """kinds = ["dög", "mat"]
predicates = ["on"]
options = "general"
[attributes]
color = ["red", "blue"]
"""
_SCHEMAS = (
    '{"classes": [{"name": "dög", "version": 1, "attributes": '
    '[{"part": "dög", "description": "red"}]}]}'
)
_SCHEMAS_TOML = """[[classes]]
name = "dög"
version = 1
[[classes.attributes]]
part = "dög"
description = "red"
"""
_TASK = """name = "x"
about = "dög"
backends = ["miniature"]
conditions = ["prompt"]
[dataset]
name = "table"
path = "p.csv"
"""
_ANNOTATION = """name = "x"
about = "dög"
panel = ["openai:gpt"]
[dataset]
name = "table"
path = "p.csv"
"""
_RATED = (
    '{"id": "1", "image": "p.png", "category": "dög", "box": [0, 0, 4, 4], "shape": 3, '
    '"texture": 3}\n'
)

DOORS = {
    "scene": Door("s.json", '{"objects": [{"id": "a", "name": "dög"}]}', load_scene),
    "triplets": Door("s.txt", "dög on table\n", load_scene),
    "boxes": Door("b.json", _BOX, read_boxes),
    "detections": Door("d.json", f'{{"p.png": {_BOX[:-2]}, "score": 0.5}}]}}', read_detections),
    "vocabulary": Door(
        "vocabulary.json",
        '{"classes": ["dög"], "attributes": {"color": ["red"]}, "predicates": ["on"]}',
        vocabulary,
    ),
    "predicates": Door(
        "p.json", '{"counts": {"on": [["dög", "mat", 2]]}}', lambda p: load_predicates(str(p))
    ),
    "table of prompts": Door("t.csv", 'id,prompt\n1,"a dög"\n', items_of("table")),
    "list of prompts": Door("t.txt", "a dög\n\ntwo cats\n", items_of("table")),
    "lines of prompts": Door("t.jsonl", '{"id": "1", "prompt": "a dög"}\n', items_of("table")),
    "evaluation": Door("e.toml", _TASK, load_config),
    "annotation": Door("a.toml", _ANNOTATION, load_annotate_config),
    "panel study": Door(
        "s.toml",
        'name = "x"\nabout = "dög"\n[source]\nkind = "table"\npath = "a.csv"\n',
        load_study,
    ),
    "schemas": Door("s.json", _SCHEMAS, read_schemas),
    "schemas in TOML": Door("s.toml", _SCHEMAS_TOML, read_schemas),
    "labels": Door("l.csv", "image,label\ndög.png,1\n", read_labels),
    "labels in lines": Door("l.jsonl", '{"image": "dög.png", "label": 1}\n', read_labels),
    "instances": Door("o.json", '{"dög": ["red dög"]}', objects_of),
    "rated objects": Door("objects.jsonl", _RATED, rated),
    "texts of classes": Door("dog.txt", "a dög\n", lambda p: read_texts([p])),
    "prices": Door(
        "p.toml",
        '["openai:dög"]\ninput = 1.0\noutput = 2.0\nas_of = 2026-01-01\n',
        lambda p: PriceTable.load(p).price("openai", "dög"),
    ),
    "answers about photos": Door("a.csv", _ANSWERS, read_answers),
    "synonyms": Door("s.json", '{"mapping": {"auf": "on"}}', read_synonyms),
    "extractor": Door("e.toml", 'stages = "two-stage"\n', lambda p: spec_of(str(p))),
    "meta-classes": Door(
        "m.toml", '[animal]\ncategories = ["dög"]\nkeys = ["color"]\n', load_meta_classes
    ),
    "world": Door("w.toml", _WORLD, load_world),
    "scores of pairs": Door("s.json", '{"pairs": []}', shifted_scores),
    "settings": Door("scenewright.toml", 'runs = "dög"\n', settings),
}

OPTIONAL = {"vocabulary", "settings", "synonyms", "texts of classes"}
"""Doors at which no file is as good as one, or a folder of files is."""


def written(folder: Path, door: Door, data: bytes) -> Path:
    """Write the file of a door."""
    folder.mkdir(exist_ok=True)
    (folder / door.name).write_bytes(data)
    return folder / door.name


@pytest.mark.parametrize("name", DOORS)
def test_the_encoding_and_line_ends_of_a_file_change_nothing(name: str, tmp_path: Path) -> None:
    door = DOORS[name]
    plain = door.read(written(tmp_path / "here", door, door.text.encode()))
    for kind, data in (
        ("mark", door.text.encode("utf-8-sig")),
        ("windows", door.text.replace("\n", "\r\n").encode("utf-8-sig")),
        # What a shell of Windows writes where it sends output to a file.
        ("shell", door.text.replace("\n", "\r\n").encode("utf-16")),
    ):
        assert door.read(written(tmp_path / "here", door, data)) == plain, kind


@pytest.mark.parametrize("name", DOORS)
def test_a_file_that_is_no_text_is_named_with_the_remedy(name: str, tmp_path: Path) -> None:
    door = DOORS[name]
    file = written(tmp_path / "latin", door, (door.text + "# dög ä\n").encode("latin-1"))
    with pytest.raises(ScenewrightError, match="UTF-8") as caught:
        door.read(file)
    assert file.name in str(caught.value)


@pytest.mark.parametrize(
    "name", sorted(set(DOORS) - {"vocabulary", "settings", "synonyms", "texts of classes"})
)
def test_a_file_that_is_not_there_or_a_folder_is_named(name: str, tmp_path: Path) -> None:
    door = DOORS[name]
    (tmp_path / "folder" / door.name).mkdir(parents=True)
    for file in (tmp_path / door.name, tmp_path / "folder" / door.name):
        with pytest.raises(ScenewrightError) as caught:
            door.read(file)
        assert file.name in str(caught.value)


@pytest.mark.parametrize("name", DOORS)
def test_half_a_file_is_an_error_or_half_of_its_lines(name: str, tmp_path: Path) -> None:
    door = DOORS[name]
    half = door.text[: len(door.text) * 2 // 3]
    told = door.name
    try:
        door.read(written(tmp_path / "half", door, half.encode()))
    except ScenewrightError as error:
        told = str(error)
    assert door.name in told

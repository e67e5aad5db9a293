"""Counts of a set, the layout of Table 1, plots and word clouds."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from scenewright.core.formats import load_scene
from scenewright.core.ports.vision import Detection
from scenewright.core.questions import facts_of
from scenewright.evals.datasets import miniature_scenes
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.statistics import (
    Statistics,
    collect,
    commonest,
    write_clouds,
    write_plots,
)
from tests.evals.eval_sets import ListedSet

ONE = load_scene("red ball on table; dog left of table")
TWO = load_scene("red dog")
ITEMS = ListedSet(
    [
        Item(id="a", scene=ONE, prompt="x", facts=facts_of(ONE), group="G", category="C"),
        Item(id="b", scene=TWO, group="G", category="D"),
        Item(id="c", prompt="x", image="c.jpg", detections=(Detection("cat", (0, 0, 1, 1)),) * 2),
    ],
    left_out={"slip": 2},
)


def test_everything_is_counted() -> None:
    seen: list[str] = []
    found = collect(ITEMS, lambda item: seen.append(item.id))
    assert seen == ["a", "b", "c"]
    assert (found.items, found.scenes, found.prompts, found.images) == (3, 2, 2, 1)
    assert (found.asked, found.boxes, found.triplets) == (1, 2, 2)
    assert found.objects == {3: 1, 1: 1}
    assert found.relations == {2: 1, 0: 1}
    assert found.attributes == {1: 2}
    assert found.levels == {"simple": 2}
    assert found.names == {"ball": 1, "table": 1, "dog": 2, "cat": 2}
    assert found.predicates == {"on": 1, "left of": 1}
    assert found.values == {("color", "red"): 2}
    assert found.classes == {("G", "C"): 1, ("G", "D"): 1, ("", ""): 1}
    assert found.facts == {"object": 3, "attribute": 1, "relation": 2}
    assert found.left_out == {"slip": 2}
    json.dumps(found.as_json(), allow_nan=False)
    assert found.as_json()["objects"] == {"mean": 2.0, "most": 3, "histogram": {"1": 1, "3": 1}}


def test_a_row_of_table_1() -> None:
    assert collect(ITEMS).table1() == {
        "Dataset": "listed",
        "Images": "1",
        "Obj. / Rel.": "4 / 2",
        "Samples": "3",
        "Triplets": "2",
        "Balanced": "no",
    }
    balanced = collect(miniature_scenes.load(n=12))
    assert balanced.table1()["Balanced"] == "yes"
    assert Statistics("empty").table1()["Balanced"] == "–"


def test_the_paper_s_balance_counts_as_balanced() -> None:
    found = Statistics("megasg", scenes=50_000)
    found.levels.update(simple=15_000, medium=20_000, hard=15_000)
    assert found.balanced
    found.levels.update(medium=20_000)
    assert not found.balanced


def test_ties_are_broken_by_name() -> None:
    found = collect(ITEMS)
    assert commonest(found.names, 3) == [("cat", 2), ("dog", 2), ("ball", 1)]


def test_plots_show_what_there_is_and_are_the_same_each_time(tmp_path: Path) -> None:
    found = collect(miniature_scenes.load(n=12))
    files = write_plots(found, tmp_path / "one")
    assert [file.name for file in files] == [
        "complexity.svg",
        "sizes.svg",
        "names.svg",
        "predicates.svg",
        "classes.svg",
    ]
    for file, again in zip(files, write_plots(found, tmp_path / "two"), strict=True):
        ElementTree.parse(file)
        assert file.read_bytes() == again.read_bytes()


def test_names_with_formula_signs_are_plain_text(tmp_path: Path) -> None:
    found = Statistics("table")
    found.add(Item(id="a", scene=load_scene("dog near $ball^2$"), group="$x_$"))
    assert len(write_plots(found, tmp_path)) == 5


def test_prompts_alone_have_no_plots_of_scenes(tmp_path: Path) -> None:
    found = collect(ListedSet([Item(id="a", prompt="x")]))
    assert write_plots(found, tmp_path) == []
    assert write_clouds(found, tmp_path) == []


def test_word_clouds_of_objects_and_relations(tmp_path: Path) -> None:
    found = collect(ITEMS)
    files = write_clouds(found, tmp_path)
    assert [file.name for file in files] == [
        "cloud-objects.png",
        "cloud-objects.svg",
        "cloud-relations.png",
        "cloud-relations.svg",
    ]
    with Image.open(files[0]) as picture:
        assert picture.size == (1200, 675)
        assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 10
    ElementTree.parse(files[1])
    assert "left of" in files[3].read_text()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="file cannot be written"):
        write_plots(collect(ITEMS), tmp_path / "file")

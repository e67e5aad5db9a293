"""Sets in the MegaSG style: graphs, boxes, levels of diversity, a language model's slips."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scenewright.core.formats import dump_scenes, loads_scene
from scenewright.core.ports.vision import Detection
from scenewright.evals.datasets import scene_graph_sets
from scenewright.evals.datasets.base import DatasetError
from tests.evals.datasets.published import check_set, photo, write_json
from tests.isomorphism import isomorphic

# The example of the paper's appendix A.
ENTRY: dict[str, Any] = {
    "image_id": "000000391895",
    "file_name": "000000391895.jpg",
    "width": 640,
    "height": 480,
    "objects": [
        "sports ball.1:[312, 360, 370, 417]",
        "person.2:[116, 49, 309, 491]",
        "person.3:[367, 108, 550, 477]",
    ],
    "relationships": [
        {"source": "person.2", "target": "sports ball.1", "relation": "kicking", "score": 0.9},
        {"source": "person.2", "target": "person.3", "relation": "near"},
    ],
    "level 1": "People-Centric",
    "level 2": "Sports & Recreation",
    "level": "simple",
}


def test_an_entry_is_a_scene_with_boxes_and_classes(tmp_path: Path) -> None:
    file = write_json(tmp_path / "megasg.json", [ENTRY])
    picture = photo(tmp_path / "images" / "000000391895.jpg")
    (item,) = check_set(
        lambda: scene_graph_sets.load_megasg(tmp_path),
        lambda: write_json(file, [ENTRY | {"width": 641}]),
    )
    assert item.id == "000000391895"
    assert item.scene is not None
    assert [str(r) for r in item.scene.relations] == [
        "person.2 kicking sports ball.1",
        "person.2 near person.3",
    ]
    assert item.image == str(picture)
    assert item.detections == (
        Detection("sports ball", (312, 360, 370, 417)),
        Detection("person", (116, 49, 309, 480)),
        Detection("person", (367, 108, 550, 477)),
    )
    assert (item.group, item.category) == ("People-Centric", "Sports & Recreation")
    assert item.level == "simple"
    assert item.meta == {
        "file_name": "000000391895.jpg",
        "width": "640",
        "height": "480",
        "level": "simple",
    }


@pytest.mark.parametrize("form", ["list", "lines", "packed lines", "one"])
def test_every_form_of_file_is_the_same_set(tmp_path: Path, form: str) -> None:
    file = tmp_path / ("a.jsonl.gz" if form == "packed lines" else "a.jsonl")
    entries = [ENTRY] if form == "one" else [ENTRY, ENTRY | {"image_id": 2}]
    text = "\n".join(map(json.dumps, entries)) + "\n"
    if form == "list":
        file.write_text(json.dumps(entries), encoding="utf-8")
    elif form == "packed lines":
        file.write_bytes(gzip.compress(text.encode()))
    else:
        file.write_text(text, encoding="utf-8")
    assert [item.id for item in scene_graph_sets.load_megasg(file)] == [
        str(e["image_id"]) for e in entries
    ]


@pytest.mark.parametrize(
    "boxes",
    [
        {"person.2": [116, 49, 309, 491], "person.3": [367, 108, 550, 477]},
        [[312, 360, 370, 417], [116, 49, 309, 491], [367, 108, 550, 477]],
    ],
)
def test_boxes_may_stand_beside_the_objects(tmp_path: Path, boxes: object) -> None:
    ids = ["sports ball.1", "person.2", "person.3"]
    file = write_json(tmp_path / "a.json", [ENTRY | {"objects": ids, "boxes": boxes}])
    (item,) = scene_graph_sets.load_megasg(file)
    assert {"person"} <= {d.name for d in item.detections}
    assert len(item.detections) == len(boxes)  # type: ignore[arg-type]


def test_slips_of_the_language_model_are_counted(tmp_path: Path) -> None:
    links = ENTRY["relationships"]
    slips = [
        {"source": "person.2", "target": "person.2", "relation": "near"},
        {"source": "person.2", "target": "dog.1", "relation": "near"},
        {"source": "person.2:[116, 49, 309, 491]", "target": "person.3", "relation": "near "},
    ]
    entries = [
        ENTRY | {"relationships": [*links, *slips]},
        ENTRY | {"image_id": "b", "objects": ["dog.1:[5, 5, 5, 9]"], "relationships": []},
        ENTRY | {"image_id": "c", "objects": [], "relationships": []},
    ]
    file = write_json(tmp_path / "a.json", entries)
    found = scene_graph_sets.load_megasg(file, min_objects=1)
    first, second = found
    assert first.scene is not None
    assert len(first.scene.relations) == 2
    assert second.detections == ()
    assert found.left_out == {
        scene_graph_sets.WITH_ITSELF: 1,
        scene_graph_sets.NOT_LISTED: 1,
        scene_graph_sets.REPEATED: 1,
        scene_graph_sets.EMPTY: 1,
        "boxes without an area inside their image": 1,
    }
    assert len(list(scene_graph_sets.load_megasg(file, min_objects=3))) == 1


def test_what_the_package_writes_is_read(tmp_path: Path) -> None:
    scene = loads_scene("red ball on table; dog left of table")
    data = json.loads(dump_scenes([scene], "megasg"))
    file = write_json(tmp_path / "a.json", data | {"image_id": 1})
    (item,) = scene_graph_sets.load_megasg(file)
    assert item.scene is not None
    assert isomorphic(item.scene, scene)


def test_splits_are_files_and_photos_may_be_named(tmp_path: Path) -> None:
    picture = photo(tmp_path / "elsewhere" / "x.jpg")
    write_json(tmp_path / "graphs.jsonl", ENTRY | {"photo": str(picture)})
    write_json(tmp_path / "test.jsonl", ENTRY | {"image_id": "t", "photo": "/nowhere/x.jpg"})
    (item,) = scene_graph_sets.load_megasg(tmp_path)
    assert item.image == str(picture)
    assert "photo" not in item.meta
    (item,) = scene_graph_sets.load_megasg(tmp_path, split="test")
    assert (item.id, item.image) == ("t", None)
    assert list(scene_graph_sets.load_megasg(tmp_path, split="test", photos_only=True)) == []
    with pytest.raises(DatasetError, match=r"holds none of val\.jsonl, val\.json"):
        scene_graph_sets.load_megasg(tmp_path, split="val")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_id": None, "file_name": ""}, 'entry 0: "image_id" is missing'),
        ({"objects": "person.2"}, "entry 0: objects: expected a list"),
        ({"objects": ["a.1", "a.1"]}, r'the id "a\.1" is used twice'),
        ({"relationships": [{"source": "person.2"}]}, r'relationships\[0\]: "target" is missing'),
        ({"boxes": [[1, 2, 3, 4]]}, "entry 0: 1 boxes for 3 objects: give each its own"),
        ({"boxes": {"person.2": [1, 2]}}, r"person\.2: a box is \[xmin, ymin, xmax, ymax\]"),
        ({"boxes": {"person.2": [1, 2, "x", 4]}}, r"person\.2: a side of the box must be a number"),
        ({"width": "wide"}, "width must be a number"),
        ({"level 1": 5}, '"level 1" must be text'),
    ],
)
def test_an_entry_in_another_form_is_told_with_its_place(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    file = write_json(tmp_path / "a.json", [ENTRY | change])
    with pytest.raises(DatasetError, match=message) as caught:
        list(scene_graph_sets.load_megasg(file))
    assert str(file) in str(caught.value)


def test_an_id_twice_and_a_damaged_file_are_told(tmp_path: Path) -> None:
    file = write_json(tmp_path / "a.json", [ENTRY, ENTRY])
    with pytest.raises(DatasetError, match="'000000391895' is given twice"):
        list(scene_graph_sets.load_megasg(file))
    file.write_text(json.dumps([ENTRY])[:-5], encoding="utf-8")
    with pytest.raises(DatasetError, match=r"a\.json, line 1 \(byte \d+\): .*cut off"):
        list(scene_graph_sets.load_megasg(file))
    file.write_text("[5]", encoding="utf-8")
    with pytest.raises(DatasetError, match="entry 0 is not a JSON object"):
        list(scene_graph_sets.load_megasg(file))

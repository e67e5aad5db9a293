"""COCO's layout: boxes by image wherever they stand, what is left out, flat memory."""

from __future__ import annotations

import json
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scenewright.core.ports.vision import Detection
from scenewright.evals.datasets import detection_sets
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.reading import CROWD, NO_AREA, NO_PHOTO, too_few
from tests.evals.datasets.published import check_set, photo, write_json
from tests.evals.datasets.published import coco as made

THREE: list[tuple[Any, int, list[float]]] = [
    (7, 1, [10, 10, 20, 30]),
    (7, 3, [90, 70, 50, 50]),
    (7, 1, [0, 0, 5, 5]),
]


def test_photos_come_with_their_boxes(tmp_path: Path) -> None:
    file = write_json(tmp_path / "annotations" / "instances_val2017.json", made(THREE))
    picture = photo(tmp_path / "val2017" / "a.jpg")
    items = check_set(
        lambda: detection_sets.load_coco(tmp_path), lambda: file.write_text(file.read_text() + "\n")
    )
    (item,) = items
    assert item.id == "7"
    assert item.scene is None
    assert item.image == str(picture)
    # A box that goes past the edge is cut there.
    assert item.detections == (
        Detection("person", (10, 10, 30, 40)),
        Detection("Sports Ball", (90, 70, 100, 80)),
        Detection("person", (0, 0, 5, 5)),
    )
    assert item.meta == {"file_name": "a.jpg", "width": "100", "height": "80"}


def test_what_is_no_object_is_left_out_and_counted(tmp_path: Path) -> None:
    data = made([*THREE, (7, 1, [5, 5, 0, 9]), (7, 1, [200, 5, 9, 9]), (99, 1, [1, 1, 2, 2])])
    data["annotations"].append({**data["annotations"][0], "iscrowd": 1})
    data["images"] += [
        {"id": 8, "file_name": "b.jpg", "width": 9, "height": 9},
        {"id": 9, "file_name": "../../c.jpg", "width": 100, "height": 80},
    ]
    data["annotations"] += [{**a, "image_id": 9} for a in data["annotations"][:3]]
    file = write_json(tmp_path / "a.json", data)
    photo(tmp_path / "photos" / "a.jpg")
    found = detection_sets.load_coco(file, images=str(tmp_path / "photos"))
    assert [item.id for item in found] == ["7"]
    assert found.left_out == {
        NO_AREA: 2,
        CROWD: 1,
        too_few(3): 1,
        detection_sets.LOST_IMAGE: 1,
        NO_PHOTO: 1,
    }
    assert [item.id for item in detection_sets.load_coco(file, scene="objects")] == ["7", "9"]


def test_without_photos_the_objects_are_a_scene(tmp_path: Path) -> None:
    file = write_json(tmp_path / "a.json", made(THREE))
    with pytest.raises(DatasetError, match=r"there are no photos: name .* or .* scene = 'objects'"):
        detection_sets.load_coco(file)
    (item,) = detection_sets.load_coco(file, scene="objects")
    assert item.scene is not None
    assert [o.id for o in item.scene.objects] == ["person.1", "Sports Ball.1", "person.2"]
    assert item.image is None
    assert len(item.detections) == 3
    assert not list(detection_sets.load_coco(file, scene="objects", min_objects=4))


def test_categories_may_come_first_and_the_file_may_be_packed(tmp_path: Path) -> None:
    data = made(THREE)
    turned = dict(reversed(data.items()))
    archive = tmp_path / detection_sets.ARCHIVE
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for split in ("train", "val"):
            file.writestr(f"annotations/instances_{split}2017.json", json.dumps(turned))
    plain = write_json(tmp_path / "plain.json", data)
    want = list(detection_sets.load_coco(plain, scene="objects"))
    for path in (tmp_path, archive):
        assert list(detection_sets.load_coco(path, scene="objects")) == want
        assert list(detection_sets.load_coco(path, split="train", scene="objects")) == want


def test_panoptic_segments_are_objects(tmp_path: Path) -> None:
    segments = [
        {"id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "iscrowd": 0},
        {"id": 2, "category_id": 3, "bbox": [9, 9, 9, 9], "iscrowd": 1},
        {"id": 3, "category_id": 3, "bbox": [9, 9, 9, 9], "iscrowd": 0},
    ]
    data = made([], annotations=[{"image_id": 7, "file_name": "a.png", "segments_info": segments}])
    file = write_json(tmp_path / "panoptic.json", data)
    found = detection_sets.load_coco(file, scene="objects", min_objects=2)
    (item,) = found
    assert [d.name for d in item.detections] == ["person", "Sports Ball"]
    assert found.left_out == {CROWD: 1}


def test_objects365_has_its_own_files_and_folders(tmp_path: Path) -> None:
    data = made(THREE)
    data["images"][0]["file_name"] = "images/v1/patch8/objects365_v1_00420917.jpg"
    file = write_json(tmp_path / "zhiyuan_objv2_val.json", data)
    picture = photo(tmp_path / "val" / "patch8" / "objects365_v1_00420917.jpg")
    items = check_set(
        lambda: detection_sets.load_objects365(tmp_path),
        lambda: file.write_text(file.read_text() + "\n"),
    )
    assert items[0].image == str(picture)
    assert [d.name for d in items[0].detections] == ["person", "sports ball", "person"]


def change(data: dict[str, Any], path: list[str | int], value: object) -> dict[str, Any]:
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["images", 0, "id"],
            None,
            r'images\[0\]: "id" must be the number of an entry, found None',
        ),
        (["images", 0, "width"], "wide", r"image 7: width must be a number, found 'wide'"),
        (["annotations", 1, "image_id"], [7], r'annotations\[1\]: "image_id" must be the number'),
        (["annotations", 1, "category_id"], 5, r"annotations\[1\]: there is no category 5"),
        (["annotations", 1, "bbox"], [1, 2, 3], r"annotations\[1\]: bbox must be \[x, y, width"),
        (["annotations", 1, "bbox"], [1, 2, 3, None], r"annotations\[1\]: a side of bbox must be"),
        (["annotations", 1], 5, r"annotations\[1\] is not a JSON object"),
        (["categories", 0, "name"], " ", r"category 1: the name is empty"),
        (["categories"], {}, r'expected "\["'),
    ],
)
def test_a_file_in_another_form_is_told_with_its_place(
    tmp_path: Path, path: list[str | int], value: object, message: str
) -> None:
    file = write_json(tmp_path / "a.json", change(made(THREE), path, value))
    with pytest.raises(DatasetError, match=message) as caught:
        list(detection_sets.load_coco(file, scene="objects"))
    assert str(file) in str(caught.value)


def test_what_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(THREE)
    data["images"] *= 2
    with pytest.raises(DatasetError, match="lists the id 7 twice"):
        list(detection_sets.load_coco(write_json(tmp_path / "a.json", data), scene="objects"))
    with pytest.raises(
        DatasetError, match=r"has no annotations/instances_val2017\.json: .*data get"
    ):
        detection_sets.load_coco(tmp_path)
    with pytest.raises(DatasetError, match="option split is 'tset'"):
        detection_sets.load_coco(tmp_path, split="tset")
    with pytest.raises(DatasetError, match="'nowhere' is not a folder"):
        detection_sets.load_coco(tmp_path / "a.json", images="nowhere")
    monkeypatch.setenv("SCENEWRIGHT_DATA", str(tmp_path / "data"))
    with pytest.raises(DatasetError, match=r"coco is not in .*data.coco: fetch .*data get coco`"):
        detection_sets.load_coco()
    write_json(tmp_path / "data" / "coco" / "instances_val2017.json", made(THREE))
    assert len(list(detection_sets.load_coco(scene="objects"))) == 1


def test_a_file_that_changes_is_indexed_anew(tmp_path: Path) -> None:
    file = write_json(tmp_path / "a.json", made(THREE))
    found = detection_sets.load_coco(file, scene="objects")
    assert len(list(found)) == 1
    write_json(file, made(THREE[:2]))
    assert list(found) == []


def big(path: Path, images: int) -> Path:
    """Boxes in an order that has nothing to do with the images'."""
    draw = random.Random(images)
    order = [image for image in range(images) for _ in range(3)]
    draw.shuffle(order)
    with path.open("w", encoding="utf-8") as file:
        file.write('{"annotations": [')
        file.write(
            ",".join(
                f'{{"image_id": {i}, "category_id": 1, "bbox": [1, 2, 3.5, 4], "iscrowd": 0}}'
                for i in order
            )
        )
        file.write('], "categories": [{"id": 1, "name": "dog"}], "images": [')
        file.write(
            ",".join(
                f'{{"id": {i}, "file_name": "{i}.jpg", "width": 50, "height": 50}}'
                for i in range(images)
            )
        )
        file.write("]}")
    return path


@pytest.mark.slow
def test_memory_stays_flat_from_1000_to_20000_images(tmp_path: Path) -> None:
    def peak(images: int) -> int:
        found = detection_sets.load_coco(big(tmp_path / f"{images}.json", images), scene="objects")
        tracemalloc.start()
        seen = sum(len(item.detections) for item in found)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seen == 3 * images
        return most

    few, many = peak(1000), peak(20_000)
    assert many < 1.3 * few, (few, many)

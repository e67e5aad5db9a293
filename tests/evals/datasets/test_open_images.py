"""Open Images: boxes in shares of the photo, relationships as scenes, attributes from ``is``."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.evals.datasets import detection_sets
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.detection_sets import NO_RELATIONS, UNKNOWN, WITH_ITSELF
from scenewright.evals.datasets.reading import CROWD, NO_AREA, NO_PHOTO, too_few
from tests.evals.datasets.published import check_set, photo, write_csv

BOXES = (
    "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,"
    "IsDepiction,IsInside"
)
VRD = (
    "ImageID,LabelName1,LabelName2,XMin1,XMax1,YMin1,YMax1,XMin2,XMax2,YMin2,YMax2,"
    "RelationshipLabel"
)
WOMAN, GUITAR, CHAIR = "/m/03bt1vf", "/m/0342h", "/m/01mzpv"
LEATHER, JUMP = "/m/04lbp", "/m/0jump"


def box(image: str, label: str, sides: str, group: int = 0) -> str:
    return f"{image},xclick,{label},1,{sides},0,0,{group},0,0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images whose rows alternate."""
    write_csv(
        tmp_path / "validation-annotations-bbox.csv",
        BOXES,
        [
            box("b", WOMAN, "0.1,0.5,0.2,0.9"),
            box("a", WOMAN, "0,1.0,0,1.0"),
            box("b", GUITAR, "0.2,0.4,0.4,0.6"),
            box("b", CHAIR, "0.5,1.2,0.5,1.0"),
            box("b", CHAIR, "0.5,0.5,0.5,1.0"),
            box("b", CHAIR, "0.1,0.9,0.1,0.9", group=1),
        ],
    )
    write_csv(
        tmp_path / "oidv6-validation-annotations-vrd.csv",
        VRD,
        [
            f"b,{WOMAN},{GUITAR},0.1,0.5,0.2,0.9,0.2,0.4,0.4,0.6,holds",
            f"b,{WOMAN},{GUITAR},0.1,0.5,0.2,0.9,0.2,0.4,0.4,0.6,plays",
            f"b,{CHAIR},{LEATHER},0.5,1.0,0.5,1.0,0.5,1.0,0.5,1.0,is",
            f"b,{WOMAN},{JUMP},0.1,0.5,0.2,0.9,0.1,0.5,0.2,0.9,is",
            f"b,{WOMAN},{CHAIR},0.1,0.5,0.2,0.9,0.5,1.0,0.5,1.0,inside_of",
            f"b,{WOMAN},{WOMAN},0.1,0.5,0.2,0.9,0.1,0.5,0.2,0.9,at",
            f"b,{WOMAN},/m/none,0.1,0.5,0.2,0.9,0.1,0.5,0.2,0.9,at",
        ],
    )
    write_csv(
        tmp_path / "class-descriptions-boxable.csv",
        f"{WOMAN},Woman",
        [f"{GUITAR},Guitar", f"{CHAIR},Chair"],
    )
    write_csv(
        tmp_path / "oidv6-attributes-description.csv",
        "id,name",
        [f"{LEATHER},(made of)Leather", f"{JUMP},Jump"],
    )
    write_csv(tmp_path / "oidv6-relationships-description.csv", "holds,holds", ["plays,plays"])
    return tmp_path


def test_boxes_are_in_pixels_of_the_photo(folder: Path) -> None:
    picture = photo(folder / "validation" / "b.jpg", (200, 100))
    file = folder / "validation-annotations-bbox.csv"
    (item,) = check_set(
        lambda: detection_sets.load_open_images(folder),
        lambda: file.write_text(file.read_text() + box("c", WOMAN, "0,1,0,1") + "\n"),
    )
    assert (item.id, item.image, item.scene) == ("b", str(picture), None)
    assert [d.name for d in item.detections] == ["woman", "guitar", "chair"]
    assert item.detections[0].box == pytest.approx((20, 20, 100, 90))
    assert item.detections[2].box == pytest.approx((100, 50, 200, 100))
    found = detection_sets.load_open_images(folder)
    list(found)
    assert found.left_out == {CROWD: 1, NO_AREA: 1, too_few(3): 2}
    found = detection_sets.load_open_images(folder, images=str(folder), min_objects=1)
    assert [item.id for item in found] == ["b"]
    assert found.left_out[NO_PHOTO] == 2


def test_relationships_are_a_scene(folder: Path) -> None:
    found = detection_sets.load_open_images(folder, scene="relations", min_objects=1)
    (item,) = found
    assert item.detections == ()
    assert item.scene is not None
    assert [str(r) for r in item.scene.relations] == [
        "woman.1 holds guitar.1",
        "woman.1 plays guitar.1",
        "woman.1 inside of chair.1",
    ]
    assert {o.id: dict(o.attributes) for o in item.scene.objects} == {
        "woman.1": {"attribute": "jump"},
        "guitar.1": {},
        "chair.1": {"material": "leather"},
    }
    assert found.left_out[NO_RELATIONS] == 1
    assert found.left_out[WITH_ITSELF] == 1
    assert found.left_out[UNKNOWN] == 1


def test_objects_alone_are_a_scene_too(folder: Path) -> None:
    (item,) = detection_sets.load_open_images(folder, scene="objects")
    assert item.scene is not None
    assert [o.id for o in item.scene.objects] == ["woman.1", "guitar.1", "chair.1"]
    assert item.scene.relations == ()


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("validation-annotations-bbox.csv", "0.1,0.5,0.2", "x,0.5,0.2", "line 2: XMin must be a n"),
        ("validation-annotations-bbox.csv", GUITAR, "/m/none", "has no label '/m/none'"),
        ("validation-annotations-bbox.csv", "XMin", "Left", "has no column XMin"),
        ("oidv6-validation-annotations-vrd.csv", "YMax2", "Y", "lacks a column"),
        ("oidv6-validation-annotations-vrd.csv", ",holds", "", "line 2: it has 11 fields"),
        ("class-descriptions-boxable.csv", "Guitar", " ", "/m/0342h: the name is empty"),
    ],
)
def test_a_file_in_another_form_is_told_with_its_place(
    folder: Path, name: str, old: str, new: str, message: str
) -> None:
    file = folder / name
    file.write_text(file.read_text().replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DatasetError, match=message):
        list(detection_sets.load_open_images(folder, scene="relations", min_objects=1))


def test_what_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(DatasetError, match=r"no photos: name .* scene = 'relations'"):
        detection_sets.load_open_images(folder)
    with pytest.raises(DatasetError, match=r"has no test-annotations-bbox\.csv \(also oidv6-"):
        detection_sets.load_open_images(folder, split="test", scene="objects")
    with pytest.raises(DatasetError, match="is not a folder: name that of Open Images"):
        detection_sets.load_open_images(folder / "class-descriptions-boxable.csv", scene="objects")
    (folder / "validation").mkdir()
    (folder / "validation" / "b.jpg").write_bytes(b"no picture")
    with pytest.raises(DatasetError, match=r"b\.jpg is not a picture"):
        list(detection_sets.load_open_images(folder))

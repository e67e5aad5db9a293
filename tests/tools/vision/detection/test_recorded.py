"""Detections from files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from scenewright.core.images import hash_of_image, load_image
from scenewright.core.ports.vision import Detection, DetectionError
from scenewright.tools.vision.detection.files import RecordedDetector, write_detections
from tests.tools.vision.detection.conformance import DetectorConformance, check, picture

DOG = {"name": "dog", "box": [10, 5, 50, 40], "score": 0.9}
CAT = {"label": "cat", "box": [1, 2, 30, 40.5]}


def written(folder: Path, content: Any, name: str = "seen.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def named(path: Path, **options: Any) -> tuple[Image.Image, RecordedDetector]:
    """The picture ``a.png`` beside the file, and the detector."""
    picture().save(path.parent / "a.png")
    return load_image(path.parent / "a.png"), RecordedDetector(path, **options)


class TestConformance(DetectorConformance):
    @pytest.fixture
    def detector(self, tmp_path: Path) -> RecordedDetector:
        things = [DOG, CAT, {"name": "sky-other-merged", "box": [0, 0, 80, 9], "stuff": True}]
        return RecordedDetector(written(tmp_path, {"images": {hash_of_image(picture()): things}}))


async def test_a_picture_is_known_by_name_wherever_it_was_opened(tmp_path: Path) -> None:
    image, detector = named(written(tmp_path, {"images": {"a.png": [DOG]}}))
    assert [one.name for one in await detector.detect(image)] == ["dog"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    picture((40, 40)).save(elsewhere / "b.png")
    other = RecordedDetector(written(tmp_path, {"images": {"x/b.png": []}}, "other.json"))
    with Image.open(elsewhere / "b.png") as opened:
        assert await other.detect(opened) == ()


async def test_a_picture_that_is_not_named_is_not_an_empty_one(tmp_path: Path) -> None:
    image, detector = named(written(tmp_path, {"images": {"a.png": []}}))
    assert await detector.detect(image) == ()
    with pytest.raises(DetectionError, match=r"no detections of the picture [0-9a-f]{64}"):
        await detector.detect(picture((20, 20)))


@pytest.mark.parametrize(
    ("told", "box"),
    [
        ({}, [8, 12, 40, 36]),
        ({"box": "xywh"}, [8, 12, 32, 24]),
        ({"unit": "relative"}, [0.1, 0.25, 0.5, 0.75]),
        ({"box": "xywh", "unit": "relative"}, [0.1, 0.25, 0.4, 0.5]),
    ],
)
async def test_the_file_says_how_it_writes_boxes(
    told: dict[str, str], box: Sequence[float], tmp_path: Path
) -> None:
    thing = {"name": "dog", "box": box}
    image, detector = named(written(tmp_path, {**told, "images": {"a.png": [thing]}}))
    (one,) = await detector.detect(image)
    assert one.box == pytest.approx((8, 12, 40, 36))
    lines = [told, {"image": "a.png", "detections": [thing]}]
    text = "\n".join(json.dumps(line) for line in lines if line)
    image, detector = named(written(tmp_path, text, "seen.jsonl"))
    assert await detector.detect(image) == (one,)


async def test_masks_in_every_form(tmp_path: Path) -> None:
    shape = [48, 80]
    mask = np.zeros(shape, bool)
    mask[10:20, 30:50] = True
    things = [
        {"name": "runs", "mask": {"size": shape, "counts": [30 * 48 + 10, *[10, 38] * 19, 10,
         28 + 30 * 48]}},
        {"name": "polygon", "mask": [[30, 10, 50, 10, 50, 20, 30, 20]]},
    ]  # fmt: skip
    image, detector = named(written(tmp_path, {"a.png": things}))
    found = await detector.detect(image)
    check(found, image)
    assert {one.name for one in found} == {"runs", "polygon"}
    for one in found:
        assert one.mask is not None
        assert np.logical_and(one.mask, mask).sum() >= 0.9 * mask.sum()
    (runs,) = await detector.detect(image, ["runs"])
    assert runs.box == pytest.approx((30, 10, 50, 20))
    assert np.asarray(runs.mask).tolist() == mask.tolist()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 70), st.integers(0, 40),
                  st.integers(1, 9), st.integers(1, 7), st.floats(0, 1), st.booleans()),
        max_size=4,
    )
)  # fmt: skip
async def test_what_is_written_comes_back(tmp_path: Path, things: list[tuple[Any, ...]]) -> None:
    listed = []
    for name, left, top, width, height, score, masked in things:
        mask = np.zeros((48, 80), bool)
        mask[top : top + height, left : left + width] = True
        box = (float(left), float(top), float(left + width), float(top + height))
        listed.append(Detection(name, box, score, mask if masked else None, masked))
    path = tmp_path / "written.json"
    write_detections(path, {hash_of_image(picture()): listed})
    found = await RecordedDetector(path).detect(picture())
    assert sorted(found, key=repr) == sorted(listed, key=repr)
    assert sorted(one.area for one in found) == sorted(one.area for one in listed)


COCO = {
    "images": [{"id": 7, "file_name": "a.png", "width": 80, "height": 48}],
    "categories": [
        {"id": 1, "name": "dog", "isthing": 1},
        {"id": 2, "name": "sky-other-merged", "isthing": 0},
    ],
}


async def test_cocos_instances_and_panoptic_segments(tmp_path: Path) -> None:
    dog = {"image_id": 7, "category_id": 1, "bbox": [10, 5, 40, 35], "iscrowd": 0}
    crowd = {**dog, "iscrowd": 1}
    instances = {**COCO, "annotations": [{**dog, "score": 0.5}, crowd]}
    image, detector = named(written(tmp_path, instances))
    assert await detector.detect(image) == (Detection("dog", (10, 5, 50, 40), 0.5),)
    sky = {"category_id": 2, "bbox": [0, 0, 80, 10], "id": 3, "iscrowd": 0}
    segments = {"image_id": 7, "segments_info": [sky, {**dog, "id": 4}]}
    panoptic = {**COCO, "annotations": [segments]}
    image, detector = named(written(tmp_path, panoptic))
    assert {(one.name, one.stuff) for one in await detector.detect(image)} == {
        ("dog", False),
        ("sky", True),
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not valid JSON"),
        ("3", "images"),
        ({"images": {"a.png": [{"box": [0, 0, 1, 1]}]}}, r"a\.png, detection 0: \"name\""),
        ({"images": {"a.png": [DOG, {"name": "x"}]}}, r"detection 1 \(x\): give it a box"),
        ({"images": {"a.png": [{**DOG, "score": 2}]}}, "score is 2"),
        ({"images": {"a.png": [{**DOG, "score": True}]}}, "score is True"),
        ({"images": {"a.png": [{**DOG, "stuff": 1}]}}, "stuff is 1"),
        ({"images": {"a.png": [{**DOG, "box": [1, 2, 3]}]}}, "four numbers"),
        ({"images": {"a.png": [{**DOG, "box": [5, 5, 4, 9]}]}}, "no area as xyxy"),
        ({"images": {"a.png": {}}}, "must be a list"),
        ({"images": {"a.png": ["dog"]}}, "must be an object"),
        ({"images": {}, "box": "yxyx"}, "box is 'yxyx'"),
        ({"images": {}, "unit": "cm"}, "unit is 'cm'"),
        ({"images": 3}, "images"),
        ([{"detections": []}], "entry 0"),
        ({**COCO, "annotations": [{"image_id": 8}]}, r"annotations\[0\]: image_id"),
        ({**COCO, "annotations": [{"image_id": 7, "category_id": 9}]}, "no category 9"),
        ({**COCO, "annotations": [], "images": [{"id": 1}]}, r"images\[0\]"),
    ],
)
def test_broken_files_name_the_entry(content: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(DetectionError, match=said) as told:
        RecordedDetector(written(tmp_path, content))
    assert "seen.json" in str(told.value)


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        ({"name": "x", "box": [90, 0, 99, 9]}, "'x' lies outside the picture of 80×48"),
        ({"name": "x", "mask": {"size": [2, 2], "counts": [3]}}, "come to 3 pixels"),
        ({"name": "x", "mask": {"size": [2], "counts": [3]}}, "size"),
        ({"name": "x", "mask": {"size": [2, 2], "counts": None}}, "counts"),
        ({"name": "x", "mask": [["a"]]}, "polygon"),
        ({"name": "x", "mask": 4}, "run-length"),
        ({"name": "x", "mask": {"size": [48, 80], "counts": [3840]}}, "lies outside the picture"),
    ],
)
async def test_what_does_not_fit_its_picture_names_the_entry(
    thing: dict[str, Any], said: str, tmp_path: Path
) -> None:
    image, detector = named(written(tmp_path, {"images": {"a.png": [thing]}}))
    with pytest.raises(DetectionError, match=said) as told:
        await detector.detect(image)
    assert "a.png, detection 0 (x)" in str(told.value)


def test_a_broken_line_is_counted(tmp_path: Path) -> None:
    text = json.dumps({"image": "a.png", "detections": []}) + "\n\n{\n"
    with pytest.raises(DetectionError, match="line 3 is not valid JSON"):
        RecordedDetector(written(tmp_path, text, "seen.jsonl"))
    with pytest.raises(DetectionError, match="cannot be read"):
        RecordedDetector(tmp_path / "missing.json")


async def test_the_threshold_and_the_file_are_in_the_fingerprint(tmp_path: Path) -> None:
    path = written(tmp_path, {"images": {"a.png": [DOG, {**CAT, "score": 0.2}]}})
    image, strict = named(path, threshold=0.5)
    assert [one.name for one in await strict.detect(image)] == ["dog"]
    prints = {strict.fingerprint, RecordedDetector(path).fingerprint}
    prints.add(RecordedDetector(written(tmp_path, {"images": {"a.png": [DOG]}})).fingerprint)
    assert len(prints) == 3
    with pytest.raises(DetectionError, match="threshold"):
        RecordedDetector(path, threshold=1.5)

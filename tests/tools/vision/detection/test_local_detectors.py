"""Detectors of transformers: real classes with tiny random weights behind the port."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scenewright.core.ports.vision import Detection, DetectionError
from scenewright.tools.vision.detection.local import (
    ClosedSetDetector,
    LocalDetector,
    PanopticDetector,
    SemanticDetector,
)
from scenewright.tools.vision.detection.open_vocabulary import OpenVocabularyDetector
from tests.tools.vision.detection.conformance import LABELS, DetectorConformance, check, picture
from tests.tools.vision.detection.conftest import Folders
from tests.tools.vision.detection.tiny import MAKERS

PANOPTIC = ("mask2former", "maskformer", "oneformer", "eomt")
WORDS = ("owlvit", "owlv2", "grounding-dino")


def build(kind: str, folder: Path, **options: Any) -> LocalDetector:
    given: dict[str, Any] = {"threshold": 0.0, "device": "cpu", "name": kind, **options}
    if kind in PANOPTIC:
        return PanopticDetector(folder, **given)
    if kind in WORDS:
        return OpenVocabularyDetector(folder, kind=kind, **given)
    if kind == "segformer":
        return SemanticDetector(folder, **given)
    return ClosedSetDetector(folder, **given)


class TestConformance(DetectorConformance):
    @pytest.fixture(params=sorted(MAKERS))
    async def detector(
        self, request: pytest.FixtureRequest, tiny_folder: Folders
    ) -> AsyncIterator[LocalDetector]:
        made = build(request.param, tiny_folder(request.param))
        yield made
        await made.aclose()


@pytest.mark.parametrize("kind", [*PANOPTIC, "segformer"])
async def test_segmentation_gives_masks(kind: str, tiny_folder: Folders) -> None:
    found = await build(kind, tiny_folder(kind)).detect(picture())
    assert all(one.mask is not None for one in found)
    # Each pixel belongs to one thing.
    taken = np.sum([np.asarray(one.mask) for one in found], axis=0)
    assert taken.max() == 1


@pytest.mark.parametrize("kind", ["mask2former", "segformer", "yolos", "owlv2"])
async def test_large_pictures_are_shown_small_and_told_large(
    kind: str, tiny_folder: Folders
) -> None:
    image = picture((300, 180))
    found = await build(kind, tiny_folder(kind), max_side=64).detect(image, LABELS)
    assert found
    check(found, image)
    assert max(one.box[2] for one in found) > 64


async def test_stuff_is_marked_if_it_is_named(tiny_folder: Folders) -> None:
    folder = tiny_folder("mask2former")
    named = build("mask2former", folder, stuff=["sky-other-merged"])
    found = await named.detect(picture())
    assert {one.stuff for one in found if one.name == "sky"} == {True}
    assert not any(one.stuff for one in found if one.name != "sky")
    # These labels are not COCO's, so nothing says what stuff is.
    assert not any(one.stuff for one in await build("mask2former", folder).detect(picture()))
    assert named.fingerprint != build("mask2former", folder).fingerprint


async def test_a_oneformer_knows_its_stuff_from_its_table(
    tmp_path: Path, tiny_folder: Folders
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder("oneformer"), folder)
    table = {
        str(at): {"name": name, "isthing": int(at != 2)}
        for at, name in enumerate(("dog", "cat", "sky-other-merged"))
    }
    (folder / "classes.json").write_text(json.dumps(table))
    made = build("oneformer", folder)
    found = await made.detect(picture())
    assert [(one.name, one.stuff) for one in found if one.name == "sky"] == [("sky", True)]


async def test_the_threshold_leaves_out_what_is_unsure(tiny_folder: Folders) -> None:
    folder = tiny_folder("owlv2")
    every = await build("owlv2", folder).detect(picture(), LABELS)
    some = await build("owlv2", folder, threshold=0.5).detect(picture(), LABELS)
    assert 0 < len(some) < len(every)
    assert {one.box for one in some} == {one.box for one in every if one.score > 0.5}


async def test_words_are_found_whatever_their_order_and_number(tiny_folder: Folders) -> None:
    """More labels than a text of Grounding DINO holds go in several texts."""
    detector = build("grounding-dino", tiny_folder("grounding-dino"), overlap=1.0)
    labels = ["dog", "fire hydrant", "cat", "Fire", "a. hydrant", "dog fire", "cat dog"]
    found = await detector.detect(picture(), labels)
    assert {one.name for one in found} <= set(labels)
    # Six queries for each text of at most 16 tokens.
    assert len(found) > 6


async def test_a_word_without_tokens_is_told(tiny_folder: Folders) -> None:
    detector = build("grounding-dino", tiny_folder("grounding-dino"))
    with pytest.raises(DetectionError, match="longer than the 16 tokens"):
        await detector.detect(picture(), ["dog " * 30])


def test_the_fingerprint_tells_settings_and_weights_apart(
    tmp_path: Path, tiny_folder: Folders
) -> None:
    folder = tiny_folder("yolos")
    prints = {
        build("yolos", folder).fingerprint,
        build("yolos", folder, threshold=0.1).fingerprint,
        build("yolos", folder, max_side=64).fingerprint,
    }
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    assert build("yolos", other).fingerprint in prints
    (other / "config.json").write_text((other / "config.json").read_text() + " ")
    assert build("yolos", other).fingerprint not in prints
    assert len(prints) == 3


async def test_a_model_that_cannot_be_loaded_is_told_each_time(
    tmp_path: Path, tiny_folder: Folders
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(tiny_folder("yolos"), folder)
    (folder / "model.safetensors").write_bytes(b"nothing")
    detector = build("yolos", folder)
    for _ in range(2):
        with pytest.raises(DetectionError, match="could not be loaded"):
            await detector.detect(picture())
    with pytest.raises(DetectionError, match="could not be loaded"):
        await detector.load()


async def test_a_model_that_fails_on_a_picture_names_it(
    tiny_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = build("yolos", tiny_folder("yolos"))
    await detector.load()

    def fails(*_: object) -> list[Detection]:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(detector, "find", fails)
    with pytest.raises(DetectionError, match=r"80×48.*no memory"):
        await detector.detect(picture())


async def test_after_closing_it_says_so(tiny_folder: Folders) -> None:
    detector = build("yolos", tiny_folder("yolos"))
    await detector.detect(picture())
    await asyncio.gather(detector.aclose(), detector.aclose())
    with pytest.raises(DetectionError, match="closed"):
        await detector.detect(picture())


@pytest.mark.parametrize(
    ("options", "said"),
    [({"threshold": 1.0}, "threshold"), ({"threshold": -0.1}, "threshold"), ({"max_side": 2}, "8")],
)
def test_settings_out_of_range_are_told(
    options: dict[str, Any], said: str, tiny_folder: Folders
) -> None:
    with pytest.raises(DetectionError, match=said):
        build("yolos", tiny_folder("yolos"), **options)


def test_a_model_that_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DetectionError, match=r"scenewright models pull .*nobody/nothing"):
        ClosedSetDetector("nobody/nothing")
    with pytest.raises(DetectionError, match=r"config\.json"):
        ClosedSetDetector(tmp_path)
    with pytest.raises(DetectionError, match="not known here"):
        OpenVocabularyDetector(tmp_path, kind="omdet-turbo")

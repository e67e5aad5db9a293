"""Features of rated objects: in order, computed once, and errors that name the line."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scenewright.core.images import load_image
from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.rated_objects import RatedObject, read_objects
from scenewright.evals.studies.olip.training import FEATURES, PART, features_of, targets_of
from scenewright.tools.vision.realism.blip import Array, BlipEncoder
from scenewright.tools.vision.realism.object_views import object_crop
from scenewright.tools.vision.realism.olip_training import Features
from tests.evals.studies.olip.rated_sets import write_rated
from tests.tools.vision.realism.blips import save_tiny_blip


class Counting(BlipEncoder):
    """Counts the pictures that it is shown, and may fail after some."""

    seen = 0
    fails_after: int | None = None

    async def features(self, images: Sequence[Image.Image], categories: Sequence[str]) -> Array:
        if self.fails_after is not None and self.seen >= self.fails_after:
            raise RealismError("out of memory")
        self.seen += len(images)
        return await super().features(images, categories)


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_blip(tmp_path_factory.mktemp("blip"))


@pytest.fixture(scope="module")
def rated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set")
    write_rated(folder, pictures=5)
    return folder


def computed(
    encoder: BlipEncoder, folder: Path, objects: Sequence[RatedObject], cache: Path | None = None
) -> Features:
    return asyncio.run(features_of(folder, objects, encoder, cache))


def test_rows_are_in_the_sets_order(blip: Path, rated: Path) -> None:
    encoder = BlipEncoder(blip, device="cpu")
    objects = read_objects(rated)[::-1]
    found = computed(encoder, rated, objects)
    assert found.full.shape == found.crop.shape == (len(objects), 16)
    for at in (0, 7):
        image = load_image(rated / objects[at].image)
        views = [image, object_crop(image, objects[at].box)]
        wanted = asyncio.run(encoder.features(views, [objects[at].category] * 2))
        np.testing.assert_allclose(found.full[at], wanted[0], atol=1e-5)
        np.testing.assert_allclose(found.crop[at], wanted[1], atol=1e-5)


def test_what_was_computed_is_read(blip: Path, rated: Path, tmp_path: Path) -> None:
    encoder = Counting(blip, device="cpu")
    objects = read_objects(rated)
    first = computed(encoder, rated, objects, tmp_path)
    assert encoder.seen == 2 * len(objects)
    other_ratings = [item.model_copy(update={"shape": 1.0}) for item in objects]
    again = computed(encoder, rated, other_ratings, tmp_path)
    assert encoder.seen == 2 * len(objects)
    assert again.digest == first.digest
    assert torch.equal(again.full, first.full)


@pytest.mark.parametrize("change", [{"box": (1, 1, 9, 9)}, {"category": "ball"}])
def test_another_object_or_another_encoder_is_computed_anew(
    change: dict[str, object], blip: Path, rated: Path, tmp_path: Path
) -> None:
    encoder = Counting(blip, device="cpu")
    objects = read_objects(rated)
    first = computed(encoder, rated, objects, tmp_path)
    changed = [objects[0].model_copy(update=change), *objects[1:]]
    assert computed(encoder, rated, changed, tmp_path).digest != first.digest
    assert encoder.seen == 2 * len(objects) + 2
    half = Counting(blip, device="cpu", dtype="bfloat16")
    assert computed(half, rated, objects, tmp_path).digest != first.digest
    assert half.seen == 2 * len(objects)


def test_an_interrupted_run_goes_on_and_a_damaged_part_is_computed_again(
    blip: Path, rated: Path, tmp_path: Path
) -> None:
    objects = [
        item.model_copy(update={"category": f"{item.category} {n}"})
        for n in range(PART // 10 + 2)
        for item in read_objects(rated)
    ]
    encoder = Counting(blip, device="cpu", batch=PART)
    encoder.fails_after = 2 * PART
    with pytest.raises(RealismError, match="out of memory"):
        computed(encoder, rated, objects, tmp_path)
    encoder.fails_after = None
    whole = computed(encoder, rated, objects, tmp_path)
    assert encoder.seen == 2 * len(objects)
    with sqlite3.connect(tmp_path / FEATURES) as db:
        db.execute("UPDATE vectors SET vector = x'00' WHERE image = (SELECT image FROM vectors)")
    again = computed(encoder, rated, objects, tmp_path)
    # In another batch a row differs in its last digits.
    torch.testing.assert_close(again.crop, whole.crop)
    assert encoder.seen == 2 * len(objects) + 2


def test_a_picture_that_cannot_be_read_is_named_with_its_line(blip: Path, tmp_path: Path) -> None:
    objects = write_rated(tmp_path, pictures=3)
    (tmp_path / "1.png").write_bytes(b"no picture")
    with pytest.raises(RealismError, match=r"objects\.jsonl, line 3: .*1\.png"):
        computed(BlipEncoder(blip, device="cpu"), tmp_path, objects)
    (tmp_path / "2.png").unlink()
    with pytest.raises(RealismError, match=r"objects\.jsonl, line 5"):
        computed(BlipEncoder(blip, device="cpu"), tmp_path, objects)


def test_a_box_outside_of_its_picture_is_named_with_its_line(blip: Path, tmp_path: Path) -> None:
    objects = write_rated(tmp_path, pictures=2)
    objects[3] = objects[3].model_copy(update={"box": (40, 0, 60, 9)})
    with pytest.raises(RealismError, match=r"line 4: the box .* is not inside a picture of 32×32"):
        computed(BlipEncoder(blip, device="cpu"), tmp_path, objects)


def test_targets_are_shape_texture_and_their_mean(rated: Path) -> None:
    objects = read_objects(rated)
    first = objects[0]
    assert targets_of(objects)[0].tolist() == [
        first.shape, first.texture, (first.shape + first.texture) / 2,
    ]  # fmt: skip
    assert targets_of([]).shape == (0, 3)

"""How pictures are made ready for a judge."""

from __future__ import annotations

import asyncio
import io
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from scenewright.agents.judges import pictures
from scenewright.agents.judges.pictures import (
    ImageFormat,
    ImagePreparation,
    PreparedImages,
    encode,
    prepare,
    shrink,
)
from scenewright.core.images import ImageError


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


@given(st.integers(1, 200), st.integers(1, 200), st.integers(8, 64))
@settings(max_examples=40, deadline=None)
def test_shrinking_keeps_the_shape_and_the_given_image(
    width: int, height: int, max_side: int
) -> None:
    image = Image.new("RGB", (width, height), (9, 90, 200))
    shown = shrink(image, max_side)
    assert image.size == (width, height)
    assert max(shown.size) == min(max_side, max(width, height))
    if min(shown.size) > 1:
        assert shown.width / shown.height == pytest.approx(width / height, rel=1 / min(shown.size))
    assert shown.getpixel((0, 0)) == (9, 90, 200)


@pytest.mark.parametrize("form", ["png", "jpeg", "webp"])
def test_the_file_is_what_it_says_and_the_same_each_time(form: ImageFormat) -> None:
    preparation = ImagePreparation(100, form)
    made = encode(noise(300, 200), preparation)
    assert made.data == encode(noise(300, 200), preparation).data
    opened = Image.open(io.BytesIO(made.data))
    assert opened.format == form.upper()
    assert made.media_type == f"image/{form}"
    assert opened.size == (made.width, made.height) == (100, 67)
    assert str(len(made.data)) in repr(made)
    assert len(repr(made)) < 80


def test_a_png_shows_just_the_pixels_without_old_metadata() -> None:
    image = noise(30, 20)
    image.info["icc_profile"] = b"a profile"
    image.info["comment"] = "a secret"
    made = encode(image, ImagePreparation())
    opened = Image.open(io.BytesIO(made.data))
    assert opened.tobytes() == image.tobytes()
    assert not opened.info
    assert image.info["comment"] == "a secret"


@pytest.mark.parametrize("form", ["png", "jpeg", "webp"])
@pytest.mark.parametrize("limit", [60_000, 9_000, 2_000])
def test_a_file_too_large_is_made_to_fit(form: ImageFormat, limit: int) -> None:
    made = encode(noise(200, 150), ImagePreparation(200, form, max_bytes=limit))
    assert len(made.data) <= limit
    assert made.width > made.height


def test_what_cannot_fit_is_an_error() -> None:
    with pytest.raises(ImageError, match="allow a judge's images more bytes"):
        encode(noise(50, 50), ImagePreparation(max_bytes=20))


def test_transparent_is_white() -> None:
    assert shrink(Image.new("RGBA", (9, 9)), 8).getpixel((0, 0)) == (255, 255, 255)


async def test_equal_preparations_encode_a_picture_once() -> None:
    kept = PreparedImages()
    image, same = noise(300, 300), noise(300, 300)
    found = await asyncio.gather(
        *(prepare(one, ImagePreparation(100), kept) for one in (image, same, image.copy()))
    )
    assert kept.encoded == 1
    assert len({id(one) for one in found}) == 1
    await prepare(image, ImagePreparation(101), kept)
    await prepare(noise(300, 300, seed=1), ImagePreparation(100), kept)
    assert kept.encoded == 3


def test_threads_wait_for_each_other_instead_of_doing_it_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = PreparedImages()
    begun, go_on = threading.Event(), threading.Event()

    def slow(image: Image.Image, preparation: ImagePreparation) -> pictures.PreparedImage:
        begun.set()
        assert go_on.wait(10)
        return encode(image, preparation)

    monkeypatch.setattr(pictures, "encode", slow)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(kept.get, noise(9, 9), ImagePreparation())
        assert begun.wait(10)
        others = [pool.submit(kept.get, noise(9, 9), ImagePreparation()) for _ in range(3)]
        go_on.set()
        assert {id(one.result(10)) for one in (first, *others)} == {id(first.result())}
    assert kept.encoded == 1


def test_only_few_pictures_are_kept_and_a_failure_is_none_of_them() -> None:
    kept = PreparedImages(kept=2)
    for seed in (0, 1, 2, 0):
        kept.get(noise(9, 9, seed), ImagePreparation())
    assert kept.encoded == 4
    kept.get(noise(9, 9, 0), ImagePreparation())
    assert kept.encoded == 4
    for _ in range(2):
        with pytest.raises(ImageError):
            kept.get(noise(9, 9), ImagePreparation(max_bytes=3))
    assert kept.encoded == 6


def test_kept_bytes_are_bounded() -> None:
    kept = PreparedImages(kept_bytes=1)
    for _ in range(2):
        kept.get(noise(20, 20, 0), ImagePreparation())
    assert kept.encoded == 1
    kept.get(noise(20, 20, 1), ImagePreparation())
    kept.get(noise(20, 20, 0), ImagePreparation())
    assert kept.encoded == 3

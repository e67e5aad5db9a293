"""Views of a thing and of a pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scenewright.core.ports.vision import Box, Detection, ExtractionError
from scenewright.tools.vision.extraction.views import (
    BLUE,
    GREY,
    RED,
    detail_crop,
    line_width,
    marked_pair,
    paint_over,
    spotlight,
)

WIDE, HIGH = 120, 90


def scene() -> Image.Image:
    """Stripes, which a blur would mix, with a green disc's worth of square in them."""
    pixels = np.zeros((HIGH, WIDE, 3), np.uint8)
    pixels[:, ::2] = 220
    pixels[30:60, 40:80] = (10, 200, 30)
    return Image.fromarray(pixels)


def thing(box: Box = (40, 30, 80, 60), masked: bool = False) -> Detection:
    """The square; with a mask its upper half."""
    mask = np.zeros((HIGH, WIDE), bool)
    mask[30:45, 40:80] = True
    return Detection("square", box, 1.0, mask if masked else None)


def pixels_of(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(int)


def has(image: Image.Image, color: tuple[int, int, int]) -> np.ndarray:
    """Where ``image`` is exactly of that colour."""
    return np.asarray((pixels_of(image) == color).all(axis=-1))


def test_a_spotlight_is_sharp_on_the_thing_alone() -> None:
    before, after = pixels_of(scene()), pixels_of(spotlight(scene(), thing()))
    assert (after[30:60, 40:80] == before[30:60, 40:80]).all()
    # Stripes of 0 and 220 run together.
    assert np.abs(after[:20, :30, 0] - 110).max() < 40
    frame = has(spotlight(scene(), thing()), RED)
    assert frame[29, 40:80].all()
    assert frame[60, 40:80].all()
    assert frame[30:60, 39].all()
    assert frame[30:60, 80].all()
    assert not frame[30:60, 40:80].any()


def test_a_spotlight_follows_the_mask() -> None:
    before, after = pixels_of(scene()), pixels_of(spotlight(scene(), thing(masked=True)))
    assert (after[30:45, 40:80] == before[30:45, 40:80]).all()
    assert (after[58, 45:75] != before[58, 45:75]).any()


def test_a_detail_crop_is_the_thing_on_grey() -> None:
    crop = detail_crop(scene(), thing(), least_side=1)
    assert crop.size == (48, 38)
    grey = has(crop, GREY)
    assert grey[:4].all()
    assert grey[:, -4:].all()
    assert not grey[4:34, 4:44].any()
    cut = has(detail_crop(scene(), thing(masked=True), least_side=1), GREY)
    assert not cut[4:19, 4:44].any()
    assert cut[19:].all()


def test_a_small_thing_is_enlarged_and_a_large_one_is_not() -> None:
    assert max(detail_crop(scene(), thing()).size) == 336
    assert detail_crop(scene(), thing((0, 0, WIDE, HIGH)), least_side=50).size == (144, 114)


def test_a_pair_has_its_boxes() -> None:
    subject, target = thing((10, 10, 50, 50)), thing((60, 40, 110, 80))
    shown = marked_pair(scene(), subject, target)
    red, blue = has(shown, RED), has(shown, BLUE)
    assert red[9, 9:51].all()
    assert blue[39, 59:111].all()
    assert not red[45:, 60:].any()
    untouched = ~(red | blue)
    assert (pixels_of(shown)[untouched] == pixels_of(scene())[untouched]).all()


@pytest.mark.parametrize("box", [(20, 20, 90, 70), (0, 0, WIDE, HIGH), (3, 3, 12, 12)])
def test_boxes_that_coincide_can_both_be_seen(box: Box) -> None:
    shown = marked_pair(scene(), thing(box), thing(box))
    red, blue = has(shown, RED), has(shown, BLUE)
    for color in (red, blue):
        rows, columns = np.nonzero(color)
        # Four sides each: the box of the colour is outlined, and not one line of it is lost.
        assert color[rows.min(), columns.min() : columns.max() + 1].all()
        assert color[rows.max(), columns.min() : columns.max() + 1].all()
        assert color[rows.min() : rows.max() + 1, columns.min()].all()
        assert color[rows.min() : rows.max() + 1, columns.max()].all()


def test_lines_grow_with_the_picture() -> None:
    assert line_width((40, 40)) == 1
    assert line_width((2000, 1000)) == 12
    large = scene().resize((2000, 1500))
    shown = marked_pair(large, thing((500, 500, 900, 900)), thing((1000, 500, 1500, 900)))
    assert has(shown, RED)[500 - 12 : 500, 700].all()


def test_what_is_hidden_takes_the_colour_around_it() -> None:
    flat = Image.new("RGB", (60, 60), (200, 180, 20))
    flat.paste((10, 20, 200), (20, 20, 40, 40))
    assert pixels_of(paint_over(flat, [(20, 20, 40, 40)])).tolist() == (
        pixels_of(Image.new("RGB", (60, 60), (200, 180, 20))).tolist()
    )
    # At the picture's edge there is less around it, and nothing black.
    flat.paste((10, 20, 200), (0, 0, 20, 20))
    assert paint_over(flat, [(0, 0, 20, 20)]).getpixel((3, 3)) == (200, 180, 20)


def test_what_is_kept_stays_whole() -> None:
    flat = Image.new("RGB", (60, 60), (200, 180, 20))
    flat.paste((10, 20, 200), (20, 20, 40, 40))
    flat.paste((0, 0, 0), (30, 30, 50, 50))
    shown = paint_over(flat, [(20, 20, 40, 40)], [(30, 30, 50, 50)])
    assert shown.getpixel((25, 25)) == (200, 180, 20)
    assert shown.crop((30, 30, 50, 50)).tobytes() == flat.crop((30, 30, 50, 50)).tobytes()


def test_masks_say_what_is_hidden_and_kept() -> None:
    flat = Image.new("RGB", (WIDE, HIGH), (200, 180, 20))
    flat.paste((10, 20, 200), (40, 30, 80, 45))
    flat.paste((0, 0, 0), (90, 30, 95, 35))
    # The box reaches over the black square, the mask does not.
    shown = paint_over(flat, [thing((40, 30, 100, 60), masked=True)])
    assert shown.getpixel((50, 35)) == (200, 180, 20)
    assert shown.getpixel((92, 32)) == (0, 0, 0)
    kept = paint_over(flat, [(40, 30, 100, 60)], [thing((40, 30, 100, 60), masked=True)])
    assert kept.getpixel((50, 35)) == (10, 20, 200)
    assert kept.getpixel((92, 32)) == (200, 180, 20)


def test_hiding_bears_places_outside_and_whole_pictures() -> None:
    flat = Image.new("RGB", (20, 20), (9, 9, 9))
    assert paint_over(flat, [(30, 30, 50, 50), (-9, -9, -1, -1)]).tobytes() == flat.tobytes()
    assert paint_over(flat, [(-5, -5, 50, 50)]).tobytes() == flat.tobytes()
    assert paint_over(flat, []).tobytes() == flat.tobytes()


SIDES = st.integers(1, 40)


@given(SIDES, SIDES, st.data())
def test_views_of_any_size(width: int, height: int, data: st.DataObject) -> None:
    def box() -> Box:
        left = data.draw(st.integers(0, width - 1))
        top = data.draw(st.integers(0, height - 1))
        right = data.draw(st.integers(left + 1, width))
        return left, top, right, data.draw(st.integers(top + 1, height))

    image = Image.new(data.draw(st.sampled_from(["RGB", "L", "RGBA", "P"])), (width, height))
    kept = image.tobytes()
    one, other = Detection("a", box()), Detection("b", box())
    for view in (spotlight(image, one), marked_pair(image, one, other), paint_over(image, [one])):
        assert view.size == (width, height)
        assert view.mode == "RGB"
    assert max(detail_crop(image, one, least_side=20).size) >= 20
    assert image.tobytes() == kept


@pytest.mark.parametrize(
    "box",
    [(-1, 0, 10, 10), (0, 0, WIDE + 1, 10), (10, 10, 10, 20), (0, 0, float("nan"), 9)],
)
def test_boxes_outside_of_the_picture_are_told(box: Box) -> None:
    told = "not inside a picture of 120×90"
    with pytest.raises(ExtractionError, match=told):
        spotlight(scene(), thing(box))
    with pytest.raises(ExtractionError, match=told):
        detail_crop(scene(), thing(box))
    with pytest.raises(ExtractionError, match=told):
        marked_pair(scene(), thing(), thing(box))


def test_a_mask_of_another_picture_is_told() -> None:
    other = scene().resize((60, 45))
    with pytest.raises(ExtractionError, match="120×90 pixels, its picture 60×45"):
        paint_over(other, [thing(masked=True)])

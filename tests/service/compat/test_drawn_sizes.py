"""Which size is drawn for the size that somebody wants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.service.compat.adapter import drawn_size
from tests.doubles import ScriptedBackend

ANY = replace(ScriptedBackend(lambda request: 0).features, default_size=(512, 512))
FIXED = replace(ANY, sizes=((1024, 1024), (1536, 1024), (1024, 1536)), default_size=(1024, 1024))


@pytest.mark.parametrize(
    ("wanted", "drawn"),
    [
        ((512, 512), None),
        ((640, 512), (640, 512)),
        ((1024, 1024), None),
        ((64, 64), None),
        ((2048, 1024), (720, 368)),
        ((500, 600), (496, 608)),
        ((4096, 16), (1024, 256)),
        ((1200, 200), (1024, 256)),
    ],
)
def test_near_its_own_size_a_model_draws_what_is_wanted(
    wanted: tuple[int, int], drawn: tuple[int, int] | None
) -> None:
    assert drawn_size(wanted, ANY) == drawn


@pytest.mark.parametrize(
    ("wanted", "drawn"),
    [((512, 512), None), ((1920, 1080), (1536, 1024)), ((600, 900), (1024, 1536))],
)
def test_of_fixed_sizes_that_of_the_nearest_shape_is_drawn(
    wanted: tuple[int, int], drawn: tuple[int, int] | None
) -> None:
    assert drawn_size(wanted, FIXED) == drawn


@given(st.integers(16, 4096), st.integers(16, 4096))
def test_what_is_drawn_can_be_asked_of_a_backend(width: int, height: int) -> None:
    found = drawn_size((width, height), ANY) or ANY.default_size
    assert all(side % 16 == 0 and 16 <= side <= 4096 for side in found)
    # At most twice the model's own pixels, and what the rounding adds to thin pictures.
    assert found[0] * found[1] <= 2.2 * 512 * 512

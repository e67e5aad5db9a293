"""A mask is kept: what lies outside is the picture that the run began with, pixel by pixel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scenewright.core.images import ImageStore
from scenewright.core.layout import keep_outside
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Generated
from scenewright.graphs.strategies.registry import DIRECTOR, strategies
from scenewright.runs.api import refine
from scenewright.runs.folder import EVENTS, IMAGES
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"
SIZES = st.tuples(st.integers(1, 24), st.integers(1, 24))


def noise(seed: int, size: tuple[int, int]) -> Image.Image:
    shape = (size[1], size[0], 3)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def spots(seed: int, size: tuple[int, int]) -> Image.Image:
    """A mask of single pixels, which fits no grid of latents; the first one is white."""
    white = np.random.default_rng(seed).random((size[1], size[0])) < 0.3
    white[0, 0] = True
    return Image.fromarray(white.astype(np.uint8) * 255)


def changed(one: Image.Image, other: Image.Image) -> np.ndarray:
    return (np.asarray(one.convert("RGB")) != np.asarray(other.convert("RGB"))).any(-1)


@given(size=SIZES, seed=st.integers(0, 99))
def test_only_the_white_of_a_mask_changes(size: tuple[int, int], seed: int) -> None:
    drawn, kept, mask = noise(seed, size), noise(seed + 1, size), spots(seed, size)
    found, share = keep_outside(drawn, kept, mask)
    white = np.asarray(mask) > 0
    assert not changed(found, kept)[~white].any()
    assert not changed(found, drawn)[white].any()
    assert share == pytest.approx(changed(found, kept).mean())


@given(size=SIZES, drawn=SIZES)
def test_a_picture_of_another_size_is_kept_scaled(
    size: tuple[int, int], drawn: tuple[int, int]
) -> None:
    kept = noise(1, size)
    found, share = keep_outside(noise(0, drawn), kept, Image.new("L", size))
    assert found.size == drawn
    assert not changed(found, kept.resize(drawn, Image.Resampling.LANCZOS)).any()
    assert share == 0.0


@pytest.mark.parametrize("references", [0, 2], ids=["alone", "with references"])
@pytest.mark.parametrize("strategy", sorted(set(strategies()) - {DIRECTOR}))
async def test_no_strategy_changes_what_lies_outside(
    tmp_path: Path, strategy: str, references: int
) -> None:
    # A backend that draws all of the picture anew, whatever it was asked to keep.
    models: dict[str, Any] = {
        "backend": ScriptedBackend(lambda asked: 120, masks=True, references=references),
        "judges": [ScriptedJudge("a")],
        "report_judges": [],
        "composer": ScriptedComposer(),
    }
    start, mask = noise(7, (16, 16)), spots(3, (16, 16))
    start.putpixel((0, 0), (60, 0, 0))
    run = tmp_path / "run"
    result = await refine(
        SCENE, out=run, start=start, mask=mask, rounds=4, strategy=strategy, patience=4, **models
    )
    white, images = np.asarray(mask) > 0, ImageStore(run / IMAGES)
    drawn = [
        event
        for event in read_events(run / EVENTS)
        if isinstance(event, Generated) and event.purpose != "reference" and not event.given
    ]
    assert drawn
    for event in drawn:
        differs = changed(images.get(event.image), start)
        assert not differs[~white].any()
        assert event.changed == pytest.approx(differs.mean(), abs=1e-6)
    assert any(event.changed for event in drawn)
    assert all(not changed(images.get(r.image), start)[~white].any() for r in result.rounds)

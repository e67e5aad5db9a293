"""Scores mapped onto people's ratings by a few examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scenewright.core.ports.vision import Detection, ObjectRealism, RealismScorer
from scenewright.tools.vision.realism.calibrated import CalibratedScorer, MonotoneMap
from scenewright.tools.vision.realism.examples import Examples
from tests.tools.vision.realism.rated import BOX, PixelScorer, example

DOG = Detection("dog", BOX)


def compressed(shape: float, texture: float) -> ObjectRealism:
    """A scorer that crowds everything between 1 and 2."""
    return ObjectRealism(1 + shape / 5, 1 + texture / 5, None)


def picture(shape: float, texture: float) -> Image.Image:
    return Image.new("RGB", (80, 60), (int(10 * shape), int(10 * texture), 0))


def test_the_map_is_isotonic_by_hand() -> None:
    # Ratings 3 and 2 are in the wrong order: both become 2.5.
    known = MonotoneMap([0.1, 0.2, 0.3, 0.4], [1, 3, 2, 5])
    assert known.values.tolist() == pytest.approx([1, 2.5, 2.5, 5])
    assert [known(x) for x in (0.0, 0.15, 0.25, 0.35, 0.9)] == pytest.approx(
        [1, 1.75, 2.5, 3.75, 5]
    )
    assert MonotoneMap([0.5, 0.5], [1, 4])(0.1) == 2.5


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(1, 5)), min_size=1, max_size=9),
    st.lists(st.floats(-2, 2), min_size=2, max_size=9),
)
def test_the_map_never_falls_and_stays_among_the_ratings(
    pairs: list[tuple[float, float]], asked: list[float]
) -> None:
    scores, ratings = zip(*pairs, strict=True)
    known = MonotoneMap(scores, ratings)
    said = [known(x) for x in sorted(asked)]
    assert (np.diff(said) >= -1e-9).all()
    assert min(ratings) - 1e-9 <= min(said) <= max(said) <= max(ratings) + 1e-9


@pytest.mark.parametrize("bad", [([], []), ([1.0], [1.0, 2.0]), ([[1.0]], [[1.0]])])
def test_a_map_needs_pairs(bad: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="as many scores as ratings"):
        MonotoneMap(*bad)


async def test_a_scale_is_learned_from_few_examples(tmp_path: Path) -> None:
    examples = Examples(tuple(example(tmp_path, f"{n}", n, 6 - n) for n in (1, 2, 3, 4, 5)))
    inner = PixelScorer(compressed)
    scorer = CalibratedScorer(inner, examples)
    assert isinstance(scorer, RealismScorer)
    (found,) = await scorer.score(picture(4, 2), [DOG])
    assert (found.shape, found.texture) == pytest.approx((4, 2))
    assert found.joint is None
    (found,) = await scorer.score(picture(2.5, 1), [DOG])
    assert found.shape == pytest.approx(2.5)
    # Two pictures and, once, five examples.
    assert len(inner.calls) == 7
    await scorer.aclose()
    assert inner.closed


async def test_one_map_serves_all_categories(tmp_path: Path) -> None:
    dogs = [example(tmp_path, f"d{n}", n, n) for n in (1, 5)]
    hats = [replace(example(tmp_path, f"h{n}", n, n), category="hat", shape=1.0) for n in (1, 5)]
    examples = Examples((*dogs, *hats), count=2)
    (together,) = await CalibratedScorer(PixelScorer(compressed), examples).score(
        picture(5, 5), [Detection("hat", BOX)]
    )
    assert together.shape == 3.0


async def test_no_map_is_made_of_fewer_examples_than_given(tmp_path: Path) -> None:
    silent = True

    def said(shape: float, texture: float) -> ObjectRealism:
        if silent and shape == 1:
            return ObjectRealism(None, None, reason="no line")
        return compressed(shape, texture)

    examples = Examples((example(tmp_path, "a", 1, 1), example(tmp_path, "b", 5, 5)))
    scorer = CalibratedScorer(PixelScorer(said), examples)
    (found,) = await scorer.score(picture(5, 5), [DOG])
    assert found.shape is None
    assert "the example a could not be scored (no line)" in found.reason
    silent = False
    (found,) = await scorer.score(picture(5, 5), [DOG])
    assert found.shape == 5


async def test_a_failed_object_keeps_its_reason(tmp_path: Path) -> None:
    def said(shape: float, texture: float) -> ObjectRealism:
        return compressed(shape, texture) if shape < 5 else ObjectRealism(None, None, reason="x")

    examples = Examples((example(tmp_path, "a", 1, 1), example(tmp_path, "b", 4, 4)))
    (found,) = await CalibratedScorer(PixelScorer(said), examples).score(picture(5, 5), [DOG])
    assert (found.shape, found.texture, found.reason) == (None, None, "x")


def test_the_fingerprint_follows_scorer_and_examples(tmp_path: Path) -> None:
    one = Examples((example(tmp_path, "a", 1, 1),))
    two = Examples((example(tmp_path, "b", 2, 1),))
    a, b = PixelScorer(compressed, "1"), PixelScorer(compressed, "2")
    prints = {
        CalibratedScorer(a, one).fingerprint,
        CalibratedScorer(b, one).fingerprint,
        CalibratedScorer(a, two).fingerprint,
    }
    assert len(prints) == 3

"""Objects scored by how well their crop fits a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

from benchmarks._metrics_models import TEXT_ROOM, save_clip, save_dinov2
from scenewright.core.ports.vision import Detection, RealismError, RealismScorer
from scenewright.tools.vision.realism.alignment import AlignmentScorer, ClipEncoder
from scenewright.tools.vision.realism.object_views import object_crop

IMAGE = Image.radial_gradient("L").resize((120, 90)).convert("RGB")
DOG = Detection("dog", (30, 20, 70, 60))
HAT = Detection("red_hat", (0, 0, 30, 30))


class TableEncoder:
    """Cosines by the crop's number and the text's."""

    name = "table"
    thread = "alignment"
    fingerprint = "table-1"

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        self.rows = rows
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self.closed = False

    async def likeness(
        self, images: Sequence[Image.Image], texts: Sequence[str]
    ) -> NDArray[np.float32]:
        self.asked.append((len(images), tuple(texts)))
        return np.array(self.rows[: len(images)], np.float32)

    async def aclose(self) -> None:
        self.closed = True


async def test_a_cosine_is_a_place_between_the_bounds_by_hand() -> None:
    encoder = TableEncoder([[0.1, 0.2, 0.25], [0.5, 0.3, -1.0]])
    scorer = AlignmentScorer(encoder, (0.1, 0.3))
    assert isinstance(scorer, RealismScorer)
    first, second = await scorer.score(IMAGE, [DOG, DOG])
    assert (first.shape, first.texture, first.joint) == pytest.approx((1, 3, 4), abs=1e-5)
    assert (second.shape, second.texture, second.joint) == pytest.approx((5, 5, 1), abs=1e-5)
    assert encoder.asked == [
        (
            2,
            (
                "dog with realistic shape and structure.",
                "dog with realistic texture, color and shade.",
                "dog with realistic shape, structure, texture, color and shade.",
            ),
        )
    ]
    await scorer.aclose()
    assert encoder.closed


async def test_categories_are_asked_apart_and_bad_boxes_not_at_all() -> None:
    encoder = TableEncoder([[0.2, 0.2, 0.2], [0.2, 0.2, 0.2]])
    outside = Detection("dog", (300, 0, 310, 10))
    found = await AlignmentScorer(encoder, (0, 1)).score(IMAGE, [DOG, outside, HAT, DOG])
    assert [n for n, _ in encoder.asked] == [2, 1]
    assert encoder.asked[1][1][0] == "red hat with realistic shape and structure."
    assert [one.shape is None for one in found] == [False, True, False, False]
    assert "not inside a picture" in found[1].reason


async def test_what_is_no_number_is_no_score() -> None:
    encoder = TableEncoder([[float("nan"), 0.2, 0.2]])
    (found,) = await AlignmentScorer(encoder, (0, 1)).score(IMAGE, [DOG])
    assert (found.shape, found.reason) == (None, "the model gave no number")


@pytest.mark.parametrize("bounds", [(0.3, 0.3), (0.4, 0.1), (-2.0, 0.5)])
def test_bounds_must_be_in_order(bounds: tuple[float, float]) -> None:
    with pytest.raises(RealismError, match="lower one first"):
        AlignmentScorer(TableEncoder([]), bounds)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_clip(tmp_path_factory.mktemp("clip"))


async def test_a_clip_is_used_as_the_library_would(clip: Path) -> None:
    model = AutoModel.from_pretrained(clip)
    pixels = AutoImageProcessor.from_pretrained(clip, backend="pil")(
        images=object_crop(IMAGE, DOG.box), return_tensors="pt"
    )
    texts = ["dog with realistic shape and structure.", "a tree"]
    words = AutoTokenizer.from_pretrained(clip)(
        texts, padding=True, truncation=True, max_length=TEXT_ROOM, return_tensors="pt"
    )
    with torch.no_grad():
        seen = model.get_image_features(**pixels).pooler_output
        read = model.get_text_features(**words).pooler_output
    wanted = torch.cosine_similarity(seen, read).numpy()
    encoder = ClipEncoder(clip, device="cpu", batch=1)
    found = await encoder.likeness([object_crop(IMAGE, DOG.box), IMAGE], texts)
    assert found.shape == (2, 2)
    assert found[0] == pytest.approx(wanted, abs=1e-5)
    assert (await encoder.likeness([], texts)).shape == (0, 2)
    await encoder.aclose()
    with pytest.raises(RealismError, match="closed"):
        await encoder.likeness([IMAGE], texts)
    scorer = AlignmentScorer(ClipEncoder(clip, device="cpu"), (-1, 1))
    (score,) = await scorer.score(IMAGE, [DOG])
    assert score.shape == pytest.approx(3 + 2 * float(wanted[0]), abs=1e-4)
    await scorer.aclose()


def test_fingerprints_follow_weights_and_bounds(clip: Path, tmp_path: Path) -> None:
    prints = {
        AlignmentScorer(ClipEncoder(clip)).fingerprint,
        AlignmentScorer(ClipEncoder(clip), (0, 1)).fingerprint,
        AlignmentScorer(ClipEncoder(save_clip(tmp_path, seed=9))).fingerprint,
    }
    assert len(prints) == 3


async def test_a_model_that_cannot_compare_is_told(tmp_path: Path) -> None:
    with pytest.raises(RealismError, match="scenewright models pull"):
        ClipEncoder("openai/clip-vit-base-patch16")
    with pytest.raises(RealismError, match="at least 1"):
        ClipEncoder(tmp_path, batch=0)
    eyes = AlignmentScorer(ClipEncoder(save_dinov2(tmp_path), device="cpu"))
    for _ in range(2):
        with pytest.raises(RealismError, match="compares no pictures with texts"):
            await eyes.score(IMAGE, [DOG])
    await eyes.aclose()

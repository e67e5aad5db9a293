"""The segmenter's recipe: exact truth, a training that goes on, and what ships."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch
from transformers import SegformerForSemanticSegmentation

from benchmarks._miniature_models import overlap, segmenter_figures
from scenewright.core.formats import load_scene
from scenewright.miniature.painter import paint
from scenewright.miniature.training.segmenter import (
    LABELS,
    new_model,
    new_processor,
    sample,
    train_segmenter,
    truth_of,
)
from scenewright.miniature.world import KINDS, SIZE


def test_truth_names_every_kind_where_its_box_is() -> None:
    painting = paint(load_scene("red ball left of blue house"), seed=3)
    truth = truth_of(painting)
    assert truth.shape == (SIZE, SIZE)
    assert {LABELS[at] for at in np.unique(truth)} == {"background", "ball", "house"}
    for item in painting.scene.objects:
        box = painting.truth.boxes[item.id]
        rows, columns = np.nonzero(truth == LABELS.index(item.name))
        assert box.top - 1 <= rows.min()
        assert rows.max() <= box.top + box.height
        assert box.left - 1 <= columns.min()
        assert columns.max() <= box.left + box.width


def test_paintings_of_a_seed_are_the_same() -> None:
    first, second = (sample(random.Random("seg")) for _ in range(2))
    assert first.image.tobytes() == second.image.tobytes()
    assert (truth_of(first) == truth_of(second)).all()


def test_it_trains_goes_on_and_exports_the_ordinary_layout(tmp_path: Path) -> None:
    out, work = tmp_path / "out", tmp_path / "work"
    assert not train_segmenter(out, work, 2, device="cpu", max_seconds=0.0)
    assert train_segmenter(out, work, 2, device="cpu")
    model = SegformerForSemanticSegmentation.from_pretrained(out, local_files_only=True)
    assert list(model.config.id2label.values()) == list(LABELS)
    assert model.dtype == torch.float16
    pixels = new_processor()(images=paint(load_scene("dog"), 1).image, return_tensors="pt")
    assert new_model()(pixels["pixel_values"]).logits.shape[1] == 1 + len(KINDS)


def test_overlap_is_one_for_equal_maps_and_counts_what_is_in_either() -> None:
    truth = np.zeros((4, 4), int)
    truth[:2] = 1
    half = truth.copy()
    half[1] = 0
    assert overlap(truth, truth) == 1.0
    assert overlap(half, truth) == 0.5
    assert overlap(np.where(half == 0, 2, half), truth) == 0.25
    assert overlap(np.zeros_like(truth), np.zeros_like(truth)) == 1.0


def test_the_shipped_one_finds_the_kinds_of_held_out_paintings() -> None:
    figures = segmenter_figures(5)
    assert figures["segmenter.flat.iou"]["mean"] > 0.8
    assert figures["segmenter.weathered.iou"]["mean"] > 0.7

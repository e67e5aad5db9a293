"""Lessons of the IP-Adapter: what references show, where to look, and one true step."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from scenewright.miniature.training.adapter import load_reader
from scenewright.miniature.training.generator import WATCHED, cells_of, nth_truth
from scenewright.miniature.training.lessons import (
    Shown,
    lesson_emphasis,
    look_maps,
    make_lesson,
)
from scenewright.miniature.training.references import train_references
from scenewright.miniature.world import new_tokenizer

WEIGHTS = Path(__file__).parents[3] / "scenewright" / "miniature" / "weights"


@pytest.mark.parametrize("index", range(12))
def test_the_last_reference_shows_exactly_what_is_lost(index: int) -> None:
    truth = nth_truth(3, index)
    lesson = make_lesson(truth, random.Random(index), new_tokenizer())
    if not lesson.lost:
        assert [shown.painting for shown in lesson.shown] == [None, None]
        return
    paintings = [shown.painting for shown in lesson.shown if shown.painting is not None]
    scene = paintings[-1].scene
    assert {item.id for item in scene.objects} == lesson.lost
    for item in scene.objects:
        assert item == truth.scene.object(item.id)


@pytest.mark.parametrize("side", WATCHED)
def test_a_cell_of_a_thing_is_told_to_look_where_the_reference_shows_it(side: int) -> None:
    checked = 0
    for index in range(20):
        truth = nth_truth(4, index)
        for shown in make_lesson(truth, random.Random(index), new_tokenizer()).shown:
            maps = look_maps(truth, shown, side)
            assert maps.shape == (side * side, 65)
            if shown.painting is None:
                assert not maps.any()
                continue
            boxes = shown.painting.truth.boxes
            told = torch.zeros(side * side, 65, dtype=torch.bool)
            for key in shown.ids:
                there, here = cells_of(truth.boxes[key], side), cells_of(boxes[key], 8)
                told[:, 1:] |= there[:, None] & here
                checked += 1
            assert torch.equal(maps.bool(), told)
    assert checked > 20


def test_lost_things_weigh_most() -> None:
    truth = next(t for t in (nth_truth(5, i) for i in range(50)) if len(t.boxes) > 2)
    lost = truth.scene.objects[0].id
    weights = lesson_emphasis(truth, frozenset({lost}))
    assert weights.mean().item() == pytest.approx(1.0)
    heavy = (weights == weights.max()).flatten()
    assert bool((heavy & cells_of(truth.boxes[lost])).any())
    assert not look_maps(truth, Shown(None, 0.5), 8).any()


def test_a_step_changes_what_is_trained_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "weights"
    shutil.copytree(WEIGHTS / "generator", out / "generator")
    shutil.copytree(WEIGHTS / "ip-adapter", out / "ip-adapter")
    folder = out / "ip-adapter"
    assert train_references(
        out / "generator",
        tmp_path,
        folder,
        load_reader(folder),
        steps=1,
        batch=2,
        paintings=4,
        onward=True,
    )
    name = "ip-adapter.safetensors"
    made, shipped = load_file(folder / name), load_file(WEIGHTS / "ip-adapter" / name)
    assert any(not torch.equal(made[key], shipped[key]) for key in shipped)
    for name in (
        "ip-adapter/image_encoder/model.safetensors",
        "generator/unet/diffusion_pytorch_model.safetensors",
    ):
        assert (out / name).read_bytes() == (WEIGHTS / name).read_bytes()

"""The GPU benchmark with tiny models on the CPU: both sides, the same pictures, and the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks._gpu_models import FULL, SMALL, Sizes, build
from benchmarks.gpu_loop import LATER, Outcome, Times, compare, figures, jobs, measure

TINY = Sizes(
    pixels=32,
    steps=2,
    unet={
        "sample_size": 16,
        "block_out_channels": (32, 32, 64),
        "attention_head_dim": (2, 2, 4),
        "transformer_layers_per_block": (1, 1, 1),
        "addition_time_embed_dim": 8,
    },
    vae={"block_out_channels": (32, 32), "layers_per_block": 1, "sample_size": 32},
    text=SMALL.text | {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    text_2=SMALL.text | {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    vision=SMALL.vision
    | {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "projection_dim": 32},
)


def outcome(seconds: float, picture: np.ndarray) -> Outcome:
    times = Times(first=3 * seconds, later=seconds, drawing=seconds / 2)
    return Outcome(times, times, peak_mib=seconds, pictures=[picture])


def inside(*given: Any) -> Outcome:
    """A side in this process."""
    return measure(*given)


@pytest.mark.slow
def test_both_sides_draw_the_same_pictures_and_every_figure_is_there(tmp_path: Path) -> None:
    found = compare(
        TINY, "cpu", torch.float32, repeats=1, compiled=False, folder=tmp_path, run=inside
    )
    assert max(found["max_abs_diff"], found["max_abs_diff_together"]) <= 2
    for name in ("speedup", "speedup_next", "speedup_drawing_together", "speedup_next_cpu"):
        assert 0 < found[name]["low"] <= found[name]["mean"] <= found[name]["high"]
    assert not [name for name in found if "compiled" in name]
    assert found["peak_mib"] >= 0


@pytest.mark.slow
def test_the_benchmark_draws_what_it_says(tmp_path: Path) -> None:
    """Pictures differ where requests do: a grey one would agree with everything."""
    build(tmp_path, TINY, "cpu", torch.float32)
    work = jobs(2, TINY.pixels, TINY.steps)
    pictures = measure("ours", tmp_path, "cpu", torch.float32, work).pictures
    assert len(pictures) == 6
    assert min(picture.std() for picture in pictures) > 5
    for one in range(6):
        for other in range(one):
            assert np.abs(pictures[one].astype(int) - pictures[other].astype(int)).mean() > 2
    alone = replace(work[0], seed=work[0].seed + 2)
    without = measure("ours", tmp_path, "cpu", torch.float32, [alone, alone]).pictures[0]
    assert np.abs(without.astype(int) - pictures[2].astype(int)).max() > 4
    with pytest.raises(ValueError, match="give two or more"):
        measure("ours", tmp_path, "cpu", torch.float32, work[:1])


def test_ratios_are_those_of_pairs() -> None:
    same = np.full((4, 4, 3), 100, np.uint8)
    near = same.copy()
    near[0, 0] = 103
    pairs = [
        {"script": outcome(4.0, same), "ours": outcome(2.0, near), "compiled": outcome(1.0, same)},
        {"script": outcome(9.0, same), "ours": outcome(3.0, same), "compiled": outcome(1.0, same)},
    ]
    found = figures(pairs)
    assert found["speedup"]["mean"] == pytest.approx(2.5)
    assert found["speedup_next_compiled"]["mean"] == pytest.approx(6.5)
    assert (found["max_abs_diff"], found["max_abs_diff_compiled"]) == (3, 0)
    assert found["mean_abs_diff"] == pytest.approx(9 / 48)
    assert (found["peak_mib"], found["script_peak_mib"]) == (3.0, 9.0)
    assert found["script_first_seconds"]["mean"] == pytest.approx(19.5)


def test_times_of_different_pictures_are_refused() -> None:
    dark, light = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 90, np.uint8)
    with pytest.raises(RuntimeError, match="script and ours differ by 90"):
        figures([{"script": outcome(2.0, dark), "ours": outcome(1.0, light)}])


def test_the_full_sizes_are_those_of_sdxl() -> None:
    """Numbers of weights of the published checkpoints, counted without making them."""
    from diffusers import UNet2DConditionModel
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    from benchmarks._gpu_models import unet_options

    with torch.device("meta"):
        unet = UNet2DConditionModel(**unet_options(FULL))
        encoder = CLIPVisionModelWithProjection(CLIPVisionConfig(**FULL.vision))
    assert sum(p.numel() for p in unet.parameters()) == 2_567_463_684
    assert sum(p.numel() for p in encoder.parameters()) == pytest.approx(1.84e9, rel=0.01)
    assert (FULL.pixels, FULL.steps, LATER) == (1024, 30, 2)

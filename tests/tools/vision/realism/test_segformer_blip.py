"""A SegFormer's maps as the tokens of a BLIP: shapes, places, and what a wrong width says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BlipConfig, SegformerConfig

from scenewright.tools.vision.realism.segformer_blip import (
    GRID,
    SegformerBlip,
    SegformerVision,
    width_of,
)

SEGFORMER = {
    "hidden_sizes": [4, 8, 8, 8], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 1, 1],
    "mlp_ratios": [1, 1, 1, 1],
}  # fmt: skip


def blip_config(width: int) -> BlipConfig:
    """A tiny one."""
    text = {
        "vocab_size": 8, "hidden_size": 8, "encoder_hidden_size": width, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 8,
    }  # fmt: skip
    vision = {
        "hidden_size": width, "intermediate_size": 1, "num_hidden_layers": 0,
        "num_attention_heads": 2, "image_size": 32, "patch_size": 32,
    }  # fmt: skip
    return BlipConfig(text_config=text, vision_config=vision, projection_dim=6, segformer=SEGFORMER)


def test_there_is_a_token_for_the_picture_and_one_for_each_place() -> None:
    torch.manual_seed(0)
    config = SegformerConfig(**SEGFORMER)
    vision = SegformerVision(config).eval()
    assert width_of(config) == 2 * (4 + 8 + 8 + 8)
    with torch.no_grad():
        found = vision(torch.randn(2, 3, 64, 64))
    assert found.last_hidden_state.shape == (2, 1 + GRID**2, 56)
    assert torch.equal(found.pooler_output, found.last_hidden_state[:, 0])


def test_the_first_map_keeps_its_places() -> None:
    torch.manual_seed(0)
    vision = SegformerVision(SegformerConfig(**SEGFORMER)).eval()
    plain = torch.zeros(1, 3, 64, 64)
    marked = plain.clone()
    marked[..., :8, 56:] = 3.0
    with torch.no_grad():
        # Mean and spread of the first map: the finest one.
        apart = (vision.raw(marked) - vision.raw(plain))[0, 1:, :8].abs().sum(-1)
    assert int(apart.argmax()) == GRID - 1


def test_a_flat_map_has_no_spread_but_the_smallest() -> None:
    vision = SegformerVision(SegformerConfig(**SEGFORMER)).eval()
    with torch.no_grad():
        spread = vision.raw(torch.full((1, 3, 64, 64), 0.3))[0, 1:, 4:8]
    middle = spread.reshape(GRID, GRID, 4)[2:6, 2:6]
    assert middle.max() < 0.1


def test_every_channel_is_brought_to_one_size() -> None:
    torch.manual_seed(0)
    vision = SegformerVision(SegformerConfig(**SEGFORMER)).eval()
    with torch.no_grad():
        raw = vision.raw(torch.randn(24, 3, 64, 64))
        raw[..., 5] *= 1000
        vision.measure(raw)
        tokens = vision.of(raw).last_hidden_state
    for part in (tokens[:, 0], tokens[:, 1:].flatten(0, 1)):
        assert part.mean(0).abs().max() < 0.1
        assert part.std(0)[part.std(0) > 0.01].sub(1).abs().max() < 0.25
    assert tokens.abs().max() <= 6.0


def test_the_residual_is_the_components_of_the_whole_picture() -> None:
    torch.manual_seed(0)
    model = SegformerBlip(blip_config(56)).eval()
    ids = torch.tensor([[2, 4, 3]])
    with torch.no_grad():
        pixels = torch.randn(40, 3, 64, 64)
        raw = model.vision_model.raw(pixels)
        model.measure(raw)
        whole = model.vision_model.of(raw).last_hidden_state[:, 0]
        found = whole @ model.residual.T
        # One text for all: what is left of the residual tells the pictures apart.
        features = model.get_multimodal_features(input_ids=ids.repeat(40, 1), pixel_values=pixels)
        model.residual.zero_()
        plain = model.get_multimodal_features(input_ids=ids.repeat(40, 1), pixel_values=pixels)
    centred = found - found.mean(0)
    covariance = centred.T @ centred / len(centred)
    assert torch.allclose(covariance, torch.eye(6), atol=1e-3)
    assert torch.allclose(features - plain, found, atol=1e-4)


def test_of_few_pictures_there_are_few_components() -> None:
    model = SegformerBlip(blip_config(56)).eval()
    with torch.no_grad():
        model.measure(model.vision_model.raw(torch.randn(3, 3, 64, 64)))
    assert model.residual.isfinite().all()
    assert not model.residual[3:].any()


def test_it_comes_back_from_its_folder_as_it_was(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SegformerBlip(blip_config(56)).eval()
    model.save_pretrained(tmp_path)
    again, told = SegformerBlip.from_pretrained(tmp_path, output_loading_info=True)
    assert not told["missing_keys"]
    pixels, ids = torch.randn(1, 3, 64, 64), torch.tensor([[2, 4, 3]])
    with torch.no_grad():
        first = model.get_multimodal_features(input_ids=ids, pixel_values=pixels)
        second = again.eval().get_multimodal_features(input_ids=ids, pixel_values=pixels)
    assert first.shape == (1, 6)
    assert torch.allclose(first, second, atol=1e-6)


def test_a_width_that_does_not_fit_is_told() -> None:
    with pytest.raises(ValueError, match="56 wide"):
        SegformerBlip(blip_config(40))

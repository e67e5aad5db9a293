"""OLIP's heads: their sizes, their range, and what they see of the full image."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scenewright.tools.vision.realism.olip import ASPECTS, Olip, OlipConfig

SMALL = {"embedding": 16, "heads": 4, "widths": (12, 8, 6)}


def size(**switches: object) -> int:
    return sum(p.numel() for p in Olip(OlipConfig.model_validate(switches)).parameters())


def views(count: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(count, 16, generator=generator) for _ in range(2))  # type: ignore[return-value]


# Attention over 512: query, key and value maps 3·(512·512 + 512), output 512·512 + 512.
ATTENTION = 3 * (512 * 512 + 512) + (512 * 512 + 512)
# Linear layers 512→1024→768→384 with biases, each with a layer norm's scale and shift.
MLP = (512 * 1024 + 1024 + 2 * 1024) + (1024 * 768 + 768 + 2 * 768) + (768 * 384 + 384 + 2 * 384)


def test_the_papers_architecture_has_the_parameters_that_its_layers_add_up_to() -> None:
    assert ATTENTION == 1_050_624
    assert MLP + (384 + 1) == 1_612_545
    assert size() == 3 * (1_050_624 + 1_612_545) == 7_989_507


@pytest.mark.parametrize(
    ("switches", "parameters"),
    [
        ({"full_image": True}, 7_989_507),
        ({"residual": False}, 7_989_507),
        # One attention and one MLP, whose last layer has three outputs.
        ({"multi_head": False}, 1_050_624 + MLP + 3 * (384 + 1)),
        # Three attentions with one linear layer each.
        ({"deep": False}, 3 * (1_050_624 + 512 + 1)),
        ({"deep": False, "multi_head": False}, 1_050_624 + 3 * (512 + 1)),
    ],
)
def test_each_ablation_has_the_parameters_that_it_leaves(
    switches: dict[str, bool], parameters: int
) -> None:
    assert size(**switches) == parameters


def test_small_heads_fit_into_half_a_megabyte_and_a_bit() -> None:
    attention = 4 * (128 * 128 + 128)
    mlp = (128 * 128 + 3 * 128) + (128 * 96 + 3 * 96) + (96 * 48 + 3 * 48) + (48 + 1)
    assert size(embedding=128, widths=(128, 96, 48)) == 3 * (attention + mlp) == 300_579


@settings(max_examples=30)
@given(
    count=st.integers(1, 7), scale=st.floats(0, 1e4), seed=st.integers(0, 99),
    switches=st.fixed_dictionaries(
        {name: st.booleans() for name in ("full_image", "multi_head", "deep", "residual")}
    ),
)  # fmt: skip
def test_scores_are_three_an_object_and_within_the_scale(
    count: int, scale: float, seed: int, switches: dict[str, bool]
) -> None:
    torch.manual_seed(seed)
    model = Olip(OlipConfig.model_validate({**SMALL, **switches})).eval()
    full, crop = views(count, seed)
    found = model(scale * full, scale * crop)
    assert found.shape == (count, len(ASPECTS))
    assert bool((found >= 1).all())
    assert bool((found <= 5).all())


def test_a_score_of_logit_zero_is_the_middle_of_the_scale() -> None:
    model = Olip(OlipConfig.model_validate({**SMALL, "deep": False}))
    for branch in model.branches:
        torch.nn.init.zeros_(branch.head.weight)  # type: ignore[union-attr,arg-type]
        torch.nn.init.zeros_(branch.head.bias)  # type: ignore[union-attr,arg-type]
    assert model(*views()).tolist() == [[3.0] * 3] * 5


@pytest.mark.parametrize(
    ("switches", "sees"),
    [
        ({"full_image": True}, True),
        ({"full_image": True, "residual": False}, False),
        ({}, False),
    ],
)
def test_attention_to_one_key_sees_the_full_image_only_by_the_residual(
    switches: dict[str, bool], sees: bool
) -> None:
    torch.manual_seed(0)
    model = Olip(OlipConfig.model_validate({**SMALL, **switches})).eval()
    full, crop = views()
    other = torch.randn_like(full)
    same = torch.equal(model(full, crop), model(other, crop))
    assert same is not sees
    assert not torch.equal(model(full, crop), model(full, other))


def test_query_and_key_maps_never_learn() -> None:
    torch.manual_seed(0)
    model = Olip(OlipConfig.model_validate(SMALL))
    model(*views()).sum().backward()
    for branch in model.branches:
        gradient = branch.attention.in_proj_weight.grad  # type: ignore[union-attr]
        assert isinstance(gradient, torch.Tensor)
        assert not gradient[:32].any(), "rows of query and key"
        assert bool(gradient[32:].any()), "rows of value"


def test_heads_that_do_not_divide_the_embedding_are_refused() -> None:
    with pytest.raises(ValidationError, match="cannot be shared by 3 heads"):
        OlipConfig(embedding=16, heads=3)

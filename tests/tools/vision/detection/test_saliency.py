"""What is in front: by a map of salience, by boxes alone, and a model that brings its own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scenewright.core.ports.vision import Detection, DetectionError
from scenewright.tools.vision.detection.birefnet import BiRefNet, saliency_of
from scenewright.tools.vision.detection.saliency import (
    BIREFNET,
    CENTRE_AND_SIZE,
    centre_and_size,
    foreground,
    salience_of,
)

SIZE = (100, 80)

# A small model of the same interface: a list of logits, the last one of full size.
CODE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel


class SmallConfig(PretrainedConfig):
    model_type = "small_saliency"


class Small(PreTrainedModel):
    config_class = SmallConfig

    def __init__(self, config):
        super().__init__(config)
        self.mix = torch.nn.Conv2d(3, CHANNELS, 1)
        self.post_init()

    def forward(self, pixels):
        found = self.mix(pixels)
        return [torch.zeros_like(found)[:, :, ::2, ::2], found]
"""


def box(left: float, top: float, right: float, bottom: float, **more: Any) -> Detection:
    return Detection("thing", (left, top, right, bottom), **more)


def model_folder(folder: Path, channels: int = 1) -> Path:
    """A repository that brings code, as BiRefNet's does: red is salient."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    (folder / "small.py").write_text(CODE.replace("CHANNELS", str(channels)))
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["Small"],
                "auto_map": {
                    "AutoConfig": "small.SmallConfig",
                    "AutoModelForImageSegmentation": "small.Small",
                },
                "model_type": "small_saliency",
            }
        )
    )
    weight = torch.tensor([4.0, -4.0, 0.0]).reshape(1, 3, 1, 1).repeat(channels, 1, 1, 1)
    tensors = {"mix.weight": weight, "mix.bias": torch.full((channels,), -4.0)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_the_rule_is_its_formula() -> None:
    middle = box(45, 36, 55, 44)  # 1 % of the picture, in its middle
    assert centre_and_size(middle, SIZE) == pytest.approx((0.01 / 0.1) ** 0.25)
    assert centre_and_size(box(25, 20, 75, 60), SIZE) == 1.0
    corner = box(0, 0, 50, 40)
    assert centre_and_size(corner, SIZE) == pytest.approx(0.5**0.5)
    assert centre_and_size(box(25, 20, 75, 60, stuff=True), SIZE) == 0.0
    mask = np.zeros((80, 100), bool)
    mask[36:44, 45:55] = True
    masked = box(25, 20, 75, 60, mask=mask)
    assert centre_and_size(masked, SIZE) == pytest.approx((0.01 / 0.1) ** 0.25)


@given(x=st.floats(0, 80), y=st.floats(0, 60), side=st.floats(1, 20), further=st.floats(0.05, 0.95))
def test_nearer_to_the_middle_and_larger_is_further_in_front(
    x: float, y: float, side: float, further: float
) -> None:
    there = box(x, y, x + side, y + side)
    value = centre_and_size(there, SIZE)
    assert 0.0 <= value <= 1.0
    # On the way to the middle.
    dx, dy = (50 - x - side / 2) * further, (40 - y - side / 2) * further
    nearer = box(x + dx, y + dy, x + side + dx, y + side + dy)
    assert centre_and_size(nearer, SIZE) >= value - 1e-12
    half = side * further / 2
    smaller = box(x + half, y + half, x + side - half, y + side - half)
    assert centre_and_size(smaller, SIZE) <= value + 1e-12


def test_salience_is_the_mean_within_mask_or_box() -> None:
    salient = np.zeros((80, 100), np.float32)
    salient[:, :50] = 0.8
    assert salience_of(box(0, 0, 50, 80), salient) == pytest.approx(0.8)
    assert salience_of(box(25, 0, 75, 80), salient) == pytest.approx(0.4)
    mask = np.zeros((80, 100), bool)
    mask[:, 40:60] = True
    assert salience_of(box(0, 0, 100, 80, mask=mask), salient) == pytest.approx(0.4)
    assert salience_of(box(99, 79, 99, 79), salient) == 0.0
    assert salience_of(box(0, 0, 1, 1, mask=np.zeros_like(mask)), salient) == 0.0


def test_foreground_is_what_is_salient_enough() -> None:
    salient = np.zeros((80, 100), np.float32)
    salient[:, :50] = 1.0
    things = {"a": box(0, 0, 50, 80), "b": box(30, 0, 70, 80), "c": box(60, 0, 90, 80)}
    assert foreground(things, salient, SIZE) == {"a", "b"}
    assert foreground(things, salient, SIZE, 0.51) == {"a"}
    assert foreground(things, None, SIZE, 0.9) == {"b"}
    assert foreground({}, None, SIZE) == frozenset()


def test_what_does_not_fit_is_told() -> None:
    salient = np.zeros((80, 100), np.float32)
    thing = box(0, 0, 9, 9, mask=np.zeros((4, 4), bool))
    with pytest.raises(DetectionError, match="mask of thing"):
        foreground({"a": thing}, salient, SIZE)
    with pytest.raises(DetectionError, match="map of salience has"):
        foreground({}, salient, (80, 100))
    with pytest.raises(DetectionError, match="threshold 2"):
        foreground({}, None, SIZE, 2)
    with pytest.raises(DetectionError, match="no foreground"):
        centre_and_size(thing, (0, 5))


def test_the_rule_needs_no_model_and_the_model_is_told_by_name() -> None:
    assert saliency_of(CENTRE_AND_SIZE) is None
    with pytest.raises(DetectionError, match=f"{BIREFNET} is not on this machine"):
        saliency_of("birefnet")
    with pytest.raises(DetectionError, match="multiple of 32"):
        BiRefNet(side=100)


def test_code_is_run_only_if_it_is_trusted(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    (folder / "small.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(DetectionError, match="trust_remote_code = true"):
        saliency_of(str(folder))


async def test_a_model_gives_a_map_of_the_pictures_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    folder = model_folder(tmp_path / "model")
    model = BiRefNet(folder, trust_remote_code=True, device="cpu", side=64)
    picture = Image.new("RGB", (50, 30), (0, 255, 0))
    picture.paste((255, 0, 0), (0, 0, 25, 30))
    found = await model.saliency(picture)
    assert found.shape == (30, 50)
    assert found.dtype == np.float32
    assert found[:, :20].min() > 0.9
    assert found[:, 30:].max() < 0.1
    fingerprint = model.fingerprint
    (folder / "small.py").write_text("# other code\n" + (folder / "small.py").read_text())
    other = BiRefNet(folder, trust_remote_code=True, device="cpu", side=64)
    assert other.fingerprint != fingerprint
    await model.aclose()
    with pytest.raises(DetectionError, match="is closed"):
        await model.saliency(picture)
    await other.aclose()


async def test_a_model_of_another_kind_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    folder = model_folder(tmp_path / "other", channels=2)
    model = BiRefNet(folder, trust_remote_code=True, device="cpu", side=32)
    with pytest.raises(DetectionError, match="no map of one channel"):
        await model.saliency(Image.new("RGB", (8, 8)))
    await model.aclose()


async def test_a_broken_model_is_told_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "nothing known"}')
    (folder / "model.safetensors").write_bytes(b"")
    model = BiRefNet(folder, device="cpu", side=32)
    for _ in range(2):
        with pytest.raises(DetectionError, match="could not be loaded"):
            await model.saliency(Image.new("RGB", (8, 8)))
    await model.aclose()

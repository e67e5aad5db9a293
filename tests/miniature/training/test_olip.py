"""The recipe of the miniature's OLIP: what it is shown, and a whole small training."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL

from scenewright.core.ports.vision import RealismError
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.autoencoder import new_autoencoder
from scenewright.miniature.training.blip import pool_of
from scenewright.miniature.training.olip import DRAWN, RECIPES, WIDTHS, as_seen, train_heads
from scenewright.tools.vision.realism.olip_files import load_olip
from scenewright.tools.vision.realism.trained_on import picture_digest
from tests.tools.vision.realism.blips import save_tiny_blip

VAE = Path(__file__).parents[3] / "scenewright" / "miniature" / "weights" / "generator" / "vae"


def test_the_sides_see_other_paintings() -> None:
    assert len(set(RECIPES.values())) == len(RECIPES) == 2


def test_pictures_are_as_the_loop_sees_them() -> None:
    autoencoder = AutoencoderKL.from_pretrained(VAE, torch_dtype=torch.float32).eval()
    images = [sample_painting(random.Random(f"seen {n}"), 3).image for n in range(12)]
    shown = as_seen(images, autoencoder, "a")
    again, other = as_seen(images, autoencoder, "a"), as_seen(images, autoencoder, "b")
    assert [s.size for s in shown] == [i.size for i in images]
    assert [a.tobytes() for a in shown] == [b.tobytes() for b in again]
    assert [a.tobytes() for a in shown] != [b.tobytes() for b in other]
    apart = [
        np.abs(np.asarray(a, np.int16) - np.asarray(b, np.int16)).mean()
        for a, b in zip(images, shown, strict=True)
    ]
    assert 0 < DRAWN < 1
    assert max(apart) > 0.5
    assert max(apart) < 60, "they can still be told"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A tiny BLIP and an untrained autoencoder, laid out as the miniature's weights."""
    save_tiny_blip(tmp_path / "weights" / "blip")
    torch.manual_seed(0)
    new_autoencoder().save_pretrained(tmp_path / "weights" / "generator" / "vae")
    return tmp_path / "weights"


def test_a_small_training_from_paintings_to_folders(weights: Path, tmp_path: Path) -> None:
    def trained(**options: float) -> bool:
        return train_heads(
            weights / "olip", tmp_path / "work", weights=weights, epochs=2, device="cpu",
            paintings=24, names=["olip-a"], processes=1, **options,  # type: ignore[arg-type]
        )  # fmt: skip

    assert not trained(max_seconds=0.0)
    assert trained()
    found = load_olip(weights / "olip" / "olip-a")
    assert found.model.config.widths == WIDTHS
    assert Path(found.encoder) == (weights / "blip").resolve()
    assert found.report["finished"] is True
    assert found.report["test"]["objects"] >= 1
    assert set(found.report["test"]["mae"]) == {"shape", "texture", "joint"}
    content = json.loads((weights / "olip" / "olip-a" / "config.json").read_text())
    assert content["encoder"]["model"] == "../../blip"
    # What is finished is read, and not trained again.
    before = (weights / "olip" / "olip-a" / "model.safetensors").read_bytes()
    assert trained(max_seconds=0.0)
    assert (weights / "olip" / "olip-a" / "model.safetensors").read_bytes() == before


def test_without_a_blip_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(RealismError, match="blip"):
        train_heads(tmp_path / "out", tmp_path / "work", weights=tmp_path, processes=1)


def test_the_shipped_heads_know_what_they_were_trained_on() -> None:
    shipped = VAE.parents[1] / "olip"
    records = []
    for name in RECIPES:
        found = load_olip(shipped / name)
        assert found.trained_on is not None
        records.append(found.trained_on)
        assert len(found.trained_on.train) == 0.9 * found.report["paintings"]
    steers, reports = ({*one.train, *one.validation, *one.test} for one in records)
    assert steers.isdisjoint(reports)
    # The first painting of the recipe is one of them, whatever it is called.
    first = pool_of(RECIPES["olip-a"], 1)[0]
    assert records[0].part_of(picture_digest(first.image)) == "train"

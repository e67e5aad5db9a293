"""The frozen BLIP: its features are the library's own, in both layouts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import AutoImageProcessor, AutoTokenizer, BlipForImageTextRetrieval, BlipModel

from scenewright.core.ports.vision import RealismError
from scenewright.tools.vision.realism.blip import BlipEncoder
from tests.tools.vision.realism.blips import EMBEDDING, save_tiny_blip

NAMES = ["dog", "house", "hot dog"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_blip(tmp_path_factory.mktemp("blip"))


@pytest.fixture(scope="module")
def retrieval(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_blip(tmp_path_factory.mktemp("itm"), layout=BlipForImageTextRetrieval)


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 255, (40, 48, 3), np.uint8)) for _ in NAMES]


def used(folder: Path, work: Any, **options: Any) -> Any:
    """What ``work`` (an encoder in, a coroutine out) gives; the encoder is closed after it."""

    async def all_of_it() -> Any:
        encoder = BlipEncoder(folder, device="cpu", **options)
        try:
            return await work(encoder)
        finally:
            await encoder.aclose()

    return asyncio.run(all_of_it())


def inputs(folder: Path, images: list[Image.Image], texts: list[str]) -> dict[str, torch.Tensor]:
    prepare = AutoImageProcessor.from_pretrained(folder, backend="pil")
    tokens = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    return {
        "pixel_values": prepare(images=images, return_tensors="pt")["pixel_values"],
        "input_ids": tokens["input_ids"],
        "attention_mask": tokens["attention_mask"],
    }


def test_features_are_the_librarys_multimodal_ones(folder: Path, images: list[Image.Image]) -> None:
    model = BlipModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        wanted = model.get_multimodal_features(**inputs(folder, images, NAMES)).numpy()
    found = used(folder, lambda encoder: encoder.features(images, NAMES))
    assert found.dtype == np.float32
    assert found.shape == (3, EMBEDDING)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 0.05


def test_features_of_the_retrieval_layout_are_those_that_its_matching_head_reads(
    retrieval: Path, images: list[Image.Image]
) -> None:
    model = BlipForImageTextRetrieval.from_pretrained(retrieval).eval()
    with torch.inference_mode():
        said = model(**inputs(retrieval, images, NAMES)).itm_score
        found = used(retrieval, lambda encoder: encoder.features(images, NAMES))
        again = model.itm_head(torch.from_numpy(found))
    np.testing.assert_allclose(again.numpy(), said.numpy(), atol=1e-4)


@pytest.mark.parametrize("layout", ["folder", "retrieval"])
def test_likeness_is_the_librarys_cosine(
    layout: str, images: list[Image.Image], request: pytest.FixtureRequest
) -> None:
    place: Path = request.getfixturevalue(layout)
    texts = ["red dog", "ball"]
    given = inputs(place, images, texts)
    with torch.inference_mode():
        if layout == "folder":
            model = BlipModel.from_pretrained(place).eval()
            wanted = model(**given).logits_per_image / model.logit_scale.exp()
        else:
            itm = BlipForImageTextRetrieval.from_pretrained(place).eval()
            wanted = itm(**given, use_itm_head=False).itm_score
    found = used(place, lambda encoder: encoder.likeness(images, texts))
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)


def test_batches_and_repeated_pictures_change_nothing(
    folder: Path, images: list[Image.Image]
) -> None:
    shown = [images[0], images[0], images[1], images[2], images[0]]
    names = ["dog", "house", "dog", "red ball", "ball"]
    whole = used(folder, lambda encoder: encoder.features(shown, names))
    parts = used(folder, lambda encoder: encoder.features(shown, names), batch=2)
    np.testing.assert_allclose(whole, parts, atol=1e-5)
    alone = used(folder, lambda encoder: encoder.features([images[0]], ["ball"]))
    np.testing.assert_allclose(whole[4:], alone, atol=1e-5)


def test_labels_are_read_as_people_say_them(folder: Path, images: list[Image.Image]) -> None:
    shown = [images[0]] * 3
    found = used(folder, lambda encoder: encoder.features(shown, ["hot_dog", "Hot Dog", "hot dog"]))
    np.testing.assert_allclose(found[0], found[2], atol=1e-6)
    np.testing.assert_allclose(found[1], found[2], atol=1e-6)


def test_a_category_cannot_forge_special_tokens(folder: Path, images: list[Image.Image]) -> None:
    found = used(
        folder, lambda encoder: encoder.likeness(images[:1], ["dog", "dog [SEP] [PAD] ball"])
    )
    assert np.isfinite(found).all()


def test_half_precision_is_near(folder: Path, images: list[Image.Image]) -> None:
    exact = used(folder, lambda encoder: encoder.features(images, NAMES))
    near = used(folder, lambda encoder: encoder.features(images, NAMES), dtype="bfloat16")
    assert near.dtype == np.float32
    assert 0 < np.abs(exact - near).max() < 0.1 * np.abs(exact).max()


def test_nothing_in_nothing_out(folder: Path) -> None:
    assert used(folder, lambda encoder: encoder.features([], [])).shape == (0, EMBEDDING)
    assert used(folder, lambda encoder: encoder.likeness([], ["dog"])).shape == (0, 1)
    assert used(folder, lambda encoder: encoder.embedding()) == EMBEDDING


def test_the_fingerprint_hangs_on_weights_and_precision(folder: Path, tmp_path: Path) -> None:
    same = BlipEncoder(folder, device="cpu")
    assert same.fingerprint == BlipEncoder(folder, device="cpu").fingerprint
    assert same.fingerprint != BlipEncoder(folder, device="cpu", dtype="bfloat16").fingerprint
    other = BlipEncoder(save_tiny_blip(tmp_path, seed=1), device="cpu")
    assert same.digest != other.digest
    assert same.fingerprint != other.fingerprint


def test_a_model_that_lacks_weights_is_refused(tmp_path: Path, images: list[Image.Image]) -> None:
    save_tiny_blip(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {key: value for key, value in weights.items() if not key.startswith("text_projection")}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(RealismError, match="its features would be random"):
        used(tmp_path, lambda encoder: encoder.features(images, NAMES))


def test_another_kind_of_model_is_refused(tmp_path: Path, images: list[Image.Image]) -> None:
    save_tiny_blip(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "clip"}))
    with pytest.raises(RealismError, match="OLIP stands on a BLIP"):
        used(tmp_path, lambda encoder: encoder.load())


def test_what_is_not_on_this_machine_is_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(RealismError, match="not on this machine"):
        BlipEncoder("someone/no-such-blip")
    with pytest.raises(RealismError, match=r"config\.json"):
        BlipEncoder(tmp_path)


def test_a_closed_encoder_says_so(folder: Path) -> None:
    async def closed() -> None:
        encoder = BlipEncoder(folder, device="cpu")
        await encoder.aclose()
        await encoder.aclose()
        await encoder.load()

    with pytest.raises(RealismError, match="closed"):
        asyncio.run(closed())

"""CLIPScore and the encoders of transformers, on small models of the published classes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

from benchmarks._metrics_models import TEXT_ROOM, save_clip, save_dinov2
from scenewright.core.images import ImageError
from scenewright.evals.metrics.base import FeatureExtractor, ItemMetric, MetricError
from scenewright.evals.metrics.encoders import TextImageEncoder
from scenewright.evals.metrics.extractors import encoder_of, extractor_of
from scenewright.evals.metrics.registry import metric_of
from tests.evals.metrics.vectors import picture, sample

PICTURES = [picture(seed, size) for seed, size in ((1, (40, 32)), (2, (32, 32)), (3, (70, 90)))]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_dinov2(tmp_path_factory.mktemp("dinov2"))


def cosine(folder: Path, image: Image.Image, text: str) -> float:
    """By transformers' own calls, one after the other."""
    model = AutoModel.from_pretrained(folder)
    prepare = AutoImageProcessor.from_pretrained(folder, backend="pil")
    words = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        seen = model.get_image_features(**prepare(images=image, return_tensors="pt")).pooler_output
        read = model.get_text_features(**words).pooler_output
    return float(torch.cosine_similarity(seen, read))


@pytest.fixture(scope="module")
def mirrored_clip(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same CLIP with the other sign before each of its cosines."""
    folder = tmp_path_factory.mktemp("mirrored") / "clip"
    shutil.copytree(clip, folder)
    model = AutoModel.from_pretrained(clip)
    with torch.no_grad():
        model.text_projection.weight.neg_()
    model.save_pretrained(folder)
    return folder


async def test_it_is_a_hundred_times_the_cosine_if_that_is_above_zero(
    clip: Path, mirrored_clip: Path
) -> None:
    for image in PICTURES:
        for text in ("red dog", "a blue ball left of a tree", "house , lamp , two cats"):
            signs = set()
            for folder in (clip, mirrored_clip):
                metric: Any = metric_of("clipscore", {"extractor": str(folder), "device": "cpu"})
                assert isinstance(metric, ItemMetric)
                expected = cosine(folder, image, text)
                found = await metric.score(sample(image, text))
                assert found.parts["cosine"] == pytest.approx(expected, abs=1e-5)
                assert found.value == pytest.approx(100 * max(expected, 0), abs=1e-3)
                assert found.parts["tokens_cut"] == 0
                signs.add(expected > 0)
            assert signs == {True, False}


async def test_it_is_what_torchmetrics_says(clip: Path) -> None:
    module = pytest.importorskip("torchmetrics.functional.multimodal.clip_score")
    metric: Any = metric_of("clipscore", {"extractor": str(clip)})
    model, processor = AutoModel.from_pretrained(clip), _Processor(clip)
    model.get_image_features, model.get_text_features = (
        lambda *given, call=call: call(*given).pooler_output
        for call in (model.get_image_features, model.get_text_features)
    )
    for image in PICTURES:
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        other = module.clip_score(pixels, "a red dog", lambda: (model, processor))
        found = await metric.score(sample(image, "a red dog"))
        assert found.value == pytest.approx(float(other), abs=1e-3)


class _Processor:
    """What torchmetrics asks of a processor."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self._images = AutoImageProcessor.from_pretrained(folder, backend="pil")

    def __call__(self, text: Any = None, images: Any = None, **more: Any) -> Any:
        if text is not None:
            return self.tokenizer(text, return_tensors="pt", padding=True)
        return self._images(images=images, return_tensors="pt")


async def test_scale_and_prefix_are_those_of_the_paper_on_demand(clip: Path) -> None:
    options = {"extractor": str(clip), "scale": 2.5, "prefix": "A photo depicts"}
    metric: Any = metric_of("clipscore", options)
    found = await metric.score(sample(PICTURES[0], "red dog"))
    expected = cosine(clip, PICTURES[0], "A photo depicts red dog")
    assert found.value == pytest.approx(2.5 * max(expected, 0), abs=1e-5)
    plain = metric_of("clipscore", {"extractor": str(clip)})
    assert len({plain.version, metric.version}) == 2


async def test_words_past_the_encoders_room_are_cut_and_counted(clip: Path) -> None:
    metric: Any = metric_of("clipscore", {"extractor": str(clip)})
    # Start and end take two places.
    whole = " ".join(["dog"] * (TEXT_ROOM - 2))
    fits = await metric.score(sample(PICTURES[0], whole))
    longer = await metric.score(sample(PICTURES[0], f"{whole} cat tree red"))
    assert (fits.parts["tokens_cut"], longer.parts["tokens_cut"]) == (0, 3)
    assert longer.value == pytest.approx(fits.value)


async def test_without_a_text_it_is_unscored_and_a_broken_picture_raises(clip: Path) -> None:
    metric: Any = metric_of("clipscore", {"extractor": str(clip)})
    found = await metric.score(sample(PICTURES[0], "  "))
    assert (found.value, found.reason) == (None, "the item has no text to compare the picture with")

    def fails() -> Image.Image:
        raise ImageError("cut off")

    given = sample(PICTURES[0])
    broken = type(given)(item=given.item, prompt="dog", image=given.image, load=fails)
    with pytest.raises(ImageError, match="cut off"):
        await metric.score(broken)


async def test_encoders_give_unit_rows_whatever_the_batch(clip: Path) -> None:
    one = encoder_of("clipscore", str(clip), {"batch": 1})
    all_at_once = encoder_of("clipscore", str(clip), {})
    assert isinstance(one, TextImageEncoder)
    rows = await one.images(PICTURES)
    assert rows.shape == (3, 16)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.allclose(rows, await all_at_once.images(PICTURES), atol=1e-5)
    texts = ["dog", "a red dog under the table", "cat"]
    # Padding of the shorter ones changes nothing.
    batched, single = await all_at_once.texts(texts), await one.texts(texts)
    assert np.allclose(batched.vectors, single.vectors, atol=1e-5)


async def test_dinov2s_class_token_is_seen_in_the_whole_picture(dinov2: Path) -> None:
    extractor = extractor_of("fd_dinov2", str(dinov2), "class", {})
    assert isinstance(extractor, FeatureExtractor)
    rows = await extractor.features(PICTURES)
    assert rows.shape == (3, extractor.dimensions)
    model = AutoModel.from_pretrained(dinov2)
    for image, row in zip(PICTURES, rows, strict=True):
        small = np.asarray(image.resize((28, 28), Image.Resampling.BICUBIC), np.float32) / 255
        normal = (small - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        with torch.no_grad():
            pixels = torch.from_numpy(normal.transpose(2, 0, 1)[None]).float()
            expected = model(pixel_values=pixels).last_hidden_state[0, 0]
        assert np.allclose(row, expected.numpy(), atol=1e-4)
    cropped = extractor_of("fd_dinov2", str(dinov2), "class", {"preparation": "processor"})
    assert not np.allclose(rows[2], (await cropped.features(PICTURES[2:]))[0], atol=1e-3)
    assert cropped.fingerprint != extractor.fingerprint
    assert (await extractor.features([])).shape == (0, extractor.dimensions)


async def test_clip_gives_a_projection_or_a_class_token(clip: Path) -> None:
    projection = extractor_of("cmmd", str(clip), "projection", {})
    token = extractor_of("fid", str(clip), "pool", {})
    assert (await projection.features(PICTURES)).shape == (3, projection.dimensions) == (3, 16)
    assert (await token.features(PICTURES)).shape == (3, token.dimensions) == (3, 32)
    assert projection.fingerprint != token.fingerprint
    half = extractor_of("cmmd", str(clip), "projection", {"dtype": "bfloat16"})
    single = await projection.features(PICTURES)
    assert np.allclose(await half.features(PICTURES), single, atol=0.1)
    assert half.fingerprint != projection.fingerprint


async def test_a_model_that_lacks_what_is_asked_says_so(
    dinov2: Path, clip: Path, tmp_path: Path
) -> None:
    with pytest.raises(MetricError, match="has no projection"):
        await extractor_of("cmmd", str(dinov2), "projection", {}).features(PICTURES)
    with pytest.raises(MetricError, match="encodes no texts"):
        await encoder_of("clipscore", str(dinov2), {}).texts(["dog"])
    for name in ("config.json", "preprocessor_config.json"):
        (tmp_path / name).write_bytes((clip / name).read_bytes())
    broken = extractor_of("cmmd", str(tmp_path), "projection", {})
    for _ in range(2):
        with pytest.raises(MetricError, match="could not be loaded"):
            await broken.features(PICTURES)


async def test_other_weights_have_another_fingerprint(clip: Path, tmp_path: Path) -> None:
    other = save_clip(tmp_path, seed=1)
    assert extractor_of("cmmd", str(clip), "class", {}).fingerprint != (
        extractor_of("cmmd", str(other), "class", {}).fingerprint
    )


async def test_an_unknown_device_is_told(clip: Path) -> None:
    with pytest.raises(MetricError, match="no device 'abacus'"):
        await encoder_of("clipscore", str(clip), {"device": "abacus"}).texts(["dog"])

"""The miniature's encoders: that they mean something, and what they keep on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scenewright.config.settings import user_cache
from scenewright.evals.metrics import miniature as fits
from scenewright.evals.metrics.base import FeatureExtractor
from scenewright.evals.metrics.encoders import TextImageEncoder
from scenewright.evals.metrics.extractors import encoder_of, extractor_of
from scenewright.evals.metrics.miniature import ClassHead, PairMaps
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.metrics.set_metrics import ArrayBlocks
from tests.evals.metrics.vectors import sample

HELD_OUT = "held-out/metrics"


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        # Fewer than in use, so that it takes a second.
        patch.setattr(fits, "SINGLE", 240)
        patch.setattr(fits, "PAIRS", 200)
        yield


@pytest.fixture(scope="module")
def extractor(place: None) -> FeatureExtractor:
    return extractor_of("is", "miniature", "logits", {"device": "cpu"})


@pytest.fixture(scope="module")
def encoder(place: None) -> TextImageEncoder:
    return encoder_of("clipscore", "miniature", {"device": "cpu"})


async def test_the_kinds_of_held_out_paintings_are_told(extractor: FeatureExtractor) -> None:
    paintings = [fits.single_painting(at, HELD_OUT) for at in range(120)]
    logits = await extractor.features([p.image for p in paintings])
    assert logits.shape == (120, extractor.dimensions) == (120, len(fits.CLASSES))
    truth = np.array([fits.class_of(p) for p in paintings])
    assert (logits.argmax(1) == truth).mean() > 0.95
    score: Any = metric_of("is", {"extractor": "miniature"})
    varied = score.compute(ArrayBlocks(logits), None).value
    alike = score.compute(ArrayBlocks(logits[truth == truth[0]].repeat(10, 0)), None).value
    assert varied > 5
    assert alike < 1.2


async def test_texts_find_their_held_out_paintings(encoder: TextImageEncoder) -> None:
    paintings = [fits.paired_painting(at, HELD_OUT) for at in range(60)]
    images = await encoder.images([p.image for p in paintings])
    texts = await encoder.texts([fits.texts_of(p)[0] for p in paintings])
    cosines = texts.vectors @ images.T
    rank = (cosines > np.diag(cosines)[:, None]).sum(1)
    assert (rank == 0).mean() > 0.6
    assert np.diag(cosines).mean() > cosines.mean() + 0.3


async def test_a_sets_metrics_tell_other_pictures_from_more_of_the_same() -> None:
    first, second = (
        [fits.paired_painting(at, f"{HELD_OUT}/{part}").image for at in range(100)] for part in "ab"
    )
    others = [fits.single_painting(at, HELD_OUT).image for at in range(100)]
    for name in ("fid", "fd_dinov2", "cmmd"):
        metric: Any = metric_of(name, {"extractor": "miniature", "batch": 16})
        a, b, c = [
            ArrayBlocks(await metric.extractor.features(part)) for part in (first, second, others)
        ]
        assert metric.compute(a, a).value == pytest.approx(0, abs=1e-8)
        assert metric.compute(c, a).value > 3 * metric.compute(b, a).value


async def test_clipscore_prefers_the_picture_that_was_asked_for() -> None:
    metric: Any = metric_of("clipscore", {"extractor": "miniature"})
    painting, other = fits.paired_painting(1, HELD_OUT), fits.paired_painting(2, HELD_OUT)
    text = fits.texts_of(painting)[0]
    right = await metric.score(sample(painting.image, text))
    wrong = await metric.score(sample(other.image, text))
    assert right.value > wrong.value + 10
    assert right.parts["tokens_cut"] == 0
    longer = await metric.score(sample(painting.image, f"{text}, {'dog ' * 200}"))
    assert longer.parts["tokens_cut"] > 50


async def test_any_size_and_mode_of_picture_will_do(extractor: FeatureExtractor) -> None:
    painting = fits.single_painting(3, HELD_OUT)
    shown = [painting.image, painting.image.resize((512, 512)), painting.image.convert("RGBA")]
    logits = await extractor.features([*shown, Image.new("L", (10, 300))])
    assert len(set(logits[:3].argmax(1))) == 1
    assert np.isfinite(logits).all()
    assert (await extractor.features([])).shape == (0, extractor.dimensions)


def see(images: Any) -> Any:
    return np.stack([np.asarray(i.resize((4, 4)), np.float32).ravel() for i in images])


def test_a_fit_is_kept_and_a_damaged_one_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = fits.class_head("k" * 64, see)
    (file,) = user_cache("metrics").glob("*.safetensors")
    assert file.is_relative_to(tmp_path)

    def blind(images: Any) -> Any:
        raise AssertionError("the kept fit was not taken")

    kept = fits.class_head("k" * 64, blind)
    assert np.array_equal(kept.weights, first.weights)
    for damage in (b"", b"no tensors", file.read_bytes()[:-30]):
        file.write_bytes(damage)
        again = fits.class_head("k" * 64, see)
        assert np.array_equal(again.weights, first.weights)
        assert np.array_equal(fits.class_head("k" * 64, blind).bias, first.bias)
    with pytest.raises(AssertionError):
        fits.class_head("other" * 10, blind)


def test_without_a_place_to_keep_it_the_fit_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert fits.class_head("k" * 64, see).bias.shape == (12,)


def test_the_class_head_is_bayes_rule_for_gaussians() -> None:
    rng = np.random.default_rng(0)
    classes = np.arange(3000) % 3
    rows = rng.normal(size=(3000, 2)) + np.array([[0, 0], [3, 0], [0, 3]])[classes]
    head = ClassHead.fit(rows, classes, 3, 0.0)
    logits = head.logits(np.array([[1.5, -5.0]]))[0]
    # Halfway between the first two, the third is excluded.
    assert logits[0] == pytest.approx(logits[1], abs=0.3)
    assert logits[2] < logits[0] - 10
    with pytest.raises(ValueError, match=r"the classes \[1\] have no row"):
        ClassHead.fit(rows[classes != 1], classes[classes != 1], 3, 0.0)


def test_the_common_space_holds_what_two_sides_share() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(2000, 2))
    first = np.hstack([shared @ rng.normal(size=(2, 3)), rng.normal(size=(2000, 2))])
    second = np.hstack([rng.normal(size=(2000, 3)), shared @ rng.normal(size=(2, 2))])
    maps = PairMaps.fit(first, second, 2, 1e-6)
    a, b = maps.of_first(first), maps.of_second(second)
    assert np.allclose(a, b, atol=0.1)
    assert a.shape == (2000, 2)
    assert abs(np.corrcoef(a.T)[0, 1]) < 0.01

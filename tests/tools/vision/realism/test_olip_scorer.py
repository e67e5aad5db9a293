"""OLIP as a scorer, over a BLIP with random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scenewright.core.ports.vision import Detection, ObjectRealism, RealismError, RealismScorer
from scenewright.tools.vision.realism.blip import BlipEncoder
from scenewright.tools.vision.realism.object_views import object_crop
from scenewright.tools.vision.realism.olip_files import load_olip
from scenewright.tools.vision.realism.olip_scorer import OlipScorer, saved_olip
from scenewright.tools.vision.realism.pictures import InstanceReader
from tests.tools.vision.realism.tiny_olip import save_blip, save_heads

DOG = Detection("dog", (10.0, 10.0, 60.0, 60.0))
CAR = Detection("car", (50.0, 20.0, 100.0, 90.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds ``blip``, and ``a`` and ``b`` over it."""
    root = tmp_path_factory.mktemp("olip")
    save_blip(root / "blip")
    for seed, name in enumerate(("a", "b")):
        save_heads(root / name, root / "blip", seed)
    return root


def picture() -> Image.Image:
    image = Image.new("RGB", (128, 128), (120, 160, 200))
    image.paste((200, 60, 50), (10, 10, 60, 60))
    image.paste((20, 60, 220), (50, 20, 100, 90))
    return image


def scores(found: ObjectRealism) -> list[float]:
    told = (found.shape, found.texture, found.joint)
    return [score for score in told if score is not None]


def scorer_of(
    folder: Path, *, name: str | None = None, encoder: BlipEncoder | None = None
) -> OlipScorer:
    saved = saved_olip(folder)
    return OlipScorer(saved, encoder or BlipEncoder(saved.encoder), name or str(folder))


async def test_scores_are_the_heads_of_the_encoders_features(folder: Path) -> None:
    scorer = scorer_of(folder / "a")
    assert isinstance(scorer, RealismScorer)
    assert isinstance(scorer, InstanceReader)
    found = await scorer.score(picture(), [DOG, CAR])
    encoder = BlipEncoder(folder / "blip")
    crops = [object_crop(picture(), item.box) for item in (DOG, CAR)]
    full = await encoder.features([picture(), picture()], ["dog", "car"])
    near = await encoder.features(crops, ["dog", "car"])
    with torch.inference_mode():
        heads = load_olip(folder / "a").model
        expected = heads(torch.from_numpy(full), torch.from_numpy(near)).numpy()
    assert np.allclose([scores(one) for one in found], expected, atol=1e-4)
    assert all(1 <= score <= 5 for one in found for score in scores(one))
    assert all(one.seconds > 0 for one in found)
    await encoder.aclose()
    await scorer.encoder.aclose()
    with pytest.raises(RealismError, match="closed"):
        await scorer.score(picture(), [DOG])


async def test_an_object_scores_the_same_in_any_company(folder: Path) -> None:
    scorer = scorer_of(folder / "a")
    (alone,) = await scorer.score(picture(), [CAR])
    both = await scorer.score(picture(), [DOG, CAR])
    assert scores(both[1]) == pytest.approx(scores(alone), abs=1e-4)
    (other,) = await scorer.score(picture(), [Detection("dog", CAR.box)])
    assert scores(other) != pytest.approx(scores(alone), abs=1e-6)
    assert await scorer.score(picture(), []) == []


async def test_a_box_outside_of_the_picture_costs_itself_only(folder: Path) -> None:
    outside = Detection("dog", (200.0, 10.0, 220.0, 30.0))
    found = await scorer_of(folder / "a").score(picture(), [outside, DOG])
    assert found[0].average is None
    assert "is not inside a picture of 128×128" in found[0].reason
    assert found[1].average is not None


async def test_likeness_is_the_encoders_by_phrase_and_object(folder: Path) -> None:
    scorer = scorer_of(folder / "a")
    found = await scorer.likeness(picture(), [DOG, CAR], ["red dog", "blue car", "tree"])
    assert found.shape == (3, 2)
    crops = [object_crop(picture(), item.box) for item in (DOG, CAR)]
    encoder = BlipEncoder(folder / "blip")
    expected = await encoder.likeness(crops, ["red dog", "blue car", "tree"])
    assert np.allclose(found, expected.T, atol=1e-5)


async def test_fingerprints_tell_heads_and_encoder_apart(folder: Path, tmp_path: Path) -> None:
    a, b = scorer_of(folder / "a"), scorer_of(folder / "b", name="miniature/b")
    assert a.fingerprint == scorer_of(folder / "a", name="other").fingerprint
    assert a.fingerprint != b.fingerprint
    assert (a.id, b.id) == (f"olip:{folder / 'a'}", "olip:miniature/b")
    save_blip(tmp_path / "blip", seed=2)
    save_heads(tmp_path / "a", tmp_path / "blip", seed=0)
    assert scorer_of(tmp_path / "a").fingerprint != a.fingerprint


async def test_a_shared_encoder_stays_its_owners(folder: Path) -> None:
    encoder = BlipEncoder(folder / "blip")
    scorer = scorer_of(folder / "a", encoder=encoder)
    await scorer.load()
    await scorer.aclose()
    assert (await encoder.likeness([picture()], ["dog"])).shape == (1, 1)
    await encoder.aclose()


def test_what_cannot_be_used_is_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RealismError, match="nowhere"):
        scorer_of(tmp_path / "nowhere")
    with pytest.raises(RealismError):
        scorer_of(folder / "blip")
    save_blip(tmp_path / "blip", seed=3)
    with pytest.raises(RealismError, match="another encoder"):
        scorer_of(folder / "a", encoder=BlipEncoder(tmp_path / "blip"))

"""The recipe of the miniature BLIP: captions tell the truth, false ones one thing that is not."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from transformers import AutoProcessor, SegformerForSemanticSegmentation

from scenewright.miniature.training.blip import (
    STATES,
    WORDS,
    false_caption,
    new_model,
    new_processor,
    new_tokenizer,
    object_caption,
    phrase,
    picture_caption,
    pool_of,
    train_blip,
)
from scenewright.miniature.world import COLORS, KINDS
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.tools.vision.realism.blip import BlipEncoder
from scenewright.tools.vision.realism.segformer_blip import SegformerBlip


def test_captions_say_kind_and_colour_and_damage_the_likelier_the_greater_it_is() -> None:
    rng = random.Random(0)
    said: dict[int, list[bool]] = {grade: [] for grade in range(1, 6)}
    for picture in pool_of(3, 30):
        for item in picture.objects:
            words = phrase(item, rng).split()
            assert words[-2:] == [item.color, item.name]
            assert set(object_caption(picture, item, rng).split()) <= set(WORDS)
            for _ in range(10):
                said[item.texture].append(STATES[item.texture_manner] in phrase(item, rng).split())
    shares = [sum(said[grade]) / len(said[grade]) for grade in (1, 2, 3, 4, 5)]
    assert shares[0] == 1.0
    assert shares[-1] == 0.0
    assert shares == sorted(shares, reverse=True)


def test_a_false_caption_differs_in_one_word_of_the_same_sort() -> None:
    rng = random.Random(1)
    for picture in pool_of(5, 10):
        if len(picture.objects) < 2:
            continue
        caption = picture_caption(picture, picture.objects, rng)
        words, other = caption.split(), false_caption(caption, rng).split()
        changed = [(a, b) for a, b in zip(words, other, strict=True) if a != b]
        assert len(changed) == 1
        for sort in (KINDS, COLORS, STATES.values()):
            assert (changed[0][0] in sort) == (changed[0][1] in sort)


def test_a_pool_does_not_depend_on_who_makes_it() -> None:
    first, again = pool_of(2, 4), pool_of(2, 4)
    assert [p.image.tobytes() for p in first] == [p.image.tobytes() for p in again]
    assert pool_of(3, 1)[0].image.tobytes() != first[0].image.tobytes()


def test_the_recipe_trains_stops_goes_on_and_leaves_the_eyes_as_they_were(tmp_path: Path) -> None:
    out, work = tmp_path / "blip", tmp_path / "work"
    given = {"pool": 8, "weights": MINIATURE_WEIGHTS}
    assert not train_blip(out, work, 2, max_seconds=0.0, **given)
    assert train_blip(out, work, 2, **given)
    model = SegformerBlip.from_pretrained(out).float()
    eyes = SegformerForSemanticSegmentation.from_pretrained(
        MINIATURE_WEIGHTS / "segmenter", dtype=torch.float32
    ).segformer.state_dict()
    for name, value in model.vision_model.segformer.state_dict().items():
        assert torch.equal(value, eyes[name]), name


async def test_what_it_writes_is_an_encoder_for_olip(tmp_path: Path) -> None:
    model = new_model(MINIATURE_WEIGHTS / "segmenter")
    model.save_pretrained(tmp_path)
    new_tokenizer(tmp_path).save_pretrained(tmp_path)
    new_processor().save_pretrained(tmp_path)
    picture = pool_of(3, 1)[0].image
    encoder = BlipEncoder(tmp_path)
    try:
        found = await encoder.features([picture, picture], ["car", "dog"])
        alike = await encoder.likeness([picture], ["red car"])
    finally:
        await encoder.aclose()
    given = AutoProcessor.from_pretrained(tmp_path)(
        images=picture, text=["car"], return_tensors="pt"
    )
    with torch.no_grad():
        wanted = model.eval().get_multimodal_features(
            input_ids=given["input_ids"], pixel_values=given["pixel_values"]
        )
    assert found.shape == (2, 128)
    assert alike.shape == (1, 1)
    assert torch.allclose(torch.from_numpy(found[0]), wanted[0], atol=1e-4)
    assert not torch.allclose(torch.from_numpy(found[1]), wanted[0], atol=1e-3)

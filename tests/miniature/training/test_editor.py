"""Lessons of the editor, and its recipe."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import torch
from diffusers import UNet2DConditionModel
from PIL import ImageChops
from safetensors.torch import load_file
from transformers import CLIPTokenizer

from scenewright.core.questions import facts_of
from scenewright.graphs.strategies.base import edit_instruction
from scenewright.miniature.training.editor import (
    ABBREVIATED,
    editing_tokenizer,
    new_editor,
    train_editor,
)
from scenewright.miniature.training.edits import Edit, draw, failed_in, make_edit
from scenewright.miniature.training.generator import nth_truth
from scenewright.miniature.world import MAX_TOKENS
from scenewright.tools.backends.model_folder import ModelFolder

WEIGHTS = Path(__file__).parents[3] / "scenewright" / "miniature" / "weights"
GENERATOR = WEIGHTS / "generator"


def lessons(count: int) -> list[Edit]:
    made = (make_edit(nth_truth(3, at), random.Random(f"lesson {at}")) for at in range(10 * count))
    return list(islice(filter(None, made), count))


def test_the_first_picture_lacks_what_the_order_asks_for_and_the_wanted_one_has_it() -> None:
    told = shown = 0
    for edit in lessons(60):
        scene = edit.wanted.scene
        failed, missing = failed_in(edit.kept.truth, scene)
        assert failed
        assert not any(edit.kept.truth.holds(fact, scene) for fact in failed)
        assert all(edit.wanted.holds(fact, scene) for fact in facts_of(scene))
        told += edit.order == edit_instruction(scene, failed, edit.shown is not None)
        if edit.shown is not None:
            shown += 1
            assert {item.id for item in edit.shown.scene.objects} == missing
    # The rest is told by a description of the whole scene, or sees no second picture.
    assert told > 40
    assert shown > 20


def test_what_is_not_changed_stays_pixel_for_pixel() -> None:
    for edit in lessons(30):
        difference = ImageChops.difference(edit.kept.image, draw(edit.wanted).image)
        for box in edit.changed:
            area = (box.left, box.top, box.left + box.width, box.top + box.height)
            difference.paste(0, area)
        # A thing that stood behind a changed one may show an edge beyond its box.
        assert difference.convert("L").point(lambda value: value > 0 and 255).getbbox() is None


def test_words_of_orders_are_one_token_and_prompts_read_as_before() -> None:
    words = editing_tokenizer(GENERATOR)
    plain = CLIPTokenizer.from_pretrained(GENERATOR / "tokenizer", local_files_only=True)
    for word in ABBREVIATED:
        assert len(words(word, add_special_tokens=False).input_ids) == 1, word
    assert len({words(word).input_ids[1] for word in ABBREVIATED}) == len(ABBREVIATED)
    prompt = "in a room: a red hat at the top left on the blue table, a person at the bottom center"
    assert words(prompt).input_ids == plain(prompt).input_ids
    orders = [edit.order for edit in lessons(40)]
    assert max(len(words(order).input_ids) for order in orders) <= MAX_TOKENS
    assert sum(len(words(order).input_ids) for order in orders) < sum(
        len(plain(order).input_ids) for order in orders
    )


def test_pictures_have_no_effect_before_the_first_step() -> None:
    plain = UNet2DConditionModel.from_pretrained(GENERATOR / "unet", torch_dtype=torch.float32)
    noise = torch.Generator().manual_seed(0)
    latents = torch.randn(1, 12, 16, 16, generator=noise)
    seen = torch.randn(1, 24, 16, 16, generator=noise)
    words = torch.randn(1, 8, 128, generator=noise)
    with torch.no_grad():
        wanted = plain(latents, 500, encoder_hidden_states=words).sample
        editor = new_editor(GENERATOR).eval()
        found = editor(torch.cat([latents, seen], 1), 500, encoder_hidden_states=words).sample
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_recipe_trains_and_writes_a_whole_pipeline(tmp_path: Path) -> None:
    out = tmp_path / "editor"
    assert train_editor(GENERATOR, tmp_path, out, steps=2, batch=2, pairs=4)
    folder = ModelFolder.open(out)
    assert folder.pipeline_class == "ChannelEditPipeline"
    assert {"editor", "unet", "vae", "text_encoder", "tokenizer"} <= set(folder.parts)
    weights = load_file(out / "editor" / "diffusion_pytorch_model.safetensors")
    first = weights["conv_in.weight"]
    assert first.shape[1] == 36
    assert (first[:, 12:] != 0).any()
    # The cached lessons serve the next training: it begins with what was written.
    again = tmp_path / "again"
    again.mkdir()
    for name in ("edits-0.npz", "edits-0.json"):
        (tmp_path / name).rename(again / name)
    assert train_editor(GENERATOR, again, out, steps=0, batch=2, pairs=4, onward=True)
    after = load_file(out / "editor" / "diffusion_pytorch_model.safetensors")
    for key, value in weights.items():
        torch.testing.assert_close(after[key], value)

"""What training stands on: a cut-off training continues as if nothing had happened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from scenewright.agents.composers.rules import Piece
from scenewright.core.formats import load_scene
from scenewright.miniature.painter import paint
from scenewright.miniature.training.adapter import load_reader
from scenewright.miniature.training.generator import (
    emphasis,
    nth_truth,
    train_generator,
)
from scenewright.miniature.training.loop import Training, cosine_rate
from scenewright.miniature.training.references import train_references
from scenewright.miniature.training.text import pad
from scenewright.miniature.world import MAX_TOKENS, new_tokenizer, token_owners, words

WEIGHTS = Path(__file__).parents[2] / "scenewright" / "miniature" / "weights"


def _training(path: Path, steps: int) -> tuple[Training, nn.Linear]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return (
        Training(path, {"model": model}, optimizer, steps, lambda s: cosine_rate(s, steps, 2)),
        model,
    )


def _loss(model: nn.Linear, step: int) -> tuple[torch.Tensor, dict[str, float]]:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
    return (model(x) - x[:, :2]).pow(2).mean(), {}


def test_a_cut_off_training_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    whole, model = _training(tmp_path / "whole.pt", 8)
    assert whole.run(lambda step: _loss(model, step))
    wanted = whole.averages["model"].values

    cut, cut_model = _training(tmp_path / "cut.pt", 8)
    calls = 0

    def fails(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        nonlocal calls
        calls += 1
        if calls == 4:
            cut.save()
            raise KeyboardInterrupt
        return _loss(cut_model, step)

    with pytest.raises(KeyboardInterrupt):
        cut.run(fails)
    again, again_model = _training(tmp_path / "cut.pt", 8)
    assert again.step == 3
    assert again.run(lambda step: _loss(again_model, step))
    for key, value in again.averages["model"].values.items():
        torch.testing.assert_close(value, wanted[key])
    assert not list(tmp_path.glob("*.part"))


def test_a_time_limit_saves_and_says_that_it_is_not_done(tmp_path: Path) -> None:
    state, model = _training(tmp_path / "t.pt", 1000)
    assert not state.run(lambda step: _loss(model, step), max_seconds=0.0)
    assert state.path.is_file()
    assert 0 < state.step < 1000


def test_a_loss_that_is_not_a_number_stops_at_once(tmp_path: Path) -> None:
    state, model = _training(tmp_path / "t.pt", 3)
    with pytest.raises(FloatingPointError, match="step 0"):
        state.run(lambda step: (_loss(model, step)[0] * float("nan"), {}))


def test_the_tokenizer_is_the_same_each_time() -> None:
    first, second = new_tokenizer(), new_tokenizer()
    assert first.get_vocab() == second.get_vocab()
    for word in words():
        assert first(word)["input_ids"] == second(word)["input_ids"]


def test_every_word_of_the_world_is_one_token() -> None:
    tokenizer = new_tokenizer()
    for word in words():
        assert len(tokenizer(word, add_special_tokens=False)["input_ids"]) == 1, word
    spelled = tokenizer("zebra", add_special_tokens=False)["input_ids"]
    assert len(spelled) == len("zebra")


def test_tokens_know_their_object_and_match_the_whole_prompt() -> None:
    tokenizer = new_tokenizer()
    pieces = [
        Piece("in a meadow :"),
        Piece("a red ball", "ball.1"),
        Piece(","),
        Piece("a cat", "c"),
    ]
    ids, owners = token_owners(pieces, tokenizer)
    assert owners == [None] * 4 + ["ball.1"] * 3 + [None] + ["c"] * 2
    whole = tokenizer(
        "in a meadow: a red ball, a cat", padding="max_length", max_length=MAX_TOKENS
    )["input_ids"]
    assert pad(pieces, tokenizer, True).ids == whole
    assert len(ids) == len(owners)


def test_long_prompts_are_cut_like_the_pipeline_cuts_them() -> None:
    tokenizer = new_tokenizer()
    caption = pad([Piece("red " * 200, "x")], tokenizer, True)
    assert len(caption.ids) == len(caption.owners) == MAX_TOKENS
    assert caption.ids[-1] == tokenizer.eos_token_id


def test_going_on_begins_with_the_trained_weights(tmp_path: Path) -> None:
    """No step is made, so what is written must be what was shipped."""
    out = tmp_path / "weights"
    shutil.copytree(WEIGHTS / "generator", out / "generator")
    shutil.copytree(WEIGHTS / "ip-adapter", out / "ip-adapter")
    work = tmp_path / "work"
    train_generator(out / "generator", work, 0, paintings=2, onward=True)
    reader = load_reader(out / "ip-adapter")
    train_references(
        out / "generator", work, out / "ip-adapter", reader, 0, paintings=2, onward=True
    )
    for name in (
        "generator/unet/diffusion_pytorch_model.safetensors",
        "ip-adapter/ip-adapter.safetensors",
        "ip-adapter/image_encoder/model.safetensors",
    ):
        made, shipped = load_file(out / name), load_file(WEIGHTS / name)
        assert made.keys() == shipped.keys()
        for key, value in made.items():
            torch.testing.assert_close(value, shipped[key], msg=key)


def test_emphasis_is_on_things_most_on_small_ones_and_one_on_average() -> None:
    painting = paint(load_scene("red ball inside blue house; green dog left of house"), 3)
    truth = painting.truth
    weights = emphasis([truth, nth_truth(0, 0)])
    assert weights.shape == (2, 16, 16)
    assert weights.mean().item() == pytest.approx(1.0)
    ball, dog = (truth.boxes[key].center for key in ("ball.1", "dog.1"))
    small, whole = (weights[0, int(y // 8), int(x // 8)].item() for x, y in (ball, dog))
    ground = weights.min().item()
    assert small == pytest.approx(12 * ground)
    assert whole == pytest.approx(4 * ground)

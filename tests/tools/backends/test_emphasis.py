"""Words that weigh more: which tokens are meant, and by how much they are multiplied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from scenewright.core.ports.backend import Emphasis
from scenewright.tools.backends.families import family_of
from scenewright.tools.backends.model_folder import ModelFolder
from scenewright.tools.backends.pipeline import build, choose_device, remember_prompts
from scenewright.tools.backends.prompts import PromptReader, PromptWeights
from tests.tools.backends import tiny, tiny_families


def loaded(folder: Path) -> Any:
    return build(ModelFolder.open(folder), choose_device("cpu"), torch.float32)


def prompt_weights(pipe: Any) -> PromptWeights:
    family = family_of(type(pipe).__name__, pipe.components)
    return PromptWeights(pipe, family.text, PromptReader((), None))


def embeds(pipe: Any, prompt: str) -> torch.Tensor:
    options: dict[str, Any] = {"device": "cpu"}
    if "StableDiffusion" in type(pipe).__name__:
        options |= {"num_images_per_prompt": 1, "do_classifier_free_guidance": True}
    if "Diffusion3" in type(pipe).__name__:
        options |= {"prompt_2": None, "prompt_3": None}
    with torch.no_grad():
        found: torch.Tensor = pipe.encode_prompt(prompt=prompt, **options)[0]
    return found


def expected(part: torch.Tensor, factors: dict[int, float]) -> torch.Tensor:
    """Tokens multiplied, and then all scaled to the mean magnitude of before."""
    changed = part.clone()
    for token, factor in factors.items():
        changed[:, token] *= factor
    return changed * part.abs().mean() / changed.abs().mean()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    tiny.build_model(folder / "sd")
    tiny.build_xl_model(folder / "xl")
    tiny_families.build_sd3(folder / "sd3")
    tiny_families.build_flux(folder / "flux")
    return folder


def test_the_tokens_of_the_words_are_multiplied(folders: Path) -> None:
    pipe = loaded(folders / "sd")
    plain = embeds(pipe, "red dog, bored red cat")
    weights = prompt_weights(pipe)
    # "red dog , b o red red c a t" after the start: the third "red" is the end of "bored".
    spoken = pipe.tokenizer("red dog, bored red cat").input_ids
    reds = [1, 7]
    assert [at for at, token in enumerate(spoken) if token == spoken[1]] == [1, 6, 7]
    assert weights.use("red dog, bored red cat", [Emphasis(text="red", weight=1.5)]) == []
    torch.testing.assert_close(
        embeds(pipe, "red dog, bored red cat"), expected(plain, dict.fromkeys(reds, 1.5))
    )
    both = [Emphasis(text="red dog", weight=1.5), Emphasis(text="dog", weight=0.5)]
    assert weights.use("red dog, bored red cat", both) == []
    torch.testing.assert_close(
        embeds(pipe, "red dog, bored red cat"), expected(plain, {1: 1.5, 2: 0.75})
    )
    weights.use("red dog, bored red cat", ())
    assert torch.equal(embeds(pipe, "red dog, bored red cat"), plain)


def test_each_text_encoder_keeps_its_mean(folders: Path) -> None:
    xl = loaded(folders / "xl")
    plain = embeds(xl, "red dog")
    prompt_weights(xl).use("red dog", [Emphasis(text="dog", weight=2.0)])
    width = tiny.TEXT_WIDTH
    parts = [expected(plain[..., :width], {2: 2.0}), expected(plain[..., width:], {2: 2.0})]
    torch.testing.assert_close(embeds(xl, "red dog"), torch.cat(parts, -1))

    sd3 = loaded(folders / "sd3")
    plain = embeds(sd3, "red dog")
    prompt_weights(sd3).use("red dog", [Emphasis(text="dog", weight=2.0)])
    weighed = embeds(sd3, "red dog")
    assert weighed.shape == plain.shape == (1, 16 + 256, tiny_families.T5_WIDTH)
    for begin in (0, width):
        clip = plain[:, :16, begin : begin + width]
        torch.testing.assert_close(weighed[:, :16, begin : begin + width], expected(clip, {2: 2.0}))
    # T5 has no token before the words; its padding goes through the encoder too.
    torch.testing.assert_close(weighed[:, 16:], expected(plain[:, 16:], {1: 2.0}))

    flux = loaded(folders / "flux")
    plain = embeds(flux, "red dog")
    prompt_weights(flux).use("red dog", [Emphasis(text="red", weight=0.5)])
    torch.testing.assert_close(embeds(flux, "red dog"), expected(plain, {0: 0.5}))


def test_what_cannot_be_weighed_is_told(folders: Path) -> None:
    weights = prompt_weights(loaded(folders / "sd"))
    found = [Emphasis(text=text, weight=2.0) for text in ("dog", "do", "cat", "Dog")]
    assert weights.use("a red dog", found) == ["do", "cat", "Dog"]
    # 16 tokens are read: the rest of the prompt has no embeddings to weigh.
    assert weights.use("red " * 20 + "dog", [Emphasis(text="dog", weight=2.0)]) == ["dog"]


def test_prompts_are_remembered_without_their_weights(folders: Path) -> None:
    pipe = loaded(folders / "sd")
    memory = remember_prompts(pipe, 4)
    weights = prompt_weights(pipe)
    weights.use("red dog", [Emphasis(text="dog", weight=2.0)])
    first = embeds(pipe, "red dog")
    weights.use("red dog", ())
    plain = embeds(pipe, "red dog")
    weights.use("red dog", [Emphasis(text="dog", weight=2.0)])
    assert torch.equal(embeds(pipe, "red dog"), first)
    assert not torch.equal(plain, first)
    assert memory.hits == 2

"""Prompts of any length: how they are counted, divided and read by each family."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import (
    GeneratedImage,
    GenerationRequest,
    PromptCount,
    Reference,
    Start,
)
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.families import family_of, known_families
from scenewright.tools.backends.model_folder import ModelFolder
from scenewright.tools.backends.pipeline import build, choose_device, pipeline_class
from scenewright.tools.backends.prompts import (
    PromptReader,
    find_prompt_reader,
    prompt_reader_of,
    read_in_chunks,
)
from tests.tools.backends import tiny, tiny_families

SHORT = "red dog, bored red cat"
LONG = "red dog " * 60 + "on a mat"
"""128 tokens and more: two chunks of CLIP's."""
Loaded = tuple[Any, PromptReader]


def loaded(folder: Path) -> Loaded:
    found = ModelFolder.open(folder)
    return build(found, choose_device("cpu"), torch.float32), prompt_reader_of(found)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    tiny.build_model(folder / "sd", words=tiny.tokenizer(77))
    tiny.build_xl_model(folder / "xl", words=tiny.tokenizer(77))
    tiny.build_adapter(folder / "adapter")
    return folder


def embeds(pipe: Any, prompt: Any, negative: Any = None, **options: Any) -> tuple[Any, ...]:
    with torch.no_grad():
        found = pipe.encode_prompt(
            prompt=prompt,
            negative_prompt=negative,
            device="cpu",
            num_images_per_prompt=1,
            do_classifier_free_guidance=True,
            **options,
        )
    return tuple(found)


# diffusers cannot skip layers of SD 1.5's encoder with this version of transformers.
@pytest.mark.parametrize(("name", "options"), [("sd", {}), ("xl", {}), ("xl", {"clip_skip": 1})])
def test_one_chunk_is_what_the_pipeline_makes_of_it(
    folders: Path, name: str, options: dict[str, Any]
) -> None:
    pipe, reader = loaded(folders / name)
    for prompt, negative in ((SHORT, "cat"), (SHORT, None), ("", ""), ([SHORT, "dog"], ["", "a"])):
        plain = embeds(pipe, prompt, negative, **options)
        own = pipe.encode_prompt
        read_in_chunks(pipe, reader)
        assert pipe.encode_prompt is not own
        for found, wanted in zip(embeds(pipe, prompt, negative, **options), plain, strict=True):
            assert torch.equal(found, wanted)
        pipe.encode_prompt = own


@pytest.mark.parametrize("name", ["sd", "xl"])
def test_every_chunk_is_encoded_by_itself_and_the_pooled_one_is_the_first(
    folders: Path, name: str
) -> None:
    pipe, reader = loaded(folders / name)
    own = pipe.encode_prompt
    pieces = reader.chunks(LONG)
    assert len(pieces) == 2
    apart = [embeds(pipe, piece, "cat" if not at else "") for at, piece in enumerate(pieces)]
    read_in_chunks(pipe, reader)
    found = embeds(pipe, LONG, "cat")
    assert found[0].shape[1] == found[1].shape[1] == 2 * 77
    for at in range(2):
        assert torch.equal(found[at], torch.cat([part[at] for part in apart], dim=1))
    for pooled, first in zip(found[2:], apart[0][2:], strict=True):
        assert torch.equal(pooled, first)
    # A long negative prompt gives the prompt as many chunks, and so does one text of a batch.
    other = embeds(pipe, "cat", LONG)
    assert torch.equal(other[0][:, :77], own_embeds(own, "cat"))
    assert torch.equal(other[0][:, 77:], own_embeds(own, ""))
    several = embeds(pipe, ["cat", LONG], ["", ""])
    assert several[0].shape[:2] == several[1].shape[:2] == (2, 2 * 77)
    torch.testing.assert_close(several[0][1], found[0][0])


def own_embeds(encode: Callable[..., Any], prompt: str) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = encode(
            prompt=prompt, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=False
        )[0]
    return found


def test_without_guidance_the_negative_prompt_adds_no_chunk(folders: Path) -> None:
    pipe, reader = loaded(folders / "sd")
    read_in_chunks(pipe, reader)
    with torch.no_grad():
        found = pipe.encode_prompt("cat", "cpu", 1, False, LONG)
    assert found[0].shape[1] == 77


WORDS = st.lists(st.text("abcdefghij", min_size=1, max_size=9), min_size=1, max_size=60).map(
    " ".join
)
MARKS = st.lists(
    st.tuples(st.text("abcdefghij", min_size=1, max_size=9), st.sampled_from(["", "", ",", "."])),
    min_size=1,
    max_size=60,
).map(lambda pairs: " ".join(word + mark for word, mark in pairs))
CHUNKED = PromptReader([tiny.tokenizer(77)], 20, chunked=True)


@given(st.one_of(WORDS, MARKS))
def test_chunks_hold_all_words_whole_and_have_room(prompt: str) -> None:
    pieces = CHUNKED.chunks(prompt)
    assert " ".join(pieces).split() == prompt.split()
    assert all(0 < CHUNKED.tokens(piece) <= 20 for piece in pieces)
    assert CHUNKED.count(prompt) == PromptCount(CHUNKED.tokens(prompt))


def test_a_chunk_ends_at_a_clause_of_its_last_quarter_or_at_a_word() -> None:
    reader = PromptReader([tiny.tokenizer(77)], 20, chunked=True)
    # 16 + 1 tokens up to the comma, and 5 after it.
    assert reader.chunks("red " * 15 + "dog, red red red red") == [
        ("red " * 15 + "dog,"), "red red red red",
    ]  # fmt: skip
    # A clause that ends too early does not shorten the chunk.
    assert reader.chunks("dog, " + "red " * 30)[0] == "dog, " + ("red " * 18).strip()
    # A word longer than a chunk is cut, and nothing of it is lost.
    assert "".join(reader.chunks("a" * 90)) == "a" * 90
    assert reader.chunks(" \n ") == [" \n "]


def test_what_a_model_with_its_own_limit_does_not_read_is_counted_in_whole_words() -> None:
    reader = PromptReader([tiny.tokenizer(16)], 14)
    assert reader.budget == 14
    assert reader.count("red dog") == PromptCount(2)
    prompt = "red dog " * 6 + "cab, red dog"
    # Three letters of "cab" would be 3 tokens: only 2 have room, so that the word is not read.
    count = reader.count(prompt)
    assert count == PromptCount(18, 4, read=len("red dog " * 6) - 1)
    assert count.tail(prompt) == "cab, red dog"


def test_tokens_without_a_tokenizer_are_an_estimate() -> None:
    count = PromptReader((), 10).count("a red dog left of a blue ball, in front of a house")
    assert count.estimated
    assert (count.tokens, count.dropped) == (13, 3)
    assert count.tail("a red dog left of a blue ball, in front of a house") == "of a house"


@pytest.mark.parametrize(
    "name", sorted(name for name, one in known_families().items() if one.chunks)
)
def test_families_read_in_chunks_encode_prompts_as_these_do(name: str) -> None:
    import inspect

    taken = inspect.signature(pipeline_class(name).encode_prompt).parameters
    assert {"prompt", "negative_prompt", "do_classifier_free_guidance"} <= set(taken)
    assert "max_sequence_length" not in taken
    assert family_of(name, ("unet", "vae", "tokenizer", "tokenizer_2")).chunks


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "sd": lambda folder: tiny.build_model(folder, words=tiny.tokenizer(77)),
    "sdxl": lambda folder: tiny.build_xl_model(folder, words=tiny.tokenizer(77)),
    "own": tiny.build_model,
    "sd3": tiny_families.build_sd3,
    "flux": tiny_families.build_flux,
    "schnell": lambda folder: tiny_families.build_flux(folder, guidance=False),
    "kontext": tiny_families.build_kontext,
    "qwen": tiny_families.build_qwen,
    "aura": tiny_families.build_aura,
}
BUDGETS = {
    "sd": None, "sdxl": None, "own": 14, "sd3": 511, "flux": 511, "schnell": 511, "kontext": 511,
    "qwen": 1024, "aura": 255,
}  # fmt: skip
"""What is read of a prompt, without marks."""


@pytest.fixture(scope="module", params=sorted(BUILDERS))
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, DiffusersBackend]:
    name = request.param
    folder = BUILDERS[name](tmp_path_factory.mktemp("families") / name)
    return name, DiffusersBackend(str(folder), device="cpu")


def asked(prompt: str, **options: Any) -> GenerationRequest:
    return GenerationRequest(prompt=prompt, seed=3, steps=2, **options)


def no_images(name: str) -> Any:
    pytest.fail(f"the image {name} was asked for without need")


def far(one: GeneratedImage, other: GeneratedImage) -> int:
    return int(np.abs(np.asarray(one.image, int) - np.asarray(other.image, int)).max())


async def test_the_budget_is_told_and_what_lies_beyond_it_counted(
    family: tuple[str, DiffusersBackend],
) -> None:
    name, backend = family
    assert backend.features.prompt_tokens == BUDGETS[name]
    prompt = "red dog " * 700
    count = backend.count_prompt(prompt)
    budget = BUDGETS[name]
    assert not count.estimated
    assert count.dropped == (0 if budget is None else count.tokens - budget)
    if budget is not None:
        assert count.tail(prompt)
        assert backend.count_prompt(prompt[: count.read]).dropped == 0
    drawn = await backend.generate(asked("red dog " * 10), no_images)
    assert drawn.count == backend.count_prompt("red dog " * 10)
    assert drawn.steps == 2


async def test_the_tail_of_a_prompt_of_200_tokens_changes_the_picture_where_it_is_read(
    family: tuple[str, DiffusersBackend],
) -> None:
    name, backend = family
    begin = "red dog, " * 66
    one, other = [await backend.generate(asked(begin + end), no_images) for end in ("dog", "mat")]
    assert one.count is not None
    assert one.count.tokens >= 198
    assert (one.count.dropped == 0) == (name != "own")
    assert (far(one, other) > 0) == (name != "own")


async def test_what_is_beyond_the_budget_changes_nothing(
    family: tuple[str, DiffusersBackend],
) -> None:
    name, backend = family
    if BUDGETS[name] is None:
        pytest.skip("it reads prompts of any length")
    begin = "red dog " * 700
    one, other = [await backend.generate(asked(begin + end), no_images) for end in ("dog", "mat")]
    assert one.count is not None
    assert one.count.dropped > 0
    assert far(one, other) == 0


async def test_a_short_prompt_gives_the_picture_that_the_plain_pipeline_draws(
    family: tuple[str, DiffusersBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, backend = family
    drawn = await backend.generate(asked(SHORT, guidance=4.0), no_images)
    pipe = build(ModelFolder.open(Path(backend.model)), choose_device("cpu"), torch.float32)
    guidance = "true_cfg_scale" if name == "qwen" else "guidance_scale"
    options: dict[str, Any] = {guidance: 4.0}
    if name == "qwen":
        options["negative_prompt"] = " "
    if name == "schnell":
        options["max_sequence_length"] = 256
    if name == "kontext":
        options |= {"max_area": 32 * 32, "_auto_resize": False}
    with torch.no_grad():
        pixels = pipe(
            prompt=SHORT, num_inference_steps=2, height=32, width=32, output_type="np",
            generator=torch.Generator("cpu").manual_seed(3), **options,
        ).images[0]  # fmt: skip
    plain = np.clip((pixels * 255).round(), 0, 255).astype(np.uint8)
    assert np.array_equal(np.asarray(drawn.image), plain)


@pytest.mark.parametrize("name", ["sd", "xl"])
async def test_batches_of_long_prompts_give_the_pictures_of_single_ones(
    folders: Path, store: ImageStore, name: str
) -> None:
    backend = DiffusersBackend(str(folders / name), device="cpu")
    requests = [
        asked(LONG),
        asked(SHORT),
        asked(LONG.replace("mat", "cat")),
        asked(SHORT, negative_prompt=LONG),
        asked("ball", negative_prompt="cat"),
    ]
    together = await backend.generate_many(requests, store.get)
    assert [one.details["drawn_together"] for one in together] == [2, 1, 2, 1, 1]
    for drawn, request in zip(together, requests, strict=True):
        assert far(drawn, await backend.generate(request, store.get)) <= 1
    await backend.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["reference", "start", "mask"])
async def test_long_prompts_are_read_whatever_else_is_asked(
    folders: Path, store: ImageStore, pictures: list[str], what: str
) -> None:
    options: dict[str, dict[str, Any]] = {
        "reference": {"references": (Reference(image=pictures[0], weight=0.5),)},
        "start": {"start": Start(image=pictures[0], strength=0.9)},
        "mask": {"start": Start(image=pictures[0], strength=0.9, mask=pictures[1])},
    }
    backend = DiffusersBackend(
        str(folders / "sd"),
        ip_adapter=AdapterSpec(repository=str(folders / "adapter")),
        device="cpu",
    )
    ends = [asked(LONG.replace("mat", f"mat {end}"), **options[what]) for end in ("dog", "cat")]
    one, other = [await backend.generate(request, store.get) for request in ends]
    assert far(one, other) > 0
    await backend.aclose()


def test_a_model_may_say_whether_long_prompts_are_read_in_chunks(
    folders: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(folders / "sd", tmp_path / "sd")
    plain = DiffusersBackend(str(folder), device="cpu").fingerprint
    defaults = json.loads((folder / "scenewright.json").read_text())
    (folder / "scenewright.json").write_text(json.dumps(defaults | {"long_prompts": "cut"}))
    cut = DiffusersBackend(str(folder), device="cpu")
    assert cut.features.prompt_tokens == 75
    assert cut.fingerprint != plain
    own = tiny.build_model(tmp_path / "own")
    (own / "scenewright.json").write_text(json.dumps(defaults | {"long_prompts": "chunks"}))
    assert DiffusersBackend(str(own), device="cpu").features.prompt_tokens is None


def test_the_miniature_has_its_own_limit() -> None:
    from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

    reader = find_prompt_reader(str(MINIATURE_WEIGHTS / "generator"))
    assert reader.budget == 128 - 2
    assert not reader.estimates


def test_sd3_without_t5_reads_what_clip_reads(tmp_path: Path) -> None:
    folder = tiny_families.build_sd3(tmp_path / "sd3")
    index = json.loads((folder / "model_index.json").read_text())
    index |= {"text_encoder_3": [None, None], "tokenizer_3": [None, None]}
    (folder / "model_index.json").write_text(json.dumps(index))
    assert prompt_reader_of(ModelFolder.open(folder)).budget == 16 - 2


@pytest.mark.parametrize(
    ("model", "budget"),
    [
        ("stabilityai/stable-diffusion-xl-base-1.0", None),
        ("stabilityai/stable-diffusion-3.5-medium", 510),
        ("black-forest-labs/FLUX.1-schnell", 510),
        ("nobody/knows-this-model", None),
    ],
)
def test_a_model_that_is_not_here_is_estimated(model: str, budget: int | None) -> None:
    reader = find_prompt_reader(model)
    assert reader.estimates
    assert reader.budget == budget
    assert reader.count("a red dog").estimated


def test_tokenizers_alone_are_enough_to_count(folders: Path, tmp_path: Path) -> None:
    only = tmp_path / "only"
    only.mkdir()
    shutil.copy(folders / "xl" / "model_index.json", only)
    for part in ("tokenizer", "tokenizer_2"):
        shutil.copytree(folders / "xl" / part, only / part)
    reader = find_prompt_reader(str(only))
    assert not reader.estimates
    assert reader.budget is None
    assert len(reader.chunks(LONG)) == 2

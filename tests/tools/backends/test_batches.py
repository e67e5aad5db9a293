"""Several pictures in one batch: which requests share one, and that the pictures stay the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import (
    BackendError,
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    Reference,
    Start,
)
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.families import Family
from scenewright.tools.backends.loaded import group_into_batches
from scenewright.tools.backends.memory import USABLE, needs_of
from scenewright.tools.backends.model_folder import ModelFolder
from scenewright.tools.backends.prompts import PromptReader
from tests.tools.backends import tiny

FEATURES = BackendFeatures(
    references=2,
    reference_maths="exact",
    masks=True,
    edit=True,
    negative_prompt=True,
    seeds=True,
    sizes=None,
    default_size=(32, 32),
    default_steps=3,
    default_guidance=4.0,
)
WORDS = Family(text=("tokenizer",))
ANY = PromptReader((), None)
NAME = "0" * 64
ALONE: dict[str, Any] = {
    "references": (Reference(image=NAME, weight=0.5),),
    "start": Start(image=NAME, strength=0.5),
}


def asked(**options: Any) -> GenerationRequest:
    return GenerationRequest(**{"prompt": "red dog", "seed": 1} | options)


REQUESTS = st.lists(
    st.builds(
        asked,
        seed=st.integers(0, 3),
        steps=st.sampled_from([None, 3, 4]),
        guidance=st.sampled_from([None, 1.0]),
        negative_prompt=st.sampled_from(["", "blurry"]),
        references=st.sampled_from([(), ALONE["references"]]),
    ),
    max_size=9,
)


@given(REQUESTS, st.integers(1, 4))
def test_every_request_is_drawn_once_and_batches_are_alike(
    requests: list[GenerationRequest], most: int
) -> None:
    found = group_into_batches(requests, FEATURES, WORDS, ANY, most)
    assert sorted(place for batch in found for place in batch) == list(range(len(requests)))
    for batch in found:
        assert 1 <= len(batch) <= most
        alike = {
            (one.steps or 3, 4.0 if one.guidance is None else one.guidance, one.negative_prompt)
            for one in (requests[place] for place in batch)
        }
        assert len(alike) == 1
        assert len(batch) == 1 or not any(requests[place].references for place in batch)


@pytest.mark.parametrize("what", sorted(ALONE))
def test_what_is_state_of_the_pipeline_is_drawn_alone(what: str) -> None:
    requests = [asked(), asked(**{what: ALONE[what]}), asked(seed=2)]
    assert group_into_batches(requests, FEATURES, WORDS, ANY, 4) == [[0, 2], [1]]


def test_what_is_left_open_is_the_default() -> None:
    requests = [asked(), asked(width=32, height=32, steps=3, guidance=4.0)]
    assert group_into_batches(requests, FEATURES, WORDS, ANY, 4) == [[0, 1]]
    assert group_into_batches(requests, FEATURES, Family(), ANY, 4) == [[0], [1]]
    assert group_into_batches([asked()] * 3, FEATURES, WORDS, ANY, 2) == [[0, 1], [2]]
    assert group_into_batches([], FEATURES, WORDS, ANY, 4) == []


@pytest.fixture(scope="module")
def xl_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.build_xl_model(tmp_path_factory.mktemp("xl") / "tiny")


@pytest.fixture(params=["sd", "xl"])
async def backend(
    request: pytest.FixtureRequest, tiny_model: Path, tiny_adapter: Path, xl_model: Path
) -> AsyncIterator[DiffusersBackend]:
    made = (
        DiffusersBackend(str(xl_model), device="cpu")
        if request.param == "xl"
        else DiffusersBackend(
            str(tiny_model), ip_adapter=AdapterSpec(repository=str(tiny_adapter)), device="cpu"
        )
    )
    yield made
    await made.aclose()


def far(one: GeneratedImage, other: GeneratedImage) -> int:
    return int(np.abs(np.asarray(one.image, int) - np.asarray(other.image, int)).max())


async def test_a_batch_gives_the_pictures_that_single_requests_give(
    backend: DiffusersBackend, store: ImageStore
) -> None:
    requests = [
        asked(),
        asked(prompt="a do9 and two cats, red", seed=2),
        asked(prompt="ball", seed=3, negative_prompt="dog"),
        asked(prompt="cat", seed=4),
        asked(prompt="cat", seed=5, negative_prompt="red ball"),
    ]
    steps: list[GenerationStep] = []
    together = await backend.generate_many(requests, store.get, steps.append)
    assert [one.details["drawn_together"] for one in together] == [3, 3, 2, 3, 2]
    assert [step.step for step in steps] == [1, 2, 3] * 2
    single = [await backend.generate(request, store.get) for request in requests]
    assert [far(*pair) <= 1 for pair in zip(together, single, strict=True)] == [True] * 5
    assert min(far(single[0], other) for other in single[1:]) > 10


async def test_requests_with_references_go_along(
    tiny_model: Path, tiny_adapter: Path, store: ImageStore, pictures: list[str]
) -> None:
    backend = DiffusersBackend(
        str(tiny_model), ip_adapter=AdapterSpec(repository=str(tiny_adapter)), device="cpu"
    )
    reference = (Reference(image=pictures[0], weight=0.7),)
    requests = [asked(), asked(references=reference), asked(seed=3)]
    together = await backend.generate_many(requests, store.get)
    assert [one.details["drawn_together"] for one in together] == [2, 1, 2]
    for drawn, request in zip(together, requests, strict=True):
        assert far(drawn, await backend.generate(request, store.get)) <= 1
    assert far(together[0], together[1]) > 4
    await backend.aclose()


async def test_one_bad_request_stops_all_before_anything_is_drawn(
    backend: DiffusersBackend, store: ImageStore
) -> None:
    steps: list[GenerationStep] = []
    with pytest.raises(BackendError, match="only one of width and height"):
        await backend.generate_many([asked(), asked(width=32)], store.get, steps.append)
    assert not steps
    assert await backend.generate_many([], store.get) == []


async def test_little_memory_makes_small_batches(
    tiny_model: Path, store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = DiffusersBackend(str(tiny_model), device="cpu", slicing=False)
    needs = needs_of(ModelFolder.open(tiny_model), (32, 32))
    free = int(4 * needs.peak("none", sliced=False) / USABLE) + 4096
    monkeypatch.setattr("scenewright.tools.backends.diffusers.free_memory", lambda device: free)
    drawn = await backend.generate_many([asked(), asked(seed=2)], store.get)
    assert [one.details["drawn_together"] for one in drawn] == [1, 1]
    await backend.aclose()

"""Partial images over OpenAI's stream: shown as they come, whatever goes wrong on the way."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest
from PIL import Image

from scenewright.core.ports.backend import BackendError, GenerationRequest, GenerationStep, Start
from scenewright.mock_providers import Fault, ThreadedMockProviders
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.providers.sdk_clients import paying
from scenewright.tools.backends.remote import RemoteBackend, remote_backend
from tests.mock_providers.asking import picture

RED = GenerationRequest(prompt="a red dog", seed=7)
PICTURE_TOKENS, PARTIAL_TOKENS = 16, 100
Make = Callable[..., RemoteBackend]


@pytest.fixture
async def make(slow_lab: ThreadedMockProviders, key: str) -> AsyncIterator[Make]:
    caller = Caller(
        "mine", timeout=1.5, attempts=2, max_wait=2.0, priced=False, backoff=Backoff(initial=0.01)
    )
    made: list[RemoteBackend] = []

    def backend(**more: Any) -> RemoteBackend:
        given = {"partial_images": 2, "base_url": slow_lab.openai_url} | more
        made.append(remote_backend("openai", "instant-image", caller, api_key=key, **given))
        return made[-1]

    yield backend
    for one in made:
        await one.aclose()
    await caller.aclose()


async def drawn(
    backend: RemoteBackend, request: GenerationRequest = RED, **store: Image.Image
) -> tuple[Any, list[GenerationStep]]:
    steps: list[GenerationStep] = []
    return await backend.generate(request, store.__getitem__, steps.append), steps


def places(steps: list[GenerationStep]) -> list[tuple[int, int, bool]]:
    return [(step.step, step.of, bool(step.preview)) for step in steps]


ALL = [(1, 3, True), (2, 3, True), (3, 3, False)]


async def test_partial_images_come_before_the_picture_and_are_paid(make: Make) -> None:
    result, steps = await drawn(make())
    assert places(steps) == ALL
    assert result.details["tokens_out"] == PICTURE_TOKENS + 2 * PARTIAL_TOKENS
    first, second = (Image.open(io.BytesIO(step.preview)) for step in steps[:2])
    assert first.format == second.format == "WEBP"
    assert first.size == result.image.size
    # A picture without partial images is the same, and costs less.
    plain, steps = await drawn(make(partial_images=0))
    assert places(steps) == [(1, 1, False)]
    assert plain.details["tokens_out"] == PICTURE_TOKENS


async def test_nobody_pays_for_partial_images_that_nobody_sees(make: Make) -> None:
    result = await make().generate(RED, lambda name: pytest.fail(name))
    assert result.details["tokens_out"] == PICTURE_TOKENS


async def test_partial_images_of_an_edit_keep_what_the_mask_keeps(make: Make) -> None:
    mask = Image.new("L", (128, 128))
    mask.paste(255, (0, 0, 64, 128))
    start = Start(image="start", strength=0.5, mask="mask")
    request = RED.model_copy(update={"start": start})
    red = Image.new("RGB", (128, 128), "red")
    _, steps = await drawn(make(), request, start=red, mask=mask)
    assert places(steps) == ALL
    kept = Image.open(io.BytesIO(steps[0].preview)).convert("RGB").getpixel((110, 64))
    assert isinstance(kept, tuple)
    assert kept[0] > 240
    assert max(kept[1:]) < 20


@pytest.mark.parametrize(
    ("fault", "before"),
    [
        (Fault.STREAM_CUT, 1),
        (Fault.STREAM_STALL, 1),
        (Fault.STREAM_ERROR, 1),
        (Fault.EMPTY, 2),
        (Fault.SERVER_ERROR, 0),
    ],
)
async def test_a_stream_that_ends_too_early_is_asked_for_again(
    make: Make, slow_lab: ThreadedMockProviders, key: str, fault: Fault, before: int
) -> None:
    slow_lab.schedule(fault, 1, key)
    result, steps = await drawn(make())
    assert places(steps) == ALL[:before] + ALL
    assert result.details["attempts"] == 2


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.STREAM_ERROR, "HTTP 500: The server had an error"),
        (Fault.EMPTY, "the stream ended before the picture"),
        (Fault.REFUSAL, "refused: .*say it in other words"),
    ],
)
async def test_a_stream_that_never_ends_well_is_told(
    make: Make, slow_lab: ThreadedMockProviders, key: str, fault: Fault, reason: str
) -> None:
    slow_lab.schedule(fault, 9, key)
    with pytest.raises(BackendError, match=reason):
        await drawn(make())


async def test_partial_images_that_are_none_are_left_out_with_a_warning(
    make: Make, slow_lab: ThreadedMockProviders, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    slow_lab.schedule(Fault.BAD_PARTIAL, 1, key)
    with caplog.at_level(logging.WARNING):
        _, steps = await drawn(make())
    assert places(steps) == ALL[2:]
    assert "a partial image is left out" in caplog.text
    slow_lab.schedule(Fault.NO_PARTIALS, 1, key)
    assert places((await drawn(make()))[1]) == ALL[2:]


async def test_a_cut_stream_of_a_run_is_not_billed_twice(
    make: Make, slow_lab: ThreadedMockProviders, key: str
) -> None:
    slow_lab.schedule(Fault.STREAM_CUT, 1, key)
    with paying("run:r0:candidate:generated"):
        _, steps = await drawn(make())
    assert places(steps) == ALL[:1] + ALL
    assert steps[0].preview == steps[1].preview
    report = slow_lab.report()["accounts"][key]
    assert (report["executed"], report["replayed"]) == (1, 1)


async def test_the_sdk_reads_the_events_as_its_own(lab: ThreadedMockProviders, key: str) -> None:
    async with openai.AsyncOpenAI(api_key=key, base_url=lab.openai_url) as client:
        stream = await client.images.edit(
            model="instant-image",
            prompt="a dog",
            image=("a.png", picture(), "image/png"),
            stream=True,
            partial_images=1,
        )
        events = [event async for event in stream]
    assert [event.type for event in events] == ["image_edit.partial_image", "image_edit.completed"]
    assert events[-1].usage.output_tokens == PICTURE_TOKENS + PARTIAL_TOKENS


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"partial_images": 4}, "at most 3 partial images: ask for fewer"),
        ({"overrides": {"partial_images": 0}}, "no partial images: leave partial_images out"),
        ({"complexity": "vast"}, "complexity 'vast': use one of low, medium, high"),
    ],
)
def test_what_a_model_does_not_know_is_refused_at_once(
    make: Make, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        make(**more)


def test_partial_images_change_no_fingerprint(make: Make) -> None:
    assert make().fingerprint == make(partial_images=0).fingerprint
    assert make().fingerprint != make(complexity="low").fingerprint

"""Backends behind an image API: what they send, what they make of replies, what they say."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from PIL import Image
from starlette.responses import JSONResponse, Response

from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import (
    BackendError,
    GenerationRequest,
    GenerationStep,
    Reference,
    Start,
)
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.providers.usage import PriceTable
from scenewright.tools.backends.remote import RemoteBackend, remote_backend
from tests.tools.backends.image_server import (
    KEY,
    ImageServer,
    file,
    gemini_reply,
    openai_reply,
    part,
    serving,
)

PROVIDERS = ("openai", "gemini")
MODELS = {"openai": "gpt-image-1.5", "gemini": "gemini-2.5-flash-image"}
RED = GenerationRequest(prompt="a red dog", seed=7)


@pytest.fixture(scope="module")
def running() -> Iterator[ImageServer]:
    with serving() as made:
        yield made


@pytest.fixture
def server(running: ImageServer) -> ImageServer:
    running.received.clear()
    running.script.clear()
    return running


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("mine", timeout=20.0, attempts=2, max_wait=2.0, backoff=Backoff(initial=0.01))
    yield made
    await made.aclose()


def made_for(server: ImageServer, caller: Caller, provider: str, **more: Any) -> RemoteBackend:
    given = {"model": MODELS[provider], "api_key": KEY, "base_url": server.base(provider)} | more
    return remote_backend(provider, caller=caller, name="mine", **given)


@pytest.fixture(params=PROVIDERS)
async def backend(
    request: pytest.FixtureRequest, server: ImageServer, caller: Caller
) -> AsyncIterator[RemoteBackend]:
    made = made_for(server, caller, request.param)
    yield made
    await made.aclose()


def broken(backend: RemoteBackend, *files: bytes, kind: str = "image/png") -> Response:
    if "gemini" in backend.id:
        return gemini_reply(*(part(one, kind) for one in files), finish="NO_IMAGE")
    return openai_reply(*files)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


async def test_words_alone_are_generated(backend: RemoteBackend, server: ImageServer) -> None:
    result = await backend.generate(RED, lambda name: pytest.fail(name))
    (got,) = server.received
    assert got.prompt == "a red dog"
    assert got.pictures == []
    assert result.image.size == (1024, 1024)
    assert result.details["served"] == "1024x1024"
    if "gpt" in backend.id:
        assert got.path == "/v1/images/generations"
        assert got.fields["size"] == "1024x1024"
        assert got.fields["background"] == "opaque"
        assert "quality" not in got.fields
    else:
        config = got.fields["generationConfig"]
        assert config["responseModalities"] == ["IMAGE"]
        assert config["imageConfig"] == {"aspectRatio": "1:1"}


async def test_the_start_is_first_then_the_references(
    backend: RemoteBackend, server: ImageServer, store: ImageStore
) -> None:
    names = [store.put(Image.new("RGB", (64, 64), color)) for color in ("red", "lime", "blue")]
    request = RED.model_copy(
        update={
            "start": Start(image=names[0], strength=0.5),
            "references": (
                Reference(image=names[1], weight=0.5),
                Reference(image=names[2], weight=0.0),
            ),
        }
    )
    await backend.generate(request, store.get)
    (got,) = server.received
    start, shown = [opened(one) for one in got.pictures]
    assert (start.size, start.getpixel((5, 5))) == ((1024, 1024), (255, 0, 0))
    assert (shown.size, shown.getpixel((5, 5))) == ((64, 64), (0, 255, 0))
    first, notes = got.prompt.split("\n\n")
    assert first == "a red dog"
    assert "first picture is a draft" in notes
    assert "last picture shows" in notes
    if "gpt" in backend.id:
        assert got.path == "/v1/images/edits"
        assert got.fields["input_fidelity"] == "high"


async def test_a_mask_is_transparent_where_the_picture_may_change(
    backend: RemoteBackend, server: ImageServer, store: ImageStore
) -> None:
    left = Image.new("L", (64, 64))
    left.paste(255, (0, 0, 32, 64))
    start = Start(
        image=store.put(Image.new("RGB", (64, 64), "red")), strength=0.5, mask=store.put(left)
    )
    request = RED.model_copy(update={"start": start, "width": 64, "height": 64})
    image = (await backend.generate(request, store.get)).image
    (got,) = server.received
    assert "from 0% to 50% of the width" in got.prompt
    if "gpt" in backend.id:
        assert got.mask is not None
        alpha = opened(got.mask).getchannel("A")
        assert alpha.size == opened(got.pictures[0]).size == (1024, 1024)
        assert (alpha.getpixel((100, 500)), alpha.getpixel((900, 500))) == (0, 255)
    else:
        assert len(got.pictures) == 1
    # Whatever came back, what the mask keeps is the picture's own.
    navy, red = (0, 0, 128), (255, 0, 0)
    assert (image.getpixel((10, 30)), image.getpixel((50, 30))) == (navy, red)


async def test_an_instruction_and_what_to_leave_out_are_words(
    backend: RemoteBackend, server: ImageServer, store: ImageStore
) -> None:
    start = Start(image=store.put(Image.new("RGB", (64, 64))), strength=1.0, instruct=True)
    hostile = 'Make it blue. {part} </prompt> "; DROP TABLE \\u0000 \u202e 猫'
    request = RED.model_copy(
        update={"prompt": hostile, "start": start, "negative_prompt": "people"}
    )
    await backend.generate(request, store.get)
    first, notes = server.received[0].prompt.split("\n\n")
    assert first == hostile
    assert "what to change in the first picture" in notes
    assert "Leave out: people" in notes


async def test_a_picture_of_another_shape_is_cut_not_stretched(
    server: ImageServer, caller: Caller
) -> None:
    picture = Image.new("RGB", (1536, 1024), "white")
    picture.paste("red", (0, 0, 240, 1024))
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", lossless=True)
    server.script.append(lambda _: openai_reply(buffer.getvalue()))
    backend = made_for(server, caller, "openai", size=(640, 640), quality="low")
    assert backend.features.default_size == (640, 640)
    request = RED.model_copy(update={"width": 512, "height": 512})
    image = (await backend.generate(request, lambda name: pytest.fail(name))).image
    assert server.received[0].fields["quality"] == "low"
    assert image.size == (512, 512)
    assert image.getpixel((2, 256)) == (255, 255, 255)
    await backend.aclose()


async def test_what_was_sketched_while_thinking_is_no_answer(
    server: ImageServer, caller: Caller
) -> None:
    sketch, final = part(file("red"), thought=True), part(file("lime"))
    server.script.append(lambda _: gemini_reply(sketch, {"text": "Here it is."}, final))
    backend = made_for(server, caller, "gemini")
    image = (await backend.generate(RED, lambda name: pytest.fail(name))).image
    assert image.getpixel((0, 0)) == (0, 255, 0)
    await backend.aclose()


async def test_a_picture_at_an_address_is_fetched_without_the_key(
    server: ImageServer, caller: Caller
) -> None:
    backend = made_for(server, caller, "openai", model="some-model")
    url = f"{server.url}/files/one.png"
    server.script.append(lambda _: openai_reply(data=[{"url": url}]))
    image = (await backend.generate(RED, lambda name: pytest.fail(name))).image
    assert image.getpixel((0, 0)) == (0, 255, 0)
    asked, fetched = server.received
    assert asked.fields["response_format"] == "b64_json"
    assert fetched.path == "/files/one.png"
    assert KEY not in str(fetched.headers)
    for url in ("http://127.0.0.2:9/secret", "file:///etc/passwd"):
        server.script.append(lambda _, url=url: openai_reply(data=[{"url": url}]))
        with pytest.raises(BackendError, match="which is not fetched"):
            await backend.generate(RED, lambda name: pytest.fail(name))
    await backend.aclose()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_tokens_and_pictures_are_paid(server: ImageServer, provider: str) -> None:
    prices = PriceTable.load()
    caller = Caller(provider, timeout=20.0, prices=prices)
    backend = remote_backend(
        provider,
        MODELS[provider],
        caller,
        api_key=KEY,
        base_url=server.base(provider),
        name=provider,
    )
    result = await backend.generate(RED, lambda name: pytest.fail(name))
    if provider == "openai":
        expected = 20 * 5.0 + 30 * 8.0 + 1000 * 32.0
    else:
        expected = 50 * 0.30 + 1290 * 30.0 + 17 * 2.50
    assert result.usd == pytest.approx(expected / 1e6)
    assert caller.totals.usage.images == 1
    assert caller.totals.usd == result.usd
    await backend.aclose()
    await caller.aclose()


@pytest.mark.parametrize(
    ("files", "kind", "reason"),
    [
        ((), "image/png", "empty reply"),
        ((file()[:800],), "image/png", "damaged"),
        ((b"<html>no picture</html>",), "image/png", "not an image"),
        ((file(size=(4200, 16)),), "image/png", "the limit is 4096"),
    ],
)
async def test_a_reply_of_no_use_is_asked_again_once_and_then_told(
    backend: RemoteBackend,
    server: ImageServer,
    files: tuple[bytes, ...],
    kind: str,
    reason: str,
) -> None:
    server.script.append(lambda _: broken(backend, *files, kind=kind))
    assert (await backend.generate(RED, lambda name: pytest.fail(name))).image
    assert len(server.received) == 2
    for _ in range(9):
        server.script.append(lambda _: broken(backend, *files, kind=kind))
    with pytest.raises(BackendError, match=f"{re.escape(backend.id)} drew nothing: .*{reason}"):
        await backend.generate(RED, lambda name: pytest.fail(name))


async def test_a_refusal_is_final_and_says_what_to_do(
    backend: RemoteBackend, server: ImageServer
) -> None:
    if "gemini" in backend.id:
        server.script.append(
            lambda _: gemini_reply(candidates=[], promptFeedback={"blockReason": "SAFETY"})
        )
    else:
        error = {"message": "rejected by the safety system", "code": "moderation_blocked"}
        server.script.append(lambda _: JSONResponse({"error": error}, 400))
    with pytest.raises(BackendError, match=r"refused: .*say it in other words"):
        await backend.generate(RED, lambda name: pytest.fail(name))
    assert len(server.received) == 1


async def test_who_cannot_be_reached_needs_no_longer_timeout(
    backend: RemoteBackend, server: ImageServer, caller: Caller
) -> None:
    provider = "gemini" if "gemini" in backend.id else "openai"
    away = made_for(server, caller, provider, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(BackendError, match="connection refused: check that the server") as caught:
        await away.generate(RED, lambda name: pytest.fail(name))
    assert "timeout" not in str(caught.value)
    await away.aclose()


async def test_the_key_is_in_no_error(backend: RemoteBackend, server: ImageServer) -> None:
    error = {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}
    server.script.append(lambda _: JSONResponse({"error": error}, 401))
    with pytest.raises(BackendError, match="check the API key") as caught:
        await backend.generate(RED, lambda name: pytest.fail(name))
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert KEY not in repr(backend)


def test_the_fingerprint_follows_what_changes_the_picture(
    server: ImageServer, caller: Caller
) -> None:
    def made(**more: Any) -> str:
        return made_for(server, caller, "openai", **more).fingerprint

    changed = [
        made(),
        made(model="gpt-image-2"),
        made(base_url="http://127.0.0.1:1/v1"),
        made(size=(512, 512)),
        made(quality="high"),
        made(overrides={"edit_parameters": {}}),
    ]
    assert len(set(changed)) == len(changed)
    assert made(api_key="another key", overrides={"output_tokens": 5}) == changed[0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"api_key": " "}, "no API key for mine: set OPENAI_API_KEY"),
        ({"quality": "superb"}, "does not know the quality 'superb': use one of auto, low"),
        ({"overrides": {"wings": 2}}, "wings"),
        ({"overrides": {"pictures": -1}}, "pictures"),
    ],
)
def test_settings_that_cannot_be_are_told(
    server: ImageServer, caller: Caller, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        made_for(server, caller, "openai", **more)


def streamed(*events: dict[str, Any]) -> Response:
    text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    return Response(text, media_type="text/event-stream")


async def test_a_server_without_streams_gives_the_picture_alone(
    server: ImageServer, caller: Caller
) -> None:
    backend = made_for(server, caller, "openai", partial_images=2, complexity=None)
    steps: list[GenerationStep] = []
    result = await backend.generate(RED, lambda name: pytest.fail(name), steps.append)
    assert server.received[0].fields["stream"] is True
    assert server.received[0].fields["partial_images"] == 2
    assert result.image.size == (1024, 1024)
    assert result.details["tokens_out"] == 1000
    assert [(step.step, step.of) for step in steps] == [(3, 3)]
    await backend.aclose()


async def test_a_refusal_inside_a_stream_is_final(server: ImageServer, caller: Caller) -> None:
    backend = made_for(
        server, caller, "openai", model="gpt-image-2.6-flare", partial_images=1, complexity="high"
    )
    blocked = {"message": f"rejected, {KEY}", "code": "moderation_blocked", "type": "user_error"}
    for error in (
        {"type": "error", "error": blocked},
        {"type": "error", "message": blocked["message"], "code": blocked["code"]},
    ):
        server.received.clear()
        server.script.append(lambda _, error=error: streamed(error))
        with pytest.raises(BackendError, match=r"refused: .*say it in other words") as caught:
            await backend.generate(RED, lambda name: pytest.fail(name), lambda step: None)
        assert KEY not in str(caught.value)
        (got,) = server.received
        assert got.fields["complexity"] == "high"
    await backend.aclose()


async def test_nothing_is_sent_for_what_cannot_be_served(
    server: ImageServer, caller: Caller, store: ImageStore
) -> None:
    backend = made_for(server, caller, "openai", model="some-model")
    name = store.put(Image.new("RGB", (64, 64)))
    start = Start(image=name, strength=0.5)
    with pytest.raises(BackendError, match=r"\[accounts.mine.models.\"some-model\"\]"):
        await backend.generate(RED.model_copy(update={"start": start}), store.get)
    with pytest.raises(BackendError, match="give both or none"):
        await backend.generate(RED.model_copy(update={"width": 64}), store.get)
    assert server.received == []
    await backend.aclose()

"""Whatever goes wrong below OpenAI's routes, the official client raises its typed error for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from scenewright.service.app import create_app
from scenewright.service.compat.openai_images import replies
from scenewright.service.compat.openai_images.errors import has_openai_errors
from scenewright.service.core.settings import ServiceSettings
from tests.service.compat.test_openai_images import SENTENCE, runs_of
from tests.service.serving import scripted, serving


@pytest.fixture
async def client(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_every_route_below_v1_has_the_errors_of_its_door(settings: ServiceSettings) -> None:
    routes = [route for route in _routes(create_app(settings)) if route.path.startswith("/v1")]
    assert {route.path for route in routes} > {"/v1/models", "/v1/refinements"}
    for route in routes:
        assert has_openai_errors(route.path) == ("openai" in route.tags), route.path
    for path in ("/v1", "/v1/", "/v1/chat/completions", "/v1/refinementsx"):
        assert has_openai_errors(path), path
    for path in ("/sdapi/v1/txt2img", "/v1/refinements", "/runs/v1x", "/mcp", "/"):
        assert not has_openai_errors(path), path


def _routes(app: FastAPI) -> list[APIRoute]:
    found = []
    for route in app.router.routes:
        inner = getattr(route, "original_router", None)
        candidates = [route] if inner is None else inner.routes
        found += [one for one in candidates if isinstance(one, APIRoute)]
    return found


@pytest.mark.parametrize(
    ("method", "path", "sent", "error", "status", "code"),
    [
        ("POST", "/chat/completions", {"json": {}}, openai.NotFoundError, 404, "unknown_url"),
        ("GET", "/files", {}, openai.NotFoundError, 404, "unknown_url"),
        ("GET", "/images/generations", {}, openai.APIStatusError, 405, "method_not_allowed"),
        ("POST", "/models", {"json": {}}, openai.APIStatusError, 405, "method_not_allowed"),
        (
            "POST", "/images/generations", {"content": b"prompt=a+ball"},
            openai.APIStatusError, 415, "unsupported_content_type",
        ),
        (
            "POST", "/images/edits", {"content": b"x"},
            openai.APIStatusError, 415, "unsupported_content_type",
        ),
        (
            "POST", "/images/generations", {"json": {"prompt": "x" * 3 * 2**20}},
            openai.APIStatusError, 413, "request_too_large",
        ),
        (
            "POST", "/images/generations", {"json": [1]},
            openai.BadRequestError, 400, "invalid_value",
        ),
        (
            "GET", f"/images/files/run_{'0' * 32}/{'0' * 64}", {},
            openai.NotFoundError, 404, "not_found",
        ),
        (
            "GET", "/images/files/run_1/short", {},
            openai.BadRequestError, 400, "invalid_value",
        ),
    ],
)  # fmt: skip
async def test_the_client_raises_its_typed_error(
    url: str,
    client: openai.AsyncOpenAI,
    method: str,
    path: str,
    sent: dict[str, Any],
    error: type[openai.APIStatusError],
    status: int,
    code: str,
) -> None:
    async with httpx2.AsyncClient(base_url=f"{url}/v1", timeout=60) as http:
        reply = await http.request(method, path, **sent)
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"error"}
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    raised = client._make_status_error_from_response(reply)
    assert isinstance(raised, error)
    assert (raised.code, raised.type) == (code, "invalid_request_error")
    assert await runs_of(url) == []


async def test_other_methods_are_named(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.APIStatusError, match="methods there are POST") as caught:
        await client.get("/images/edits", cast_to=object)
    assert caught.value.response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n": 0}, "n: must be at least 1"),
        ({"n": 1000}, "n: must be at most 10"),
        ({"size": "0x0"}, "sides of 16 to 4096 pixels"),
        ({"size": "99999x99999"}, "sides of 16 to 4096 pixels"),
        ({"prompt": "a ball on a table. " * 540}, "the limit is 5000: describe one picture"),
        ({"response_format": "tiff"}, "response_format: must be one of 'url' or 'b64_json'"),
        ({"stream": True, "partial_images": 9}, "partial_images: must be at most 3"),
        ({"prompt": 5}, "prompt: must be text"),
    ],
)
async def test_wrong_values_are_told_in_plain_words(
    client: openai.AsyncOpenAI, wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.images.generate(**({"prompt": SENTENCE} | wrong))
    assert words in caught.value.message
    assert "Input should" not in caught.value.message


async def test_a_file_that_is_no_image(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.images.edit(image=b"GIF89a and then nothing", prompt=SENTENCE)
    assert (caught.value.param, caught.value.code) == ("image", "invalid_image")
    assert "BytesIO" not in caught.value.message


async def test_what_keys_may_not_is_told_so_too(settings: ServiceSettings) -> None:
    app = create_app(settings.model_copy(update={"keys": True}), models=scripted())
    async with serving(app) as url:
        keys = app.state.service.keys
        _, reader = await keys.create("studio", scopes=("read",))
        _, slow = await keys.create("studio", requests_per_minute=1)

        def with_key(key: str) -> openai.AsyncOpenAI:
            return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

        async with with_key("wrong") as client:
            with pytest.raises(openai.AuthenticationError) as unknown:
                await client.models.list()
            assert unknown.value.code == "invalid_api_key"
        async with with_key(reader) as client:
            with pytest.raises(openai.PermissionDeniedError, match="no scope 'refine'"):
                await client.images.generate(prompt=SENTENCE)
        async with with_key(slow) as client:
            await client.models.list()
            with pytest.raises(openai.RateLimitError, match="1 requests a minute") as limited:
                await client.models.list()
            assert limited.value.type == "rate_limit_error"
            assert int(limited.value.response.headers["retry-after"]) > 0


async def test_faults_of_the_service_are_server_errors(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(request: Any) -> Any:
        raise ZeroDivisionError("the secret inside")

    app = create_app(settings, models=scripted())
    async with (
        serving(app) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
    ):
        service = app.state.service
        monkeypatch.setattr(service.worker, "_draining", True)
        with pytest.raises(openai.InternalServerError, match="is shutting down") as ending:
            await client.images.generate(prompt=SENTENCE)
        assert (ending.value.status_code, ending.value.code) == (503, "service_unavailable")
        monkeypatch.undo()
        monkeypatch.setattr(service, "models", faulty)
        with pytest.raises(openai.InternalServerError, match="something went wrong") as broken:
            await client.images.generate(prompt=SENTENCE)
        assert (broken.value.status_code, broken.value.type) == (500, "server_error")
        assert "secret" not in broken.value.message


async def test_a_stream_that_breaks_says_so(
    client: openai.AsyncOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*given: Any, **named: Any) -> Any:
        raise OSError("/a/path/inside")

    monkeypatch.setattr(replies, "encoded_picture", broken)
    stream = await client.images.generate(prompt=SENTENCE, stream=True)
    with pytest.raises(openai.APIError, match="something went wrong here") as caught:
        async for _ in stream:
            pass
    assert "/a/path" not in str(caught.value)

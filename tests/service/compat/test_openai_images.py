"""The official ``openai`` client draws with the service, unchanged."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
from PIL import Image

from scenewright.core.ports.backend import BackendError
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.service.serving import scripted, serving

SENTENCE = "A red ball lies on a table. A dog is left of the table."


@pytest.fixture
async def client(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as found:
        yield found


def opened(content: str | None) -> Image.Image:
    assert content is not None
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    image.load()
    return image


def notes_of(reply: Any) -> dict[str, Any]:
    found = reply.model_extra["scenewright"]
    assert isinstance(found, dict)
    return found


async def runs_of(url: str) -> list[dict[str, Any]]:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        found: list[dict[str, Any]] = (await http.get("/v1/refinements")).json()["items"]
        return found


async def test_the_profiles_are_the_models(client: openai.AsyncOpenAI) -> None:
    names = [model.id async for model in client.models.list()]
    assert "miniature" in names
    assert (await client.models.retrieve("miniature")).id == "miniature"
    with pytest.raises(openai.NotFoundError, match="there are"):
        await client.models.retrieve("nothing")


async def test_a_picture_comes_with_its_facts_and_scores(
    client: openai.AsyncOpenAI, url: str
) -> None:
    reply = await client.images.generate(model="gpt-image-1", prompt=SENTENCE)
    assert reply.data is not None
    assert len(reply.data) == 1
    picture = opened(reply.data[0].b64_json)
    assert (picture.format, picture.size) == ("PNG", (16, 16))
    assert reply.size == "16x16"
    assert reply.output_format == "png"
    notes = notes_of(reply)
    assert notes["model"] == {"asked": "gpt-image-1", "profile": "miniature", "known": False}
    (run,) = notes["runs"]
    assert run["status"] == "finished"
    assert run["stop_reason"] in ("satisfied", "rounds", "patience")
    assert run["page"] == f"{url}/runs/{run['id']}"
    statements = {fact["statement"]: fact["verdict"] for fact in run["facts"]}
    assert {"ball", "table", "dog", "ball is red"} <= set(statements)
    assert set(statements.values()) <= {"yes", "no", "void"}
    assert 0 < run["sgscore"]["loop"] <= 1
    assert 0 < run["sgscore"]["report"] <= 1
    assert (run["missing"] is None) == (set(statements.values()) == {"yes"})
    assert reply.usage is not None
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens > 0
    assert reply.usage.input_tokens == run["usage"]["tokens_in"]
    assert reply.data[0].revised_prompt == run["prompt"] != SENTENCE


async def test_the_synchronous_client_draws_too(url: str) -> None:
    def drawn() -> Any:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            return client.images.generate(prompt=SENTENCE, n=2, user="me", quality="high")

    reply = await asyncio.to_thread(drawn)
    assert len(reply.data) == 2
    assert [run["seed"] for run in notes_of(reply)["runs"]] == [0, 1]
    assert reply.data[0].b64_json != reply.data[1].b64_json


async def test_the_extension_says_what_openai_has_no_words_for(
    client: openai.AsyncOpenAI, url: str
) -> None:
    reply = await client.images.generate(
        prompt="said in triplets",
        extra_body={
            "scenewright": {
                "triplets": "red ball on table",
                "profile": "miniature",
                "strategy": "resample",
                "rounds": 1,
                "seed": 7,
                "steps": 3,
                "guidance": 2.5,
                "negative_prompt": "fog",
                "budget": {"images": 5},
            }
        },
    )
    (run,) = notes_of(reply)["runs"]
    assert run["rounds"] == 1
    assert run["seed"] == 7
    assert [item["name"] for item in run["scene"]["objects"]] == ["ball", "table"]
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        events = (await http.get(f"/v1/refinements/{run['id']}/events")).text
    assert '"negative_prompt":"fog"' in events
    assert '"steps":3' in events
    assert '"guidance":2.5' in events


async def test_sizes_and_formats(client: openai.AsyncOpenAI) -> None:
    reply = await client.images.generate(
        prompt=SENTENCE, size="96x48", output_format="jpeg", output_compression=80
    )
    assert reply.data is not None
    picture = opened(reply.data[0].b64_json)
    assert (picture.format, picture.size) == ("JPEG", (96, 48))
    assert reply.size == "96x48"
    # The scripted backend draws 16 × 16 whatever it is asked for.
    assert notes_of(reply)["size"] == {"sent": "96x48", "drawn": "16x16", "scaled": True}


@pytest.mark.parametrize("form", ["png", "webp"])
async def test_addresses_lead_to_the_pictures(
    client: openai.AsyncOpenAI, form: Any, url: str
) -> None:
    reply = await client.images.generate(
        prompt=SENTENCE, response_format="url", output_format=form, size="32x32"
    )
    again = await client.images.generate(prompt=SENTENCE, output_format=form, size="32x32")
    assert reply.data is not None
    assert again.data is not None
    address = reply.data[0].url
    assert address is not None
    assert address.startswith(url)
    assert reply.data[0].b64_json is None
    async with httpx2.AsyncClient(timeout=60) as http:
        found = await http.get(address)
    assert found.headers["content-type"] == f"image/{form}"
    assert found.content == base64.b64decode(again.data[0].b64_json or "")


async def test_a_plain_picture_has_the_address_of_the_runs_own(client: openai.AsyncOpenAI) -> None:
    reply = await client.images.generate(prompt=SENTENCE, response_format="url")
    assert reply.data is not None
    (run,) = notes_of(reply)["runs"]
    assert reply.data[0].url == run["image"]["url"]


async def test_rounds_come_as_partial_images(client: openai.AsyncOpenAI) -> None:
    stream = await client.images.generate(
        prompt=SENTENCE, stream=True, partial_images=3, output_format="webp"
    )
    events = [event async for event in stream]
    *partial, last = events
    assert [event.type for event in partial] == ["image_generation.partial_image"] * len(partial)
    assert [event.partial_image_index for event in partial] == list(range(len(partial)))  # type: ignore[union-attr]
    assert last.type == "image_generation.completed"
    (run,) = notes_of(last)["runs"]
    assert 1 < run["rounds"] <= 3
    assert len(partial) == run["rounds"]
    assert [event.model_extra["scenewright"]["round"] for event in partial] == [  # type: ignore[index]
        *range(run["rounds"])
    ]
    assert partial[run["best_round"]].b64_json == last.b64_json
    assert opened(last.b64_json).format == "WEBP"
    assert last.usage.total_tokens > 0
    assert last.size == "16x16"
    assert last.quality == "auto"


async def test_a_stream_of_several_pictures_completes_each(client: openai.AsyncOpenAI) -> None:
    stream = await client.images.generate(prompt=SENTENCE, stream=True, n=2)
    events = [event async for event in stream]
    assert [event.type for event in events] == ["image_generation.completed"] * 2
    assert {notes_of(event)["runs"][0]["seed"] for event in events} == {0, 1}


@pytest.mark.parametrize(
    ("wrong", "param", "code"),
    [
        ({"prompt": "masterpiece, best quality"}, "prompt", "invalid_scene"),
        ({"n": 11}, "n", "invalid_value"),
        ({"size": "huge"}, "size", "invalid_value"),
        ({"background": "transparent"}, "background", "invalid_value"),
        ({"extra_body": {"fancy": 1}}, "fancy", "unknown_parameter"),
        (
            {"extra_body": {"scenewright": {"profile": "none such"}}},
            "scenewright.profile",
            "model_not_found",
        ),
        ({"extra_body": {"scenewright": {"rounds": 0}}}, "scenewright.rounds", "invalid_value"),
        ({"stream": True, "response_format": "url"}, "response_format", "invalid_value"),
    ],
)
async def test_errors_have_openais_format(
    client: openai.AsyncOpenAI, url: str, wrong: dict[str, Any], param: str, code: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.images.generate(**({"prompt": SENTENCE} | wrong))
    error = caught.value
    assert (error.param, error.code, error.type) == (param, code, "invalid_request_error")
    assert await runs_of(url) == []


async def test_what_is_refused_before_a_route_has_the_format_too(settings: ServiceSettings) -> None:
    settings = settings.model_copy(update={"keys": True})
    async with (
        serving(create_app(settings, models=scripted())) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0) as client,
    ):
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.images.generate(prompt=SENTENCE)
        assert (caught.value.code, caught.value.type) == (
            "invalid_api_key",
            "invalid_request_error",
        )


def broken(request: Any) -> dict[str, Any]:
    """Models of which the backend draws nothing."""
    return {
        "backend": ScriptedBackend(lambda _: 0, failing=lambda _: BackendError("the lamp is out")),
        "judges": [ScriptedJudge("a")],
        "report_judges": [],
        "composer": ScriptedComposer(),
    }


async def test_a_run_that_fails_is_an_error_and_not_asked_for_again(
    settings: ServiceSettings,
) -> None:
    async with serving(create_app(settings, models=broken)) as url:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
            with pytest.raises(openai.InternalServerError, match="the lamp is out") as caught:
                await client.images.generate(prompt=SENTENCE)
            assert caught.value.code == "run_failed"
            with pytest.raises(openai.APIError, match="the lamp is out"):
                async for _ in await client.images.generate(prompt=SENTENCE, stream=True):
                    pass
        assert len(await runs_of(url)) == 2


async def test_the_same_idempotency_key_gives_the_runs_that_are_there(
    client: openai.AsyncOpenAI, url: str
) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await client.images.generate(prompt=SENTENCE, n=2, extra_headers=headers)
    again = await client.images.generate(prompt=SENTENCE, n=2, extra_headers=headers)
    assert first.data == again.data
    assert len(await runs_of(url)) == 2
    with pytest.raises(openai.ConflictError):
        await client.images.generate(prompt="A dog.", n=2, extra_headers=headers)


def held(gate: asyncio.Event) -> Any:
    """Models whose pictures wait for ``gate``, but for the first of each run."""

    class Waiting(ScriptedBackend):
        async def generate(self, request: Any, load: Any, on_step: Any = None) -> Any:
            if request.references:
                await gate.wait()
            return await super().generate(request, load, on_step)

    models = scripted()

    def found(request: Any) -> Any:
        return {**models(request), "backend": Waiting(lambda asked: 40)}

    return found


@pytest.mark.parametrize("cancels", [False, True])
async def test_a_run_outlives_its_client_unless_the_stream_asks_otherwise(
    settings: ServiceSettings, cancels: bool
) -> None:
    gate = asyncio.Event()
    async with serving(create_app(settings, models=held(gate))) as url:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
            stream = await client.images.generate(
                prompt=SENTENCE,
                stream=True,
                partial_images=1,
                extra_body={"scenewright": {"cancel_on_disconnect": cancels}},
            )
            async for event in stream:
                assert event.type == "image_generation.partial_image"
                break
            await stream.close()
        wanted = "cancelled" if cancels else "finished"
        if not cancels:
            gate.set()
        (run,) = await runs_of(url)
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            # The events end when the run stands still.
            await http.get(f"/v1/refinements/{run['id']}/events")
            found = (await http.get(f"/v1/refinements/{run['id']}")).json()
        assert found["status"] == wanted
        gate.set()

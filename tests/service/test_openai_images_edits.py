"""``/v1/images/edits``: a picture that was sent is judged and repaired."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
from PIL import Image

from scenewright.service.app import create_app
from scenewright.service.compat.openai_images.edits import unfolded
from scenewright.service.compat.openai_images.errors import WrongParameter
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend, painted
from tests.service.compat.test_openai_images import notes_of, opened, runs_of
from tests.service.serving import scripted, serving

SENTENCE = "A red ball lies on a table."
TRIPLETS = {"scenewright": {"triplets": "red ball on table", "rounds": 2}}


def png(red: int = 60, size: tuple[int, int] = (40, 24), mode: str = "RGB") -> bytes:
    """A PNG file of that quality for the scripted judges."""
    buffer = io.BytesIO()
    painted(size, (red, 10, 20)).convert(mode).save(buffer, "PNG")
    return buffer.getvalue()


def mask(size: tuple[int, int] = (40, 24), alpha: int = 0) -> bytes:
    """A PNG file whose left half is as transparent as ``alpha`` says."""
    image = Image.new("RGBA", size, (0, 0, 0, 255))
    image.paste((0, 0, 0, alpha), (0, 0, size[0] // 2, size[1]))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def inpainting(request: Any) -> Any:
    """Scripted models whose backend keeps parts of pictures."""
    better = ScriptedBackend(lambda asked: 200 if asked.start else 40, masks=True)
    return {**scripted()(request), "backend": better}


@pytest.fixture
async def client(settings: ServiceSettings) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        serving(create_app(settings, models=inpainting)) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as found,
    ):
        yield found


@pytest.fixture
async def plain(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client of a service whose backend cannot keep a part of a picture."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as found:
        yield found


async def events_of(client: openai.AsyncOpenAI, run: str) -> list[dict[str, Any]]:
    address = f"{str(client.base_url).removesuffix('v1/')}v1/refinements/{run}/events"
    async with httpx2.AsyncClient(timeout=60) as http:
        lines = (await http.get(address)).text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


async def test_a_picture_that_is_right_comes_back_as_it_was(client: openai.AsyncOpenAI) -> None:
    reply = await client.images.edit(
        image=("mine.png", png(255), "image/png"), prompt=SENTENCE, model="dall-e-2"
    )
    assert reply.data is not None
    assert opened(reply.data[0].b64_json).tobytes() == Image.open(io.BytesIO(png(255))).tobytes()
    (run,) = notes_of(reply)["runs"]
    assert run["stop_reason"] == "satisfied"
    assert run["usage"]["images"] == 0
    assert notes_of(reply)["start"] == run["image"]["hash"]


async def test_what_is_missing_is_repaired_where_the_mask_lets_it(
    client: openai.AsyncOpenAI,
) -> None:
    reply = await client.images.edit(
        image=png(), mask=mask(), prompt=SENTENCE, extra_body=TRIPLETS, n=2
    )
    assert reply.data is not None
    assert len(reply.data) == 2
    for one, run in zip(reply.data, notes_of(reply)["runs"], strict=True):
        # What is not asked for otherwise comes back in the size in which it was sent.
        found = opened(one.b64_json)
        assert found.size == (40, 24)
        # What the mask keeps has its own pixels, though the model draws at a size of its own.
        outside = (20, 0, 40, 24)
        given = Image.open(io.BytesIO(png()))
        assert found.crop(outside).tobytes() == given.crop(outside).tobytes()
        assert found.tobytes() != given.tobytes()
        assert run["best_round"] == 1
        assert run["rounds"] == 2
        drawn = [e for e in await events_of(client, run["id"]) if e.get("type") == "generated"]
        assert drawn[0]["given"]
        assert drawn[0]["image"] == notes_of(reply)["start"]
        start = drawn[-1]["request"]["start"]
        assert start["image"] == drawn[0]["image"]
        base = str(client.base_url).removesuffix("/v1/")
        async with httpx2.AsyncClient(base_url=base, timeout=60) as http:
            kept = await http.get(f"/v1/refinements/{run['id']}/images/{start['mask']}")
        white = Image.open(io.BytesIO(kept.content)).convert("L")
        assert white.size == (40, 24)
        assert white.getbbox() == (0, 0, 20, 24)
    assert notes_of(reply)["size"]["scaled"]


async def test_the_rounds_of_an_edit_stream(client: openai.AsyncOpenAI) -> None:
    stream = await client.images.edit(
        image=png(),
        mask=mask(),
        prompt=SENTENCE,
        stream=True,
        partial_images=2,
        extra_body=TRIPLETS,
    )
    events = [event async for event in stream]
    assert [event.type for event in events] == ["image_edit.partial_image", "image_edit.completed"]
    assert events[0].b64_json == events[1].b64_json
    assert events[0].model_extra is not None
    assert events[0].model_extra["scenewright"]["round"] == 1


async def test_a_picture_comes_as_json_too(client: openai.AsyncOpenAI) -> None:
    def address(data: bytes) -> dict[str, str]:
        return {"image_url": f"data:image/png;base64,{base64.b64encode(data).decode()}"}

    body = {"prompt": SENTENCE, "images": [address(png())], "mask": address(mask()), **TRIPLETS}
    async with httpx2.AsyncClient(timeout=60) as http:
        reply = await http.post(f"{client.base_url}images/edits", json=body)
        assert reply.status_code == 200, reply.text
        assert reply.json()["scenewright"]["runs"][0]["best_round"] == 1
        body["images"] = [{"image_url": "http://127.0.0.1:9/a.png"}]
        refused = await http.post(f"{client.base_url}images/edits", json=body)
    assert refused.status_code == 400
    assert "nothing is fetched from elsewhere" in refused.json()["error"]["message"]


async def test_a_run_of_the_api_may_begin_with_a_picture_that_was_sent(
    client: openai.AsyncOpenAI,
) -> None:
    reply = await client.images.edit(image=png(255), prompt=SENTENCE)
    base = str(client.base_url).removesuffix("/v1/")
    async with httpx2.AsyncClient(base_url=base, timeout=60) as http:
        asked = {"triplets": "red ball on table", "start": notes_of(reply)["start"]}
        taken = await http.post("/v1/refinements", json=asked)
        assert taken.status_code == 202
        unknown = await http.post("/v1/refinements", json={**asked, "start": "0" * 64})
    assert unknown.status_code == 422
    assert "you have sent no picture" in unknown.json()["detail"]


@pytest.mark.parametrize(
    ("asked", "param", "told"),
    [
        ({"image": b"no picture"}, "image", "damaged|not an image"),
        ({"image": [png(), png(61)]}, "image", "not several"),
        ({"mask": mask((8, 8))}, "mask", "one size"),
        ({"mask": png()}, "mask", "nowhere transparent"),
        ({"mask": mask(alpha=255)}, "mask", "nowhere transparent"),
        ({"prompt": "masterpiece"}, "prompt", "cannot be read"),
        ({"n": 0}, "n", "must be at least 1"),
        ({"size": "1x1"}, "size", "16 to 4096"),
        ({"extra_body": {"scenewright": "{"}}, "scenewright", "not valid JSON"),
        (
            {"extra_body": {"scenewright": {"strategy": "director"}}},
            None,
            "draws its first picture itself",
        ),
    ],
)
async def test_a_wrong_edit_is_refused_with_the_parameter(
    client: openai.AsyncOpenAI, asked: dict[str, Any], param: str | None, told: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=told) as caught:
        await client.images.edit(**({"image": png(), "prompt": SENTENCE} | asked))
    assert caught.value.param == param
    assert await runs_of(str(client.base_url).removesuffix("/v1/")) == []


async def test_a_mask_needs_a_backend_that_keeps_parts(plain: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="cannot keep a part") as caught:
        await plain.images.edit(image=png(), mask=mask(), prompt=SENTENCE)
    assert (caught.value.param, caught.value.code) == ("mask", "mask_not_supported")
    # Without a mask it draws the whole picture again.
    reply = await plain.images.edit(image=png(), prompt=SENTENCE)
    assert notes_of(reply)["runs"][0]["status"] == "finished"


def test_a_form_is_put_together_as_the_client_took_it_apart() -> None:
    fields = [
        ("prompt", "a dog"),
        ("scenewright[judges][]", "a"),
        ("scenewright[judges][]", "b"),
        ("scenewright[budget][images]", "5"),
    ]
    assert unfolded(fields) == {
        "prompt": "a dog",
        "scenewright": {"judges": ["a", "b"], "budget": {"images": "5"}},
    }


@pytest.mark.parametrize(
    "fields",
    [
        [("scenewright[scene][objects][][id]", "a")],
        [("prompt", "a"), ("prompt", "b")],
        [("scenewright", "{}"), ("scenewright[rounds]", "2")],
        [("a[]", "1"), ("a[b]", "2")],
        [("a[b]", "2"), ("a[]", "1")],
        [("a]b[", "2")],
    ],
)
def test_a_form_that_cannot_be_told_apart_is_refused(fields: list[tuple[str, str]]) -> None:
    with pytest.raises(WrongParameter):
        unfolded(fields)

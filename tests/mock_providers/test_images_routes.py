"""The mock server's routes for pictures: what they give, what they refuse, what is counted."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image

from scenewright.mock_providers import Fault, ThreadedMockProviders
from tests.mock_providers.asking import Client, Response

GENERATE, EDIT = "/v1/images/generations", "/v1/images/edits"
GEMINI = "/v1beta/models/instant-image:generateContent"


def png(color: Any = "red", size: tuple[int, int] = (64, 64), mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size, color).save(buffer, "PNG")
    return buffer.getvalue()


def asked(client: Client, path: str = GENERATE, **fields: Any) -> Response:
    body = {"model": "instant-image", "prompt": "a red dog"} | fields
    return posted(client, path, json.dumps(body).encode(), "application/json")


def posted(client: Client, path: str, raw: bytes, kind: str) -> Response:
    key = "x-goog-api-key" if "v1beta" in path else "authorization"
    value = client.key if "v1beta" in path else f"Bearer {client.key}"
    return client.call("POST", path, raw, {"content-type": kind, key: value})


def form(*parts: tuple[str, str | bytes]) -> tuple[bytes, str]:
    boundary = b"--------b0undary"
    raw = b""
    for name, value in parts:
        file = '; filename="a.png"' if isinstance(value, bytes) else ""
        data = value if isinstance(value, bytes) else value.encode()
        raw += b"--" + boundary + f'\r\nContent-Disposition: form-data; name="{name}"'.encode()
        raw += file.encode() + b"\r\n\r\n" + data + b"\r\n"
    return raw + b"--" + boundary + b"--\r\n", f"multipart/form-data; boundary={boundary.decode()}"


def edited(client: Client, *parts: tuple[str, str | bytes]) -> Response:
    return posted(client, EDIT, *form(("model", "instant-image"), ("prompt", "a dog"), *parts))


def image_of(response: Response) -> Image.Image:
    assert response.status == 200, response.data
    (one,) = response.data["data"]
    return Image.open(io.BytesIO(base64.b64decode(one["b64_json"])))


def test_a_picture_of_the_size_asked_for(client: Client) -> None:
    response = asked(client, size="96x64", quality="low")
    assert image_of(response).size == (96, 64)
    assert response.data["size"] == "96x64"
    usage = response.data["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["output_tokens"] == 3 * 2
    assert image_of(asked(client)).size == (128, 128)
    assert "x-request-id" in response.headers


def test_the_same_request_gives_another_picture_each_time(client: Client) -> None:
    pictures = {image_of(asked(client, prompt="again")).tobytes() for _ in range(3)}
    assert len(pictures) == 3


def test_edits_change_what_the_mask_leaves_open(client: Client) -> None:
    mask = Image.new("RGBA", (64, 64), (0, 0, 0, 255))
    mask.paste((0, 0, 0, 0), (0, 0, 32, 64))
    buffer = io.BytesIO()
    mask.save(buffer, "PNG")
    shown = (("image[]", png()), ("image[]", png("blue", (30, 20))))
    image = image_of(edited(client, *shown, ("mask", buffer.getvalue()), ("size", "64x64")))
    right, left = image.crop((32, 0, 64, 64)), image.crop((0, 0, 32, 64))
    assert right.getcolors() == [(32 * 64, (255, 0, 0))]
    assert left.getcolors() != [(32 * 64, (255, 0, 0))]


def test_pictures_of_edits_count_as_input(client: Client) -> None:
    one = edited(client, ("image", png())).data["usage"]["input_tokens_details"]
    two = edited(client, ("image[]", png()), ("image[]", png("blue")))
    details = two.data["usage"]["input_tokens_details"]
    assert details["image_tokens"] == 2 * one["image_tokens"] > 0


def test_gemini_gives_parts(client: Client) -> None:
    data = base64.b64encode(png()).decode()
    parts = [{"text": "a dog"}, {"inlineData": {"mimeType": "image/png", "data": data}}]
    config = {"responseModalities": ["IMAGE"], "imageConfig": {"aspectRatio": "16:9"}}
    body = {"contents": [{"role": "user", "parts": parts}], "generationConfig": config}
    response = posted(client, GEMINI, json.dumps(body).encode(), "application/json")
    (candidate,) = response.data["candidates"]
    (blob,) = [one["inlineData"] for one in candidate["content"]["parts"]]
    image = Image.open(io.BytesIO(base64.b64decode(blob["data"])))
    assert (image.size, blob["mimeType"]) == ((168, 96), "image/png")
    usage = response.data["usageMetadata"]
    assert usage["candidatesTokensDetails"][0]["modality"] == "IMAGE"
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["candidatesTokenCount"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": " "}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"n": 2}, "n"),
        ({"size": "1x1"}, "size"),
        ({"size": "99999x64"}, "size"),
        ({"quality": "superb"}, "quality"),
        ({"stream": True, "partial_images": 4}, "partial_images"),
        ({"complexity": "vast"}, "complexity"),
    ],
)
def test_what_cannot_be_served_is_told_with_its_field(
    client: Client, fields: dict[str, Any], param: str
) -> None:
    response = asked(client, **fields)
    assert (response.status, response.data["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), "give at least one"),
        ((("image", b"no picture"),), "is not an image"),
        ((("image", png()), ("mask", png())), "transparent"),
        ((("image", png()), ("mask", png((0, 0, 0, 0), (9, 9), "RGBA"))), "differ in size"),
    ],
)
def test_edits_that_make_no_sense_are_told(
    client: Client, parts: tuple[tuple[str, bytes], ...], message: str
) -> None:
    response = edited(client, *parts)
    assert response.status == 400
    assert message in response.data["error"]["message"]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", "multipart/form-data; boundary=x"),
        (b"--x\r\nno head", "multipart/form-data; boundary=x"),
        (b"--x\r\nnonsense\r\n\r\n1\r\n--x--", "multipart/form-data; boundary=x"),
        (b"{}", "application/json"),
        (b"--x--", "multipart/form-data"),
    ],
)
def test_broken_forms_are_told(client: Client, raw: bytes, kind: str) -> None:
    assert posted(client, EDIT, raw, kind).status == 400


def test_unknown_models_are_told_and_known_ones_listed(client: Client) -> None:
    missing = asked(client, model="no-such-model")
    assert (missing.status, missing.data["error"]["code"]) == (404, "model_not_found")
    assert "no-such-model" in missing.data["error"]["message"]
    listed = client.call("GET", "/v1/models").data["data"]
    assert {"miniature", "instant-image", "judge-a"} <= {one["id"] for one in listed}


def test_names_of_the_providers_models_are_served(client: Client) -> None:
    found = client.call("GET", "/v1/models/gpt-image-2").data
    assert found["id"] == "miniature"
    assert client.call("GET", "/v1/models/gpt-4o-mini").data["id"] == "judge-a"


def test_pictures_count_in_the_report(client: Client, lab: ThreadedMockProviders, key: str) -> None:
    spent = asked(client).data["usage"]
    asked(client, n=3)
    report = lab.report()["accounts"][key]
    assert (report["arrivals"], report["answered"], report["rejected"]) == (2, 1, 1)
    assert report["tokens_in"] == spent["input_tokens"]
    assert report["tokens_out"] == spent["output_tokens"]


def test_refusals_are_the_providers_own(
    client: Client, lab: ThreadedMockProviders, key: str
) -> None:
    lab.schedule(Fault.REFUSAL, 1, key)
    refused = asked(client)
    assert refused.status == 400
    assert refused.data["error"]["code"] == "moderation_blocked"
    assert lab.report()["accounts"][key]["faults"] == {"refusal": 1}

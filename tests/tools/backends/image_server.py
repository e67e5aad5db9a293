"""A server that speaks the image APIs' wire formats and says what a test tells it to."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from scenewright.core.images import png_bytes
from scenewright.mock_providers.image_wires import parts_of

KEY = "sk-secret-of-the-tests-0123456789"


@dataclass
class Received:
    """One request."""

    path: str
    """Where it went."""
    headers: dict[str, str]
    """By lower-case name."""
    fields: dict[str, Any]
    """JSON, or the text fields of a form."""
    pictures: list[bytes]
    """Files, in order."""
    mask: bytes | None = None
    """The file of the mask."""

    @property
    def prompt(self) -> str:
        if "contents" in self.fields:
            (content,) = self.fields["contents"]
            return str(content["parts"][0]["text"])
        return str(self.fields["prompt"])


Scripted = Callable[[Received], Response]


def file(color: str = "navy", size: tuple[int, int] = (1024, 1024), form: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, form)
    return buffer.getvalue()


def openai_reply(*files: bytes, **changes: Any) -> Response:
    body: dict[str, Any] = {
        "created": 1,
        "data": [{"b64_json": base64.b64encode(one).decode()} for one in files],
        "usage": {
            "input_tokens": 50,
            "input_tokens_details": {"text_tokens": 20, "image_tokens": 30},
            "output_tokens": 1000,
            "total_tokens": 1050,
        },
    }
    return JSONResponse(body | changes, headers={"x-request-id": "r-1"})


def gemini_reply(*parts: dict[str, Any], finish: str = "STOP", **changes: Any) -> Response:
    content: dict[str, Any] = {"role": "model", "parts": list(parts)}
    body: dict[str, Any] = {
        "candidates": [{"index": 0, "finishReason": finish, "content": content}],
        "usageMetadata": {
            "promptTokenCount": 50,
            "promptTokensDetails": [{"modality": "IMAGE", "tokenCount": 30}],
            "candidatesTokenCount": 1300,
            "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1290}],
            "thoughtsTokenCount": 7,
        },
    }
    return JSONResponse(body | changes)


def part(data: bytes, kind: str = "image/png", **more: Any) -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": base64.b64encode(data).decode()}, **more}


@dataclass
class ImageServer:
    """Where it is, what it was sent, what it shall reply."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    script: deque[Scripted] = field(default_factory=deque)

    def base(self, provider: str) -> str:
        return f"{self.url}/v1" if provider == "openai" else self.url

    async def reply(self, request: Request) -> Response:
        got = _read(request, await request.body())
        self.received.append(got)
        if self.script:
            return self.script.popleft()(got)
        if "contents" in got.fields:
            return gemini_reply(part(file()))
        return openai_reply(file())

    async def lying(self, request: Request) -> Response:
        self.received.append(Received(request.url.path, dict(request.headers), {}, []))
        return Response(png_bytes(Image.new("RGB", (64, 64), "lime")), media_type="image/png")


def _read(request: Request, body: bytes) -> Received:
    got = Received(request.url.path, dict(request.headers), {}, [])
    if request.url.path.endswith("/edits"):
        for name, data in parts_of(body, request.headers["content-type"]):
            match name:
                case "image" | "image[]":
                    got.pictures.append(data)
                case "mask":
                    got.mask = data
                case _:
                    got.fields[name] = data.decode()
        return got
    got.fields = json.loads(body)
    for content in got.fields.get("contents", ()):
        for one in content["parts"]:
            if "inlineData" in one:
                got.pictures.append(base64.urlsafe_b64decode(one["inlineData"]["data"]))
    return got


@contextmanager
def serving() -> Iterator[ImageServer]:
    made = ImageServer()
    paths = ("/v1/images/generations", "/v1/images/edits", "/v1beta/models/{model}")
    app = Starlette(
        routes=[
            *(Route(path, made.reply, methods=["POST"]) for path in paths),
            Route("/files/{name}", made.lying),
        ]
    )
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    made.url = f"http://127.0.0.1:{port}"
    yield made
    server.should_exit = True
    thread.join(5)

"""A small server on this machine that speaks the three providers' wire formats.

It answers each question from a hash of the picture and the question, and keeps what it was
sent. A test may put other replies into :attr:`Loopback.script`; each is used once.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from scenewright.agents.judges.remote import RemoteJudge, remote_judge
from scenewright.mock_providers.sheets import Question, sheet_of
from scenewright.providers.caller import Caller

KEY = "sk-test-0123456789abcdef"
PROVIDERS = ("openai", "gemini", "anthropic")


@dataclass
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def provider(self) -> str:
        if "enerateContent" in self.path:
            return "gemini"
        return "anthropic" if self.path.endswith("/messages") else "openai"

    @property
    def parts(self) -> list[dict[str, Any]]:
        if self.provider == "gemini":
            (content,) = self.body["contents"]
            return content["parts"]
        *_, message = self.body.get("messages") or self.body["input"]
        return message["content"]

    @property
    def instructions(self) -> str:
        """What the model is told before the picture."""
        if self.provider == "gemini":
            (part,) = self.body["systemInstruction"]["parts"]
            return part["text"]
        if self.provider == "anthropic":
            return self.body["system"]
        first, _ = self.body.get("messages") or self.body["input"]
        return first["content"]

    @property
    def text(self) -> str:
        (text,) = [part["text"] for part in self.parts if "text" in part]
        return text

    @property
    def picture(self) -> tuple[str, bytes]:
        """Media type and file."""
        first = self.parts[0]
        if self.provider == "gemini":
            # The library writes some names in snake case, which the service takes as well.
            inline = first["inlineData"]
            data = base64.urlsafe_b64decode(inline["data"])
            return inline.get("mimeType") or inline["mime_type"], data
        if self.provider == "anthropic":
            return first["source"]["media_type"], base64.b64decode(first["source"]["data"])
        url = first["image_url"]
        head, _, data = (url if isinstance(url, str) else url["url"]).partition(";base64,")
        return head.removeprefix("data:"), base64.b64decode(data)

    @property
    def questions(self) -> list[Question]:
        return sheet_of(self.text)

    @property
    def by_tool(self) -> bool:
        return bool(self.body.get("tools"))


Scripted = Callable[[Received], Response]


def answered(received: Received) -> dict[str, Any]:
    """The answers of an honest reply."""
    _, picture = received.picture
    answers = []
    for question in received.questions:
        seed = hashlib.sha256(picture + question.text.encode()).digest()
        said = list(question.options)[seed[0] % len(question.options)]
        answers.append({"n": question.number, "a": said, "p": 0.5 + seed[1] / 510})
    return {"answers": answers, "why": [f"{answer['n']}: seen" for answer in answers]}


def replied(
    received: Received,
    content: dict[str, Any] | str | None,
    *,
    stop: str | None = None,
    usage: tuple[int, int, int] = (1003, 101, 7),
    tokens: list[dict[str, Any]] | None = None,
    **more: Any,
) -> Response:
    """``content`` (arguments or text) in the provider's format; ``more`` goes beside it."""
    tokens_in, tokens_out, cached = usage
    text = content if isinstance(content, str) else json.dumps(content)
    tool = received.by_tool and content is not None
    if received.provider == "gemini":
        call = {"functionCall": {"name": "report_answers", "args": content}}
        part = call if tool and isinstance(content, dict) else {"text": text}
        candidate: dict[str, Any] = {"index": 0, "finishReason": stop or "STOP", **more}
        if content is not None:
            candidate["content"] = {"role": "model", "parts": [part]}
        return JSONResponse(
            {
                "candidates": [candidate],
                "modelVersion": "served-model",
                "responseId": "r-1",
                "usageMetadata": {
                    "promptTokenCount": tokens_in,
                    "candidatesTokenCount": tokens_out - 1,
                    "thoughtsTokenCount": 1,
                    "cachedContentTokenCount": cached,
                },
            }
        )
    if received.provider == "anthropic":
        use = {"type": "tool_use", "id": "t", "name": "report_answers", "input": content}
        called = tool and isinstance(content, dict)
        block = use if called else {"type": "text", "text": text}
        return JSONResponse(
            {
                "id": "m-1",
                "type": "message",
                "role": "assistant",
                "model": "served-model",
                "content": [] if content is None else [block],
                "stop_reason": stop or "tool_use",
                "stop_sequence": None,
                "usage": {
                    "input_tokens": tokens_in - cached - 2,
                    "cache_creation_input_tokens": 2,
                    "cache_read_input_tokens": cached,
                    "output_tokens": tokens_out,
                },
                **more,
            },
            headers={"request-id": "r-1"},
        )
    message: dict[str, Any] = {"role": "assistant", "content": None, **more}
    if tool:
        function = {"name": "report_answers", "arguments": text}
        message["tool_calls"] = [{"id": "t", "type": "function", "function": function}]
    elif content is not None:
        message["content"] = text
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": stop or "stop"}
    if tokens is not None:
        choice["logprobs"] = {"content": tokens}
    return JSONResponse(
        {
            "id": "c-1",
            "object": "chat.completion",
            "created": 1,
            "model": "served-model",
            "choices": [choice],
            "usage": {
                "prompt_tokens": tokens_in,
                "completion_tokens": tokens_out,
                "total_tokens": tokens_in + tokens_out,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        },
        headers={"x-request-id": "r-1"},
    )


def as_stream(received: Received, response: Response) -> Response:
    """A whole reply of Gemini as the only event of the stream that was asked for.

    The other providers' clients take a whole reply in place of a stream.
    """
    streamed = received.path.endswith(":streamGenerateContent")
    if not (streamed and response.status_code == 200 and isinstance(response, JSONResponse)):
        return response
    event = b"data: " + bytes(response.body) + b"\n\n"
    return Response(event, media_type="text/event-stream")


def openai_tokens(pieces: list[tuple[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """Tokens with the chances of others at their place, as OpenAI writes them."""

    def one(text: str, chance: float) -> dict[str, Any]:
        return {"token": text, "bytes": list(text.encode()), "logprob": math.log(chance)}

    return [
        {
            **one(text, chances.get(text, 1.0)),
            "top_logprobs": [one(*other) for other in chances.items()],
        }
        for text, chances in pieces
    ]


@dataclass
class Loopback:
    """The server: where it is, what it was sent, what it shall reply."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    script: deque[Scripted] = field(default_factory=deque)
    held: bool = False
    """Requests wait for as long as this is set."""

    async def reply(self, request: Request) -> Response:
        received = Received(request.url.path, dict(request.headers), await request.json())
        self.received.append(received)
        while self.held:  # noqa: ASYNC110 - a test in another thread sets it
            await asyncio.sleep(0.005)
        if self.script:
            return as_stream(received, self.script.popleft()(received))
        return as_stream(received, replied(received, answered(received)))

    def judge(
        self,
        provider: str,
        caller: Caller,
        *,
        model: str = "some-model",
        key: str = KEY,
        name: str | None = None,
        **overrides: Any,
    ) -> RemoteJudge:
        """A judge that asks this server."""
        base = f"{self.url}/v1" if provider == "openai" else self.url
        return remote_judge(
            provider, model, caller, api_key=key, base_url=base, name=name, overrides=overrides
        )


@contextmanager
def serving() -> Iterator[Loopback]:
    """The server, running in a thread.

    Clients trust one authority only meanwhile: reading all of them takes longer than a test.
    """
    loopback = Loopback()
    paths = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/{model}")
    app = Starlette(routes=[Route(path, loopback.reply, methods=["POST"]) for path in paths])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    loopback.url = f"http://127.0.0.1:{port}"
    yield loopback
    server.should_exit = True
    thread.join(5)

"""Shapes of replies from the wild: what compatible servers and gateways send beyond the documents.

:data:`SHAPES` lists them, each with the servers that send it, the roles that meet it, its source
and what a client should make of it. A mock server shows one of them for every request, or for the
first ones::

    async with serving(MockSettings(like="openrouter", shape="rate-limit-in-200")) as mock:
        ...                                      # base_url = f"{mock.url}/v1"
        mock.wild.show("choices-null", times=1)  # the next request alone; then normal replies
        ...
        assert mock.wild.attempts == 2           # requests since the last show()

With ``like`` alone the shapes of that server come in turn, request by request. For a suite:
``for shape in SHAPES: for role in shape.roles: …``, with :attr:`Shape.times` as ``times``.

- ``decision`` "read": there is a right answer in it, found with :attr:`Shape.attempts` requests.
- "retry" and "wait": one request meets the shape and the next one is answered: the end is an
  answer after two requests. "wait" is a limit of the account, which is no failure of the model.
- "final": every request would meet it; the client gives up after the first, and its error holds
  every word of ``remedy`` (compare without case).

The shapes are rows of ``wild.toml``: a body, or a change of the whole normal reply. Where the
client asked for a stream, chat completions are cut into chunks afterwards. In the texts of a row
``$NAME`` stands for a value of the request or of the normal reply, see :func:`_values`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from string import Template
from typing import Any, Literal, get_args

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, TypeAdapter, field_validator

from scenewright.mock_providers import streams
from scenewright.mock_providers.faults import MockError
from scenewright.mock_providers.request_input import JSON, cut, encoded
from scenewright.providers.sdk_clients import HEADER

Role = Literal["judge", "decision judge", "chat", "composer", "parser", "director", "image"]
Kind = Literal["text", "decision", "image"]
"""Of an address: chat completions and responses, typed questions, pictures."""
Server = Literal["openrouter", "lmstudio", "ollama", "vllm", "llamacpp", "litellm", "localai"]
ROLES: tuple[Role, ...] = get_args(Role)
SERVERS: tuple[Server, ...] = get_args(Server)
_GROUPS: Mapping[str, tuple[Role, ...]] = {
    "all": ROLES,
    "text": ("judge", "chat", "composer", "parser", "director"),
    "writing": ("judge", "chat", "composer", "parser"),
}
"""Names of several roles at once; the answers of a director are calls, no text."""
PICTURE_PATH = "/generated-images/picture.png"
"""Path of the picture to which a reply gives the address."""
_SOON = 200
_KEY_HEADER = HEADER.lower().encode()
_EVENTS = "text/event-stream"
_COMMENT = b": OPENROUTER PROCESSING\n\n"


class Reply(BaseModel):
    """A reply that is sent whatever was asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: int = 200
    headers: Mapping[str, str] = {}
    body: str | None = None
    """The text that is sent; none: the normal reply."""


class Shape(Reply):
    """One way in which replies come."""

    name: str
    servers: tuple[Server, ...]
    """Servers that were seen to send it."""
    roles: tuple[Role, ...]
    """Roles that meet it."""
    source: str
    """A thread (OWNER/REPOSITORY#NUMBER), a document, or whose reports."""
    decision: Literal["retry", "wait", "final", "read"]
    """The right decision."""
    remedy: tuple[str, ...] = ()
    """Words that the error of a client that gives up holds."""
    attempts: int = 1
    """Requests that a client rightly spends until its answer, or until it gives up."""
    when: str = ""
    """The requests that meet it, a key of :data:`_WHEN`; the others get the normal reply."""
    patch: str = ""
    """JSON that is merged into the normal reply, see :func:`_merged`."""
    slow: bool = False
    """The first byte comes after the time of a slow server."""
    comments: int = 0
    """Number of comments ahead of the body in that time: line breaks, in a stream comments."""
    half: bool = False
    """The first half comes: of the chunks, or of the body, and then the connection is cut."""
    chunks: tuple[str, ...] = ()
    """In a stream: JSON that changes copies of the first chunk, which come after it."""
    last: str = ""
    """In a stream: JSON that changes a copy of the first chunk, which comes after the half of all;
    without a stream the patch comes instead."""
    done: bool = True
    """In a stream: whether ``[DONE]`` comes."""

    @field_validator("roles", mode="before")
    @classmethod
    def _expanded(cls, given: list[str]) -> list[str]:
        return [role for name in given for role in _GROUPS.get(name, (name,))]

    @property
    def times(self) -> int | None:
        """Number of requests of one call that meet it; none: all of them."""
        return 1 if self.decision in ("retry", "wait") else None

    @property
    def kinds(self) -> frozenset[Kind]:
        """The addresses that show it."""
        other: dict[Role, Kind] = {"decision judge": "decision", "image": "image"}
        return frozenset(other.get(role, "text") for role in self.roles)


_WHEN: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    "": lambda _asked, _message: True,
    "tools": lambda asked, _: bool(asked.get("tools")),
    "free tools": lambda asked, _: (
        bool(asked.get("tools")) and asked.get("tool_choice") in (None, "auto")
    ),
    "named tool": lambda asked, _: isinstance(asked.get("tool_choice"), dict),
    "text": lambda _, message: isinstance(message.get("content"), str),
    "calls": lambda _, message: bool(message.get("tool_calls")),
}
"""Which requests meet a shape, by their JSON and the message of the normal reply."""


def draft(text: str) -> str:
    """Return a wrong answer of the same form as ``text``: what a model thinks of first."""
    try:
        return json.dumps(_wrong(json.loads(text)))
    except ValueError:
        return "Perhaps a grey thing on a table."


def _wrong(value: Any) -> Any:
    match value:
        case dict():
            return {key: one if key == "n" else _wrong(one) for key, one in value.items()}
        case list():
            return [_wrong(one) for one in value]
        case "yes" | "no":
            return "no" if value == "yes" else "yes"
        case float():
            return round(1.0 - value, 4)
        case str():
            return "grey thing"
    return value


def _values(request: Request, asked: Mapping[str, Any], reply: Mapping[str, Any]) -> dict[str, str]:
    """Return what ``$NAME`` stands for, fit to stand in a string of JSON."""
    message = _message(reply)
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    text = message.get("content") or next((call["arguments"] for call in calls), "")
    picture = (reply.get("data") or [{}])[0].get("b64_json") or ""
    values = {
        "METHOD": request.method,
        "PATH": request.url.path.removeprefix("/v1"),
        "URL": str(request.base_url).rstrip("/"),
        "MODEL": str(asked.get("model")),
        # A time in milliseconds, a moment ahead.
        "SOON": f"{1000 * time.time() + _SOON:.0f}",
        "TEXT": text,
        "HALF": text[: len(text) // 2],
        "COMMAS": text.replace("}]", "},]"),
        "DRAFT": draft(text),
        "CALLS": "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls),
        "PICTURE": picture,
        "LINES": base64.encodebytes(base64.b64decode(picture)).decode(),
    }
    return {name: json.dumps(value)[1:-1] for name, value in values.items()}


def _message(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message of a chat completion; empty for any other reply."""
    found: Mapping[str, Any] = (reply.get("choices") or [{}])[0].get("message") or {}
    return found


def _merged(value: Any, change: Any) -> Any:
    """Return ``value`` with a ``change``: objects by key, a list's items each by its one item.

    "PARSED" reads a text as JSON, "ABSENT" takes a key away; anything else takes the value's place.
    """
    match value, change:
        case dict(), dict():
            merged = value | {key: _merged(value.get(key), one) for key, one in change.items()}
            return {key: one for key, one in merged.items() if one != "ABSENT"}
        case list(), [one]:
            return [_merged(item, one) for item in value]
        case str(), "PARSED":
            return json.loads(value)
    return change


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SHAPES: tuple[Shape, ...] = tuple(
    Shape.model_validate(row | {"attempts": 2} if row["decision"] in ("retry", "wait") else row)
    for row in _ROWS["shape"]
)
"""All of them."""
BY_NAME: Mapping[str, Shape] = {shape.name: shape for shape in SHAPES}
_UNKNOWN = TypeAdapter(dict[Server, Reply]).validate_python(_ROWS["unknown"])
"""Reply of each server at an address that it does not have."""


class Wild:
    """Which shape the next request meets, and its reply. One event loop uses it."""

    def __init__(self, like: str = "", shape: str = "", seconds: float = 0.0) -> None:
        """Show ``shape``, or in turn those of the server ``like``; ``MockError`` if unknown.

        ``seconds``: what a slow server takes.
        """
        if like and like not in SERVERS:
            raise MockError(f"no server {like!r}: there are {', '.join(SERVERS)}")
        self.like = like
        self.active = bool(like or shape)
        """Whether replies have shapes at all."""
        self._seconds = seconds
        self._picture = b""
        self.show(shape)

    def show(self, shape: str = "", times: int | None = None) -> None:
        """Show ``shape`` from now on, or to the next ``times`` requests, and count anew.

        Without a name: those of the server in turn.
        """
        if shape and shape not in BY_NAME:
            raise MockError(f"no shape {shape!r}: there are {', '.join(BY_NAME)}")
        named = (BY_NAME[shape],) if shape else ()
        self._shapes = named or tuple(one for one in SHAPES if self.like in one.servers)
        self._left = times
        self.attempts = 0
        """Requests for answers since then."""
        self.shown: list[str] = []
        """The shapes that they met, the normal ones left out."""

    def _next(self, kind: Kind) -> Shape | None:
        """Count a request to an address of this ``kind``; the shape that it meets, if any."""
        self.attempts += 1
        fitting = [shape for shape in self._shapes if kind in shape.kinds]
        if not fitting or self._left == 0:
            return None
        self._left = None if self._left is None else self._left - 1
        shape = fitting[len(self.shown) % len(fitting)]
        self.shown.append(shape.name)
        return shape

    async def answer(
        self, request: Request, kind: Kind, normal: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Answer a request with the next shape; ``normal`` answers as the mock itself does."""
        shape = self._next(kind)
        if shape is None:
            known = request.url.path.startswith("/v1")
            return await normal(request) if known else self.unknown(request)
        body = await request.body()
        try:
            asked: dict[str, Any] = json.loads(body)
        except ValueError:
            asked = {}
        if asked.get("stream"):
            left_out = ("stream", "stream_options")
            body = encoded({key: one for key, one in asked.items() if key not in left_out})
        reply: dict[str, Any] = {}
        if shape.body is None or shape.when:
            # Another body, and no key: wild servers know none.
            given = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive() -> MutableMapping[str, Any]:
                return given.pop() if given else await request.receive()

            headers = [one for one in request.scope["headers"] if one[0] != _KEY_HEADER]
            found = await normal(Request({**request.scope, "headers": headers}, receive))
            if found.status_code != 200 or not found.body:
                return found
            reply = json.loads(bytes(found.body))
            if picture := (reply.get("data") or [{}])[0].get("b64_json"):
                self._picture = base64.b64decode(picture)
        return await self._shaped(shape, request, asked, reply)

    async def _shaped(
        self, shape: Shape, request: Request, asked: Mapping[str, Any], reply: dict[str, Any]
    ) -> Response:
        if not _WHEN[shape.when](asked, _message(reply)):
            shape = shape.model_copy(update={"status": 200, "body": None, "patch": ""})
        values, stream = _values(request, asked, reply), asked.get("stream") is True
        content: Any = reply
        if shape.body is not None:
            content = Template(shape.body).substitute(values).encode()
        elif shape.patch and not (stream and shape.last):
            content = _merged(reply, json.loads(Template(shape.patch).substitute(values)))
        chunks = None
        if stream and shape.status == 200:
            usage = bool((asked.get("stream_options") or {}).get("include_usage"))
            chunks = _chunks(shape, content, usage)
        is_cut = shape.half and not (stream or shape.last)
        raw = encoded(content) if chunks is None else b"".join(chunks)
        comment = _COMMENT if stream else b"\n"
        events = chunks is not None or (stream and shape.comments)
        kind = _EVENTS if events else JSON
        headers = {"content-type": kind} | {
            name: Template(text).substitute(values) for name, text in shape.headers.items()
        }
        if shape.slow:
            await asyncio.sleep(self._seconds)
        if not (is_cut or shape.comments):
            return Response(raw, shape.status, headers)

        async def parts() -> AsyncIterator[bytes]:
            for _ in range(shape.comments):
                yield comment
                await asyncio.sleep(self._seconds / shape.comments)
            yield raw[: len(raw) // 2] if is_cut else raw
            if is_cut:
                await cut(request)

        return StreamingResponse(parts(), shape.status, headers)

    def unknown(self, request: Request) -> Response:
        """Answer at an address that the server does not have."""
        reply = _UNKNOWN[self.like or "vllm"]
        body = Template(reply.body or "").substitute(_values(request, {}, {}))
        return Response(body, reply.status, {"content-type": JSON} | dict(reply.headers))

    async def picture(self, request: Request) -> Response:
        """Return the picture that a reply gave the address of."""
        return Response(self._picture, media_type="image/png")


def _chunks(shape: Shape, content: Any, usage: bool) -> list[bytes] | None:
    """Return the events of a chat completion, or of an error inside of a 200; else none."""
    if isinstance(content, bytes):
        try:
            content = json.loads(content)
        except ValueError:
            return None
    if isinstance(content.get("error"), dict):
        events: list[Any] = [content]
    elif content.get("choices"):
        events = [data for _, data in streams.chat_events(content, usage=usage)]
        first = dict(events[0])
        events[1:1] = [first | json.loads(chunk) for chunk in shape.chunks]
        events = events if shape.done else events[:-1]
        events = events[: len(events) // 2] if shape.half else events
        events += [first | json.loads(shape.last)] if shape.last else []
    else:
        return None
    return [b"data: " + encoded(data) + b"\n\n" for data in events]

"""Faults of providers and gateways, and what is right for each: one table for every client.

A row says what a server on the loopback does with its requests, whether the call is answered in the
end, how many requests that takes, and which words a person must find where it is not. Rows hold for
all clients but where ``clients`` names some.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scenewright.agents.chat.model import account_chat
from scenewright.agents.judges.decisions.judge import decision_judge
from scenewright.agents.judges.remote import remote_judge
from scenewright.core.facts import Fact
from scenewright.core.ports.backend import GenerationRequest
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.tools.backends.remote import remote_backend
from tests.agents.judges.conformance import picture
from tests.agents.judges.loopback import Received, answered, replied
from tests.providers.raw_server import (
    Behaviour,
    RawRequest,
    RawServer,
    drop,
    gzipped,
    head,
    in_turn,
    reply,
    zeros,
)
from tests.tools.backends.image_server import file, gemini_reply, openai_reply, part

KEY = "sk-secret-of-the-tests-0123456789"
DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
PNG = functools.cache(file)


@dataclass(frozen=True)
class Outcome:
    """What became of one call."""

    answered: bool
    reason: str
    attempts: int


@dataclass(frozen=True)
class Client:
    """One way to speak to a provider, made by the factory that runs use."""

    role: str
    provider: str

    def __str__(self) -> str:
        return f"{self.role}-{self.provider}"

    def honest(self, request: RawRequest) -> dict[str, Any]:
        """The body of a good reply."""
        if self.role == "image":
            made = openai_reply(PNG()) if self.provider == "openai" else gemini_reply(part(PNG()))
            return body_of(made)
        if self.role == "decision":
            return decided(self.provider, request.json)
        received = Received(request.target.partition("?")[0], request.headers, request.json)
        if self.role == "chat":
            return body_of(replied(received, "a red ball"))
        return body_of(replied(received, answered(received)))

    async def call(self, url: str, **options: Any) -> Outcome:
        """Make one call to the server at ``url``."""
        settings = {"timeout": 20.0, "backoff": Backoff(0.01, 0.01, 0.0), "priced": False}
        caller = Caller("mine", **(settings | options))
        base = f"{url}/v1" if self.provider == "openai" else url
        try:
            reason = await self._reason(caller, {"api_key": KEY, "base_url": base, "name": "mine"})
        finally:
            await caller.aclose()
        assert caller.open_calls == 0
        return Outcome(not reason, reason, caller.totals.attempts)

    async def _reason(self, caller: Caller, account: dict[str, Any]) -> str:
        """Why the call was not answered; empty if it was."""
        if self.role == "chat":
            chat = account_chat(self.provider, "some-model", caller, **account)
            try:
                return "" if (await chat.ainvoke("Say something.")).text else "no text"
            except Exception as error:
                return str(error)
            finally:
                await chat.aclose()
        if self.role == "image":
            model = "gpt-image-1.5" if self.provider == "openai" else "gemini-2.5-flash-image"
            backend = remote_backend(self.provider, model, caller, **account)
            try:
                await backend.generate(
                    GenerationRequest(prompt="a dog", seed=7), lambda _: picture()
                )
            except Exception as error:
                return str(error)
            finally:
                await backend.aclose()
            return ""
        make = remote_judge if self.role == "judge" else decision_judge
        judge = make(self.provider, "some-model", caller, **account)
        try:
            (answer,) = await judge.answer(picture(), [DOG])
        finally:
            await judge.aclose()
        return answer.reason if answer.state == "unscored" else ""


def body_of(response: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(response.body))
    return found


def decided(provider: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answers of a decision model: as OpenAI's, or as System One's."""
    usage = {"input_tokens": 321, "output_tokens": 0}
    if provider == "openai":
        answers: Any = [
            {"type": "predicate", "name": one["name"], "probability": 0.9}
            for one in asked["questions"]
        ]
    else:
        answers = {name: {"type": "noul", "noul": 0.9} for name in asked["questions"]}
    return {"model": "m-1", "answers": answers, "usage": usage}


JUDGES = tuple(Client("judge", name) for name in ("openai", "gemini", "anthropic"))
DECISIONS = tuple(Client("decision", name) for name in ("openai", "vllm"))
CHATS = tuple(Client("chat", name) for name in ("openai", "gemini", "anthropic"))
IMAGES = tuple(Client("image", name) for name in ("openai", "gemini"))
CLIENTS = (*JUDGES, *DECISIONS, *CHATS, *IMAGES)

Serve = Callable[[Client, RawServer], Behaviour]


@dataclass(frozen=True)
class Fault:
    """What a server does, and what is right."""

    name: str
    serve: Serve
    answered: bool
    attempts: int | range
    words: tuple[str, ...] = ()
    """Parts of the reason."""
    clients: tuple[Client, ...] = CLIENTS
    options: dict[str, Any] = field(default_factory=dict)
    """Settings of the caller."""


def good(
    client: Client, server: RawServer, change: Callable[[Any], Any] | None = None
) -> Behaviour:
    """An honest reply, or what ``change`` makes of its body."""

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        body = client.honest(request)
        await reply(body if change is None else change(body))(request, writer)

    return behave


def always(behaviour: Behaviour) -> Serve:
    return lambda client, server: behaviour


def once(*behaviours: Behaviour) -> Serve:
    """Fail so first, then answer."""
    return lambda client, server: in_turn(*behaviours, good(client, server))


def changed(change: Callable[[Any], Any]) -> Serve:
    return lambda client, server: good(client, server, change)


def packed(encoding: str) -> Serve:
    """An honest reply, compressed."""

    def serve(client: Client, server: RawServer) -> Behaviour:
        async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
            data = gzipped(client.honest(request))
            await reply(data, Content_Encoding=encoding)(request, writer)

        return behave

    return serve


def bomb(encoding: str) -> Serve:
    """A small file that inflates beyond the limit."""

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        await reply(zeros(97, encoding), Content_Encoding=encoding)(request, writer)

    return always(behave)


def redirect(status: int, where: str = "http://other.example:81/v1?a=1") -> Serve:
    return always(reply(b"", status, Location=where))


def raw(data: bytes, *, wait: bool = False) -> Behaviour:
    """Send ``data`` as it is; ``wait``: and say nothing more until the client leaves."""

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if wait:
            await request.gone()

    return behave


def error(status: int, message: str, **headers: str) -> Behaviour:
    return reply({"error": {"message": message, "type": "x"}}, status, **headers)


def inside(code: Any, message: str, **more: Any) -> Behaviour:
    """An error inside a 200."""
    return reply({"error": {"message": message, "code": code, **more}, "choices": None})


def answers(*fixed: Any, **changes: Any) -> Callable[[Any], Any]:
    """Change the answers in a judge's reply, wherever its provider puts them."""

    def change(body: Any) -> Any:
        if isinstance(body, dict) and isinstance(body.get("answers"), list):
            found = fixed[0] if fixed else [one | changes for one in body["answers"]]
            return body | {"answers": found}
        if isinstance(body, dict):
            return {name: change(value) for name, value in body.items()}
        if isinstance(body, list):
            return [change(value) for value in body]
        if isinstance(body, str) and body.startswith("{"):
            return json.dumps(change(json.loads(body)))
        return body

    return change


def once_changed(change: Callable[[Any], Any]) -> Serve:
    return lambda client, server: in_turn(good(client, server, change), good(client, server))


def null_content(body: Any) -> Any:
    for name in ("content", "tool_calls"):
        for at in (
            body,
            *(one.get("message", one) for one in body.get("choices", ())),
            *body.get("candidates", ()),
        ):
            if name in at:
                at[name] = [] if at is body else None
    return body


def without_usage(body: Any) -> Any:
    names = ("usage", "usageMetadata")
    return {name: value for name, value in body.items() if name not in names}


def decision(probability: Any) -> Callable[[Any], Any]:
    def change(body: Any) -> Any:
        found = body["answers"]
        for one in found if isinstance(found, list) else found.values():
            one["probability" if "probability" in one else "noul"] = probability
        return body

    return change


def other_names(body: Any) -> Any:
    found = body["answers"]
    if isinstance(found, list):
        return body | {"answers": [one | {"name": f"x{one['name']}"} for one in found]}
    return body | {"answers": {f"x{name}": one for name, one in found.items()}}


def picture_as(text: str) -> Callable[[Any], Any]:
    """Put ``text`` in place of the picture's base64."""

    def change(body: Any) -> Any:
        if "data" in body:
            body["data"][0]["b64_json"] = text
        else:
            body["candidates"][0]["content"]["parts"][0]["inlineData"]["data"] = text
        return body

    return change


def picture_of(data: bytes) -> Callable[[Any], Any]:
    return picture_as(base64.b64encode(data).decode())


def without_picture(body: Any) -> Any:
    if "data" in body:
        return body | {"data": []}
    body["candidates"][0]["content"]["parts"] = []
    return body


def picture_at(url: str) -> Callable[[Any], Any]:
    return lambda body: body | {"data": [{"b64_json": None, "url": url}]}


def picture_lies(file: Behaviour) -> Serve:
    """The reply names an address of the server itself, which serves ``file``."""

    def serve(client: Client, server: RawServer) -> Behaviour:
        async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
            if request.method == "GET":
                await file(request, writer)
            else:
                change = picture_at(f"{server.url}/1.png")
                await reply(change(client.honest(request)))(request, writer)

        return behave

    return serve


async def zipped(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """A picture's file that inflates beyond the limit."""
    await reply(zeros(97, "gzip"), kind="image/png", Content_Encoding="gzip")(request, writer)


def wide_png(width: int, height: int) -> bytes:
    """A PNG file that claims a size and holds nothing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


PAGE = "<!doctype html><html><head><title>Sign in</title></head><body>x</body></html>"
JSON = {"Content-Type": "application/json"}
LONG = {"Content-Length": "99999999"}
CHUNKED = JSON | {"Transfer-Encoding": "chunked"}
HINTED = {"max_wait": 0.05}
FEW = range(3, 9)
QUIET = {"timeout": 0.15}

FAULTS = [
    # The connection.
    Fault("dropped", always(drop), False, 6, ("no connection", "127.0.0.1")),
    Fault("dropped-once", once(drop), True, 2),
    Fault("no-http", always(raw(b"SSH-2.0-OpenSSH_9.2\r\n")), False, 6, ("no connection",)),
    Fault("truncated", once(reply(b'{"a": 1', length=99)), True, 2),
    Fault("headers-only", once(raw(head(200, JSON | {"Content-Length": "9"}))), True, 2),
    Fault("broken-chunks", once(raw(head(200, CHUNKED) + b"zz\r\n")), True, 2),
    Fault("informed-first", lambda client, server: continued(client, server), True, 1),
    # Who is asked.
    Fault("redirect-302", redirect(302), False, 1, ("other.example:81", "base_url")),
    Fault("redirect-307", redirect(307), False, 1, ("other.example:81", "base_url")),
    Fault("redirect-nowhere", always(reply(b"", 302)), False, 1, ("HTTP 302", "base_url")),
    Fault("sign-in-page", always(reply(PAGE, kind="text/html")), False, 1,
          ("base_url http://127.0.0.1", "a page ('Sign in')", "asks to sign in")),
    Fault("no-v1", always(reply({"error": "Unexpected endpoint or method. (POST /x)"})), False, 1,
          ("Unexpected endpoint", "base_url should end in /v1")),
    Fault("page-of-404", always(reply(PAGE, 404, kind="text/html")), False, 1,
          ("HTTP 404", "a page ('Sign in')", "base URL")),
    # Size and compression.
    Fault("gzip", packed("gzip"), True, 1),
    Fault("gzip-bomb", bomb("gzip"), False, 1, ("after decompression", "limit is 100,663,296")),
    Fault("deflate-bomb", bomb("deflate"), False, 1, ("after decompression", "100,663,296"),
          (JUDGES[0],)),
    Fault("endless", always(raw(head(200, JSON | {"Content-Length": str(10**12)}))), False, 1,
          ("1,000,000,000,000 bytes",)),
    Fault("brotli", always(reply(b"\x0b\x02\x80", Content_Encoding="br")), False, 1,
          ("compressed by br", "gzip and deflate")),
    Fault("not-gzip", once(reply(b"{}", Content_Encoding="gzip")), True, 2),
    # Statuses.
    Fault("unauthorized", always(error(401, "bad key")), False, 1, ("401", "check the API key")),
    Fault("busy-twice", once(error(503, "overloaded"), error(502, "bad gateway")), True, 3),
    Fault("gateway-page-once", once(reply(PAGE, 524, kind="text/html")), True, 2),
    Fault("gateway-page", always(reply(PAGE, 502, kind="text/html")), False, 6,
          ("HTTP 502", "a page ('Sign in')")),
    Fault("own-words-of-500", always(error(500, "image input is not supported")), False, 2,
          ("image input is not supported", "the same answer came twice")),
    # An error inside a 200.
    Fault("rate-limit-in-200", once(inside(429, "slow down")), True, 2),
    Fault("bad-gateway-in-200", once(inside(502, "Provider returned error")), True, 2),
    Fault("credits-in-200", always(inside(402, "Insufficient credits")), False, 1,
          ("Insufficient credits", "balance")),
    Fault("quota-in-200", always(inside("insufficient_quota", "you exceeded it")), False, 1,
          ("you exceeded it", "balance")),
    # When to come back.
    Fault("retry-after-0", always(error(429, "slow", Retry_After="0")), False, FEW,
          ("retry budget (max_wait = 0.05 s)",), options=HINTED),
    Fault("retry-after-negative", always(error(429, "slow", Retry_After="-5")), False, FEW,
          ("retry budget",), options=HINTED),
    Fault("retry-after-past",
          always(error(429, "slow", Retry_After="Sun, 01 Nov 2015 12:00:00 GMT")), False, FEW,
          ("retry budget",), options=HINTED),
    Fault("retry-after-words", always(error(429, "slow", Retry_After="soon")), False, FEW,
          ("retry budget",), options=HINTED),
    Fault("retry-after-a-day", always(error(429, "slow", Retry_After="86400")), False, 1,
          ("86400 s", "retry budget (max_wait = 600 s) has 600 s left")),
    Fault("reset-in-a-day",
          always(error(429, "slow", X_RateLimit_Reset="9999999999000", X_RateLimit_Remaining="0")),
          False, 1, ("retry budget (max_wait = 600 s)",)),
    Fault("retry-after-soon", once(error(429, "slow", Retry_After="0.02")), True, 2),
    # Silence.
    Fault("silent", always(raw(b"", wait=True)), False, 2, ("no reply within 0.15 s",),
          options=QUIET),
    Fault("stalls", always(raw(head(200, JSON | {"Content-Length": "99"}) + b'{"a": ', wait=True)),
          False, 2, ("0.15 s",), options=QUIET),
    # What is no reply.
    Fault("empty-once", once(reply(b"")), True, 2),
    Fault("cut-json-once", once(reply(b'{"choices": [{"mess')), True, 2),
    Fault("null-once", once(reply(b"null")), True, 2),
    Fault("list-once", once(reply(b"[1, 2]")), True, 2),
    Fault("nothing-once", once(reply(b"{}")), True, 2),
    Fault("binary-once", once(reply(b"\xff\xfe\x00{")), True, 2),
    Fault("deep-once", once(reply(b"[" * 100_000)), True, 2),
    # What a judge says.
    Fault("other-ids", once_changed(answers(n=99)), True, 2, clients=JUDGES),
    Fault("no-answers", changed(answers(None)), False, 3, ("no list of answers",), JUDGES),
    Fault("p-nan", changed(answers(p=float("nan"))), False, 3, ("the probability nan",), JUDGES),
    Fault("p-infinite", changed(answers(p=float("inf"))), False, 3, ("not from 0 to 1",), JUDGES),
    Fault("p-above-1", changed(answers(p=7)), False, 3, ("the probability 7",), JUDGES),
    Fault("p-text", changed(answers(p="high")), False, 3, ("the probability 'high'",), JUDGES),
    Fault("other-option", changed(answers(a="purple")), False, 3,
          ("'purple', which is not one of the options",), JUDGES),
    Fault("null-option", changed(answers(a=None)), False, 3, ("not one of the options",), JUDGES),
    Fault("null-content", changed(null_content), False, 3, ("empty reply",), (*JUDGES, *CHATS)),
    Fault("no-usage", changed(without_usage), True, 1),
    Fault("decision-nan", changed(decision(float("nan"))), False, 3, ("nan",), DECISIONS),
    Fault("decision-2", changed(decision(2)), False, 3, ("the probability 2",), DECISIONS),
    Fault("decision-other-names", changed(other_names), False, 3, ("not answer it",), DECISIONS),
    # What a painter sends.
    Fault("no-picture", changed(without_picture), False, 3, ("no picture",), IMAGES),
    Fault("no-base64", changed(picture_as("§§§")), False, 3, ("not valid base64",), IMAGES[:1]),
    Fault("no-image", changed(picture_of(b"not an image")), False, 3, ("is not an image",), IMAGES),
    Fault("html-image", changed(picture_of(PAGE.encode())), False, 3, ("is not an image",), IMAGES),
    Fault("cut-image", changed(picture_of(PNG()[:200])), False, 3, ("is damaged",), IMAGES),
    Fault("image-bomb", changed(picture_of(wide_png(60_000, 60_000))), False, 3,
          ("claims far more pixels",), IMAGES),
    Fault("url-of-others-http", changed(picture_at("http://10.0.0.1/1.png")), False, 1,
          ("a http address", "b64_json"), IMAGES[:1]),
    Fault("url-private", changed(picture_at("https://[::1]/1.png")), False, 1,
          ("a private address", "b64_json"), IMAGES[:1]),
    Fault("url-metadata", changed(picture_at("https://169.254.169.254/latest")), False, 1,
          ("a private address", "b64_json"), IMAGES[:1]),
    Fault("url-file", changed(picture_at("file:///etc/passwd")), False, 1,
          ("a file address",), IMAGES[:1]),
    Fault("url-own", picture_lies(reply(PNG(), kind="image/png")), True, 1, (), IMAGES[:1]),
    Fault("url-own-redirects", picture_lies(reply(b"", 302, Location="http://10.0.0.1/")), False, 1,
          ("redirects to http://10.0.0.1/", "b64_json"), IMAGES[:1]),
    Fault("url-own-404", picture_lies(reply(b"", 404)), False, 1, ("HTTP 404",), IMAGES[:1]),
    Fault("url-own-too-long", picture_lies(raw(head(200, LONG))), False, 1,
          ("99,999,999 bytes", "the limit is 67,108,864"), IMAGES[:1]),
    Fault("url-own-bomb", picture_lies(zipped), False, 1, ("limit is 67,108,864",), IMAGES[:1]),
    Fault("url-own-dropped", picture_lies(drop), False, 3, ("could not be fetched",), IMAGES[:1]),
]  # fmt: skip


def continued(client: Client, server: RawServer) -> Behaviour:
    """A reply after an informational one."""

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        await good(client, server)(request, writer)

    return behave

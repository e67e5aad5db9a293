"""The mock server: its addresses, inside an event loop or in a thread of its own.

The addresses are the providers' own, and ``/lab/`` for its faults and its report.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from uvicorn.protocols.http.h11_impl import H11Protocol

from scenewright.core.servers import GuestServer, running
from scenewright.core.sockets import listening, url_of
from scenewright.core.version import VERSION
from scenewright.mock_providers.accounts import account_of
from scenewright.mock_providers.anthropic_messages import AnthropicMessages
from scenewright.mock_providers.decisions import GeminiDecisions, OpenAIDecisions, SystemOne, decide
from scenewright.mock_providers.faults import (
    Fault,
    FaultPlan,
    MockError,
    Quirk,
    Quirks,
    Swap,
    Swaps,
)
from scenewright.mock_providers.gemini_content import GeminiContent
from scenewright.mock_providers.image_wires import GeminiImages, OpenAIImages, draw
from scenewright.mock_providers.models import CREATED, IMAGE_MODELS, MODELS, bare_name, image_model
from scenewright.mock_providers.openai_text import OpenAIChat, OpenAIResponses
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.request_input import json_response
from scenewright.mock_providers.server import NO_ID, MockProviders
from scenewright.mock_providers.settings import MockSettings
from scenewright.mock_providers.wild import PICTURE_PATH, Kind
from scenewright.mock_providers.wire import Wire, as_object

_BACKLOG = 4096
CHAT = OpenAIChat()
MESSAGES = AnthropicMessages()
GEMINI = GeminiContent()
GEMINI_STREAMS = GeminiContent(streaming=True)
GEMINI_IMAGES = GeminiImages()
Answering = Callable[[MockProviders, Request, Any], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]
_ROUTES: tuple[tuple[str, Answering, Any, Kind | None], ...] = (
    ("/v1/chat/completions", MockProviders.answer, CHAT, "text"),
    ("/v1/responses", MockProviders.answer, OpenAIResponses(), "text"),
    ("/v1/messages", MockProviders.answer, MESSAGES, None),
    ("/v1/decisions", decide, OpenAIDecisions(), "decision"),
    ("/v1beta/decisions", decide, GeminiDecisions(), "decision"),
    ("/v1/systemone", decide, SystemOne(), "decision"),
    ("/api/alpha/decisions", decide, SystemOne(), "decision"),
    ("/client/v4/accounts/{account}/ai/run/{model:path}", decide, SystemOne("cloudflare"), None),
    ("/v1/images/generations", draw, OpenAIImages(edits=False), "image"),
    ("/v1/images/edits", draw, OpenAIImages(edits=True), "image"),
)
"""Address, what answers there, in which format, and which shapes of compatible servers it shows."""
LISTED = {**MODELS, **IMAGE_MODELS}
"""All models: name → what it is."""


class FaultOrder(BaseModel):
    """A fault for the requests to come."""

    model_config = ConfigDict(extra="forbid")

    kind: Fault
    """Which fault."""
    share: float | None = None
    """Share of the requests from now on, 0 to 1."""
    next: int | None = Field(default=None, ge=1)
    """Or: how many of the next requests, all of them in a row."""
    key: str | None = None
    """Only requests with this API key."""


class QuirkOrder(BaseModel):
    """A quirk to be met."""

    model_config = ConfigDict(extra="forbid")

    kind: Quirk
    """Which."""
    key: str | None = None
    """For this API key alone; none: for all."""


def application(lab: MockProviders) -> FastAPI:
    """Return the ASGI application of ``lab``."""

    def endpoint(answer: Answering, form: Any, kind: Kind | None) -> Endpoint:
        async def normal(request: Request) -> Response:
            return await answer(lab, request, form)

        async def shaped(request: Request) -> Response:
            assert kind is not None
            return await lab.wild.answer(request, kind, normal)

        return shaped if lab.wild.active and kind else normal

    async def count_messages(request: Request) -> Response:
        return await lab.count(request, AnthropicMessages(counting=True), "input_tokens")

    async def gemini(request: Request) -> Response:
        model, _, verb = str(request.path_params["call"]).rpartition(":")
        match verb:
            case "generateContent" if image_model(lab.stand_in(model)) is not None:
                return await draw(lab, request, GEMINI_IMAGES, model)
            case "generateContent":
                return await lab.answer(request, GEMINI, model)
            case "streamGenerateContent":
                return await lab.answer(request, GEMINI_STREAMS, model)
            case "countTokens":
                return await lab.count(request, _CountingGemini(), "totalTokens", model)
        raise Problem("no_route", 404, f"the mock server has no {verb or 'such'} method")

    def described(wire: Wire, name: str, end: datetime.date | None = None) -> Any:
        """Return a model as the lists of ``wire`` have it."""
        moment = datetime.datetime.fromtimestamp(CREATED, datetime.UTC)
        created = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        return wire.shaped(
            "model",
            name=name,
            about=LISTED.get(name, name),
            created=CREATED,
            created_text=created,
            end=end and end.isoformat(),
            deprecated=end and created,
            lifecycle="deprecated" if end else "active",
            retires=end and f"{end.isoformat()}T00:00:00Z",
        )

    async def models(request: Request) -> Response:
        wire, ends = _wire_of(request), lab.settings.ends
        own = MODELS if wire is MESSAGES else LISTED
        names = list(own if wire is GEMINI else {**own, **ends})
        data = [described(wire, name, ends.get(name)) for name in names]
        content = wire.shaped("models", data=data, first=names[0], last=names[-1])
        return json_response(content, 200, wire.headers(NO_ID))

    async def model(request: Request) -> Response:
        asked = str(request.path_params["model"])
        name = image_model(asked) or bare_name(asked)
        return json_response(described(_wire_of(request), name), 200, {})

    app = FastAPI(title="scenewright mock serve", version=VERSION)
    # Plain routes: what FastAPI adds to a route of its own costs more than the answer does.
    for path, answer, form, kind in _ROUTES:
        app.add_route(path, endpoint(answer, form, kind), methods=["POST"])
        if lab.wild.active and kind:
            # Its clients may have left out the version: shapes are shown there, too.
            short = path.replace("/v1/", "/", 1)
            app.add_route(short, endpoint(answer, form, kind), methods=["POST"])
    app.add_route(PICTURE_PATH, lab.wild.picture)
    app.add_route("/v1/messages/count_tokens", count_messages, methods=["POST"])
    for version in ("/v1", "/v1beta"):
        # google-genai 3 asks for v1, older ones and most examples for v1beta.
        app.add_route(f"{version}/models/{{call:path}}", gemini, methods=["POST"])
        app.add_route(f"{version}/models", models, methods=["GET"])
        app.add_route(f"{version}/models/{{model:path}}", model, methods=["GET"])

    @app.get("/lab/report")
    async def report() -> dict[str, Any]:
        """Return the counters of every account."""
        return lab.report()

    @app.delete("/lab/report")
    async def reset() -> dict[str, Any]:
        """Forget what was counted."""
        lab.reset()
        return lab.report()

    @app.get("/lab/faults")
    async def planned() -> dict[str, Any]:
        """Return the planned faults and the available ones."""
        return {**lab.faults.state(), "kinds": {kind: kind.about for kind in Fault}}

    @app.post("/lab/faults")
    async def schedule_fault(wanted: FaultOrder) -> dict[str, Any]:
        """Order a fault by share, or for the next requests."""
        account = account_of(wanted.key)
        if wanted.share is not None and wanted.next is None:
            lab.faults.set_share(wanted.kind, wanted.share, account)
        elif wanted.next is not None and wanted.share is None:
            lab.faults.schedule(wanted.kind, wanted.next, account)
        else:
            raise MockError("give either share or next")
        return lab.faults.state()

    @app.get("/lab/quirks")
    async def quirks() -> dict[str, Any]:
        """Which account meets which quirks, and what there is."""
        return {"met": lab.quirks.state(), "kinds": {kind: kind.about for kind in Quirk}}

    @app.post("/lab/quirks")
    async def add_quirk(wanted: QuirkOrder) -> list[dict[str, Any]]:
        """Have an account, or all, meet a quirk."""
        lab.quirks.add(wanted.kind, account_of(wanted.key))
        return lab.quirks.state()

    @app.get("/lab/swaps")
    async def swapped() -> list[dict[str, Any]]:
        """Which models are exchanged."""
        return lab.swaps.state()

    @app.post("/lab/swaps")
    async def swap(wanted: Swap) -> list[dict[str, Any]]:
        """Exchange a model for another one."""
        model, by = bare_name(wanted.model), bare_name(wanted.by)
        lab.swaps.add(replace(wanted, model=model, by=by))
        return lab.swaps.state()

    @app.delete("/lab/{changed}")
    async def clear(changed: Literal["faults", "quirks", "swaps"]) -> Any:
        """Go back to what the mock server began with."""
        plan: FaultPlan | Quirks | Swaps = getattr(lab, changed)
        plan.clear()
        return plan.state()

    async def missing(request: Request, error: Exception) -> Response:
        if lab.wild.like:
            return lab.wild.unknown(request)
        message = f"the mock server has no {request.method} {request.url.path}"
        status = getattr(error, "status_code", 404)
        return await refused(request, Problem("no_route", status, message))

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, Problem) and not request.url.path.startswith("/lab/"):
            return lab.problem(_wire_of(request), error, NO_ID)
        return json_response({"detail": str(error)}, 422, {})

    for status in (404, 405):
        app.add_exception_handler(status, missing)
    for kind_of_error in (Problem, MockError):
        app.add_exception_handler(kind_of_error, refused)
    return app


class _CountingGemini(GeminiContent):
    """Reads what is to be counted: the request may stand in ``generateContentRequest``."""

    def read(self, body: dict[str, Any], model: str) -> Any:
        inner = body.get("generateContentRequest")
        whole = body if inner is None else as_object(inner, "generateContentRequest")
        return super().read(whole, model)


def _wire_of(request: Request) -> Wire:
    """Return the provider whose SDK sent ``request``, by its address or its headers."""
    path = request.url.path
    if path.startswith("/v1beta") or "x-goog-api-key" in request.headers:
        return GEMINI
    if request.method == "POST" and path.startswith("/v1/models/"):
        return GEMINI
    if "anthropic-version" in request.headers or path.startswith("/v1/messages"):
        return MESSAGES
    return CHAT


class _Protocol(H11Protocol):
    """HTTP/1.1 whose requests know their connection, so that it can be dropped."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


@contextlib.asynccontextmanager
async def serving(settings: MockSettings | None = None) -> AsyncIterator[MockProviders]:
    """Serve a mock server in the running loop; its address is ``lab.url``.

    Requests under way have a second to end. ``MockError`` if the address cannot be had.
    """
    lab = MockProviders(settings)
    place = listening(lab.settings.host, lab.settings.port, _BACKLOG, MockError)
    lab.url = url_of(lab.settings.host, place.getsockname()[1])
    config = uvicorn.Config(
        application(lab),
        http=_Protocol,
        lifespan="off",
        log_config=None,
        # A dropped connection is no error here; the mock server logs its own by another name.
        log_level="critical",
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=1,
    )
    async with running(GuestServer(config), place):
        try:
            yield lab
        finally:
            lab.closing.set()


class ThreadedMockProviders:
    """A mock server in another thread. Its methods may be called from any thread but that one."""

    def __init__(self, lab: MockProviders, portal: BlockingPortal) -> None:
        """``portal``: to the loop that serves ``lab``."""
        self._lab = lab
        self._call = portal.call
        self.url = lab.url
        """``http://HOST:PORT``: base URL for the SDKs of Anthropic and Gemini."""
        self.openai_url = f"{lab.url}/v1"
        """Base URL for OpenAI's SDK."""

    def report(self) -> dict[str, Any]:
        """Return the counters of every account."""
        return self._call(self._lab.report)

    def reset(self) -> None:
        """Forget what was counted."""
        self._call(self._lab.reset)

    def schedule(self, kind: Fault | str, count: int = 1, key: str | None = None) -> None:
        """Let the next ``count`` requests (with the API key ``key``) meet ``kind``."""
        self._call(self._lab.faults.schedule, Fault(kind), count, account_of(key))

    def set_share(self, kind: Fault | str, share: float, key: str | None = None) -> None:
        """Let a ``share`` of the requests (with the API key ``key``) meet ``kind``."""
        self._call(self._lab.faults.set_share, Fault(kind), share, account_of(key))

    def order_quirk(self, kind: Quirk | str, key: str | None = None) -> None:
        """Let requests (with the API key ``key``) meet ``kind`` from now on."""
        self._call(self._lab.quirks.add, Quirk(kind), account_of(key))

    def clear_quirks(self) -> None:
        """Go back to the quirks that the mock server began with."""
        self._call(self._lab.quirks.clear)

    def order_swap(self, swap: Swap) -> None:
        """Have another model answer in place of one from now on."""
        self._call(self._lab.swaps.add, swap)

    def clear_faults(self) -> None:
        """Go back to the faults that the mock server began with."""
        self._call(self._lab.faults.clear)


@contextlib.contextmanager
def serving_thread(settings: MockSettings | None = None) -> Iterator[ThreadedMockProviders]:
    """Serve a mock in a thread with its own loop; ``MockError`` if the address cannot be had."""
    with (
        start_blocking_portal(name="scenewright-lab") as portal,
        portal.wrap_async_context_manager(serving(settings)) as lab,
    ):
        yield ThreadedMockProviders(lab, portal)

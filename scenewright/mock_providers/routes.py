"""The addresses of the mock: the providers' own, and ``/lab/`` for its faults and its report."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.version import VERSION
from scenewright.mock_providers.accounts import account_name
from scenewright.mock_providers.anthropic_messages import AnthropicMessages
from scenewright.mock_providers.decision_wires import GeminiDecisions, OpenAIDecisions, SystemOne
from scenewright.mock_providers.decisions import decide
from scenewright.mock_providers.faults import ABOUT, Fault, MockError, Swap
from scenewright.mock_providers.gemini_content import GeminiContent
from scenewright.mock_providers.generator import IMAGE_MODELS, image_model
from scenewright.mock_providers.image_wires import GeminiImages, OpenAIImages, draw
from scenewright.mock_providers.models import CREATED, MODELS, bare_name
from scenewright.mock_providers.openai_text import OpenAIChat, OpenAIResponses
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.quirks import ABOUT as QUIRKS
from scenewright.mock_providers.quirks import Quirk
from scenewright.mock_providers.request_input import json_response
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.wire import Wire, as_object

CHAT = OpenAIChat()
MESSAGES = AnthropicMessages()
GEMINI = GeminiContent()
GEMINI_IMAGES = GeminiImages()
Answering = Callable[[MockProviders, Request, Any], Awaitable[Response]]
_ROUTES: tuple[tuple[str, Answering, Any], ...] = (
    ("/v1/chat/completions", MockProviders.answer, CHAT),
    ("/v1/responses", MockProviders.answer, OpenAIResponses()),
    ("/v1/messages", MockProviders.answer, MESSAGES),
    ("/v1/decisions", decide, OpenAIDecisions()),
    ("/v1beta/decisions", decide, GeminiDecisions()),
    ("/v1/systemone", decide, SystemOne()),
    ("/api/alpha/decisions", decide, SystemOne()),
    ("/client/v4/accounts/{account}/ai/run/{model:path}", decide, SystemOne(wrapped=True)),
    ("/v1/images/generations", draw, OpenAIImages(edits=False)),
    ("/v1/images/edits", draw, OpenAIImages(edits=True)),
)
"""Address, what answers there, and in which format."""
LISTED = {**MODELS, **IMAGE_MODELS}
"""All models: name → what it is."""
_NO_ID = "0" * 24


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


class SwapOrder(BaseModel):
    """A model to be exchanged."""

    model_config = ConfigDict(extra="forbid")

    model: str
    """The model that clients name."""
    by: str
    """The model that answers in its place."""
    after: int = Field(default=0, ge=0)
    """How many more requests it answers itself."""
    told: str = ""
    """Name of the model that the answers tell then; empty: the one that was asked for."""


def application(lab: MockProviders) -> FastAPI:
    """Return the ASGI application of ``lab``."""

    def answering(answer: Answering, form: Any) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await answer(lab, request, form)

        return endpoint

    async def count_messages(request: Request) -> Response:
        try:
            _, tokens = await lab.count(request, AnthropicMessages(counting=True))
        except Problem as problem:
            return lab.problem(MESSAGES, problem, _NO_ID)
        return json_response({"input_tokens": tokens}, 200, {"request-id": f"req_{_NO_ID}"})

    async def gemini(request: Request) -> Response:
        model, _, verb = str(request.path_params["call"]).rpartition(":")
        if verb == "generateContent" and image_model(model) is not None:
            return await draw(lab, request, GEMINI_IMAGES, model)
        if verb == "generateContent":
            return await lab.answer(request, GEMINI, model)
        try:
            if verb != "countTokens":
                raise Problem("no_route", 404, f"the mock server has no {verb or 'such'} method")
            _, tokens = await lab.count(request, _CountingGemini(), model)
        except Problem as problem:
            return lab.problem(GEMINI, problem, _NO_ID)
        return json_response({"totalTokens": tokens}, 200, {})

    async def models(request: Request) -> Response:
        wire = _wire_of(request)
        if wire is GEMINI:
            return json_response({"models": [_gemini_model(name) for name in LISTED]}, 200, {})
        ends = lab.settings.ends
        if wire is MESSAGES:
            names = list(dict.fromkeys((*MODELS, *ends)))
            page = {"first_id": names[0], "last_id": names[-1], "has_more": False}
            data = {"data": [_anthropic_model(name, ends.get(name)) for name in names], **page}
            return json_response(data, 200, {"request-id": f"req_{_NO_ID}"})
        names = list(dict.fromkeys((*LISTED, *ends)))
        listed = {
            "object": "list",
            "data": [_openai_model(name, ends.get(name)) for name in names],
        }
        return json_response(listed, 200, {"x-request-id": f"req_{_NO_ID}"})

    async def model(request: Request) -> Response:
        wire = _wire_of(request)
        try:
            asked = str(request.path_params["model"])
            name = image_model(asked) or bare_name(asked)
        except Problem as problem:
            return lab.problem(wire, problem, _NO_ID)
        describe = {GEMINI: _gemini_model, MESSAGES: _anthropic_model}.get(wire, _openai_model)
        return json_response(describe(name), 200, {})

    app = FastAPI(title="scenewright mock serve", version=VERSION)
    # Plain routes: what FastAPI adds to a route of its own costs more than the answer does.
    for path, answer, form in _ROUTES:
        app.add_route(path, answering(answer, form), methods=["POST"])
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
        kinds = {kind.value: about for kind, about in ABOUT.items()}
        return {**lab.faults.state(), "kinds": kinds}

    @app.post("/lab/faults")
    async def order(wanted: FaultOrder) -> dict[str, Any]:
        """Order a fault by share, or for the next requests."""
        if (wanted.share is None) == (wanted.next is None):
            raise HTTPException(422, "give either share or next")
        account = None if wanted.key is None else account_name(wanted.key)
        try:
            if wanted.share is not None:
                lab.faults.set_share(wanted.kind, wanted.share, account)
            if wanted.next is not None:
                lab.faults.order(wanted.kind, wanted.next, account)
        except MockError as error:
            raise HTTPException(422, str(error)) from None
        return lab.faults.state()

    @app.delete("/lab/faults")
    async def clear() -> dict[str, Any]:
        """Back to the faults that the mock server began with."""
        lab.faults.clear()
        return lab.faults.state()

    @app.get("/lab/quirks")
    async def quirks() -> dict[str, Any]:
        """Which account meets which quirks, and what there is."""
        return {"met": lab.quirks.state(), "kinds": QUIRKS}

    @app.post("/lab/quirks")
    async def order_quirk(wanted: QuirkOrder) -> list[dict[str, Any]]:
        """Have an account, or all, meet a quirk."""
        account = None if wanted.key is None else account_name(wanted.key)
        lab.quirks.order(wanted.kind, account)
        return lab.quirks.state()

    @app.delete("/lab/quirks")
    async def clear_quirks() -> list[dict[str, Any]]:
        """Back to the quirks that the mock server began with."""
        lab.quirks.clear()
        return lab.quirks.state()

    @app.get("/lab/swaps")
    async def swapped() -> list[dict[str, Any]]:
        """Which models are exchanged."""
        return lab.swaps.state()

    @app.post("/lab/swaps")
    async def swap(wanted: SwapOrder) -> list[dict[str, Any]]:
        """Exchange a model for another one."""
        try:
            model, by = bare_name(wanted.model), bare_name(wanted.by)
        except Problem as problem:
            raise HTTPException(422, problem.message) from None
        lab.swaps.order(Swap(model, by, wanted.after, wanted.told))
        return lab.swaps.state()

    @app.delete("/lab/swaps")
    async def unswapped() -> list[dict[str, Any]]:
        """Back to the swaps that the mock server began with."""
        lab.swaps.clear()
        return lab.swaps.state()

    async def missing(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        message = f"the mock server has no {request.method} {request.url.path}"
        return lab.problem(_wire_of(request), Problem("no_route", status, message), _NO_ID)

    app.add_exception_handler(404, missing)
    app.add_exception_handler(405, missing)
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


def _openai_model(name: str, ends: datetime.date | None = None) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": CREATED,
        "owned_by": "scenewright",
        "shutdown_date": None if ends is None else ends.isoformat(),
    }


def _anthropic_model(name: str, ends: datetime.date | None = None) -> dict[str, Any]:
    created = datetime.datetime.fromtimestamp(CREATED, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "model",
        "id": name,
        "display_name": LISTED.get(name, name),
        "created_at": created,
        "deprecated_at": None if ends is None else created,
        "lifecycle": "active" if ends is None else "deprecated",
        "retires_at": None if ends is None else f"{ends.isoformat()}T00:00:00Z",
    }


def _gemini_model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "1",
        "displayName": name,
        "description": LISTED[name],
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }

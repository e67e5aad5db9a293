"""Pieces that routes share: the core, the caller, large bodies, streams, and their description.

A scene of some thousand names takes a tenth of a second to validate. FastAPI does that in the event
loop, where everybody else waits meanwhile: large bodies are read away from it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Annotated, Any, Self

from fastapi import Depends, FastAPI, Header, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, model_validator
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from scenewright.config.options import Name, RunOptions, Text
from scenewright.core.scene import SceneGraph
from scenewright.service.api.access import SESSION
from scenewright.service.core.identity import Identity, allow
from scenewright.service.core.requests import parse_request
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.worker_thread import LARGE_SCENE_ITEMS

Refiner = Annotated[Identity, Depends(allow("refine"))]
"""Somebody who may begin, edit and cancel runs."""
Reader = Annotated[Identity, Depends(allow("read"))]
"""Somebody who may see runs."""
RunId = Annotated[str, Path(max_length=60, description="Id of the run.")]
"""A run's id in a path."""
RunsKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same key with the same request gives the runs that are there.",
    ),
]
"""The key under which the runs of a request are found again, in a header."""
LARGE_BODY = 16 * 1024
"""Bytes beyond which a body is read aside: about what a large scene takes."""
PROBLEM = "application/problem+json"
_SECURITY: dict[str, dict[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, where keys are demanded (`scenewright keys create`).",
    },
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The same in a header of its own.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION,
        "description": "A browser that signed in at `/login`.",
    },
}
_OPEN = ("/healthz", "/readyz")


class HeadRoute(APIRoute):
    """Answer HEAD as GET, without the body; the description of the API has no HEAD."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the route takes a request."""
        return super().matches(self._read(scope))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a stream ends after its head."""
        read = self._read(scope)
        await super().handle(read, receive, send if read is scope else _head_alone(send))

    def _read(self, scope: Scope) -> Scope:
        if scope.get("method") != "HEAD" or "GET" not in (self.methods or ()):
            return scope
        return {**scope, "method": "GET"}


def _head_alone(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            # The server then tells a stream that its client is gone.
            await send({"type": "http.response.body", "body": b""})

    return sent


class Extension(RunOptions):
    """The request's ``scenewright`` field."""

    scene: SceneGraph | None = None
    """The scene as a graph, in place of the prompt."""
    triplets: Text | None = None
    """The scene as triplets, in place of the prompt: ``red ball on table``."""
    profile: Name | None = None
    """Name of a profile, in place of the model; an unknown one is an error."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.scene is not None and self.triplets is not None:
            raise ValueError("give the scene once: as scene or as triplets")
        return self

    @property
    def has_scene(self) -> bool:
        """Whether the scene is here, and not in the prompt."""
        return self.scene is not None or self.triplets is not None

    def request(self, service: Service, prompt: str, **more: Any) -> RefinementRequest:
        """Return the run that is asked for, its scene read: from here, else from ``prompt``.

        ``more`` are further fields of the request. Raises ``Unprocessable``.
        """
        # A door's own field goes before the extension's, where it is given.
        more = {name: value for name, value in more.items() if value is not None}
        own = set(RefinementRequest.model_fields) & set(type(self).model_fields) - set(more)
        asked = RefinementRequest(
            text=None if self.has_scene else prompt,
            **{name: getattr(self, name) for name in own},
            **more,
        )
        return parse_request(asked, service.base, service.settings.profiles)


def event_stream(
    service: Service, events: AsyncGenerator[ServerSentEvent, None]
) -> EventSourceResponse:
    """Return the reply that sends ``events`` as they come, with signs of life between them."""
    return EventSourceResponse(
        events,
        ping=max(1, int(service.settings.keep_alive_seconds)),
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def tagged_reply(
    data: bytes, media_type: str, tag: str, known: str | None, cached: str
) -> Response:
    """Return ``data``, or that its caller has it: ``known`` is the header ``If-None-Match``."""
    headers = {"ETag": f'"{tag}"', "Cache-Control": cached}
    if known is not None and f'"{tag}"' in known:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)


async def large_reply(service: Service, size: int, reply: BaseModel, **more: Any) -> Response:
    """Return a reply about a scene of that size, written aside if it is large."""
    write = reply.model_dump_json
    text = write() if size <= LARGE_SCENE_ITEMS else await service.worker_thread.submit(size, write)
    return Response(text, media_type="application/json", **more)


async def service_of(request: Request) -> Service:
    """Return the service that the application runs."""
    found: Service = request.app.state.service
    return found


Core = Annotated[Service, Depends(service_of)]
"""The service."""


class LargeBodyRoute(HeadRoute):
    """Read bodies beyond ``LARGE_BODY`` in the turn of large scenes.

    The reply is the same either way, but that ``Busy`` may come where too many wait.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI, which is given a validated body where it is large."""
        handle, field = super().get_route_handler(), self.body_field
        if field is None:
            return handle

        async def answer(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            body = b""
            if kind == "application/json" or (
                kind.startswith("application/") and kind.endswith("+json")
            ):
                body = await request.body()
            if len(body) <= LARGE_BODY:
                return await handle(request)

            def read() -> tuple[Any, list[Any]] | None:
                try:
                    data = json.loads(body)
                except (ValueError, RecursionError):
                    return None
                return field.validate(data, {}, loc=("body",))

            service: Service = request.app.state.service
            found = await service.worker_thread.compute(LARGE_SCENE_ITEMS + 1, read)
            if found is None:
                # FastAPI says what is wrong with it.
                return await handle(request)
            value, errors = found
            if errors:
                raise RequestValidationError(errors)
            return await handle(_ReadRequest(request, body, value))

        return answer


class _ReadRequest(Request):
    """A request whose body was read and validated."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._bytes = body
        self._value = value

    async def body(self) -> bytes:
        return self._bytes

    async def json(self) -> Any:
        # Pydantic takes an instance of the body's model as it is.
        return self._value


def complete(app: FastAPI) -> None:
    """Have ``app`` describe its errors as what they are, and its keys."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        schema = app.openapi_schema = described()
        schema.setdefault("components", {})["securitySchemes"] = _SECURITY
        # One of them, or none: whether a key is demanded is the service's setting.
        schema["security"] = [*({name: []} for name in _SECURITY), {}]
        for path, methods in schema["paths"].items():
            for operation in methods.values():
                if path in _OPEN:
                    operation["security"] = []
                content = operation["responses"].get("default", {}).get("content", {})
                if "Problem" in str(content.get("application/json")):
                    content[PROBLEM] = content.pop("application/json")
        return schema

    app.openapi = openapi  # type: ignore[method-assign]

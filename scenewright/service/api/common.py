"""Dependencies of routes: the core, and the identity of the caller.

What doors that speak another tool's language take beyond it, in a field ``scenewright``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Self

from fastapi import Depends, Header, Path, Request
from fastapi.routing import APIRoute
from pydantic import model_validator
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from scenewright.config.options import Name, RunOptions, Text
from scenewright.core.scene import SceneGraph
from scenewright.service.core.identity import Identity, allow
from scenewright.service.core.requests import parse_request
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service


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


async def service_of(request: Request) -> Service:
    """Return the service that the application runs."""
    found: Service = request.app.state.service
    return found


Core = Annotated[Service, Depends(service_of)]
"""The service."""
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

"""The outermost middleware: every request gets an id, a log line, a count and maybe a span."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scenewright.service.core.observing.observers import Observability
from scenewright.service.core.observing.tracing import Request

log = logging.getLogger("scenewright.service.http")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_GONE = 499
"""The status of a request whose client has gone before the reply began."""


class ObservabilityMiddleware:
    """Notes what every HTTP request was and how it went: never its path, query, headers or body."""

    def __init__(self, app: ASGIApp, observing: Observability) -> None:
        self.app = app
        self.observing = observing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the application's own life."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, root = time.perf_counter(), scope.get("root_path", "")
        begun = gone = False
        # Shared with the guard, which says whose request it is.
        state = scope.setdefault("state", {})

        async def heard() -> Message:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        async def said(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                request.status = message["status"]
                request.seconds = time.perf_counter() - started
                MutableHeaders(scope=message)["X-Request-ID"] = request.id
            await send(message)

        with self.observing.request(scope) as request:
            state["request_id"] = request.id
            try:
                await self.app(scope, heard, said)
            finally:
                request.method = scope["method"] if scope["method"] in METHODS else "OTHER"
                request.route = route_of(scope, root)
                if not begun:
                    request.seconds = time.perf_counter() - started
                    if gone:
                        request.status = _GONE
                _tell(request, state, time.perf_counter() - started)


def route_of(scope: Mapping[str, Any], root: str = "") -> str:
    """The template of the route that took the request, or where the application that took it is
    mounted; ``none`` if neither did. ``root``: the root path that the request came with."""
    found = getattr(scope.get("route"), "path", None)
    mounted = str(scope.get("root_path", "")).removeprefix(root)
    return str(found or mounted or "none")


def _tell(request: Request, state: Mapping[str, Any], seconds: float) -> None:
    identity = state.get("identity")
    level = logging.DEBUG if request.route in _PROBES else logging.INFO
    log.log(
        level,
        "%s %s %d",
        request.method,
        request.route,
        request.status,
        extra={
            "method": request.method,
            "route": request.route,
            "status": request.status,
            "ms": round(seconds * 1000, 1),
            "tenant": getattr(identity, "tenant", None),
        },
    )

"""One thing that the core, the driver and the middleware tell what happens.

It counts, and traces where that is wanted.

The outermost middleware: every request gets an id, a log line, a count and maybe a span.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scenewright.graphs.events import Event, Judged
from scenewright.service.core.observing import logs
from scenewright.service.core.observing.metrics import Metrics
from scenewright.service.core.observing.tracing import Request, Spans, Tracing, opened
from scenewright.service.core.schemas import Status
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run


class Observability:
    """Counts and traces of one service."""

    def __init__(self, tracing: Tracing | None = None) -> None:
        """``tracing``: where spans go; None: there are none."""
        self.metrics = Metrics()
        self.tracing = tracing

    @classmethod
    def of(cls, settings: ServiceSettings) -> Observability:
        """As ``settings`` and the environment say.

        Raises ``SettingsError`` where traces are asked for and the extra is not installed.
        """
        return cls(opened(settings))

    def submitted(self, run: str) -> None:
        """Note a run that the request at work has taken in, edited or resumed.

        Its span follows on it.
        """
        if self.tracing is not None:
            self.tracing.submitted(run)

    @contextmanager
    def run(self, run: Run, profile: str) -> Iterator[RunObserver]:
        """Watch a run that is driven. Say how it stands in ``status`` before the end."""
        spans = None if self.tracing is None else self.tracing.run(run, profile)
        watch = RunObserver(self.metrics, profile, spans)
        started = time.monotonic()
        try:
            yield watch
        finally:
            self.metrics.run(profile, watch.status, time.monotonic() - started)
            if spans is not None:
                spans.end(watch.status, watch.error)

    @contextmanager
    def request(self, scope: Mapping[str, Any]) -> Iterator[Request]:
        """Watch an HTTP request; tell how it went in what is given."""
        request = Request(logs.request_id(scope))
        token = logs.REQUEST.set(request.id)
        try:
            if self.tracing is None:
                yield request
            else:
                with self.tracing.request(scope, request):
                    yield request
        finally:
            logs.REQUEST.reset(token)
            self.metrics.request(request.method, request.route, request.status, request.seconds)

    async def aclose(self) -> None:
        """Send what spans are left."""
        if self.tracing is not None:
            await self.tracing.aclose()


class RunObserver:
    """Notes on one run while it is driven."""

    def __init__(self, metrics: Metrics, profile: str, spans: Spans | None) -> None:
        self._metrics = metrics
        self._profile = profile
        self._spans = spans
        self._since = time.time()
        self.status: Status = "failed"
        """State of the run at the end."""
        self.error: str = ""
        """Why it failed, by the kind of error."""

    def event(self, event: Event) -> None:
        """Return a stored event that has just happened."""
        self._metrics.event(self._profile, event)
        if isinstance(event, Judged) and event.role == "loop":
            self._metrics.round(self._profile, event.at - self._since)
            self._since = event.at
        if self._spans is not None:
            self._spans.event(event)


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
                _log_request(request, state, time.perf_counter() - started)


def route_of(scope: Mapping[str, Any], root: str = "") -> str:
    """Return the template of the route that took the request.

    The mount point if a mounted application took it, ``none`` if nothing did. ``root``: the root
    path of the request.
    """
    found = getattr(scope.get("route"), "path", None)
    mounted = str(scope.get("root_path", "")).removeprefix(root)
    return str(found or mounted or "none")


def _log_request(request: Request, state: Mapping[str, Any], seconds: float) -> None:
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

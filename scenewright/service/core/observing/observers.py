"""One thing that the core, the driver and the middleware tell what happens: it counts and traces.

Labels of metrics are names of profiles, judges, routes and states: never ids, tenants, prompts or
anything that a request makes up. The outermost middleware gives every request an id, a log line, a
count and maybe a span.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scenewright.core.version import VERSION
from scenewright.graphs.events import Answered, Event, Generated, Judged
from scenewright.graphs.record import totals_of
from scenewright.service.core.observing import logs
from scenewright.service.core.observing.tracing import Request, Spans, Tracing, opened
from scenewright.service.core.schemas import Status
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
GAUGES = {
    "queue_length": "Runs that wait.",
    "queue_limit": "Runs that may wait.",
    "active_runs": "Runs that this process drives.",
    "active_limit": "Runs that it may drive at once.",
    "worker_draining": "Whether the service is about to end.",
    "event_listeners": "Who follows events of runs.",
}

log = logging.getLogger("scenewright.service.http")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_GONE = 499
"""The status of a request whose client has gone before the reply began."""


class Metrics:
    """The metrics of one service. One event loop uses them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        """A registry of its own: several services can live in one process."""
        ProcessCollector(registry=self.registry)

        def seconds(
            name: str, about: str, *labels: str, buckets: tuple[float, ...] = _LONG
        ) -> Histogram:
            full = f"scenewright_{name}_seconds"
            return Histogram(full, about, labels, registry=self.registry, buckets=buckets)

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"scenewright_{name}", about, labels, registry=self.registry)

        self._run_seconds = seconds(
            "run",
            "Wall time from when a run was taken up to when it stood still.",
            "profile",
            "status",
        )
        self._round_seconds = seconds("round", "Wall time of a round: drawn and judged.", "profile")
        self._drawing_seconds = seconds("drawing", "Wall time of one drawing.", "profile")
        self._judge_seconds = seconds(
            "judge", "Wall time of one judge's answers to one image.", "profile", "judge"
        )
        self._images = counter(
            "images",
            "Images: drawn, or found in the store instead.",
            "profile",
            "purpose",
            "source",
        )
        self._judge_calls = counter(
            "judge_calls",
            "Calls of judges: asked, or all answers found in the store instead.",
            "profile",
            "judge",
            "role",
            "source",
        )
        self._tokens = counter(
            "tokens", "Tokens of judges, composers and directors.", "profile", "direction"
        )
        self._usd = counter("usd", "Cost in US dollars.", "profile")
        self._requests = counter(
            "http_requests", "HTTP requests by route template.", "method", "route", "status"
        )
        self._request_seconds = seconds(
            "http_request",
            "Time until the reply begins; a stream of events goes on after that.",
            "method",
            "route",
            buckets=_QUICK,
        )

    def text(self, runs: Mapping[str, int], gauges: Mapping[str, float], dropped: int) -> bytes:
        """Return all metrics as :data:`CONTENT_TYPE`.

        ``runs`` are those in the database by status, of all tenants; ``gauges`` how much there is
        now of each of :data:`GAUGES`; ``dropped`` as the broadcaster counts.
        """
        now = _Now(runs, gauges, dropped)
        self.registry.register(now)
        try:
            return generate_latest(self.registry)
        finally:
            self.registry.unregister(now)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an HTTP request whose reply began after ``seconds``."""
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(method, route).observe(seconds)

    def event(self, profile: str, event: Event) -> None:
        """Count what a stored event of a run tells of."""
        if isinstance(event, Generated):
            source = "store" if event.cached else "proposals" if event.pasted else "drawn"
            self._images.labels(profile, event.purpose, source).inc()
            if event.drawn:
                self._drawing_seconds.labels(profile).observe(event.seconds)
        elif isinstance(event, Answered):
            source = "store" if event.cached else "asked"
            self._judge_calls.labels(profile, event.judge_id, event.role, source).inc()
            if not event.cached:
                self._judge_seconds.labels(profile, event.judge_id).observe(event.seconds)
        spent = totals_of([event])
        for direction in ("in", "out"):
            if spent[f"tokens_{direction}"]:
                self._tokens.labels(profile, direction).inc(spent[f"tokens_{direction}"])
        if spent["usd"]:
            self._usd.labels(profile).inc(spent["usd"])

    def round(self, profile: str, seconds: float) -> None:
        """Note how long a round took."""
        self._round_seconds.labels(profile).observe(max(0.0, seconds))

    def run(self, profile: str, status: Status, seconds: float) -> None:
        """Note how long a run was driven here until it stood still."""
        self._run_seconds.labels(profile, status).observe(seconds)


class _Now(Collector):
    """State at the moment of a scrape; arguments as of :meth:`Metrics.text`."""

    def __init__(self, runs: Mapping[str, int], gauges: Mapping[str, float], dropped: int) -> None:
        self._runs = runs
        self._gauges = {"queue_length": runs.get("queued", 0), **gauges}
        self._dropped = dropped

    def collect(self) -> Iterable[Metric]:
        runs = GaugeMetricFamily(
            "scenewright_runs", "Runs in the database by status.", labels=("status",)
        )
        for status in get_args(Status):
            runs.add_metric((status,), self._runs.get(status, 0))
        yield runs
        info = GaugeMetricFamily("scenewright_info", "The version, always 1.", labels=("version",))
        info.add_metric((VERSION,), 1)
        yield info
        for name, about in GAUGES.items():
            yield GaugeMetricFamily(f"scenewright_{name}", about, value=self._gauges[name])
        yield CounterMetricFamily(
            "scenewright_events_dropped",
            "Events without a number that a slow listener was not told of.",
            value=self._dropped,
        )


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
                about = {
                    "method": request.method,
                    "route": request.route,
                    "status": request.status,
                    "ms": round((time.perf_counter() - started) * 1000, 1),
                    "tenant": getattr(state.get("identity"), "tenant", None),
                }
                level = logging.DEBUG if request.route in _PROBES else logging.INFO
                log.log(
                    level, "%s %s %d", request.method, request.route, request.status, extra=about
                )


def route_of(scope: Mapping[str, Any], root: str = "") -> str:
    """Return the template of the route that took the request.

    The mount point if a mounted application took it, ``none`` if nothing did. ``root``: the root
    path of the request.
    """
    found = getattr(scope.get("route"), "path", None)
    mounted = str(scope.get("root_path", "")).removeprefix(root)
    return str(found or mounted or "none")

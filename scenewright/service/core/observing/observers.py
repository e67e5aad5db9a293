"""One thing that the core, the driver and the middleware tell what happens: it counts, and traces
where that is wanted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from scenewright.graphs.events import Event, Judged
from scenewright.service.core.observing import logs
from scenewright.service.core.observing.metrics import Metrics
from scenewright.service.core.observing.spans import Spans
from scenewright.service.core.observing.tracing import Request, Tracing, opened
from scenewright.service.core.schemas import Status
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run


class Observability:
    """What is counted and traced of one service."""

    def __init__(self, tracing: Tracing | None = None) -> None:
        """``tracing``: where spans go; None: there are none."""
        self.metrics = Metrics()
        self.tracing = tracing

    @classmethod
    def of(cls, settings: ServiceSettings) -> Observability:
        """As ``settings`` and the environment say. Raises ``SettingsError`` where traces are asked
        for and the extra is not installed."""
        return cls(opened(settings))

    def submitted(self, run: str) -> None:
        """A run was taken in, edited or resumed by the request at work: its span follows on it."""
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
    """What is noted of one run while it is driven."""

    def __init__(self, metrics: Metrics, profile: str, spans: Spans | None) -> None:
        self._metrics = metrics
        self._profile = profile
        self._spans = spans
        self._since = time.time()
        self.status: Status = "failed"
        """Where the run stands at the end."""
        self.error: str = ""
        """Why it failed, by the kind of error."""

    def event(self, event: Event) -> None:
        """A stored event that has just happened."""
        self._metrics.event(self._profile, event)
        if isinstance(event, Judged) and event.role == "loop":
            self._metrics.round(self._profile, event.at - self._since)
            self._since = event.at
        if self._spans is not None:
            self._spans.event(event)

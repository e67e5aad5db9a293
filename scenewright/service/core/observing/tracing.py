"""Traces by OpenTelemetry (the extra ``tracing``).

A span for a request, a run, a round, a drawing and a judge's answers. Spans carry names and
numbers: no prompt, no scene, no image.

The spans of one run, made from its events.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scenewright.config.profiles import SettingsError
from scenewright.core.version import VERSION
from scenewright.graphs.events import (
    Answered,
    Composed,
    Edited,
    Event,
    Finished,
    Generated,
    Judged,
    Paused,
    Planned,
    Resumed,
    RunStarted,
    ToolCalled,
)
from scenewright.graphs.record import totals_of
from scenewright.service.core.schemas import Status
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanContext, Tracer

Attributes = dict[str, str | int | float | bool]


class Spans:
    """A run's span, its rounds in it, and drawings and judges' answers in these.

    A round ends with the verdicts of the loop's judges. The judges of the report have a span
    ``report`` of their own.
    """

    def __init__(self, tracer: Tracer, run: Run, profile: str, context: Context) -> None:
        """``context`` holds the span that the run's span is a child of, if any."""
        self._tracer = tracer
        self._since = time.time()
        self._backend = ""
        self._part: Span | None = None
        self._part_name = ""
        self._run = tracer.start_span(
            "run",
            context,
            start_time=_ns(self._since),
            attributes={
                "scenewright.run.id": run.id,
                "scenewright.run.attempt": run.attempts,
                "scenewright.tenant": run.tenant,
                "scenewright.door": run.door,
                "scenewright.profile": profile,
            },
        )

    def event(self, event: Event) -> None:
        """Return an event that has just happened."""
        match event:
            case RunStarted():
                profile = event.config.get("profile", {})
                self._backend = str(profile.get("backend", {}).get("model") or "")
                self._run.set_attribute("scenewright.facts", len(event.facts))
            case Planned():
                self._of(event).add_event(
                    "planned", {"scenewright.strategy": event.strategy}, _ns(event.at)
                )
            case Composed():
                self._of(event).add_event("composed", _spent(event), _ns(event.at))
            case ToolCalled():
                span = self._part or self._run
                called: Attributes = {"gen_ai.tool.name": event.tool, "scenewright.ok": event.ok}
                span.add_event("tool called", called | _spent(event), _ns(event.at))
            case Generated():
                drawn: Attributes = {
                    "gen_ai.request.model": self._backend,
                    "scenewright.image": event.image,
                    "scenewright.cached": event.cached,
                }
                self._timed(f"draw {event.purpose}", event, event.seconds, drawn)
            case Answered():
                asked: Attributes = {
                    "gen_ai.request.model": event.judge_id,
                    "scenewright.image": event.image,
                    "scenewright.facts": len(event.answers),
                    "scenewright.unscored": sum(a.state == "unscored" for a in event.answers),
                    "scenewright.cached": event.cached,
                }
                self._timed("judge", event, event.seconds, asked)
            case Judged():
                part = self._of(event)
                if event.card.sgscore is not None:
                    part.set_attribute("scenewright.sgscore", event.card.sgscore)
                if event.role == "loop":
                    self._end_part(event.at)
            case Resumed() | Paused() | Edited():
                self._run.add_event(event.type, timestamp=_ns(event.at))
            case Finished():
                self._run.set_attribute("scenewright.stop_reason", event.reason)
                self._run.set_attributes(
                    {f"scenewright.total.{name}": value for name, value in event.totals.items()}
                )
        self._since = event.at

    def end(self, status: Status, error: str) -> None:
        """End the span of a run that stands still."""
        from opentelemetry import trace

        now = time.time()
        self._end_part(now)
        self._run.set_attribute("scenewright.status", status)
        if status == "failed":
            self._run.set_attribute("error.type", error)
            self._run.set_status(trace.Status(trace.StatusCode.ERROR))
        self._run.end(_ns(now))

    def _of(self, event: Planned | Composed | Generated | Answered | Judged) -> Span:
        """Return the span of the part of the run that ``event`` belongs to.

        The one at work, or a new one since the last event.
        """
        report = isinstance(event, Answered | Judged) and event.role == "report"
        name = "report" if report else f"round {event.round}"
        if self._part is None or self._part_name != name:
            self._end_part(self._since)
            self._part_name = name
            about: Attributes = {} if report else {"scenewright.round": event.round}
            self._part = self._tracer.start_span(
                name, self._in(self._run), start_time=_ns(self._since), attributes=about
            )
        return self._part

    def _end_part(self, at: float) -> None:
        if self._part is not None:
            self._part.end(_ns(at))
            self._part = None

    def _timed(
        self, name: str, event: Generated | Answered, seconds: float, attributes: Attributes
    ) -> None:
        """Return a span of something that ended with ``event`` and took so long."""
        parent = self._of(event)
        # What came from a store tells how long it took when it was made.
        took = 0.0 if event.cached else seconds
        self._tracer.start_span(
            name,
            self._in(parent),
            start_time=_ns(event.at - took),
            attributes=attributes | _spent(event),
        ).end(_ns(event.at))

    @staticmethod
    def _in(span: Span) -> Context:
        from opentelemetry import trace
        from opentelemetry.context import Context

        return trace.set_span_in_context(span, Context())


def _spent(event: Event) -> Attributes:
    spent = totals_of([event])
    return {
        "gen_ai.usage.input_tokens": int(spent["tokens_in"]),
        "gen_ai.usage.output_tokens": int(spent["tokens_out"]),
        "scenewright.usd": spent["usd"],
    }


def _ns(at: float) -> int:
    return int(at * 1e9)


log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables of the environment that ask for traces."""
MAX_ATTRIBUTE = 200
"""Longest attribute of a span, in characters."""
_MOST_WAITING = 10_000
_INSTALL = "install the extra: pip install 'scenewright[tracing]'"


def opened(settings: ServiceSettings) -> Tracing | None:
    """Traces to where ``settings`` or the environment says; None if neither says so.

    Raises ``SettingsError`` if the setting is given and the extra is not installed; where only
    the environment asks, the service goes on without traces and says so in its log.
    """
    wanted = settings.otlp_endpoint
    asked = any(os.environ.get(name) for name in ENDPOINTS)
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or (wanted is None and not asked):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        if wanted is not None:
            raise SettingsError(f"traces are asked for: {_INSTALL}") from error
        log.warning("the environment asks for traces, and there are none: %s", _INSTALL)
        return None
    url = None if wanted is None else f"{wanted.rstrip('/')}/v1/traces"
    provider = provider_of()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return Tracing(provider)


def provider_of() -> TracerProvider:
    """Return a provider of our own, with limits that keep large values out of spans."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider

    named = os.environ.get("OTEL_SERVICE_NAME") or "scenewright"
    return TracerProvider(
        resource=Resource.create({"service.name": named, "service.version": VERSION}),
        span_limits=SpanLimits(max_attribute_length=MAX_ATTRIBUTE),
        shutdown_on_exit=False,
    )


class Request:
    """Notes on one HTTP request."""

    def __init__(self, id: str) -> None:
        self.id = id
        """Names the request in the log and in its reply."""
        self.method = "OTHER"
        """Method in capitals; ``OTHER`` for one that HTTP does not know."""
        self.route = "none"
        """Template of the route's path; ``none`` where no route fits."""
        self.status = 500
        """HTTP status."""
        self.seconds = 0.0
        """Until the reply began."""


class Tracing:
    """Makes the spans of one service. One event loop uses it."""

    def __init__(self, provider: TracerProvider) -> None:
        """Trace by ``provider``, which :meth:`aclose` shuts down."""
        self._provider = provider
        self._tracer = provider.get_tracer("scenewright", VERSION)
        self._waiting: OrderedDict[str, SpanContext] = OrderedDict()

    @contextmanager
    def request(self, scope: Mapping[str, Any], request: Request) -> Iterator[None]:
        """Return the span of an HTTP request; a ``traceparent`` of the client is followed."""
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carried = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope.get("headers", ())
            if name in (b"traceparent", b"tracestate")
        }
        with self._tracer.start_as_current_span(
            "HTTP",
            TraceContextTextMapPropagator().extract(carried),
            kind=SpanKind.SERVER,
            # Texts of exceptions can hold what was sent.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            finally:
                span.update_name(f"{request.method} {request.route}")
                span.set_attributes(
                    {
                        "http.request.method": request.method,
                        "http.route": request.route,
                        "http.response.status_code": request.status,
                        "scenewright.request.id": request.id,
                    }
                )
                if request.status >= 500:
                    span.set_status(Status(StatusCode.ERROR))

    def submitted(self, run: str) -> None:
        """Have the run's span be a child of the span at work."""
        from opentelemetry import trace

        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            self._waiting[run] = context
            self._waiting.move_to_end(run)
            if len(self._waiting) > _MOST_WAITING:
                self._waiting.popitem(last=False)

    def run(self, run: Run, profile: str) -> Spans:
        """Return the spans of a run that is driven.

        A run of an earlier process begins a new trace.
        """
        from opentelemetry import trace
        from opentelemetry.context import Context

        parent = self._waiting.pop(run.id, None)
        context = Context()
        if parent is not None:
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent), context)
        return Spans(self._tracer, run, profile, context)

    async def aclose(self) -> None:
        """Send what is left; returns although the collector does not answer."""
        await asyncio.to_thread(self._provider.shutdown)

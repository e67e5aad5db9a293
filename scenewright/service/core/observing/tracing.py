"""Traces by OpenTelemetry (the extra ``tracing``): a span for a request, a run, a round, a drawing
and a judge's answers. Spans carry names and numbers: no prompt, no scene, no image."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scenewright.config.settings import SettingsError
from scenewright.core.version import VERSION
from scenewright.service.core.observing.spans import Spans
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import SpanContext

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
    """A provider of our own, with limits that keep large values out of spans."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider

    named = os.environ.get("OTEL_SERVICE_NAME") or "scenewright"
    return TracerProvider(
        resource=Resource.create({"service.name": named, "service.version": VERSION}),
        span_limits=SpanLimits(max_attribute_length=MAX_ATTRIBUTE),
        shutdown_on_exit=False,
    )


class Request:
    """What is noted of one HTTP request."""

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
        """``provider`` is shut down by :meth:`aclose`."""
        self._provider = provider
        self._tracer = provider.get_tracer("scenewright", VERSION)
        self._waiting: OrderedDict[str, SpanContext] = OrderedDict()

    @contextmanager
    def request(self, scope: Mapping[str, Any], request: Request) -> Iterator[None]:
        """The span of an HTTP request; a ``traceparent`` of the client is followed."""
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
        """The run's span will be a child of the span at work."""
        from opentelemetry import trace

        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            self._waiting[run] = context
            self._waiting.move_to_end(run)
            if len(self._waiting) > _MOST_WAITING:
                self._waiting.popitem(last=False)

    def run(self, run: Run, profile: str) -> Spans:
        """The spans of a run that is driven; a run of an earlier process begins a new trace."""
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

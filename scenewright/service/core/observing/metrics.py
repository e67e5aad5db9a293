"""Metrics in Prometheus's form.

Their labels are names of profiles, judges, routes and states: never ids, tenants, prompts or
anything that a request makes up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from scenewright.core.version import VERSION
from scenewright.graphs.events import Answered, Event, Generated
from scenewright.graphs.record import totals_of
from scenewright.service.core.schemas import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Moment:
    """State at the moment of a scrape."""

    runs: Mapping[str, int]
    """Runs in the database by status, of all tenants."""
    queue_limit: int
    """Runs that may wait."""
    active: int
    """Runs that this process drives."""
    active_limit: int
    """Runs that it may drive at once."""
    draining: bool
    """Whether the service is about to end."""
    listeners: int
    """Number of listeners to events of runs."""
    dropped: int
    """Events without a number that a slow listener was not told of."""


class Metrics:
    """The metrics of one service. One event loop uses them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        """A registry of its own: several services can live in one process."""
        ProcessCollector(registry=self.registry)
        profile = ("profile",)
        self._run_seconds = Histogram(
            "scenewright_run_seconds",
            "Wall time from when a run was taken up to when it stood still.",
            ("profile", "status"),
            registry=self.registry,
            buckets=_LONG,
        )
        self._round_seconds = Histogram(
            "scenewright_round_seconds",
            "Wall time of a round: drawn and judged.",
            profile,
            registry=self.registry,
            buckets=_LONG,
        )
        self._drawing_seconds = Histogram(
            "scenewright_drawing_seconds",
            "Wall time of one drawing.",
            profile,
            registry=self.registry,
            buckets=_LONG,
        )
        self._judge_seconds = Histogram(
            "scenewright_judge_seconds",
            "Wall time of one judge's answers to one image.",
            ("profile", "judge"),
            registry=self.registry,
            buckets=_LONG,
        )
        self._images = Counter(
            "scenewright_images",
            "Images: drawn, or found in the store instead.",
            ("profile", "purpose", "source"),
            registry=self.registry,
        )
        self._judge_calls = Counter(
            "scenewright_judge_calls",
            "Calls of judges: asked, or all answers found in the store instead.",
            ("profile", "judge", "role", "source"),
            registry=self.registry,
        )
        self._tokens = Counter(
            "scenewright_tokens",
            "Tokens of judges, composers and directors.",
            ("profile", "direction"),
            registry=self.registry,
        )
        self._usd = Counter(
            "scenewright_usd", "Cost in US dollars.", profile, registry=self.registry
        )
        self._requests = Counter(
            "scenewright_http_requests",
            "HTTP requests by route template.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "scenewright_http_request_seconds",
            "Time until the reply begins; a stream of events goes on after that.",
            ("method", "route"),
            registry=self.registry,
            buckets=_QUICK,
        )

    def text(self, moment: Moment) -> bytes:
        """All metrics as :data:`CONTENT_TYPE`."""
        now = _Now(moment)
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
    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def collect(self) -> Iterable[Metric]:
        moment = self._moment
        runs = GaugeMetricFamily(
            "scenewright_runs", "Runs in the database by status.", labels=("status",)
        )
        for status in get_args(Status):
            runs.add_metric((status,), moment.runs.get(status, 0))
        yield runs
        info = GaugeMetricFamily("scenewright_info", "The version, always 1.", labels=("version",))
        info.add_metric((VERSION,), 1)
        yield info
        for name, about, value in (
            ("queue_length", "Runs that wait.", moment.runs.get("queued", 0)),
            ("queue_limit", "Runs that may wait.", moment.queue_limit),
            ("active_runs", "Runs that this process drives.", moment.active),
            ("active_limit", "Runs that it may drive at once.", moment.active_limit),
            ("worker_draining", "Whether the service is about to end.", moment.draining),
            ("event_listeners", "Who follows events of runs.", moment.listeners),
        ):
            yield GaugeMetricFamily(f"scenewright_{name}", about, value=value)
        yield CounterMetricFamily(
            "scenewright_events_dropped",
            "Events without a number that a slow listener was not told of.",
            value=moment.dropped,
        )

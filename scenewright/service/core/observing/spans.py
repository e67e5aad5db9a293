"""The spans of one run, made from its events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scenewright.graphs.accounts import totals_of
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
from scenewright.service.core.schemas import Status
from scenewright.service.core.store import Run

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

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
        """An event that has just happened."""
        match event:
            case RunStarted():
                profile = event.config.get("profile", {})
                self._backend = str(profile.get("backend", {}).get("model") or "")
                self._run.set_attribute("scenewright.facts", len(event.facts))
            case Planned():
                self._round(event.round).add_event(
                    "planned", {"scenewright.strategy": event.strategy}, _ns(event.at)
                )
            case Composed():
                self._round(event.round).add_event("composed", _spent(event), _ns(event.at))
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
        """The run stands still."""
        from opentelemetry import trace

        now = time.time()
        self._end_part(now)
        self._run.set_attribute("scenewright.status", status)
        if status == "failed":
            self._run.set_attribute("error.type", error)
            self._run.set_status(trace.Status(trace.StatusCode.ERROR))
        self._run.end(_ns(now))

    def _of(self, event: Generated | Answered | Judged) -> Span:
        if not isinstance(event, Generated) and event.role == "report":
            return self._begin("report", {})
        return self._round(event.round)

    def _round(self, number: int) -> Span:
        return self._begin(f"round {number}", {"scenewright.round": number})

    def _begin(self, name: str, attributes: Attributes) -> Span:
        """The span of a part of the run: the one at work, or a new one since the last event."""
        if self._part is not None and self._part_name == name:
            return self._part
        self._end_part(self._since)
        self._part_name = name
        self._part = self._tracer.start_span(
            name, self._in(self._run), start_time=_ns(self._since), attributes=attributes
        )
        return self._part

    def _end_part(self, at: float) -> None:
        if self._part is not None:
            self._part.end(_ns(at))
            self._part = None

    def _timed(
        self, name: str, event: Generated | Answered, seconds: float, attributes: Attributes
    ) -> None:
        """A span of something that ended with ``event`` and took so long."""
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

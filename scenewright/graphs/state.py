"""Options, context and state of the loop; the context is never stored.

The state holds hashes, numbers and plain JSON data only: images are in the image store, answers in
their store, verdicts in the event log. A checkpoint therefore has a few kilobytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypedDict, TypeVar

from langgraph.runtime import Runtime

from scenewright.agents.panel.panel import Panel, able_judges
from scenewright.config.options import LoopOptions
from scenewright.config.profiles import CascadeSpec
from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import FactKind
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import ImageBackend, always
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.core.ports.vision import Detector
from scenewright.core.scene import SceneGraph
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import STREAMED, Event, Retrying, Role, StopReason
from scenewright.graphs.large_scenes import run_in_worker_if_large, size_of_data
from scenewright.graphs.record import LoopRecord
from scenewright.providers import Answers
from scenewright.providers.retry import FailedAttempt, listen_for_retries


class DirectorError(ScenewrightError, RuntimeError):
    """The director's language model could not be reached or used; the run can go on later."""


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """Dependencies of judging an image."""

    loop_judges: Sequence[Judge]
    """Judges whose verdicts steer the loop."""
    report_judges: Sequence[Judge]
    """Judges that only see the candidates when the loop is over."""
    images: ImageStore
    """Images by content hash."""
    answers: Answers
    """Answers already paid for."""
    log: EventLog
    """The run's record."""
    options: LoopOptions = field(default_factory=LoopOptions)
    """Numbers and choices."""
    panel: Panel = field(default_factory=Panel)
    """Panel that turns answers into verdicts."""
    cascade: CascadeSpec | None = None
    """Which of the loop's judges are asked first; none: all at once. The judges of the report
    are always asked all at once."""
    realism_judges: Sequence[Judge] = ()
    """Judges of the loop for realism; none: those of its judges that can tell."""
    realism_report_judges: Sequence[Judge] = ()
    """The same for the report."""
    judge_timeout: float | None = None
    """Seconds that one call of a judge may take; None: no limit."""
    nonce: str = ""
    """Names the run among all runs: it pays for the requests of its steps
    (:func:`~scenewright.providers.sdk_clients.paying`)."""

    def judges(self, role: Role) -> Sequence[Judge]:
        """Return the judges of a role, each once.

        Those of the scene's facts, then those of realism.
        """
        stated = self.loop_judges if role == "loop" else self.report_judges
        if not self.options.realism:
            return stated
        known = {judge.id for judge in stated}
        return (*stated, *(judge for judge in self._real(role) if judge.id not in known))

    def judges_of(self, role: Role, kind: FactKind) -> Sequence[Judge]:
        """Return the judges of a role that are asked facts of ``kind``."""
        stated = self.loop_judges if role == "loop" else self.report_judges
        if kind == "realism":
            return self._real(role) or able_judges(stated, kind)
        return able_judges(stated, kind)

    def asks_soundness(self, role: Role) -> bool:
        """Return whether the judges of a role are asked facts of soundness.

        The loop acts on none of them: its judges are asked only where they report as well, in one
        call with the other facts.
        """
        reporting = {judge.id for judge in self.report_judges}
        return role == "report" or any(judge.id in reporting for judge in self.loop_judges)

    def _real(self, role: Role) -> Sequence[Judge]:
        return self.realism_judges if role == "loop" else self.realism_report_judges

    def cascade_of(self, role: Role) -> CascadeSpec | None:
        """Return the cascade of a role's judges, if they have one."""
        return self.cascade if role == "loop" else None

    @property
    def record(self) -> LoopRecord:
        """The run so far."""
        return self.log.record


def never() -> bool:
    """Return false: nobody wants to look before the run is over."""
    return False


@dataclass(frozen=True, kw_only=True)
class RefineContext(CheckContext):
    """Dependencies of the loop: runtime context of ``graphs/refine.py``."""

    backend: ImageBackend
    """Backend that draws."""
    composer: Composer
    """Composer of prompts."""
    detector: Detector | None = None
    """Detector of objects in pictures, for strategies that repair places; none: judges and composer
    alone tell of places."""
    pause: Callable[[], bool] = never
    """Asked before each plan: whether a person wants to look, and the loop is to wait."""
    watched: Callable[[], bool] = always
    """Asked before a picture is shown while it is drawn: whether anybody looks."""


ContextT = TypeVar("ContextT", bound=CheckContext)


class RefineState(TypedDict, total=False):
    """State of the loop, as it is checkpointed; all else is read from the run's record."""

    scene: dict[str, Any]
    """The scene graph as JSON data; the only input. An edit may change it."""
    round: int
    """The round at work, from 0."""
    edits: int
    """Edits of a person that were taken in."""
    reason: StopReason | None
    """Why the loop stopped; None while it goes on."""
    limit_reached: str
    """Which limit ended it, with its figures; empty: none did."""
    kept_round: int
    """Round that a director accepted; without it the best candidate is kept."""


def round_seed(seed: int, round: int, purpose: str) -> int:
    """Return the seed of one image.

    ``purpose`` tells images of one round apart: a purpose, with a number where there are several.
    Round 0's candidate takes the run's own seed, so that it is the picture the backend draws
    without any loop; every other image takes 63 bits of SHA-256("seed:round:purpose").
    """
    if round == 0 and purpose == "candidate":
        return seed
    digest = hashlib.sha256(f"{seed}:{round}:{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


async def scene_of(state: RefineState) -> SceneGraph:
    """Return the scene in a state, validated away from the event loop if it is large."""
    scene = state["scene"]
    return await run_in_worker_if_large(size_of_data(scene), read_scene, scene)


def read_scene(scene: Mapping[str, Any]) -> SceneGraph:
    """Return the scene of a state's JSON data; the same object for the same data."""
    return _parse_scene(json.dumps(scene))


@lru_cache(maxsize=64)
def _parse_scene(text: str) -> SceneGraph:
    # Checking a scene takes longer than any other part of a node, and every node needs it.
    return SceneGraph.model_validate_json(text)


def emit(runtime: Runtime[ContextT], event: Event) -> None:
    """Store ``event`` and stream it; an event whose key is in the log is neither again."""
    if isinstance(event, STREAMED) or runtime.context.log.append(event):
        runtime.stream_writer(event.model_dump(mode="json"))


@contextmanager
def emit_retries(runtime: Runtime[ContextT], round: int) -> Iterator[None]:
    """Stream an event for each request of the block that failed and is sent again."""

    def emit_retry(attempt: FailedAttempt) -> None:
        at = runtime.context.log.now()
        emit(
            runtime,
            Retrying(
                key=f"r{round}:retrying:{attempt.label}:{attempt.number}:{at}",
                at=at,
                round=round,
                model=attempt.label or f"{attempt.account}:{attempt.model}",
                attempt=attempt.number,
                seconds=attempt.seconds,
                reason=attempt.reason,
                wait=attempt.wait,
            ),
        )

    with listen_for_retries(emit_retry):
        yield

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
from scenewright.core.facts import Fact, FactKind, ScoreCard, Verdict
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import ImageBackend, always
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.core.ports.vision import Detector
from scenewright.core.scene import SceneGraph
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import STREAMED, Event, Judged, Retrying, Role
from scenewright.graphs.large_scenes import size_of_data, worked_out
from scenewright.providers import Answers
from scenewright.providers.retry import FailedAttempt, listen_for_retries


class DirectorError(ScenewrightError, RuntimeError):
    """The director's language model could not be reached or used; the run can go on later."""


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """What checking an image needs: runtime context of ``graphs/verify.py``."""

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
    """How answers become verdicts."""
    cascade: CascadeSpec | None = None
    """Which of the loop's judges are asked first; none: all at once. The judges of the report
    are always asked all at once."""
    realism_judges: Sequence[Judge] = ()
    """Judges of the loop for realism; none: those of its judges that can tell."""
    realism_report_judges: Sequence[Judge] = ()
    """Likewise of the report."""
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

    def asked(self, role: Role, kind: FactKind) -> Sequence[Judge]:
        """Those of a role that are asked facts of ``kind``."""
        stated = self.loop_judges if role == "loop" else self.report_judges
        if kind == "realism":
            return self._real(role) or able_judges(stated, kind)
        return able_judges(stated, kind)

    def _real(self, role: Role) -> Sequence[Judge]:
        return self.realism_judges if role == "loop" else self.realism_report_judges

    def cascade_of(self, role: Role) -> CascadeSpec | None:
        """Return the cascade of a role's judges, if they have one."""
        return self.cascade if role == "loop" else None

    def card(self, round: int, role: Role = "loop") -> ScoreCard:
        """Return the stored score card of a round's candidate.

        ``LookupError`` if it was not judged.
        """
        event = self.log.get(f"r{round}:{role}:judged", Judged)
        if event is None:
            raise LookupError(f"no {role} score card of round {round} in the event log")
        return event.card


def never() -> bool:
    """No: nobody wants to look before the run is over."""
    return False


@dataclass(frozen=True, kw_only=True)
class RefineContext(CheckContext):
    """What the loop needs besides: runtime context of ``graphs/refine.py``."""

    backend: ImageBackend
    """What draws."""
    composer: Composer
    """What writes prompts."""
    detector: Detector | None = None
    """What finds objects in pictures, for strategies that repair places; none: judges and composer
    alone tell of places."""
    pause: Callable[[], bool] = never
    """Asked before each plan: whether a person wants to look, and the loop is to wait."""
    watched: Callable[[], bool] = always
    """Asked before a picture is shown while it is drawn: whether anybody looks."""


ContextT = TypeVar("ContextT", bound=CheckContext)


class Candidate(TypedDict):
    """One drawn image of the whole scene."""

    round: int
    """From 0."""
    image: str
    """Content hash."""


class RefineState(TypedDict, total=False):
    """State of the loop, as it is checkpointed."""

    scene: dict[str, Any]
    """The scene graph as JSON data; the only input. An edit may change it."""
    round: int
    """The round at work, from 0."""
    prompt: str
    """The prompt of the whole scene, composed once a scene."""
    reference: str | None
    """Content hash of this round's reference image (I1), if it has one."""
    candidates: list[Candidate]
    """All candidates so far, oldest first."""
    best: Candidate
    """The one that is kept."""
    stale: int
    """Rounds since the best candidate was found."""
    limit_reached: str
    """Which limit ended it, with its figures; empty: none did."""
    reason: str
    """Why the loop stopped; empty while it goes on."""
    edits: int
    """Edits of a person that were taken in."""
    since: int
    """First round of the scene as it is now."""
    limit: int
    """Round before which the loop stops; until the first edit the options' rounds."""
    looked: bool
    """Whether a person has just looked: at least one more picture is drawn then."""


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


async def scene_of(state: Mapping[str, Any]) -> SceneGraph:
    """Return the scene in a state, validated away from the event loop if it is large."""
    scene = state["scene"]
    return await worked_out(size_of_data(scene), read_scene, scene)


def read_scene(scene: Mapping[str, Any]) -> SceneGraph:
    """Return the scene of a state's JSON data; the same object for the same data."""
    return _parse_scene(json.dumps(scene))


@lru_cache(maxsize=64)
def _parse_scene(text: str) -> SceneGraph:
    # Checking a scene takes longer than any other part of a node, and every node needs it.
    return SceneGraph.model_validate_json(text)


def improves(card: ScoreCard, best: ScoreCard, facts: Sequence[Fact]) -> bool:
    """Whether a candidate with ``card`` replaces the one with ``best``; a tie keeps the earlier.

    Its rank must be higher, and stay higher over the facts that were scored for ``best`` with
    its own unscored ones taken as not confirmed: a judge that falls silent on the hard facts
    must not make an image look better.
    """
    if card.rank <= best.rank:
        return False
    scored = {verdict.fact_id for verdict in best.verdicts if verdict.state != "unscored"}
    common = [fact for fact in facts if fact.id in scored]
    if not common:
        return True
    doubted = [
        Verdict(fact_id=verdict.fact_id, state="no", probability=0.0)
        if verdict.state == "unscored"
        else verdict
        for verdict in card.verdicts
        if verdict.fact_id in scored
    ]
    known = [verdict for verdict in best.verdicts if verdict.fact_id in scored]
    return (
        ScoreCard.of(common, doubted, card.alpha).rank
        > ScoreCard.of(common, known, best.alpha).rank
    )


def emit(runtime: Runtime[ContextT], event: Event) -> None:
    """Store ``event`` and stream it; an event whose key is in the log is neither again."""
    if isinstance(event, STREAMED) or runtime.context.log.append(event):
        runtime.stream_writer(event.model_dump(mode="json"))


@contextmanager
def retries_told(runtime: Runtime[ContextT], round: int) -> Iterator[None]:
    """Stream an event for each request of the block that failed and is sent again."""

    def told(attempt: FailedAttempt) -> None:
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

    with listen_for_retries(told):
        yield

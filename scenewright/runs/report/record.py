"""A run folder read back from its stored events, also while the run is unfinished.

The page, the contact sheet and the terminal's tables all show a :class:`RunView`, so
they agree with each other and need nothing but the folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Answer, Fact, ScoreCard, State, Verdict, is_realism
from scenewright.core.scene import SceneGraph
from scenewright.graphs.eventlog import LogError, read_events
from scenewright.graphs.events import (
    Answered,
    Composed,
    Drafted,
    Edited,
    Event,
    Finished,
    Generated,
    Judged,
    Missing,
    Planned,
    Proposed,
    Purpose,
    Resumed,
    Role,
    RunStarted,
    Selected,
    Stage,
    ToolCalled,
)
from scenewright.graphs.reporting import Reporting, reporting_of
from scenewright.graphs.run_status import (
    RequestedScene,
    active_seconds,
    facts_ever,
    is_paused,
    scene_in_round,
    scenes_of,
    warnings_of,
    work_of,
)

EVENTS_FILE = "events.jsonl"
MANIFEST_FILE = "manifest.json"
IMAGES_FOLDER = "images"
ROLES: tuple[Role, ...] = ("loop", "report")

Shown = State | Literal["pending", "unasked"]
"""A verdict's state; ``pending`` where no panel has spoken yet, ``unasked`` where the scene did not
have the fact."""

_OfRound = (
    Composed
    | Planned
    | ToolCalled
    | Generated
    | Drafted
    | Proposed
    | Selected
    | Answered
    | Judged
    | Missing
)
_HASH = re.compile(r"[0-9a-f]{64}")


class PageError(ScenewrightError, ValueError):
    """A run folder that cannot be shown: the message names the place and the remedy."""


@dataclass(slots=True)
class RoundView:
    """One round: the reference it was drawn with, its candidate, and what was said of that."""

    index: int
    """From 0."""
    prompt: str = ""
    """The candidate's prompt."""
    candidate: Generated | None = None
    """The candidate image, once drawn."""
    plan: Planned | None = None
    """What the strategy decided; none in round 0."""
    words: list[Composed | ToolCalled] = field(default_factory=list)
    """What a composer or a director said for this round, each with its cost."""

    def written(self, purpose: Purpose) -> Composed | None:
        """How the prompt of ``purpose`` came about, if it was written for this round."""
        found = (e for e in self.words if isinstance(e, Composed) and e.purpose == purpose)
        return next(found, None)

    reference_prompt: str = ""
    """The prompt of the reference image; empty in round 0."""
    reference: Generated | None = None
    """The image, drawn before the candidate, of what the kept one so far was missing."""
    drafts: list[Generated] = field(default_factory=list)
    """Drafts of the first picture."""
    drafted: Drafted | None = None
    """What was found in them, and which one was finished."""
    references: list[Generated] = field(default_factory=list)
    """Further images of what was missing, for single proposals."""
    proposals: list[Generated] = field(default_factory=list)
    """Proposals for places of the picture."""
    proposed: list[Proposed] = field(default_factory=list)
    """What was found in them, heat by heat."""
    selected: Selected | None = None
    """Which of them were pasted; none before that is decided."""
    missing: SceneGraph | None = None
    """What the candidate was not found to hold; none if nothing is known to be missing."""
    cards: dict[Role, ScoreCard] = field(default_factory=dict)
    """The panel's score card for each role."""
    answers: dict[Role, dict[str, list[Answer]]] = field(
        default_factory=lambda: {"loop": {}, "report": {}}
    )
    """Role → fact id → the judges' answers, in the order in which they came."""
    calls: list[Answered] = field(default_factory=list)
    """The judge calls of this round's candidate."""
    edit: Edited | None = None
    """The edit that began the round; none if its candidate was drawn."""

    @property
    def drawing_seconds(self) -> float:
        """Wall time of this round's images."""
        return sum(picture.seconds for picture in self.pictures)

    @property
    def pictures(self) -> list[Generated]:
        """All that was drawn for this round."""
        whole = (g for g in (self.reference, self.candidate) if g is not None)
        return [*self.drafts, *self.references, *self.proposals, *whole]

    @property
    def work(self) -> float | None:
        """Full-picture steps of the denoiser in this round; None if a backend does not tell."""
        return work_of(self.pictures)

    @property
    def judging_seconds(self) -> float:
        """Wall time of the judges; those of one role work side by side, so the slowest counts.

        The stages of a cascade follow each other.
        """
        spent: dict[tuple[Role, Stage | None], dict[str, float]] = {}
        for call in self.calls:
            mine = spent.setdefault((call.role, call.stage), {})
            mine[call.judge_id] = mine.get(call.judge_id, 0.0) + call.seconds
        return sum(max(mine.values(), default=0.0) for mine in spent.values())

    @property
    def settled(self) -> frozenset[str]:
        """Ids of the facts that the first judges of the loop's cascade settled alone."""
        asked: dict[Stage | None, set[str]] = {}
        for call in self.calls:
            if call.role == "loop":
                ids = asked.setdefault(call.stage, set())
                ids |= {answer.fact_id for answer in call.answers}
        if "loop" not in self.cards:
            return frozenset()
        stated = {name for name in asked.get("first", set()) if not is_realism(name)}
        return frozenset(stated - asked.get("rest", set()))

    @property
    def usd(self) -> float:
        """What images, answers and language models of this round cost, in US dollars."""
        drawn = sum(picture.usd for picture in self.pictures)
        said = sum(event.usd for event in self.words)
        said += sum(event.usd for event in self.glanced)
        return drawn + said + sum(a.usd for call in self.calls for a in call.answers)

    @property
    def glanced(self) -> list[Drafted | Proposed | Selected]:
        """What judges were asked besides the candidate."""
        found = (self.drafted, *self.proposed, self.selected)
        return [event for event in found if event is not None]

    @property
    def tools(self) -> list[ToolCalled]:
        """The tools that the director used while this was the newest round."""
        return [event for event in self.words if isinstance(event, ToolCalled)]

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of judges and language models."""
        answers = [*(a for call in self.calls for a in call.answers), *self.words, *self.glanced]
        return sum(a.tokens_in for a in answers), sum(a.tokens_out for a in answers)

    def verdicts(self, role: Role = "loop") -> dict[str, Verdict]:
        """Return the panel's verdicts by fact; empty while there are none."""
        card = self.cards.get(role)
        return {} if card is None else {verdict.fact_id: verdict for verdict in card.verdicts}

    def verdict(self, fact_id: str, role: Role = "loop") -> Verdict | None:
        """Return the panel's verdict on a fact; none while there is none."""
        return self.verdicts(role).get(fact_id)

    def state(self, fact_id: str, role: Role = "loop") -> Shown:
        """Return the verdict's state.

        ``pending`` without a card, ``unasked`` if the card lacks it.
        """
        verdict = self.verdict(fact_id, role)
        if verdict is not None:
            return verdict.state
        return "unasked" if role in self.cards else "pending"

    def score(self, role: Role = "loop") -> float | None:
        """SGScore (Scene-Bench Eq. 4) by the judges of ``role``; none if not judged."""
        card = self.cards.get(role)
        return None if card is None else card.sgscore


@dataclass(slots=True)
class RunView:
    """All of a run that can be shown."""

    folder: Path
    """The run folder."""
    run_id: str
    """Name of the run."""
    scenes: tuple[RequestedScene, ...]
    """What was asked, oldest first; one more for each edit that changed the scene."""
    config: dict[str, Any]
    """Profile and options."""
    manifest: dict[str, Any]
    """``manifest.json``; empty if there is none."""
    rounds: list[RoundView]
    """In order, from 0; a run that has just begun has none."""
    finished: Finished | None
    """The end of the run; none while it goes on or was cut off."""
    started_at: float
    """Unix time in seconds."""
    resumed: int
    """How often the run was continued after a cut."""
    active_seconds: float
    """Seconds in which a process drove the run; the time between two processes is left out."""
    paused: bool = False
    """Whether the run waits for a person."""
    sentence: str = ""
    """Words that the first scene was read from; empty where it was given as a graph."""
    edits: list[Edited] = field(default_factory=list)
    """What a person said of the run, oldest first."""
    warnings: tuple[str, ...] = ()
    """What of the scene the models of the run cannot draw or judge."""
    reporting: Reporting = field(default_factory=lambda: Reporting(kind="none"))
    """Whether other models than those of the loop report the result."""

    @property
    def scene(self) -> SceneGraph:
        """What is asked; after an edit the scene as it is now."""
        return self.scenes[-1].scene

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What is checked, in order."""
        return self.scenes[-1].facts

    @property
    def former(self) -> tuple[Fact, ...]:
        """Facts that earlier rounds were asked for and the scene has no more."""
        return facts_ever(self.scenes)[len(self.facts) :]

    def asked(self, round: int) -> RequestedScene:
        """Return the scene requested of the candidate of ``round``."""
        return scene_in_round(self.scenes, round)

    def composed(self, round: int) -> Composed | None:
        """Return the newest prompt of a candidate up to ``round``; none before there is one."""
        found = (r.written("candidate") for r in reversed(self.rounds) if r.index <= round)
        return next(filter(None, found), None)

    @property
    def best(self) -> RoundView | None:
        """The kept round: the finished event's, else the highest rank so far, earliest first."""
        if self.finished is not None:
            at = self.finished.best_round
            return next((r for r in self.rounds if r.index == at), None)
        # A picture that a person corrected takes the place of all before it.
        since = max((r.index for r in self.rounds if r.edit and r.cards), default=0)
        judged = [r for r in self.rounds if "loop" in r.cards and r.index >= since]
        if judged:
            return max(judged, key=lambda r: (r.cards["loop"].rank, -r.index))
        return next((r for r in self.rounds if r.candidate is not None), None)

    def card(self, role: Role) -> ScoreCard | None:
        """Return the card of the kept candidate by ``role``."""
        if self.finished is not None:
            return self.finished.loop_card if role == "loop" else self.finished.report_card
        return None if self.best is None else self.best.cards.get(role)

    def change(self, role: Role) -> float | None:
        """SGScore of the kept candidate less that of round 0, where both are known.

        After an edit that changed the scene, less that of its first round.
        """
        first = next((r for r in self.rounds if r.index == self.scenes[-1].round), None)
        card = self.card(role)
        if first is None or card is None:
            return None
        before, after = first.score(role), card.sgscore
        return None if before is None or after is None else after - before

    def judges(self, role: Role) -> list[str]:
        """Ids of the judges of ``role`` that answered, sorted."""
        return sorted({c.judge_id for r in self.rounds for c in r.calls if c.role == role})

    @property
    def seconds(self) -> float:
        """Wall time without the gaps between processes: the run's own count once it is over."""
        if self.finished is not None and "seconds" in self.finished.totals:
            return float(self.finished.totals["seconds"])
        return self.active_seconds

    @property
    def usd(self) -> float:
        """Cost in US dollars."""
        if self.finished is not None and "usd" in self.finished.totals:
            return float(self.finished.totals["usd"])
        return sum(r.usd for r in self.rounds)

    @property
    def images(self) -> int:
        """Images drawn, references included."""
        if self.finished is not None and "images" in self.finished.totals:
            return int(self.finished.totals["images"])
        return sum(
            not (picture.cached or picture.pasted) for r in self.rounds for picture in r.pictures
        )

    @property
    def judge_calls(self) -> int:
        """Calls of judges that were not answered from the cache."""
        calls = sum(not call.cached for r in self.rounds for call in r.calls)
        return calls + sum(event.judge_calls for r in self.rounds for event in r.glanced)

    @property
    def work(self) -> float | None:
        """Full-picture steps of the denoiser; None if a backend does not tell."""
        return work_of(picture for r in self.rounds for picture in r.pictures)

    @property
    def tools(self) -> list[ToolCalled]:
        """All that the director did, in order; empty where no director was at work."""
        return [event for r in self.rounds for event in r.tools]

    def image_path(self, digest: str) -> Path | None:
        """Return the file of a content hash in the run's image folder; none if it is not there."""
        if not _HASH.fullmatch(digest):
            return None
        path = self.folder / IMAGES_FOLDER / f"{digest}.png"
        return path if path.is_file() else None


def read_run(folder: Path | str) -> RunView:
    """Read a run folder. Raises ``PageError`` for a folder that holds no readable run."""
    folder = Path(folder)
    if not folder.is_dir():
        raise PageError(f"{folder} is not a folder: name the run folder that `refine --out` wrote")
    log = folder / EVENTS_FILE
    if not log.is_file():
        raise PageError(
            f"{folder} holds no {EVENTS_FILE}: it is not a run folder; "
            "name the folder that `refine --out` wrote"
        )
    try:
        events = read_events(log)
    except LogError as error:
        raise PageError(str(error)) from error
    return view_of(events, folder, _read_manifest(folder / MANIFEST_FILE))


def view_of(
    events: Iterable[Event],
    folder: Path | str,
    manifest: dict[str, Any] | None = None,
) -> RunView:
    """Return the view of ``events``.

    An event whose key was seen before is a repetition and is skipped.

    Raises ``PageError`` if the run's first event is missing.
    """
    builder: RunView | None = None
    seen: set[str] = set()
    events = list(events)
    for event in events:
        if event.key in seen and not isinstance(event, Resumed):
            continue
        seen.add(event.key)
        if isinstance(event, RunStarted) and builder is None:
            builder = RunView(
                folder=Path(folder),
                run_id=event.run_id,
                scenes=scenes_of(events),
                config=dict(event.config),
                manifest=manifest or {},
                rounds=[],
                finished=None,
                started_at=event.at,
                resumed=0,
                active_seconds=active_seconds(events),
                paused=is_paused(events),
                sentence=event.sentence or event.scene.title,
                warnings=warnings_of(events),
                reporting=reporting_of(events),
            )
        elif builder is not None:
            _take(builder, event)
    if builder is None:
        raise PageError(
            f"{Path(folder) / EVENTS_FILE} has no run_started event: the run was cut off before "
            "its first step; start it again with the same command"
        )
    return builder


def _take(view: RunView, event: Event) -> None:
    if isinstance(event, Resumed):
        # One that goes on from a pause or an end was not cut off.
        view.resumed += not event.after.startswith(("paused", "finished"))
    elif isinstance(event, Finished):
        view.finished = event
    elif isinstance(event, Edited):
        view.finished = None
        view.edits.append(event)
        if event.corrects:
            _round(view, event.round).edit = event
    elif isinstance(event, _OfRound):
        _take_round(_round(view, max(0, event.round)), event)


def _round(view: RunView, index: int) -> RoundView:
    for existing in view.rounds:
        if existing.index == index:
            return existing
    added = RoundView(index=index)
    view.rounds.append(added)
    view.rounds.sort(key=lambda r: r.index)
    return added


def _take_round(into: RoundView, event: _OfRound) -> None:
    match event:
        case Composed():
            into.words.append(event)
            if event.purpose == "candidate":
                into.prompt = event.prompt
            elif event.purpose == "reference":
                into.reference_prompt = event.prompt
        case ToolCalled():
            into.words.append(event)
        case Planned():
            into.plan = event
        case Generated(purpose="candidate"):
            into.candidate = event
            into.prompt = event.request.prompt
        case Generated(purpose="draft"):
            into.drafts.append(event)
        case Drafted():
            into.drafted = event
        case Generated(purpose="proposal"):
            into.proposals.append(event)
        case Proposed():
            into.proposed.append(event)
        case Selected():
            into.selected = event
        case Generated() if into.reference is not None:
            into.references.append(event)
        case Generated():
            into.reference = event
            into.reference_prompt = into.reference_prompt or event.request.prompt
        case Answered():
            into.calls.append(event)
            for answer in event.answers:
                into.answers[event.role].setdefault(answer.fact_id, []).append(answer)
        case Judged():
            into.cards[event.role] = event.card
        case Missing():
            into.missing = event.graph


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise PageError(
            f"{path} is not readable JSON ({error}): restore it or delete it"
        ) from error
    if not isinstance(loaded, dict):
        raise PageError(f"{path} must hold a JSON object, it holds {type(loaded).__name__}")
    return loaded

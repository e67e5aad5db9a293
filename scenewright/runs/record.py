"""A run, read once from its stored events, also while it is unfinished.

Everything that shows a run is made of its :class:`RunRecord`: the Python result
(:mod:`scenewright.runs.result`), the page, the contact sheet, the tables of the terminal, the
replies of the service. So they agree with each other and need nothing but the folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from scenewright.core.facts import Answer, Fact, ScoreCard, State, Verdict, is_realism
from scenewright.core.scene import SceneGraph
from scenewright.graphs.errors import LogError, RunError
from scenewright.graphs.eventlog import read_events
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
    Proposal,
    Proposed,
    Purpose,
    Resumed,
    Role,
    Selected,
    Stage,
    ToolCalled,
)
from scenewright.graphs.record import (
    LoopRecord,
    RequestedScene,
    facts_ever,
    scene_in_round,
    totals_of,
    work_of,
)
from scenewright.graphs.reporting import Reporting, reporting_of
from scenewright.runs.folder import EVENTS, IMAGES, MANIFEST

ROLES: tuple[Role, ...] = ("loop", "report")

Shown = State | Literal["pending", "unasked"]
"""A verdict's state; ``pending`` where no panel has spoken yet, ``unasked`` where the scene did not
have the fact."""

RoundEvent = (
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
"""An event of one round."""
E = TypeVar("E", bound=RoundEvent)
_HASH = re.compile(r"[0-9a-f]{64}")


class PageError(RunError, ValueError):
    """A run folder that cannot be shown: the message names the place and the remedy."""


@dataclass(frozen=True)
class Round:
    """One round: the reference it was drawn with, its candidate, and the answers about it."""

    index: int
    """From 0."""
    events: tuple[RoundEvent, ...] = ()
    """Its events, oldest first."""
    edit: Edited | None = None
    """The edit that began the round; none if its candidate was drawn."""

    def all(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def last(self, kind: type[E]) -> E | None:
        """Return the newest event of one kind; None if there is none."""
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)

    @cached_property
    def pictures(self) -> list[Generated]:
        """All that was drawn for this round."""
        return self.all(Generated)

    @cached_property
    def candidate(self) -> Generated | None:
        """The candidate image, once drawn."""
        drawn = (e for e in reversed(self.pictures) if e.purpose == "candidate")
        return next(drawn, None)

    @cached_property
    def reference(self) -> Generated | None:
        """The image, drawn before the candidate, of what the kept one so far was missing."""
        return next((e for e in self.pictures if e.purpose == "reference"), None)

    def written(self, purpose: Purpose) -> Composed | None:
        """Return how the prompt of ``purpose`` came about, if it was written for this round."""
        return next((e for e in self.all(Composed) if e.purpose == purpose), None)

    @property
    def prompt(self) -> str:
        """The candidate's prompt."""
        if self.candidate is not None:
            return self.candidate.request.prompt
        written = self.written("candidate")
        return "" if written is None else written.prompt

    @property
    def reference_prompt(self) -> str:
        """The prompt of the reference image; empty in round 0."""
        written = self.written("reference")
        if written is not None:
            return written.prompt
        return "" if self.reference is None else self.reference.request.prompt

    @property
    def plan(self) -> Planned | None:
        """The decision of the strategy; none in round 0."""
        return self.last(Planned)

    @property
    def selected(self) -> Selected | None:
        """The proposals that were pasted; none before that is decided."""
        return self.last(Selected)

    @property
    def proposals(self) -> list[Proposal]:
        """All judged proposals, in the order in which they were drawn."""
        return [one for heat in self.all(Proposed) for one in heat.proposals]

    @property
    def missing(self) -> SceneGraph | None:
        """The missing graph of the candidate; none if nothing is known to be missing."""
        event = self.last(Missing)
        return None if event is None else event.graph

    @cached_property
    def cards(self) -> dict[Role, ScoreCard]:
        """The panel's score card for each role."""
        return {event.role: event.card for event in self.all(Judged)}

    @cached_property
    def calls(self) -> list[Answered]:
        """The judge calls of this round's candidate."""
        return self.all(Answered)

    @cached_property
    def _answers(self) -> dict[tuple[Role, str], list[Answer]]:
        found: dict[tuple[Role, str], list[Answer]] = {}
        for call in self.calls:
            for answer in call.answers:
                found.setdefault((call.role, answer.fact_id), []).append(answer)
        return found

    def answers_to(self, fact_id: str, role: Role = "loop") -> list[Answer]:
        """Return the answers of the judges of ``role`` to a fact, sorted by judge."""
        return sorted(self._answers.get((role, fact_id), ()), key=lambda answer: answer.judge_id)

    @property
    def drawing_seconds(self) -> float:
        """Wall time of this round's images."""
        return sum(picture.seconds for picture in self.pictures)

    @property
    def judging_seconds(self) -> float:
        """Wall time of the judges: those of one wave work side by side, so the slowest counts."""
        waves: dict[str, float] = {}
        for call in self.calls:
            wave = call.key.removesuffix(f":{call.judge_id}:answered")
            waves[wave] = max(waves.get(wave, 0.0), call.seconds)
        return sum(waves.values())

    @property
    def work(self) -> float | None:
        """Full-picture steps of the denoiser in this round; None if a backend does not tell."""
        return work_of(self.pictures)

    @property
    def judged_first(self) -> set[str]:
        """Ids of the stated facts that the first judges of the loop's cascade were asked."""
        return {name for name in self._asked("first") if not is_realism(name)}

    @cached_property
    def settled(self) -> set[str]:
        """Ids of the facts that the first judges of the loop's cascade settled alone."""
        return self.judged_first - self._asked("rest") if "loop" in self.cards else set()

    def _asked(self, stage: Stage) -> set[str]:
        calls = (call for call in self.calls if call.role == "loop" and call.stage == stage)
        return {answer.fact_id for call in calls for answer in call.answers}

    @property
    def usd(self) -> float:
        """Cost of images, answers and language models of this round, in US dollars."""
        return sum((event.usd for event in (*self.pictures, *self._thought)), 0.0)

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of judges and language models."""
        thought = self._thought
        return sum(a.tokens_in for a in thought), sum(a.tokens_out for a in thought)

    @property
    def _thought(self) -> list[Any]:
        """Everything by judges and language models."""
        kinds = Composed | ToolCalled | Drafted | Proposed | Selected
        answers = (answer for call in self.calls for answer in call.answers)
        return [*answers, *(event for event in self.events if isinstance(event, kinds))]

    def verdicts(self, role: Role = "loop") -> dict[str, Verdict]:
        """Return the panel's verdicts by fact; empty while there are none."""
        return self._verdicts.get(role, {})

    @cached_property
    def _verdicts(self) -> dict[Role, dict[str, Verdict]]:
        return {
            role: {verdict.fact_id: verdict for verdict in card.verdicts}
            for role, card in self.cards.items()
        }

    def verdict(self, fact_id: str, role: Role = "loop") -> Verdict | None:
        """Return the panel's verdict on a fact; none while there is none."""
        return self.verdicts(role).get(fact_id)

    def state(self, fact_id: str) -> Shown:
        """Return the state of the loop's verdict; without one :attr:`unjudged`."""
        verdict = self.verdict(fact_id)
        return self.unjudged if verdict is None else verdict.state

    @property
    def unjudged(self) -> Shown:
        """State of a fact without a verdict: ``pending`` before the first card."""
        return "unasked" if "loop" in self.cards else "pending"

    @property
    def shown_card(self) -> ScoreCard | None:
        """The card whose verdicts and score people read: :func:`shown_role`."""
        return self.cards.get(shown_role(self.cards.get("loop"), self.cards.get("report")))

    @cached_property
    def shown_verdicts(self) -> dict[str, Verdict]:
        """Verdicts that people read, by fact; a person's own word stands before the card's."""
        card = self.shown_card
        found = {} if card is None else {verdict.fact_id: verdict for verdict in card.verdicts}
        said = () if self.edit is None else self.edit.verdicts
        return found | {name: v for name in said if (v := self.verdict(name)) is not None}

    def score(self, role: Role = "loop") -> float | None:
        """Return SGScore (Scene-Bench Eq. 4) by the judges of ``role``; none if not judged."""
        card = self.cards.get(role)
        return None if card is None else card.sgscore


@dataclass(frozen=True)
class RunRecord:
    """All of a run that can be shown."""

    folder: Path
    """The run folder."""
    run_id: str
    """Name of the run."""
    scenes: tuple[RequestedScene, ...]
    """The requested scenes, oldest first; one more for each edit that changed the scene."""
    config: dict[str, Any]
    """Profile and options."""
    manifest: dict[str, Any]
    """``manifest.json``; empty if there is none."""
    rounds: tuple[Round, ...]
    """In order, from 0; a run that has just begun has none."""
    best_round: int | None
    """The round that is kept; none before the first image was judged."""
    finished: Finished | None
    """The end of the run; none while it goes on or was cut off."""
    started_at: float
    """Unix time in seconds."""
    resumed: int
    """Number of times that the run was continued after a cut."""
    totals: dict[str, float]
    """images, seconds, tokens_in, tokens_out, usd, work, judge_calls, cached: the run's own count
    once it is over."""
    paused: bool
    """Whether the run waits for a person."""
    sentence: str
    """Words that the first scene was read from; empty where it was given as a graph."""
    edits: tuple[Edited, ...]
    """The edits of the run, oldest first."""
    warnings: tuple[str, ...]
    """Parts of the scene that the models of the run cannot draw or judge."""
    reporting: Reporting
    """Whether other models than those of the loop report the result."""

    @property
    def scene(self) -> SceneGraph:
        """The requested scene; after an edit the scene as it is now."""
        return self.scenes[-1].scene

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that are checked, in order."""
        return self.scenes[-1].facts

    @property
    def former(self) -> tuple[Fact, ...]:
        """Facts that earlier rounds were asked for and the scene has no more."""
        return facts_ever(self.scenes)[len(self.facts) :]

    @cached_property
    def statements(self) -> dict[str, str]:
        """Statements of all facts that were ever asked, by id."""
        return {fact.id: fact.statement for fact in facts_ever(self.scenes)}

    def asked(self, round: int) -> RequestedScene:
        """Return the scene requested of the candidate of ``round``."""
        return scene_in_round(self.scenes, round)

    def composed(self, round: int) -> Composed | None:
        """Return the newest prompt of a candidate up to ``round``; none before there is one.

        Of a scene that was planned anew only where the candidate of ``round`` is.
        """
        known = {r.index: r for r in self.rounds}
        at: Round | None = known.get(round)
        while at is not None and at.edit is not None:
            at = known.get(at.edit.base)
        layout = 0 if at is None or at.plan is None else at.plan.layout
        written = (r.written("candidate") for r in reversed(self.rounds) if r.index <= round)
        return next((one for one in written if one is not None and one.layout == layout), None)

    @property
    def drawn(self) -> list[Round]:
        """Rounds with a candidate."""
        return [r for r in self.rounds if r.candidate is not None]

    @cached_property
    def best(self) -> Round | None:
        """The kept round; the first one with a candidate while none is judged."""
        found = next((r for r in self.rounds if r.index == self.best_round), None)
        if found is None and self.finished is None:
            found = next(iter(self.drawn), None)
        return found

    @property
    def first(self) -> Round | None:
        """The first round of the scene as it is now."""
        return next((r for r in self.rounds if r.index == self.scenes[-1].round), None)

    def card(self, role: Role) -> ScoreCard | None:
        """Return the card of the kept candidate by ``role``."""
        if self.finished is not None:
            return self.finished.loop_card if role == "loop" else self.finished.report_card
        return None if self.best is None else self.best.cards.get(role)

    @property
    def shown_role(self) -> Role:
        """Role of the judges whose verdicts on the kept candidate people read."""
        return shown_role(self.card("loop"), self.card("report"))

    def change(self, role: Role) -> float | None:
        """Return SGScore of the kept candidate less that of round 0, where both are known.

        After an edit that changed the scene, less that of its first round.
        """
        before, card = None if self.first is None else self.first.score(role), self.card(role)
        after = None if card is None else card.sgscore
        return None if before is None or after is None else after - before

    def realism(self, role: Role) -> tuple[float | None, float | None]:
        """Return OcR of the first round of the scene as it is now and of the kept one.

        Each is in [0, 1]; None where it is not known.
        """
        first = None if self.first is None else self.first.cards.get(role)
        kept = self.card(role)
        return None if first is None else first.ocr, None if kept is None else kept.ocr

    def judges(self, role: Role) -> list[str]:
        """Return the ids of the judges of ``role`` that answered, sorted."""
        return sorted({c.judge_id for r in self.rounds for c in r.calls if c.role == role})

    @property
    def seconds(self) -> float:
        """Wall time without the gaps between processes."""
        return self.totals["seconds"]

    @property
    def usd(self) -> float:
        """Cost in US dollars."""
        return self.totals["usd"]

    @property
    def images(self) -> int:
        """Images drawn, references included."""
        return int(self.totals["images"])

    @property
    def judge_calls(self) -> int:
        """Calls of judges that were not answered from the cache."""
        return int(self.totals["judge_calls"])

    @property
    def work(self) -> float | None:
        """Full-picture steps of the denoiser; None if a backend does not tell."""
        return work_of(picture for r in self.rounds for picture in r.pictures)

    @property
    def tools(self) -> list[ToolCalled]:
        """All tool calls of the director, in order; empty where no director was at work."""
        return [event for r in self.rounds for event in r.all(ToolCalled)]

    def image_path(self, digest: str) -> Path | None:
        """Return the file of a content hash in the run's image folder; none if it is not there."""
        path = self.folder / IMAGES / f"{digest}.png"
        return path if _HASH.fullmatch(digest) and path.is_file() else None


def shown_role(loop: ScoreCard | None, report: ScoreCard | None) -> Role:
    """Return whose card of a picture people read: that of the report's judges where they looked.

    That of the loop's where those of the report could not score what these could, or were asked
    of another scene, before an edit.
    """
    if report is None:
        return "loop"
    if loop is not None:
        asked, known = ({v.fact_id for v in card.verdicts} for card in (loop, report))
        if not asked <= known or (report.sgscore is None and loop.sgscore is not None):
            return "loop"
    return "report"


def read_run(folder: Path | str) -> RunRecord:
    """Read a run folder. Raises ``PageError`` for a folder that holds no readable run."""
    folder = Path(folder)
    if not folder.is_dir():
        raise PageError(f"{folder} is not a folder: name the run folder that `refine --out` wrote")
    log = folder / EVENTS
    if not log.is_file():
        raise PageError(
            f"{folder} holds no {EVENTS}: it is not a run folder; "
            "name the folder that `refine --out` wrote"
        )
    try:
        events = read_events(log)
    except LogError as error:
        raise PageError(str(error)) from error
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        manifest = {}
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise PageError(
            f"{path} is not readable JSON ({error}): restore it or delete it"
        ) from error
    if not isinstance(manifest, dict):
        raise PageError(f"{path} must hold a JSON object, it holds {type(manifest).__name__}")
    return record_of(events, folder, manifest)


def record_of(
    events: Iterable[Event], folder: Path | str, manifest: dict[str, Any] | None = None
) -> RunRecord:
    """Return the record of a run with these ``events``.

    An event whose key was seen before is a repetition and is skipped. Raises ``PageError`` if the
    run's first event is missing.
    """
    record = LoopRecord(events)
    started = record.started
    if started is None:
        raise PageError(
            f"{Path(folder) / EVENTS} has no run_started event: the run was cut off before "
            "its first step; start it again with the same command"
        )
    by_round: dict[int, list[RoundEvent]] = {}
    corrections = {event.round: event for event in record.edits if event.corrects}
    for event in record.events:
        if isinstance(event, RoundEvent):
            by_round.setdefault(max(0, event.round), []).append(event)
    finished = record.finished
    return RunRecord(
        folder=Path(folder),
        run_id=started.run_id,
        scenes=tuple(record.scenes),
        config=dict(started.config),
        manifest=manifest or {},
        rounds=tuple(
            Round(index, tuple(by_round.get(index, ())), corrections.get(index))
            for index in sorted({*by_round, *corrections})
        ),
        best_round=record.kept_round() if finished is None else finished.best_round,
        finished=finished,
        started_at=started.at,
        # A run that goes on from a pause or an end was not cut off.
        resumed=sum(
            not event.after.startswith(("paused", "finished")) for event in record.all(Resumed)
        ),
        totals={**totals_of(record.events), **(finished.totals if finished is not None else {})},
        paused=record.paused,
        sentence=started.sentence or started.scene.title,
        edits=tuple(record.edits),
        warnings=record.warnings,
        reporting=reporting_of(record.events),
    )

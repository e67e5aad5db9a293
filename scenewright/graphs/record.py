"""The record of a run: a fold of its events, which every node and every report of the loop reads.

An event has the same key whenever its step is repeated; the keys are made here and nowhere taken
apart again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.core.scene import SceneGraph
from scenewright.graphs.errors import LogError
from scenewright.graphs.events import (
    Answered,
    Composed,
    Drafted,
    Edited,
    Event,
    Finished,
    Generated,
    Judged,
    Paused,
    Planned,
    Proposed,
    Purpose,
    Resumed,
    Role,
    RunStarted,
    Selected,
    ToolCalled,
    Warned,
)

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class RequestedScene:
    """Scene that a run asks for, from one of its rounds on."""

    round: int
    """The first round of it."""
    scene: SceneGraph
    """The scene."""
    facts: tuple[Fact, ...]
    """Its facts."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One image of the whole scene."""

    round: int
    """From 0."""
    image: str
    """Content hash."""


def image_key(round: int, purpose: Purpose, *parts: int) -> str:
    """Return the key of an image; ``parts`` distinguish several of one purpose in a round."""
    return ":".join([f"r{round}", purpose, *map(str, parts), "generated"])


def prompt_key(round: int, purpose: Purpose, *parts: int) -> str:
    """Return the key of a prompt; ``parts`` as in :func:`image_key`."""
    return ":".join([f"r{round}", purpose, *map(str, parts), "composed"])


def plan_key(round: int) -> str:
    """Return the key of the plan of ``round``."""
    return f"r{round}:planned"


def card_key(round: int, role: Role) -> str:
    """Return the key of the score card of a candidate."""
    return f"r{round}:{role}:judged"


def edit_key(number: int) -> str:
    """Return the key of an edit; ``number`` counts from 0."""
    return f"edit:{number}"


def end_key(edits: int) -> str:
    """Return the key of the end after so many edits."""
    return f"finished:{edits}" if edits else "finished"


def improves(card: ScoreCard, best: ScoreCard, facts: Sequence[Fact]) -> bool:
    """Return whether ``card`` replaces ``best``; a tie keeps the earlier.

    Its rank must be higher, and stay higher over the facts that were scored for ``best`` with
    its own unscored ones taken as not confirmed: a judge that returns no score on the hard facts
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


class LoopRecord:
    """Fold of the events of a run, oldest first, each key once."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        """Fold ``events``."""
        self.events: list[Event] = []
        self.started: RunStarted | None = None
        """The first event, if the run has begun."""
        self.scenes: list[RequestedScene] = []
        """The requested scenes, oldest first: one more for every edit that changed the scene."""
        self.edits: list[Edited] = []
        """The edits so far, oldest first."""
        self.finished: Finished | None = None
        """The end of a run that is over; none while it goes on, also after an edit."""
        self._by_key: dict[str, Event] = {}
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> bool:
        """Take ``event`` in; False if its key is known."""
        if event.key in self._by_key:
            return False
        self.events.append(event)
        self._by_key[event.key] = event
        if isinstance(event, RunStarted):
            self.started = self.started or event
            self.scenes.append(RequestedScene(0, event.scene, event.facts))
        elif isinstance(event, Edited):
            self.edits.append(event)
            self.finished = None
            if not self.scenes or event.scene != self.scenes[-1].scene:
                self.scenes.append(RequestedScene(event.round, event.scene, event.facts))
        elif isinstance(event, Finished):
            self.finished = event
        return True

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __len__(self) -> int:
        return len(self.events)

    def find(self, key: str) -> Event | None:
        """Return the event of that key; None if there is none."""
        return self._by_key.get(key)

    def get(self, key: str, kind: type[E]) -> E | None:
        """Return the event of that key; None if there is none, ``LogError`` for another type."""
        event = self._by_key.get(key)
        if event is not None and not isinstance(event, kind):
            raise LogError(f"event {key} is a {type(event).__name__}")
        return event

    def all(self, kind: type[E], round: int | None = None) -> list[E]:
        """Return the events of a kind, of one round if that is given."""
        return [
            event
            for event in self.events
            if isinstance(event, kind) and (round is None or getattr(event, "round", None) == round)
        ]

    def before(self, round: int) -> list[Event]:
        """Return the events of earlier rounds, and those of no round."""
        return [event for event in self.events if getattr(event, "round", -1) < round]

    @property
    def untouched(self) -> bool:
        """Whether the run was begun, and nothing was drawn, judged or paid for it yet."""
        return all(
            isinstance(event, RunStarted | Resumed | Warned)
            or (
                isinstance(event, Composed)
                and not (event.usd or event.tokens_in or event.tokens_out)
            )
            for event in self.events
        )

    @property
    def paused(self) -> bool:
        """Whether nothing has happened since the run began to wait for a person."""
        last = (event for event in reversed(self.events) if not isinstance(event, Resumed))
        return isinstance(next(last, None), Paused)

    @property
    def candidates(self) -> list[Candidate]:
        """All images of the whole scene, oldest first."""
        return [
            Candidate(event.round, event.image)
            for event in self.all(Generated)
            if event.purpose == "candidate"
        ]

    def candidate(self, round: int) -> Candidate:
        """Return the candidate of ``round``; ``LookupError`` if it was not drawn."""
        event = self.image(round, "candidate")
        if event is None:
            raise LookupError(f"no candidate of round {round} in the event log")
        return Candidate(round, event.image)

    def image(self, round: int, purpose: Purpose) -> Generated | None:
        """Return the image of ``round`` for a purpose; None if there is none."""
        return self.get(image_key(round, purpose), Generated)

    def layout(self, round: int) -> int:
        """Return the round whose seed plans where things stand in the candidate of ``round``."""
        if (edit := self.correction(round)) is not None:
            return self.layout(edit.base)
        plan = self.plan(round)
        return 0 if plan is None else plan.layout

    def prompt(self, round: int, layout: int | None = None) -> str:
        """Return the newest prompt of the whole scene, up to ``round``; empty without one.

        It says the places of ``layout``, by default of that of ``round``.
        """
        placed = self.layout(round) if layout is None else layout
        found = (
            event
            for event in reversed(self.all(Composed))
            if event.purpose == "candidate" and event.round <= round and event.layout == placed
        )
        return next((event.prompt for event in found), "")

    def plan(self, round: int) -> Planned | None:
        """Return the plan of ``round``; None if there is none."""
        return self.get(plan_key(round), Planned)

    def require_plan(self, round: int) -> Planned:
        """Return the plan of ``round``; ``LookupError`` if there is none."""
        plan = self.plan(round)
        if plan is None:
            raise LookupError(f"no plan of round {round} in the event log")
        return plan

    def is_judged(self, round: int, role: Role = "loop") -> bool:
        """Return whether the judges of ``role`` have judged the candidate of ``round``."""
        return card_key(round, role) in self._by_key

    def card(self, round: int, role: Role = "loop") -> ScoreCard:
        """Return the score card of a candidate; ``LookupError`` if it was not judged."""
        event = self.get(card_key(round, role), Judged)
        if event is None:
            raise LookupError(f"no {role} score card of round {round} in the event log")
        return event.card

    def answers(self, round: int, role: Role = "loop") -> list[Answer]:
        """Return the judges' answers about the candidate of ``round``."""
        asked = (event for event in self.all(Answered, round) if event.role == role)
        return [answer for event in asked for answer in event.answers]

    def correction(self, round: int) -> Edited | None:
        """Return the edit that began ``round``; none if its candidate was drawn."""
        found = (event for event in self.edits if event.corrects and event.round == round)
        return next(found, None)

    def scene_in_round(self, round: int) -> RequestedScene | None:
        """Return the scene requested in ``round``; None before the run has begun."""
        return scene_in_round(self.scenes, round) if self.scenes else None

    def kept_round(
        self,
        facts: Sequence[Fact] = (),
        last: int | None = None,
        rounds: Collection[int] | None = None,
    ) -> int | None:
        """Return the round of the best judged candidate, up to round ``last`` or of ``rounds``.

        A person's correction takes the place of all that was before it, then each candidate that
        improves on it. ``facts`` stand in for those of a run whose record has no scene. None before
        the first card.
        """
        best: tuple[int, ScoreCard] | None = None
        for event in sorted(self.all(Judged), key=lambda judged: judged.round):
            if event.role != "loop" or (last is not None and event.round > last):
                continue
            if rounds is not None and event.round not in rounds:
                continue
            asked = self.scene_in_round(event.round)
            known = facts if asked is None else asked.facts
            if best is None or self.correction(event.round) or improves(event.card, best[1], known):
                best = (event.round, event.card)
        return None if best is None else best[0]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings that still apply.

        Warnings about its words apply to the current scene, warnings about models to the whole
        run. Those of kind ``independence`` are reported by :mod:`scenewright.graphs.reporting`.
        """
        found: list[Warned] = []
        for event in self.events:
            if isinstance(event, RunStarted | Edited):
                found = [warned for warned in found if warned.about == "version"]
            elif isinstance(event, Warned) and event.about != "independence":
                found.append(event)
        return tuple(warned.text for warned in found)


def scene_in_round(scenes: Sequence[RequestedScene], round: int) -> RequestedScene:
    """Return the scene requested in ``round`` of ``scenes``, oldest first."""
    return next((asked for asked in reversed(scenes) if asked.round <= round), scenes[0])


def facts_ever(scenes: Sequence[RequestedScene]) -> tuple[Fact, ...]:
    """Return all facts that were ever asked, each id once: those of the newest scene first."""
    found: dict[str, Fact] = {}
    for asked in reversed(scenes):
        for fact in asked.facts:
            found.setdefault(fact.id, fact)
    return tuple(found.values())


def active_seconds(events: Iterable[Event]) -> float:
    """Return the seconds in which a process drove the run, without gaps before ``Resumed``."""
    total = 0.0
    last: float | None = None
    for event in events:
        if last is not None and not isinstance(event, Resumed):
            total += max(0.0, event.at - last)
        last = event.at
    return total


def work_of(images: Iterable[Generated | None]) -> float | None:
    """Return the work of the denoiser for ``images``, in full-picture steps.

    None if there is a drawn one of which it is unknown. Images that were found, given or put
    together took none.
    """
    drawn = [image.work for image in images if image is not None and image.drawn]
    return None if None in drawn else sum(work or 0.0 for work in drawn)


def totals_of(events: Iterable[Event]) -> dict[str, float]:
    """Return the cost of a run.

    These are ``images``, ``seconds``, ``tokens_in``, ``tokens_out``, ``usd``, ``work``,
    ``judge_calls`` and ``cached``. ``images`` and ``judge_calls`` count what was really drawn and
    called, ``cached`` what was found instead. ``seconds`` is wall time in which the run was driven,
    ``work`` that of the denoiser in full-picture steps, as far as backends report it.
    """
    events = list(events)
    drawn = [event for event in events if isinstance(event, Generated) and not event.pasted]
    asked = [event for event in events if isinstance(event, Answered)]
    chosen = [event for event in events if isinstance(event, Drafted | Proposed | Selected)]
    read = (event.reading for event in events if isinstance(event, RunStarted))
    thought = [
        *chosen,
        *(event for event in events if isinstance(event, Composed | ToolCalled)),
        *(reading for reading in read if reading is not None),
    ]
    answers = [answer for event in asked for answer in event.answers]
    return {
        "images": float(sum(not event.cached for event in drawn)),
        "seconds": active_seconds(events),
        "tokens_in": float(sum(paid.tokens_in for paid in (*answers, *thought))),
        "tokens_out": float(sum(paid.tokens_out for paid in (*answers, *thought))),
        "usd": sum(paid.usd for paid in (*drawn, *answers, *thought)),
        "work": sum(event.work or 0.0 for event in drawn if not event.cached),
        "judge_calls": float(
            sum(not event.cached for event in asked) + sum(e.judge_calls for e in chosen)
        ),
        "cached": float(sum(e.cached for e in drawn) + sum(e.cached for e in asked)),
    }

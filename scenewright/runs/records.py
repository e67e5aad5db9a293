"""What a run has given, read from its event log: also of a run that is not over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

from pydantic import Field

from scenewright.core.facts import Answer, Fact, ScoreCard
from scenewright.core.intent import Passage
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FrozenModel
from scenewright.graphs.correcting import kept_round
from scenewright.graphs.eventlog import LogError, read_events
from scenewright.graphs.events import (
    Answered,
    Composed,
    Corrected,
    Event,
    Generated,
    Judged,
    Missing,
    Place,
    Planned,
    Proposal,
    Proposed,
    Role,
    RunStarted,
    Selected,
    StopReason,
)
from scenewright.graphs.reporting import Reporting, reporting_of
from scenewright.graphs.run_status import (
    correction_of,
    end_of,
    is_paused,
    scene_in_round,
    scenes_of,
    totals_of,
    warnings_of,
    work_of,
)
from scenewright.runs.folder import EVENTS, IMAGES, PAGE_FILE, RunError

_BEGUN = "takes the picture that was given"


class JudgeAnswers(FrozenModel):
    """What one judge said of one candidate, all its waves together."""

    judge_id: str
    """``provider:model``."""
    role: Role
    """Whether it steers the loop or reports the result."""
    answers: tuple[Answer, ...]
    """In the order of the facts; facts that were not asked are left out."""
    seconds: float
    """Wall time of its calls."""


class PromptAuthor(FrozenModel):
    """Who wrote a prompt."""

    author: str
    """The composer's id, or ``model``, ``model again`` (its second text)."""
    composer: str = ""
    """Id of the run's composer."""
    model: str = ""
    """The language model that wrote it; empty if none did."""
    problem: str = ""
    """Why another composer wrote in place of the language model; empty if none did."""


class RoundRecord(FrozenModel):
    """One round: a candidate, how it came about and what was found in it."""

    round: int
    """From 0."""
    prompt: str
    """What the candidate was drawn from."""
    prompt_author: PromptAuthor | None = None
    """Who wrote it; none where a strategy's instruction took its place, and in runs of before."""
    lost: tuple[Passage, ...] = Field(default=(), exclude_if=lambda lost: not lost)
    """Passages of the person's sentence that it does not say."""
    added: tuple[str, ...] = Field(default=(), exclude_if=lambda added: not added)
    """Words that it says and the sentence does not."""
    seed: int
    """Its seed."""
    image: str
    """Content hash of the candidate."""
    strategy: str = ""
    """The strategy that decided how it was drawn; empty in round 0."""
    does: str = ""
    """What the strategy did, in words."""
    why: str = ""
    """Why."""
    reference_prompt: str | None = None
    """Prompt of the reference image drawn for this candidate; none in round 0."""
    reference_author: PromptAuthor | None = None
    """Who wrote it."""
    reference_image: str | None = None
    """Content hash of that reference image (I1)."""
    guide: str | None = None
    """Content hash of the earlier candidate that was its other reference (I0)."""
    places: tuple[Place, ...] = Field(default=(), exclude_if=lambda places: not places)
    """Places that were repaired by proposals; empty where the candidate was drawn whole."""
    proposals: tuple[Proposal, ...] = Field(default=(), exclude_if=lambda some: not some)
    """All proposals for them, in the order in which they were drawn."""
    pasted: tuple[str, ...] = Field(default=(), exclude_if=lambda some: not some)
    """Content hashes of the proposals that the candidate is put together from."""
    loop_card: ScoreCard | None = None
    """Scores by the judges of the loop; none while they are at work."""
    report_card: ScoreCard | None = None
    """Scores by judges that the loop never saw; none before the loop is over."""
    missing: SceneGraph | None = None
    """What this candidate was not found to hold; none if nothing is."""
    answers: tuple[JudgeAnswers, ...] = ()
    """Each judge's answers."""
    seconds: float = 0.0
    """Time spent drawing and asking; judges that work side by side count once."""
    work: float | None = Field(default=None, exclude_if=lambda work: work is None)
    """Full-picture steps of the denoiser in this round, its reference's included; none if that is
    not known."""
    prompt_tokens: int | None = None
    """Tokens of the candidate's prompt; none if that is not known."""
    tokens_dropped: int = 0
    """Tokens of the prompts of this round, its reference's included, that were not read."""
    facts_dropped: tuple[str, ...] = ()
    """Ids of the facts whose words these were."""
    base: int | None = None
    """The round whose picture this is, as a person saw it; none if it was drawn for this round."""
    corrected: dict[str, Corrected] = Field(default_factory=dict)
    """What the person said of it, by fact id."""
    note: str = ""
    """The person's words."""

    def card(self, role: Role) -> ScoreCard | None:
        """Scores by the judges of ``role``; none if they did not look at it."""
        return self.report_card if role == "report" else self.loop_card


class RealismChange(FrozenModel):
    """Object-centric realism of a run's pictures, each mean probability in [0, 1]."""

    before: float | None
    """Of the first picture of the scene as it is now; none if it was not judged."""
    after: float | None
    """Of the kept picture."""


class PageWarning(UserWarning):
    """A run is done, but its page could not be written."""


class RunResult(FrozenModel):
    """The result of a run, or how far it has come."""

    run_id: str
    """Name of the run folder."""
    folder: Path = Field(exclude=True)
    """The run folder."""
    scene: SceneGraph
    """What is asked; after an edit the scene as it is now."""
    facts: tuple[Fact, ...]
    """What is checked in it."""
    rounds: tuple[RoundRecord, ...]
    """All rounds with an image, oldest first."""
    best_round: int | None
    """The round that is kept; none before the first image was judged."""
    stop_reason: StopReason | None
    """Why the run stopped; none if it is not over."""
    limit: str = ""
    """Which limit ended it, with its figures; empty: none did."""
    totals: dict[str, float]
    """images, seconds, tokens_in, tokens_out, usd, judge_calls, cached."""
    first_round: int = 0
    """The first round of the scene as it is now: later than 0 if an edit changed it."""
    paused: bool = False
    """Whether the run waits for a person."""
    warnings: tuple[str, ...] = ()
    """What of the scene as it is now its models cannot draw or judge; empty: nothing."""
    reporting: Reporting = Reporting(kind="none")
    """Whether other models than those of the loop report the result."""
    ocr: dict[Role, RealismChange] | None = Field(
        default=None, exclude_if=lambda told: told is None
    )
    """Realism before and after, by the judges of each role; none in a run that does not ask."""

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self.stop_reason is not None

    @property
    def page(self) -> Path | None:
        """The run's HTML page; none if it was not written."""
        place = self.folder / PAGE_FILE
        return place if place.is_file() else None

    @property
    def best(self) -> RoundRecord | None:
        """The round that is kept."""
        return next((r for r in self.rounds if r.round == self.best_round), None)

    @property
    def image(self) -> Path | None:
        """The kept image's file."""
        return self.image_path(self.best.image) if self.best is not None else None

    @property
    def loop_card(self) -> ScoreCard | None:
        """Scores of the kept image by the judges of the loop."""
        return self.best.loop_card if self.best is not None else None

    @property
    def report_card(self) -> ScoreCard | None:
        """Scores of the kept image by judges that the loop never saw."""
        return self.best.report_card if self.best is not None else None

    def image_path(self, image: str) -> Path:
        """Return the file of an image of this run."""
        return self.folder / IMAGES / f"{image}.png"

    def gain(self, role: Role = "report") -> float | None:
        """SGScore of the kept image less that of round 0, by the judges of ``role``.

        After an edit that changed the scene, less that of the first round of the new scene: scores
        of different facts cannot be compared.
        """
        first = next((r for r in self.rounds if r.round == self.first_round), None)
        if self.best is None or first is None:
            return None
        cards = [record.card(role) for record in (first, self.best)]
        before, after = (card.sgscore if card is not None else None for card in cards)
        return None if before is None or after is None else after - before


def load_run(folder: str | Path) -> RunResult:
    """Return the run in ``folder``, finished or not; nothing is changed there.

    Raises ``RunError`` if there is no run or its log cannot be read.
    """
    path = Path(folder)
    try:
        return result_of(read_events(path / EVENTS), path)
    except LogError as error:
        raise RunError(str(error)) from error


def result_of(events: Iterable[Event], folder: Path) -> RunResult:
    """Return the result that ``events`` (oldest first) tell of.

    Raises ``RunError`` if they tell none.
    """
    events = list(events)
    started = next((e for e in events if isinstance(e, RunStarted)), None)
    if started is None:
        raise RunError(f"the run in {folder} has not begun: there is nothing to show yet")
    finished, scenes = end_of(events), scenes_of(events)
    rounds = tuple(
        _round(event, events, scene_in_round(scenes, event.round).facts)
        for event in events
        if isinstance(event, Generated) and event.purpose == "candidate"
    )
    totals = totals_of(events)
    if finished is not None:
        totals = finished.totals
    result = RunResult(
        run_id=started.run_id,
        folder=folder,
        scene=scenes[-1].scene,
        facts=scenes[-1].facts,
        rounds=rounds,
        best_round=finished.best_round if finished is not None else kept_round(events),
        first_round=scenes[-1].round,
        stop_reason=finished.reason if finished is not None else None,
        limit=finished.limit if finished is not None else "",
        paused=is_paused(events),
        warnings=warnings_of(events),
        totals=totals,
        reporting=reporting_of(events),
    )
    if not any(fact.kind == "realism" for fact in result.facts):
        return result
    return result.model_copy(update={"ocr": _ocr(result)})


def _ocr(result: RunResult) -> dict[Role, RealismChange]:
    first = next((r for r in result.rounds if r.round == result.first_round), None)
    found: dict[Role, RealismChange] = {}
    for role in get_args(Role):
        before, after = (
            record.card(role) if record is not None else None for record in (first, result.best)
        )
        if before is not None or after is not None:
            found[role] = RealismChange(
                before=None if before is None else before.ocr,
                after=None if after is None else after.ocr,
            )
    return found


def _round(drawn: Generated, events: list[Event], facts: tuple[Fact, ...]) -> RoundRecord:
    order = {fact.id: at for at, fact in enumerate(facts)}
    here = [event for event in events if getattr(event, "round", None) == drawn.round]
    reference = next(
        (e for e in here if isinstance(e, Generated) and e.purpose == "reference"), None
    )
    composed = next((e for e in here if isinstance(e, Composed) and e.purpose == "reference"), None)
    said = next(
        (e for e in events if isinstance(e, Composed) and e.prompt == drawn.request.prompt), None
    )
    plan = next((e for e in here if isinstance(e, Planned)), None)
    cards = {event.role: event.card for event in here if isinstance(event, Judged)}
    asked = [event for event in here if isinstance(event, Answered)]
    edit = correction_of(events, drawn.round)
    guides = [
        r.image
        for r in drawn.request.references
        if not drawn.pasted and (reference is None or r.image != reference.image)
    ]
    pictures = [e for e in here if isinstance(e, Generated)]
    heats = [e for e in here if isinstance(e, Proposed)]
    selected = next((e for e in here if isinstance(e, Selected)), None)
    lost = {name for picture in pictures for name in picture.facts_dropped}
    seconds = sum(picture.seconds for picture in pictures)
    return RoundRecord(
        round=drawn.round,
        prompt=drawn.request.prompt,
        prompt_author=_author(said),
        lost=said.lost if said is not None else (),
        added=said.added if said is not None else (),
        seed=drawn.request.seed,
        image=drawn.image,
        strategy=plan.strategy if plan is not None else "",
        does=plan.does if plan is not None else _BEGUN if drawn.given else "",
        why=plan.why if plan is not None else "",
        reference_prompt=composed.prompt if composed is not None else None,
        reference_author=_author(composed),
        reference_image=reference.image if reference is not None else None,
        guide=guides[0] if guides else None,
        places=plan.places if plan is not None else (),
        proposals=tuple(one for heat in heats for one in heat.proposals),
        pasted=() if selected is None else tuple(one.image for one in selected.winners),
        loop_card=cards.get("loop"),
        report_card=cards.get("report"),
        missing=next((e.graph for e in here if isinstance(e, Missing)), None),
        answers=by_judge(asked, order),
        seconds=seconds + _asking(asked),
        work=work_of(pictures),
        prompt_tokens=drawn.prompt_tokens,
        tokens_dropped=sum(picture.tokens_dropped for picture in pictures),
        facts_dropped=tuple(fact.id for fact in facts if fact.id in lost),
        base=None if edit is None else edit.base,
        corrected={} if edit is None else edit.verdicts,
        note="" if edit is None else edit.note,
    )


def _author(event: Composed | None) -> PromptAuthor | None:
    if event is None or not event.author:
        return None
    return PromptAuthor(
        author=event.author, composer=event.composer, model=event.model, problem=event.problem
    )


def by_judge(asked: Iterable[Answered], order: Mapping[str, int]) -> tuple[JudgeAnswers, ...]:
    """Return the answers of all waves, gathered by role and judge; ``order`` places facts by id."""
    asked = list(asked)
    keys = sorted({(event.role, event.judge_id) for event in asked})
    found: list[JudgeAnswers] = []
    for role, judge in keys:
        mine = [event for event in asked if (event.role, event.judge_id) == (role, judge)]
        answers = sorted(
            (answer for event in mine for answer in event.answers),
            key=lambda answer: order.get(answer.fact_id, len(order)),
        )
        found.append(
            JudgeAnswers(
                judge_id=judge,
                role=role,
                answers=tuple(answers),
                seconds=sum(event.seconds for event in mine),
            )
        )
    return tuple(found)


def _asking(asked: list[Answered]) -> float:
    waves: dict[str, float] = {}
    for event in asked:
        wave = event.key.removesuffix(f":{event.judge_id}:answered")
        waves[wave] = max(waves.get(wave, 0.0), event.seconds)
    return sum(waves.values())

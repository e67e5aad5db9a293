"""The result of a run for programs: the record of the run as typed data that is also JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from scenewright.core.facts import Answer, Fact, ScoreCard
from scenewright.core.intent import Passage
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FrozenModel
from scenewright.graphs.events import (
    Answered,
    Composed,
    Corrected,
    Generated,
    Place,
    Proposal,
    Role,
    StopReason,
)
from scenewright.graphs.reporting import Reporting
from scenewright.runs.folder import IMAGES, PAGE_FILE
from scenewright.runs.record import ROLES, Round, RunRecord, read_run

_GIVEN = "takes the picture that was given"


class JudgeAnswers(FrozenModel):
    """Answers of one judge about one candidate, all its waves together."""

    judge_id: str
    """``provider:model``."""
    role: Role
    """Whether it steers the loop or reports the result."""
    answers: tuple[Answer, ...]
    """In the order of the facts; facts that were not asked are left out."""
    seconds: float
    """Wall time of its calls."""


class PromptAuthor(FrozenModel):
    """Author of a prompt."""

    author: str
    """The composer's id, or ``model``, ``model again`` (its second text)."""
    composer: str = ""
    """Id of the run's composer."""
    model: str = ""
    """The language model that wrote it; empty if none did."""
    problem: str = ""
    """Why another composer wrote in place of the language model; empty if none did."""


class RoundRecord(FrozenModel):
    """One round: a candidate, its origin and its verdicts."""

    round: int
    """From 0."""
    prompt: str
    """Prompt of the candidate."""
    prompt_author: PromptAuthor | None = None
    """Its author; none where a strategy's instruction took its place, and in runs of before."""
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
    """Action of the strategy, in words."""
    why: str = ""
    """Why."""
    reference_prompt: str | None = None
    """Prompt of the reference image drawn for this candidate; none in round 0."""
    reference_author: PromptAuthor | None = None
    """Its author."""
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
    """The missing graph of the candidate; none if nothing is missing."""
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
    """Corrections by a person, by fact id."""
    note: str = ""
    """The person's words."""

    def card(self, role: Role) -> ScoreCard | None:
        """Scores by the judges of ``role``; none if they did not look at it."""
        return self.report_card if role == "report" else self.loop_card

    def score(self, role: Role) -> float | None:
        """SGScore by the judges of ``role``; none if they did not look at it."""
        card = self.card(role)
        return None if card is None else card.sgscore


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
    """The requested scene; after an edit the scene as it is now."""
    facts: tuple[Fact, ...]
    """The facts that are checked."""
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
    """Parts of the scene as it is now that its models cannot draw or judge; empty: none."""
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

    def score(self, role: Role) -> float | None:
        """SGScore of the kept image by the judges of ``role``; none if they did not score it."""
        return None if self.best is None else self.best.score(role)

    def image_path(self, image: str) -> Path:
        """Return the file of an image of this run."""
        return self.folder / IMAGES / f"{image}.png"

    def gain(self, role: Role = "report") -> float | None:
        """SGScore of the kept image less that of round 0, by the judges of ``role``.

        After an edit that changed the scene, less that of the first round of the new scene: scores
        of different facts cannot be compared.
        """
        first = next((r for r in self.rounds if r.round == self.first_round), None)
        before = None if first is None else first.score(role)
        after = self.score(role)
        return None if before is None or after is None else after - before


def load_run(folder: str | Path) -> RunResult:
    """Return the run in ``folder``, finished or not; nothing is changed there.

    Raises ``RunError`` if there is no run or its log cannot be read.
    """
    return result_of(read_run(folder))


def result_of(run: RunRecord) -> RunResult:
    """Return the result of a run, or how far it has come."""
    finished, realism = run.finished, {role: run.realism(role) for role in ROLES}
    asks_realism = any(fact.kind == "realism" for fact in run.facts)
    return RunResult(
        run_id=run.run_id,
        folder=run.folder,
        scene=run.scene,
        facts=run.facts,
        rounds=tuple(_round(run, r, r.candidate) for r in run.rounds if r.candidate is not None),
        best_round=run.best_round,
        first_round=run.scenes[-1].round,
        stop_reason=finished.reason if finished is not None else None,
        limit=finished.limit if finished is not None else "",
        paused=run.paused,
        warnings=run.warnings,
        totals=run.totals,
        reporting=run.reporting,
        ocr={
            role: RealismChange(before=before, after=after)
            for role, (before, after) in realism.items()
            if before is not None or after is not None
        }
        if asks_realism
        else None,
    )


def _round(run: RunRecord, r: Round, drawn: Generated) -> RoundRecord:
    reference, plan, selected, edit = r.reference, r.plan, r.selected, r.edit
    facts = run.asked(r.index).facts
    composed = r.written("reference")
    prompts = (e for one in run.rounds for e in one.all(Composed))
    written = next((e for e in prompts if e.prompt == drawn.request.prompt), None)
    guides = [
        one.image
        for one in drawn.request.references
        if not drawn.pasted and (reference is None or one.image != reference.image)
    ]
    dropped = {name for picture in r.pictures for name in picture.facts_dropped}
    return RoundRecord(
        round=r.index,
        prompt=drawn.request.prompt,
        prompt_author=_author(written),
        lost=written.lost if written is not None else (),
        added=written.added if written is not None else (),
        seed=drawn.request.seed,
        image=drawn.image,
        strategy=plan.strategy if plan is not None else "",
        does=plan.does if plan is not None else _GIVEN if drawn.given else "",
        why=plan.why if plan is not None else "",
        reference_prompt=composed.prompt if composed is not None else None,
        reference_author=_author(composed),
        reference_image=reference.image if reference is not None else None,
        guide=guides[0] if guides else None,
        places=plan.places if plan is not None else (),
        proposals=tuple(r.proposals),
        pasted=() if selected is None else tuple(one.image for one in selected.winners),
        loop_card=r.cards.get("loop"),
        report_card=r.cards.get("report"),
        missing=r.missing,
        answers=by_judge(r.calls, facts),
        seconds=r.drawing_seconds + r.judging_seconds,
        work=r.work,
        prompt_tokens=drawn.prompt_tokens,
        tokens_dropped=sum(picture.tokens_dropped for picture in r.pictures),
        facts_dropped=tuple(fact.id for fact in facts if fact.id in dropped),
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


def by_judge(calls: Sequence[Answered], facts: Sequence[Fact]) -> tuple[JudgeAnswers, ...]:
    """Return the answers of all waves, by role and judge, in the order of ``facts``."""
    order = {fact.id: at for at, fact in enumerate(facts)}
    found = []
    for role, judge in sorted({(call.role, call.judge_id) for call in calls}):
        own = [call for call in calls if (call.role, call.judge_id) == (role, judge)]
        answers = [answer for call in own for answer in call.answers]
        answers.sort(key=lambda answer: order.get(answer.fact_id, len(order)))
        seconds = sum(call.seconds for call in own)
        found.append(
            JudgeAnswers(judge_id=judge, role=role, answers=tuple(answers), seconds=seconds)
        )
    return tuple(found)

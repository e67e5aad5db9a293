"""Judging of images: which judge is asked which fact, in waves or all at once.

First wave: the objects. Second wave: attributes and relations whose objects are not surely absent;
the rest is void and costs nothing. Asked ``together`` there is one wave, and facts without their
objects are void all the same. In each wave all judges of the role answer side by side, and what the
log or the store has is not asked again.

:class:`JudgeRouter` says which judge is asked which fact: facts of realism go to the judges of
realism if there are any, else to those of the role that can answer them. With a cascade a wave has
two stages: the first judges answer all of its facts, the other judges those of which the first are
unsure. Verdicts of numbers, texts, wishes, realism and soundness are the mean of the judges'
probabilities: calibrations, learnt error rates, cascades, intervals and corrections are about the
facts that a scene graph states.

A judge never raises here: a failure is an unscored answer with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, get_args

from langgraph.runtime import Runtime

from scenewright.agents.panel.panel import MissingMeans, next_wave, unsure_facts, void_verdicts
from scenewright.agents.panel.scores import card_correction, score_intervals
from scenewright.core.facts import (
    FACT_KINDS,
    Answer,
    Fact,
    FactKind,
    ScoreCard,
    State,
    Verdict,
    is_of_graph,
    missing_graph,
)
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import Answered, Judged, Missing, Role, Stage
from scenewright.graphs.large_scenes import run_in_worker_if_large, size_of
from scenewright.graphs.record import Candidate, card_key
from scenewright.graphs.state import CheckContext, ContextT, emit, emit_retries
from scenewright.providers import JudgeReply, ask
from scenewright.providers.sdk_clients import paying

T = TypeVar("T")
Tasks = Mapping[str, Sequence[Fact]]
"""Facts to ask by the id of the judge."""


class JudgeRouter:
    """The judges of ``role``, each with the kinds of facts that it is asked."""

    def __init__(self, context: CheckContext, role: Role) -> None:
        self._panel, self.cascade = context.panel, context.cascade_of(role)
        self._alpha, self._role = context.options.alpha, role
        kinds = [k for k in get_args(FactKind) if k != "realism" or context.options.realism]
        self._by_kind: dict[FactKind, tuple[str, ...]] = {
            kind: tuple(judge.id for judge in context.judges_of(role, kind)) for kind in kinds
        }

    def tasks(self, facts: Iterable[Fact], stage: Stage | None) -> Tasks:
        """Return the facts that each judge is to answer; judges without any are left out.

        In the stage ``first`` of a cascade only its first judges get stated facts, in ``rest``
        only the others.
        """
        facts = list(facts)
        order = dict.fromkeys(judge for judges in self._by_kind.values() for judge in judges)
        found = {
            judge: [fact for fact in facts if judge in self._judges(fact.kind, stage)]
            for judge in order
        }
        return {judge: asked for judge, asked in found.items() if asked}

    def verdicts(
        self,
        facts: Sequence[Fact],
        by_judge: Mapping[str, Sequence[Answer]],
        known: Mapping[str, Verdict],
        first: bool = False,
    ) -> list[Verdict]:
        """Return one verdict a fact, in their order.

        ``known`` are earlier ones, of parents at least. ``first``: by the first judges of the
        cascade alone. A fact that no judge can answer is unscored.
        """
        missing_means: MissingMeans = "unscored" if self.cascade is None or first else "unasked"
        stage: Stage | None = "first" if first else None
        groups: dict[tuple[bool, tuple[str, ...]], list[Fact]] = {}
        for fact in facts:
            judges = self._judges(fact.kind, stage)
            groups.setdefault((not fact.of_graph, judges), []).append(fact)
        found = dict(known)
        for (beside, judges), group in groups.items():
            panel = self._panel.uncalibrated(len(judges)) if beside else self._panel
            answers = {judge: by_judge.get(judge, ()) for judge in judges}
            # Answers beside the graph do not influence the error rates of its facts.
            before = found if beside else {n: v for n, v in found.items() if is_of_graph(n)}
            for verdict in panel.verdicts(group, answers, before, missing_means=missing_means):
                if not judges and verdict.state == "unscored":
                    reason = f"no judge of the {self._role} can answer it"
                    verdict = verdict.model_copy(update={"reason": reason})
                found[verdict.fact_id] = verdict
        return [found[fact.id] for fact in facts]

    def card(
        self,
        facts: Sequence[Fact],
        by_judge: Mapping[str, Sequence[Answer]],
        known: Mapping[str, Verdict],
    ) -> ScoreCard:
        """Return the card of all facts, with intervals and corrections of what is stated."""
        card = ScoreCard.of(facts, known.values(), self._alpha)
        judges = tuple(dict.fromkeys(j for kind in FACT_KINDS for j in self._by_kind[kind]))
        stated = [fact for fact in facts if fact.of_graph]
        answers = {judge: by_judge.get(judge, ()) for judge in judges}
        intervals = score_intervals(stated, answers, card.of_graph, self._panel, card.alpha)
        # The errors of a panel were measured with all of its judges asked.
        whole = self.cascade is None
        corrected = card_correction(card, self._panel, judges) if whole else None
        return card.model_copy(update={"intervals": intervals, "corrected": corrected})

    def _judges(self, kind: FactKind, stage: Stage | None) -> tuple[str, ...]:
        judges = self._by_kind[kind]
        if stage is None or self.cascade is None:
            return judges
        if kind not in FACT_KINDS:
            return judges if stage == "first" else ()
        first = self.cascade.first
        return tuple(judge for judge in judges if (judge in first) == (stage == "first"))


async def judge_candidate(
    scene: SceneGraph,
    candidate: Candidate,
    role: Role,
    runtime: Runtime[ContextT],
    decided: Mapping[str, State] | None = None,
) -> None:
    """Let the judges of ``role`` answer the facts of ``scene`` about a candidate, wave by wave.

    Each judge's answers are an event, and so is the score card at the end. ``decided`` are facts
    that a person has decided, by id: these are not asked.
    """
    context, round = runtime.context, candidate.round
    if context.record.is_judged(round, role):
        return
    size = size_of(scene)
    facts = await run_in_worker_if_large(size, context.options.form.facts, scene)
    if context.asks_soundness(role):
        facts = (*facts, *context.options.form.soundness(scene))
    judging = _Judging(JudgeRouter(context, role), facts, context)
    for fact_id, state in (decided or {}).items():
        judging.known[fact_id] = Verdict(fact_id=fact_id, state=state)

    async def answer(wave: int, stage: Stage | None, tasks: Tasks) -> None:
        later = judging.later(stage) if wave == 0 and stage != "rest" else {}
        name = f"w{wave}" if stage is None else f"w{wave}:{stage}"

        async def answer_one(judge_id: str) -> Answered:
            key = f"r{round}:{role}:{name}:{judge_id}:answered"
            event = context.record.get(key, Answered)
            if event is None:
                reply = await _ask_judge(
                    judge_id,
                    candidate,
                    role,
                    tasks[judge_id],
                    key,
                    runtime,
                    later.get(judge_id, ()),
                )
                event = Answered(
                    key=key,
                    at=context.log.now(),
                    round=round,
                    role=role,
                    image=candidate.image,
                    judge_id=judge_id,
                    answers=reply.answers,
                    seconds=reply.seconds,
                    cached=reply.cached,
                    stage=stage,
                )
                emit(runtime, event)
            return event

        for event in await side_by_side(answer_one(judge_id) for judge_id in tasks):
            judging.by_judge.setdefault(event.judge_id, []).extend(event.answers)

    wave = 0
    while tasks := await run_in_worker_if_large(size, judging.begin_wave):
        await answer(wave, judging.stage, tasks)
        if rest := await run_in_worker_if_large(size, judging.unsure):
            await answer(wave, "rest", rest)
        await run_in_worker_if_large(size, judging.end_wave)
        wave += 1
    card = await run_in_worker_if_large(
        size, judging.router.card, facts, judging.by_judge, judging.known
    )
    emit(
        runtime,
        Judged(
            key=card_key(round, role),
            at=context.log.now(),
            round=round,
            role=role,
            image=candidate.image,
            card=card,
        ),
    )


class _Judging:
    """Answers and verdicts of one image, from wave to wave."""

    def __init__(self, router: JudgeRouter, facts: Sequence[Fact], context: CheckContext) -> None:
        self.router = router
        self.facts = facts
        self.stage: Stage | None = None if router.cascade is None else "first"
        self.known: dict[str, Verdict] = {}
        """Verdicts so far."""
        self.by_judge: dict[str, list[Answer]] = {}
        """Answers so far."""
        self._context = context
        self._asked: Sequence[Fact] = ()

    def begin_wave(self) -> Tasks:
        """Return the tasks of the next wave; none if every fact has its verdict."""
        while True:
            for verdict in void_verdicts(self.facts, self.known):
                self.known[verdict.fact_id] = verdict
            if self._context.options.asking == "together":
                self._asked = [fact for fact in self.facts if fact.id not in self.known]
            else:
                self._asked = next_wave(self.facts, self.known)
            tasks = self.router.tasks(self._asked, self.stage)
            if tasks or not self._asked:
                return tasks
            # Nobody can answer these: they are unscored, and what depends on them may be asked.
            self.end_wave()

    def unsure(self) -> Tasks:
        """Return the tasks of the other judges of a cascade, after the first ones."""
        if self.router.cascade is None:
            return {}
        verdicts = self.router.verdicts(self._asked, self.by_judge, self.known, first=True)
        stated = [fact for fact in self._asked if fact.of_graph]
        panel = self._context.panel
        return self.router.tasks(unsure_facts(stated, verdicts, self.router.cascade, panel), "rest")

    def end_wave(self) -> None:
        """Turn the answers of the wave into verdicts."""
        for verdict in self.router.verdicts(self._asked, self.by_judge, self.known):
            self.known[verdict.fact_id] = verdict

    def later(self, stage: Stage | None) -> Tasks:
        """Return the facts that judges may be asked in later waves."""
        now = {fact.id for fact in self._asked}
        return self.router.tasks([fact for fact in self.facts if fact.id not in now], stage)


@dataclass(frozen=True, slots=True)
class QuickJudgement:
    """Result of judging all facts of an image in one wave."""

    card: ScoreCard
    """Verdicts of all facts: those that were asked, and those that were carried over."""
    answers: Mapping[str, tuple[Answer, ...]]
    """The judges' answers by fact."""
    judge_calls: int
    """Calls that were made for it."""


class JudgingCost(TypedDict):
    """Cost of judgements, as the fields of an event."""

    judge_calls: int
    tokens_in: int
    tokens_out: int
    usd: float


def costs_of(judgements: Iterable[QuickJudgement]) -> JudgingCost:
    """Return calls, tokens and dollars of ``judgements``."""
    judgements = list(judgements)
    answers = [a for one in judgements for replied in one.answers.values() for a in replied]
    return {
        "judge_calls": sum(one.judge_calls for one in judgements),
        "tokens_in": sum(answer.tokens_in for answer in answers),
        "tokens_out": sum(answer.tokens_out for answer in answers),
        "usd": sum(answer.usd for answer in answers),
    }


async def judge_once(
    candidate: Candidate,
    facts: Sequence[Fact],
    scope: str,
    runtime: Runtime[ContextT],
    carried: Mapping[str, Verdict],
) -> QuickJudgement:
    """Ask the loop's judges all ``facts`` of an image at once, only the first ones of a cascade.

    Facts in ``carried`` keep the verdict that they have there and are not asked. ``scope`` names
    the image within the run: a run that goes on finds the answers that it paid for.
    """
    context = runtime.context
    router = JudgeRouter(context, "loop")
    first = router.cascade is not None
    asked = [fact for fact in facts if fact.id not in carried]
    tasks = router.tasks(asked, "first" if first else None)
    replies = await side_by_side(
        _ask_judge(judge_id, candidate, "loop", tasks[judge_id], f"{scope}:{judge_id}", runtime)
        for judge_id in tasks
    )
    by_judge = {judge: list(reply.answers) for judge, reply in zip(tasks, replies, strict=True)}
    by_fact: dict[str, list[Answer]] = {}
    for answers in by_judge.values():
        for answer in answers:
            by_fact.setdefault(answer.fact_id, []).append(answer)
    known = dict(carried)
    verdicts = router.verdicts(asked, by_judge, carried, first=first)
    for fact, verdict in zip(asked, verdicts, strict=True):
        # All were asked at once: answers about something that is absent do not count.
        void = void_verdicts([fact], known)
        known[fact.id] = void[0] if void else verdict
    return QuickJudgement(
        card=ScoreCard.of(facts, known.values(), context.options.alpha),
        answers={name: tuple(answers) for name, answers in by_fact.items()},
        judge_calls=sum(not reply.cached for reply in replies),
    )


async def _ask_judge(
    judge_id: str,
    candidate: Candidate,
    role: Role,
    facts: Sequence[Fact],
    scope: str,
    runtime: Runtime[ContextT],
    ahead: Sequence[Fact] = (),
) -> JudgeReply:
    """Ask one judge about an image; ``ahead`` are facts that it may be asked in later waves.

    ``scope`` is the idempotency scope of the request.
    """
    context = runtime.context
    judge = next(one for one in context.judges(role) if one.id == judge_id)
    picture = context.images.cached(candidate.image)
    if picture is None:
        picture = await asyncio.to_thread(context.images.get, candidate.image)
    with paying(context.nonce, scope), emit_retries(runtime, candidate.round):
        return await ask(
            judge,
            candidate.image,
            picture,
            facts,
            store=context.answers,
            limit=context.judge_timeout,
            origin=scope,
            ahead=ahead,
        )


async def side_by_side(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of ``calls``; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def emit_missing(scene: SceneGraph, round: int, runtime: Runtime[ContextT]) -> None:
    """Emit the missing graph of a judged candidate, if anything is missing."""
    context = runtime.context
    facts = context.options.form.facts(scene)
    missing = missing_graph(scene, facts, context.record.card(round).verdicts)
    if missing:
        key = f"r{round}:missing"
        emit(runtime, Missing(key=key, at=context.log.now(), round=round, graph=missing))

"""The fan-out to the judges: ask an image's facts in waves, join, and let the panel decide.

First wave: the objects. Second wave: attributes and relations whose objects are not surely absent;
the rest is void and costs nothing. Asked ``together`` there is one wave, and facts without their
objects are void all the same. In each wave all judges of the role answer side by side::

    START → wave ⇉ judge (one a judge) → wave → … → END

:class:`JudgeRouter` says which judge is asked which fact: facts of realism go to the judges of
realism if there are any, else to those of the role that can answer them. With a cascade a wave has
two stages: the first judges answer all of its facts, the other judges those of which the first are
unsure. Verdicts of numbers, texts, wishes and realism are the mean of the judges' probabilities:
calibrations, learnt error rates, cascades, intervals and corrections are about the facts that a
scene graph states.

A judge never raises here: a failure is an unscored answer with its reason.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict, get_args

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

from scenewright.agents.panel.cascade import unsure_facts
from scenewright.agents.panel.corrections import card_correction
from scenewright.agents.panel.intervals import score_intervals
from scenewright.agents.panel.panel import MissingMeans, next_wave, void_verdicts
from scenewright.core.facts import (
    FACT_KINDS,
    Answer,
    Fact,
    FactKind,
    ScoreCard,
    Verdict,
    is_of_graph,
)
from scenewright.graphs.events import Answered, Judged, Role, Stage
from scenewright.graphs.large_scenes import size_of_data, worked_out
from scenewright.graphs.state import CheckContext, ContextT, emit, read_scene, retries_told
from scenewright.providers import JudgeReply, ask
from scenewright.providers.sdk_clients import paying


class JudgeRouter:
    """The judges of ``role``."""

    def __init__(self, context: CheckContext, role: Role) -> None:
        self._panel, self._cascade = context.panel, context.cascade_of(role)
        self._alpha, self._role = context.options.alpha, role
        kinds = [k for k in get_args(FactKind) if k != "realism" or context.options.realism]
        self._asked: dict[FactKind, tuple[str, ...]] = {
            kind: tuple(judge.id for judge in context.asked(role, kind)) for kind in kinds
        }

    def tasks(self, facts: Iterable[Fact], stage: Stage | None) -> dict[str, list[str]]:
        """Ids of the facts that each judge is to answer; judges without any are left out.

        In the stage ``first`` of a cascade only its first judges get stated facts, in ``rest``
        only the others.
        """
        facts = list(facts)
        order = dict.fromkeys(judge for judges in self._asked.values() for judge in judges)
        found = {
            judge: [fact.id for fact in facts if judge in self._judges(fact.kind, stage)]
            for judge in order
        }
        return {judge: ids for judge, ids in found.items() if ids}

    def verdicts(
        self,
        facts: Sequence[Fact],
        by_judge: Mapping[str, Sequence[Answer]],
        known: Mapping[str, Verdict],
        first: bool = False,
    ) -> list[Verdict]:
        """One verdict a fact, in their order; ``known`` are earlier ones, of parents at least.

        ``first``: by the first judges of the cascade alone. A fact that no judge can answer is
        unscored.
        """
        missing_means: MissingMeans = "unscored" if self._cascade is None or first else "unasked"
        stage: Stage | None = "first" if first else None
        groups: dict[tuple[bool, tuple[str, ...]], list[Fact]] = {}
        for fact in facts:
            judges = self._judges(fact.kind, stage)
            groups.setdefault((not fact.of_graph, judges), []).append(fact)
        found = dict(known)
        for (beside, judges), mine in groups.items():
            panel = self._panel.uncalibrated(len(judges)) if beside else self._panel
            table = {judge: by_judge[judge] for judge in judges}
            # Of what was said beside the graph nothing is learnt for its facts.
            before = found if beside else _of_graph(found)
            for verdict in panel.verdicts(mine, table, before, missing_means=missing_means):
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
        judges = tuple(dict.fromkeys(j for kind in FACT_KINDS for j in self._asked[kind]))
        stated = [fact for fact in facts if fact.of_graph]
        table = {judge: by_judge[judge] for judge in judges}
        intervals = score_intervals(stated, table, card.of_graph, self._panel, card.alpha)
        # The errors of a panel were measured with all of its judges asked.
        whole = self._cascade is None
        corrected = card_correction(card, self._panel, judges) if whole else None
        return card.model_copy(update={"intervals": intervals, "corrected": corrected})

    def _judges(self, kind: FactKind, stage: Stage | None) -> tuple[str, ...]:
        judges = self._asked[kind]
        if stage is None or self._cascade is None:
            return judges
        if kind not in FACT_KINDS:
            return judges if stage == "first" else ()
        first = self._cascade.first
        return tuple(judge for judge in judges if (judge in first) == (stage == "first"))


def _of_graph(known: Mapping[str, Verdict]) -> dict[str, Verdict]:
    return {id_: verdict for id_, verdict in known.items() if is_of_graph(id_)}


@dataclass(frozen=True, slots=True)
class Glance:
    """What the loop's judges found in a picture whose facts were asked all at once."""

    card: ScoreCard
    """Verdicts of all facts: those that were asked, and those that were carried over."""
    answers: Mapping[str, tuple[Answer, ...]]
    """The judges' answers by fact."""
    judge_calls: int
    """Calls that were made for it."""

    @property
    def costs(self) -> dict[str, Any]:
        """Calls, tokens and dollars, as the fields of an event."""
        return costs_of([self])


def costs_of(glances: Iterable[Glance]) -> dict[str, Any]:
    """Return calls, tokens and dollars of ``glances``, as the fields of an event."""
    glances = list(glances)
    answers = [a for one in glances for mine in one.answers.values() for a in mine]
    return {
        "judge_calls": sum(one.judge_calls for one in glances),
        "tokens_in": sum(answer.tokens_in for answer in answers),
        "tokens_out": sum(answer.tokens_out for answer in answers),
        "usd": sum(answer.usd for answer in answers),
    }


async def glance(
    image: str,
    facts: Sequence[Fact],
    origin: str,
    round: int,
    runtime: Runtime[ContextT],
    carried: Mapping[str, Verdict] | None = None,
) -> Glance:
    """Ask the loop's judges all ``facts`` of a picture at once, only the first ones of a cascade.

    Facts in ``carried`` keep the verdict that they have there and are not asked. ``origin`` names
    the picture within the run: a run that goes on finds the answers that it paid for.
    """
    context, carried = runtime.context, dict(carried or {})
    router = JudgeRouter(context, "loop")
    cascade = context.cascade_of("loop") is not None
    asked = [fact for fact in facts if fact.id not in carried]
    tasks = router.tasks(asked, "first" if cascade else None)
    picture = await asyncio.to_thread(context.images.get, image)

    async def answered(judge_id: str, ids: list[str]) -> JudgeReply:
        judge = next(one for one in context.judges("loop") if one.id == judge_id)
        wanted = set(ids)
        payer = f"{origin}:{judge_id}"
        with paying(context.nonce, payer), retries_told(runtime, round):
            return await ask(
                judge,
                image,
                picture,
                [fact for fact in asked if fact.id in wanted],
                store=context.answers,
                limit=context.judge_timeout,
                origin=payer,
            )

    replies = await asyncio.gather(*(answered(*task) for task in tasks.items()))
    by_judge: dict[str, list[Answer]] = {judge.id: [] for judge in context.judges("loop")}
    by_fact: dict[str, list[Answer]] = {}
    for judge_id, reply in zip(tasks, replies, strict=True):
        by_judge[judge_id] = list(reply.answers)
        for answer in reply.answers:
            by_fact.setdefault(answer.fact_id, []).append(answer)
    known = dict(carried)
    said = router.verdicts(asked, by_judge, carried, first=cascade)
    for fact, verdict in zip(asked, said, strict=True):
        # All were asked at once: what was said of something that is not there does not count.
        void = void_verdicts([fact], known)
        known[fact.id] = void[0] if void else verdict
    return Glance(
        card=ScoreCard.of(facts, known.values(), context.options.alpha),
        answers={name: tuple(found) for name, found in by_fact.items()},
        judge_calls=sum(not reply.cached for reply in replies),
    )


class VerifyInput(TypedDict):
    """What to judge."""

    scene: dict[str, Any]
    """The scene graph as JSON data."""
    image: str
    """Content hash of the candidate."""
    round: int
    """Its round."""
    role: Role
    """Which judges look at it."""
    decided: NotRequired[dict[str, str]]
    """What a person has said of it, by fact id, ``yes`` or ``no``: these facts are not asked."""


class VerifyState(VerifyInput, total=False):
    """State of the fan-out."""

    wave: int
    """The wave at work, from 0."""
    stage: Stage | None
    """The stage of the wave at work; none without a cascade."""
    answers: Annotated[list[dict[str, Any]], operator.add]
    """What the panel needs of each answer, all waves together."""
    verdicts: list[dict[str, Any]]
    """The panel's verdicts so far."""


class JudgeTask(VerifyInput):
    """One judge's part of one wave."""

    judge: str
    """The judge's id."""
    wave: int
    """The wave."""
    stage: Stage | None
    """The stage of the wave; none without a cascade."""
    facts: list[str]
    """Ids of the facts to answer."""


def build_verify() -> StateGraph[VerifyState, CheckContext, VerifyInput, VerifyState]:
    """Return the fan-out as a graph; its event ``Judged`` holds the score card."""
    graph: StateGraph[VerifyState, CheckContext, VerifyInput, VerifyState] = StateGraph(
        VerifyState, context_schema=CheckContext, input_schema=VerifyInput
    )
    graph.add_node("wave", _wave)
    graph.add_node("judge", _judge, input_schema=JudgeTask)
    graph.add_edge(START, "wave")
    graph.add_edge("judge", "wave")
    return graph


async def _wave(
    state: VerifyState, runtime: Runtime[CheckContext]
) -> Command[Literal["judge", "__end__"]]:
    """Turn the answers of the last wave into verdicts and send out the next one."""
    context = runtime.context
    command, card = await worked_out(size_of_data(state["scene"]), _weighed, state, context)
    if card is not None:
        emit(
            runtime,
            Judged(
                key=f"r{state['round']}:{state['role']}:judged",
                at=context.log.now(),
                round=state["round"],
                role=state["role"],
                image=state["image"],
                card=card,
            ),
        )
    return command


def _weighed(
    state: VerifyState, context: CheckContext
) -> tuple[Command[Literal["judge", "__end__"]], ScoreCard | None]:
    """Return what follows on the answers of the last wave, and the card after the last one."""
    facts = _facts(state["scene"], context)
    known = {
        verdict.fact_id: verdict
        for verdict in (Verdict.model_validate(v) for v in state.get("verdicts", []))
    }
    role = state["role"]
    by_judge: dict[str, list[Answer]] = {judge.id: [] for judge in context.judges(role)}
    for data in state.get("answers", []):
        answer = Answer.model_validate(data)
        by_judge[answer.judge_id].append(answer)
    wave, stage = state.get("wave", -1), state.get("stage")
    cascade = context.cascade_of(role)
    router = JudgeRouter(context, role)
    if wave >= 0:
        answered = _to_ask(facts, known, context)
        if cascade is not None and stage == "first":
            begun = router.verdicts(answered, by_judge, known, first=True)
            stated = [fact for fact in answered if fact.of_graph]
            unsure = unsure_facts(stated, begun, cascade, context.panel)
            sends = _sends(state, router.tasks(unsure, "rest"), wave, "rest")
            if sends:
                return Command(update={"stage": "rest"}, goto=sends), None
        for verdict in router.verdicts(answered, by_judge, known):
            known[verdict.fact_id] = verdict
    else:
        known = {
            fact_id: Verdict.model_validate({"fact_id": fact_id, "state": said})
            for fact_id, said in state.get("decided", {}).items()
        }
    stage = None if cascade is None else "first"
    while True:
        for verdict in void_verdicts(facts, known):
            known[verdict.fact_id] = verdict
        asked = _to_ask(facts, known, context)
        sends = _sends(state, router.tasks(asked, stage), wave + 1, stage)
        if sends or not asked:
            break
        # Nobody can answer these: they are unscored, and what depends on them may be asked.
        for verdict in router.verdicts(asked, by_judge, known):
            known[verdict.fact_id] = verdict
    update: dict[str, Any] = {
        "wave": wave + 1,
        "stage": stage,
        "verdicts": [known[fact.id].model_dump(mode="json") for fact in facts if fact.id in known],
    }
    if sends:
        return Command(update=update, goto=sends), None
    return Command(update=update, goto="__end__"), router.card(facts, by_judge, known)


def _to_ask(
    facts: Sequence[Fact], known: Mapping[str, Verdict], context: CheckContext
) -> tuple[Fact, ...]:
    """Return the facts of the next wave: with ``together`` all that have no verdict."""
    if context.options.asking == "together":
        return tuple(fact for fact in facts if fact.id not in known)
    return next_wave(facts, known)


def _sends(
    state: VerifyState, tasks: Mapping[str, Sequence[str]], wave: int, stage: Stage | None
) -> list[Send]:
    """One task a judge; ``tasks`` are the ids of its facts."""
    base = VerifyInput(
        scene=state["scene"], image=state["image"], round=state["round"], role=state["role"]
    )
    return [
        Send("judge", JudgeTask(**base, judge=judge, wave=wave, stage=stage, facts=list(ids)))
        for judge, ids in tasks.items()
    ]


async def _judge(state: JudgeTask, runtime: Runtime[CheckContext]) -> dict[str, Any]:
    """Ask one judge; what the log or the store already has is not asked again."""
    context = runtime.context
    judge = next(j for j in context.judges(state["role"]) if j.id == state["judge"])
    # A task from the checkpoint of an older run names no stage.
    stage = state.get("stage")
    wave = f"w{state['wave']}" if stage is None else f"w{state['wave']}:{stage}"
    key = f"r{state['round']}:{state['role']}:{wave}:{judge.id}:answered"
    event = context.log.get(key, Answered)
    if event is None:
        facts, ahead = await worked_out(size_of_data(state["scene"]), _facts_to_ask, state, context)
        image = context.images.held(state["image"])
        if image is None:
            image = await asyncio.to_thread(context.images.get, state["image"])
        with paying(context.nonce, key), retries_told(runtime, state["round"]):
            asked = await ask(
                judge,
                state["image"],
                image,
                facts,
                store=context.answers,
                limit=context.judge_timeout,
                origin=key,
                ahead=ahead,
            )
        event = Answered(
            key=key,
            at=context.log.now(),
            round=state["round"],
            role=state["role"],
            image=state["image"],
            judge_id=judge.id,
            answers=asked.answers,
            seconds=asked.seconds,
            cached=asked.cached,
            stage=stage,
        )
        emit(runtime, event)
    needed = {
        *("fact_id", "judge_id", "state", "choice", "probability", "distribution"),
        *("method", "reason"),
    }
    return {
        "answers": [
            answer.model_dump(mode="json", include=needed, exclude_defaults=True)
            for answer in event.answers
        ]
    }


def _facts_to_ask(
    state: JudgeTask, context: CheckContext
) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Return the facts of the task, and those that its judge may be asked in later waves.

    There are none of the latter after the first wave.
    """
    facts = _facts(state["scene"], context)
    now = set(state["facts"])
    asked = tuple(fact for fact in facts if fact.id in now)
    stage = state.get("stage")
    if state["wave"] or stage == "rest":
        return asked, ()
    later = [fact for fact in facts if fact.id not in now]
    mine = set(JudgeRouter(context, state["role"]).tasks(later, stage).get(state["judge"], ()))
    return asked, tuple(fact for fact in later if fact.id in mine)


def _facts(scene: dict[str, Any], context: CheckContext) -> tuple[Fact, ...]:
    return context.options.form.facts(read_scene(scene))

"""The fan-out to the judges: ask an image's facts in waves, join, and let the panel decide.

First wave: the objects. Second wave: attributes and relations whose objects are there; the
rest is void and costs nothing. Asked ``together`` there is one wave, and what turns out to lack
its objects is void all the same. In each wave all judges of the role answer side by side::

    START → wave ⇉ judge (one a judge) → wave → … → END

A judge is asked the facts that it can answer, those of realism the judges of realism if there are
any (``graphs/board.py``). With a cascade a wave has two stages: the first judges answer all of its
facts, and the rest of the judges those of which the first are unsure.

A judge never raises here: what goes wrong in it is an unscored answer with its reason.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

from scenewright.agents.panel.cascade import unsure_facts
from scenewright.agents.panel.panel import next_wave, void_verdicts
from scenewright.core.facts import Answer, Fact, Verdict
from scenewright.graphs.events import Answered, Judged, Role, Stage
from scenewright.graphs.judge_router import JudgeRouter
from scenewright.graphs.state import CheckContext, emit, retries_told, scene_of
from scenewright.providers import ask
from scenewright.providers.idempotency import identified


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
    """The fan-out as a graph; its event ``Judged`` holds the score card."""
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
    board = JudgeRouter(context, role)
    if wave >= 0:
        answered = _to_ask(facts, known, context)
        if cascade is not None and stage == "first":
            begun = board.verdicts(answered, by_judge, known, first=True)
            stated = [fact for fact in answered if fact.kind != "realism"]
            unsure = unsure_facts(stated, begun, cascade, context.panel)
            sends = _sends(state, board.tasks(unsure, "rest"), wave, "rest")
            if sends:
                return Command(update={"stage": "rest"}, goto=sends)
        for verdict in board.verdicts(answered, by_judge, known):
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
        sends = _sends(state, board.tasks(asked, stage), wave + 1, stage)
        if sends or not asked:
            break
        # Nobody can answer these: they are unscored, and what depends on them may be asked.
        for verdict in board.verdicts(asked, by_judge, known):
            known[verdict.fact_id] = verdict
    update: dict[str, Any] = {
        "wave": wave + 1,
        "stage": stage,
        "verdicts": [known[fact.id].model_dump(mode="json") for fact in facts if fact.id in known],
    }
    if sends:
        return Command(update=update, goto=sends)
    card = board.card(facts, by_judge, known)
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
    return Command(update=update, goto="__end__")


def _to_ask(
    facts: Sequence[Fact], known: Mapping[str, Verdict], context: CheckContext
) -> tuple[Fact, ...]:
    """The facts of the next wave: with ``together`` all that have no verdict."""
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
        wanted = set(state["facts"])
        facts = [fact for fact in _facts(state["scene"], context) if fact.id in wanted]
        image = context.images.held(state["image"])
        if image is None:
            image = await asyncio.to_thread(context.images.get, state["image"])
        with identified(context.paid_as(key)), retries_told(runtime, state["round"]):
            asked = await ask(
                judge,
                state["image"],
                image,
                facts,
                store=context.answers,
                limit=context.judge_timeout,
                origin=key,
                ahead=_ahead(state, context),
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


def _ahead(state: JudgeTask, context: CheckContext) -> tuple[Fact, ...]:
    """The facts that a judge of the first wave may be asked in later ones."""
    stage = state.get("stage")
    if state["wave"] or stage == "rest":
        return ()
    now = set(state["facts"])
    later = [fact for fact in _facts(state["scene"], context) if fact.id not in now]
    mine = set(JudgeRouter(context, state["role"]).tasks(later, stage).get(state["judge"], ()))
    return tuple(fact for fact in later if fact.id in mine)


def _facts(scene: dict[str, Any], context: CheckContext) -> tuple[Fact, ...]:
    return context.options.form.facts(scene_of({"scene": scene}))

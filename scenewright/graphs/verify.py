"""The fan-out to the judges: ask an image's facts in waves, join, and let the panel decide.

First wave: the objects. Second wave: attributes and relations whose objects are there; the
rest is void and costs nothing. In each wave all judges of the role answer side by side::

    START → wave ⇉ judge (one a judge) → wave → … → END

A judge never raises here: what goes wrong in it is an unscored answer with its reason.
"""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, Literal, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

from scenewright.agents.panel import next_wave, void_verdicts
from scenewright.calls import ask
from scenewright.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.graphs.events import Answered, Judged, Role
from scenewright.graphs.state import CheckContext, emit, facts_for, scene_of


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


class VerifyState(VerifyInput, total=False):
    """State of the fan-out."""

    wave: int
    """The wave at work, from 0."""
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
    judges = context.judges(state["role"])
    by_judge: dict[str, list[Answer]] = {judge.id: [] for judge in judges}
    for data in state.get("answers", []):
        answer = Answer.model_validate(data)
        by_judge[answer.judge_id].append(answer)
    wave = state.get("wave", -1)
    if wave >= 0:
        answered = next_wave(facts, known)
        for verdict in context.panel.verdicts(answered, by_judge, known):
            known[verdict.fact_id] = verdict
    for verdict in void_verdicts(facts, known):
        known[verdict.fact_id] = verdict
    asked = next_wave(facts, known)
    update: dict[str, Any] = {
        "wave": wave + 1,
        "verdicts": [known[fact.id].model_dump(mode="json") for fact in facts if fact.id in known],
    }
    if asked:
        base = VerifyInput(
            scene=state["scene"], image=state["image"], round=state["round"], role=state["role"]
        )
        ids = [fact.id for fact in asked]
        return Command(
            update=update,
            goto=[
                Send("judge", JudgeTask(**base, judge=judge.id, wave=wave + 1, facts=ids))
                for judge in judges
            ],
        )
    emit(
        runtime,
        Judged(
            key=f"r{state['round']}:{state['role']}:judged",
            at=context.log.now(),
            round=state["round"],
            role=state["role"],
            image=state["image"],
            card=ScoreCard.of(facts, known.values(), context.options.alpha),
        ),
    )
    return Command(update=update, goto="__end__")


async def _judge(state: JudgeTask, runtime: Runtime[CheckContext]) -> dict[str, Any]:
    """Ask one judge; what the log or the store already has is not asked again."""
    context = runtime.context
    judge = next(j for j in context.judges(state["role"]) if j.id == state["judge"])
    key = f"r{state['round']}:{state['role']}:w{state['wave']}:{judge.id}:answered"
    event = context.log.get(key, Answered)
    if event is None:
        wanted = set(state["facts"])
        facts = [fact for fact in _facts(state["scene"], context) if fact.id in wanted]
        image = context.images.held(state["image"])
        if image is None:
            image = await asyncio.to_thread(context.images.get, state["image"])
        asked = await ask(
            judge,
            state["image"],
            image,
            facts,
            store=context.answers,
            limit=context.judge_timeout,
            origin=key,
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
        )
        emit(runtime, event)
    needed = {"fact_id", "judge_id", "state", "probability", "method", "reason"}
    return {
        "answers": [
            answer.model_dump(mode="json", include=needed, exclude_defaults=True)
            for answer in event.answers
        ]
    }


def _facts(scene: dict[str, Any], context: CheckContext) -> tuple[Fact, ...]:
    return facts_for(scene_of({"scene": scene}), context.options.protocol)

"""Runs of the director for tests: scripted drawing and judging, any chat model, real stores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from pydantic import Field

from scenewright.config.options import LoopOptions
from scenewright.core.facts import Fact
from scenewright.core.flushing import Flusher
from scenewright.core.formats import load_scene
from scenewright.core.images import ImageStore
from scenewright.core.layout import Region
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.graphs.checkpoints import LoopCheckpoints, SqliteCheckpoints
from scenewright.graphs.director import build_director
from scenewright.graphs.director_record import DirectorContext
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import EVENT, Event, Finished, RunStarted, ToolCalled
from scenewright.providers import AnswerStore
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"
FACTS = facts_of(load_scene(SCENE))
LEVELS = {fact.id: 40 * at for at, fact in enumerate(FACTS, start=1)}
SEED = 5

Call = tuple[str, dict[str, Any]]
DRAW: Call = ("generate_image", {})
VERIFY: Call = ("verify_facts", {})
REFINE: Call = ("refine_with_reference", {})
ACCEPT: Call = ("accept", {})


def level(fact: Fact) -> int:
    """The quality above which the judges find a fact: 40, 80, … in the facts' order."""
    return LEVELS.get(fact.id, 100)


class Played(BaseChatModel):
    """Says the line of its turn, after the last one that for ever; keeps what it was sent."""

    lines: list[Any]
    sent: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "played"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.sent.append(list(messages))
        turn = sum(isinstance(message, AIMessage) for message in messages)
        line = self.lines[min(turn, len(self.lines) - 1)]
        if isinstance(line, Exception):
            raise line
        return ChatResult(generations=[ChatGeneration(message=message_of(line, turn))])


def message_of(line: Any, at: int = 0) -> AIMessage:
    """A reply: words, one call, several calls or a whole message."""
    if isinstance(line, AIMessage):
        return line
    calls: Sequence[Any] = [] if isinstance(line, str) else [line]
    if isinstance(line, list):
        calls = line
    return AIMessage(
        line if isinstance(line, str) else f"turn {at}",
        tool_calls=[
            {"name": name, "args": given, "id": f"call_{at}_{n}"}
            for n, (name, given) in enumerate(calls)
        ],
    )


def played(*lines: Any) -> Played:
    """A chat model that says these lines: words, ``(tool, arguments)``, a list of several such
    calls, a message, or an exception to raise."""
    return Played(lines=list(lines))


def qualities(*wanted: int) -> Callable[[Any], int]:
    """Pictures of these qualities in the order in which they are drawn, the last for ever."""
    rest: Iterator[int] = iter(wanted)
    last = wanted[-1]
    return lambda request: next(rest, last)


def planner() -> ScriptedComposer:
    """A composer that plans every object into one box."""
    objects = load_scene(SCENE).objects
    return ScriptedComposer(planned={item.id: Region(0.25, 0.25, 0.75, 0.5) for item in objects})


async def direct(
    folder: Path,
    chat: BaseChatModel,
    *,
    scene: str | SceneGraph = SCENE,
    backend: Any = None,
    judges: Sequence[Any] | None = None,
    report: Sequence[Any] = (),
    composer: Any = None,
    previews: bool = True,
    clock: Callable[[], float] | None = None,
    opened: Callable[..., EventLog] = EventLog,
    **options: Any,
) -> list[Event]:
    """Drive a run in ``folder``, or go on with it; all events that the log then holds."""
    graph = load_scene(scene) if isinstance(scene, str) else scene
    choices = LoopOptions(strategy="director", seed=SEED, **{"rounds": 4, **options})
    folder.mkdir(exist_ok=True)
    with (
        closing(Flusher()) as flusher,
        closing(opened(folder / "events.jsonl", clock or time.time, flusher)) as log,
        closing(AnswerStore(folder / "answers.sqlite", flusher=flusher)) as answers,
        SqliteCheckpoints.opened(folder / "checkpoints.sqlite") as store,
    ):
        saver = LoopCheckpoints(store, lambda: len(log.record))
        context = DirectorContext(
            backend=backend or ScriptedBackend(qualities(100, 255), masks=True),
            composer=composer or ScriptedComposer(),
            loop_judges=judges
            or [ScriptedJudge("a", level=level), ScriptedJudge("b", level=level)],
            report_judges=report,
            images=ImageStore(folder / "images", flusher=flusher),
            answers=answers,
            log=log,
            options=choices,
            chat=chat,
            previews=previews,
        )
        if "finished" in log.record:
            return list(log.record.events)
        config: RunnableConfig = {"configurable": {"thread_id": "run"}, "recursion_limit": 60}
        begun = await saver.begun(config)
        if log.record.started is None:
            facts = facts_of(graph)
            log.append(
                RunStarted(
                    key="run", at=log.now(), run_id="run", scene=graph, facts=facts, config={}
                )
            )
        told = []
        async for _, data in graph_of(saver).astream(
            None if begun else {"scene": graph.model_dump(mode="json")},
            config,
            context=context,
            stream_mode="custom",
            durability="async",
            subgraphs=True,
        ):
            told.append(EVENT.validate_python(data))
        stored = [event for event in told if event.key in log.record]
        assert len({event.key for event in stored}) == len(stored)
        assert isinstance(told[-1], Finished)
        return list(log.record.events)


@cache
def _compiled() -> Any:
    return build_director().compile()


def graph_of(saver: LoopCheckpoints) -> Any:
    """The director's graph, compiled once for all runs."""
    graph = copy(_compiled())
    graph.checkpointer = saver
    return graph


def of(events: Sequence[Event], kind: type[Any], **values: object) -> list[Any]:
    return [
        event
        for event in events
        if isinstance(event, kind) and all(getattr(event, k) == v for k, v in values.items())
    ]


def calls(events: Sequence[Event]) -> list[tuple[str, bool]]:
    """Every tool used, and whether it did what it was asked."""
    return [(event.tool, event.ok) for event in of(events, ToolCalled)]


def end(events: Sequence[Event]) -> Finished:
    (finished,) = of(events, Finished)
    assert isinstance(finished, Finished)
    return finished

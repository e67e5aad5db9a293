"""A run: a scene and a profile in, a run folder and a result out.

The same call again continues the run that a kill or a cancellation cut off, or gives the
finished result at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing, closing
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from scenewright.agents.composer import Composer
from scenewright.agents.judges.base import Judge
from scenewright.agents.panel import Panel
from scenewright.calls import AnswerStore, StoreError
from scenewright.flushing import Flusher
from scenewright.graphs.checkpoints import Checkpoints
from scenewright.graphs.eventlog import EventLog, LogError
from scenewright.graphs.events import EVENT, Event, Finished, Generated, Resumed, RunStarted
from scenewright.graphs.refine import build_refine
from scenewright.graphs.state import (
    Budget,
    DirectorError,
    RefineContext,
    facts_for,
)
from scenewright.images import ImageError, ImageStore
from scenewright.profiles import Team, chat_name, team_of, warm
from scenewright.records import JudgeAnswers, RoundRecord, RunResult, load_run, result_of
from scenewright.run_plan import RunPlan, plan_run
from scenewright.runfolder import (
    ANSWERS,
    CHECKPOINTS,
    EVENTS,
    IMAGES,
    RESULT,
    RunError,
    RunFolder,
    write_text,
)
from scenewright.scene import SceneGraph
from scenewright.scoring import Score, check_judges, panel_for, score
from scenewright.settings import DIRECTOR, Profile, Settings
from scenewright.tools.backends.base import ImageBackend

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = [
    "Budget",
    "JudgeAnswers",
    "RoundRecord",
    "RunError",
    "RunResult",
    "Score",
    "load_run",
    "refine",
    "result_of",
    "score",
    "stream_refine",
]

_OnResult = Callable[[RunResult], None] | None
_THREAD = "run"
_HELD_BYTES = 64 * 2**20
"""Pixels that a run keeps in memory: its newest images, asked for by every judge and wave."""


async def refine(
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    *,
    out: str | Path | None = None,
    rounds: int = 3,
    seed: int = 0,
    patience: int = 2,
    budget: Budget | None = None,
    resume: bool = True,
    on_event: Callable[[Event], None] | None = None,
    backend: ImageBackend | None = None,
    judges: Sequence[Judge] | None = None,
    report_judges: Sequence[Judge] | None = None,
    composer: Composer | None = None,
    chat: BaseChatModel | None = None,
    strategy: str | None = None,
    settings: Settings | None = None,
) -> RunResult:
    """Draw ``scene``, check every fact of it, repair what is missing; the best image is kept.

    ``scene`` is a graph, a text or a file in any format that is read. ``profile`` names the
    models (default: ``miniature``, or what the settings say); ``backend``, ``judges``,
    ``report_judges``, ``composer`` and ``chat`` (the director's language model) replace single
    ones. ``strategy`` replaces the profile's: a name of ``graphs/strategies/registry.py``, or
    ``director``. ``out`` is the run folder; by default one below ``runs/`` that the whole
    configuration names. ``rounds`` counts the first candidate. ``resume`` continues (or returns)
    the run of the same configuration; without it a new run begins. ``on_event`` gets every stored
    event once, in order, those from before a resumption first, and the denoising steps in between.

    Raises ``RunError`` (folder, disk, configuration), ``SceneError`` or the readers' errors
    for a wrong scene, ``SettingsError``, ``BackendError`` and ``JudgeError``. Cancelling
    keeps all that was done; the same call goes on from there.
    """
    plan = plan_run(
        scene,
        profile,
        out=out,
        rounds=rounds,
        seed=seed,
        patience=patience,
        budget=budget,
        resume=resume,
        backend=backend,
        judges=judges,
        report_judges=report_judges,
        composer=composer,
        chat=chat,
        strategy=strategy,
        settings=settings,
    )
    results: list[RunResult] = []
    async with aclosing(_drive(plan, results.append)) as events:
        async for event in events:
            if on_event is not None:
                on_event(event)
    return results[-1]


async def stream_refine(
    scene: SceneGraph | str | Path, profile: str | Profile | None = None, **options: Any
) -> AsyncGenerator[Event, None]:
    """The events of :func:`refine` with the same arguments (but ``on_event``), as they happen.

    A run that goes on tells what was stored before first. The last event is ``Finished``;
    the result file is written before it.
    """
    async with aclosing(_drive(plan_run(scene, profile, **options))) as events:
        async for event in events:
            yield event


def _models(team: Team, panel: Panel) -> dict[str, Any]:
    def both(model: ImageBackend | Judge | Composer) -> dict[str, str]:
        return {"id": model.id, "fingerprint": model.fingerprint}

    # The profile names the calibration's file, but its content decides verdicts, as weights do.
    known = {} if panel.calibration is None else {"calibration": panel.calibration.digest}
    return {
        "backend": both(team.backend),
        "composer": both(team.composer),
        "judges": [both(judge) for judge in team.loop_judges],
        "report_judges": [both(judge) for judge in team.report_judges],
        **({} if team.chat is None else {"chat": chat_name(team.chat)}),
        **known,
    }


async def _drive(plan: RunPlan, on_result: _OnResult = None) -> AsyncGenerator[Event, None]:
    """Begin or continue the run; every event once, ``Finished`` last, after ``on_result``."""
    folder = plan.folder
    with folder.locked():
        try:
            manifest = folder.check_config(plan.config)
            if manifest is not None and not plan.resume and plan.named:
                raise RunError(
                    f"{folder.path} already holds this run: resume it, or choose another folder"
                )
            with (
                closing(Flusher()) as flusher,
                closing(_open_log(folder, manifest, flusher)) as log,
            ):
                if "finished" in log:
                    _write_result(folder, log, on_result)
                    for event in log.events:
                        yield event
                    return
                team = await team_of(plan.profile, settings=plan.settings, **plan.given)
                check_judges(team.loop_judges, team.report_judges)
                panel = await panel_for(plan.profile, team.loop_judges, team.report_judges)
                models = _models(team, panel)
                if manifest is None:
                    folder.write_manifest(plan.config, models)
                else:
                    folder.check_models(manifest, models)
                    await asyncio.to_thread(_cut_at_lost_image, folder, log)
                for event in log.events:
                    yield event
                await warm(team)
                async with aclosing(_loop(plan, team, panel, log, flusher, on_result)) as events:
                    async for event in events:
                        yield event
        except (LogError, StoreError, ImageError, DirectorError) as error:
            raise RunError(str(error)) from error
        except (sqlite3.Error, OSError) as error:
            raise RunError(
                f"the run in {folder.path} cannot be kept: {error}. Check that the folder is "
                "writable and the disk not full, then run the same again: it goes on"
            ) from error


def _open_log(folder: RunFolder, manifest: Mapping[str, Any] | None, flusher: Flusher) -> EventLog:
    # Without a manifest the folder is still untouched; it must stay so if a model is missing.
    return EventLog(folder / EVENTS if manifest is not None else None, flusher=flusher)


def _cut_at_lost_image(folder: RunFolder, log: EventLog) -> None:
    """Forget what was told from the first lost image on: a power cut can take its file alone."""
    images = ImageStore(folder / IMAGES)
    for at, event in enumerate(log.events):
        if isinstance(event, Generated):
            request = event.request
            made = [shown.mask for shown in request.references]
            if request.start is not None:
                made += [request.start.image, request.start.mask]
            if not all(images.sound(name) for name in (event.image, *made) if name is not None):
                log.cut(at)
                return


async def _loop(
    plan: RunPlan, team: Team, panel: Panel, log: EventLog, flusher: Flusher, on_result: _OnResult
) -> AsyncGenerator[Event, None]:
    """Drive the graph from where its checkpoints stand."""
    folder = plan.folder
    with ExitStack() as stack:
        if log.path is None:
            log = stack.enter_context(closing(EventLog(folder / EVENTS, flusher=flusher)))
        answers = stack.enter_context(closing(AnswerStore(folder / ANSWERS, flusher=flusher)))
        saver = stack.enter_context(Checkpoints.opened(folder / CHECKPOINTS, log.__len__))
        context = _context(plan, team, panel, log, answers, flusher)
        config: RunnableConfig = {
            "configurable": {"thread_id": _THREAD},
            "recursion_limit": 20 + 10 * plan.options.rounds,
        }
        # Asked before the log grows: it must hold all that the checkpoints rest on.
        begun = saver.begun(config)
        first = _first_event(plan, log)
        log.append(first)
        yield first
        graph = copy(_compiled(plan.profile.strategy == DIRECTOR))
        graph.checkpointer = saver
        stream: AsyncGenerator[Any, None] = graph.astream(  # type: ignore[assignment]
            None if begun else {"scene": plan.scene.model_dump(mode="json")},
            config,
            context=context,
            stream_mode="custom",
            # A checkpoint is written at once, in the order of the steps; none waits for it.
            durability="async",
            subgraphs=True,
        )
        finished: Event | None = None
        async with aclosing(stream) as parts:
            async for _, data in parts:
                event = log.find(data["key"]) or EVENT.validate_python(data)
                if isinstance(event, Finished):
                    finished = event
                else:
                    yield event
        if finished is None:
            raise RunError(
                f"the checkpoints of {folder.path} do not fit its event log: start the run in "
                "another folder"
            )
        _write_result(folder, log, on_result)
        yield finished


def _context(
    plan: RunPlan, team: Team, panel: Panel, log: EventLog, answers: AnswerStore, flusher: Flusher
) -> RefineContext:
    images = ImageStore(plan.folder / IMAGES, flusher=flusher, held_bytes=_HELD_BYTES)
    parts: dict[str, Any] = {
        "backend": team.backend,
        "composer": team.composer,
        "loop_judges": team.loop_judges,
        "report_judges": team.report_judges,
        "images": images,
        "answers": answers,
        "log": log,
        "options": plan.options,
        "panel": panel,
        "cascade": plan.profile.cascade,
        "judge_timeout": plan.settings.judge_timeout,
    }
    if plan.profile.strategy != DIRECTOR:
        return RefineContext(**parts)
    from scenewright.graphs.director import DirectorContext

    assert team.chat is not None
    return DirectorContext(**parts, chat=team.chat)


@cache
def _compiled(directed: bool) -> CompiledStateGraph[Any, Any, Any, Any]:
    # Compiling looks through every node's source, which takes as long as a round of the loop.
    if not directed:
        return build_refine().compile()
    # Agents of LangChain take a while to import, and only the director is one.
    from scenewright.graphs.director import build_director

    return build_director().compile()


def _first_event(plan: RunPlan, log: EventLog) -> Event:
    if log.started is None:
        return RunStarted(
            key="run",
            at=log.now(),
            run_id=plan.folder.id,
            scene=plan.scene,
            facts=facts_for(plan.scene, plan.options.protocol),
            config=plan.config,
        )
    times = sum(isinstance(event, Resumed) for event in log.events)
    return Resumed(key=f"resumed:{times + 1}", at=log.now(), after=log.events[-1].key)


def _write_result(folder: RunFolder, log: EventLog, on_result: _OnResult) -> None:
    path = folder / RESULT
    result = result_of(log.events, folder.path)
    if not path.exists():
        write_text(path, result.model_dump_json(indent=2))
    if on_result is not None:
        on_result(result)

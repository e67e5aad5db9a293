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
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from pydantic import ValidationError

from scenewright.agents.composer import Composer
from scenewright.agents.judges.base import Judge
from scenewright.agents.panel import Panel
from scenewright.calls import AnswerStore, StoreError
from scenewright.flushing import Flusher
from scenewright.formats import load_scene
from scenewright.graphs.checkpoints import Checkpoints
from scenewright.graphs.eventlog import EventLog, LogError
from scenewright.graphs.events import EVENT, Event, Finished, Generated, Resumed, RunStarted
from scenewright.graphs.refine import build_refine
from scenewright.graphs.state import (
    Budget,
    LoopOptions,
    RefineContext,
    RefineState,
    facts_for,
)
from scenewright.images import ImageError, ImageStore
from scenewright.profiles import Team, team_of, warm
from scenewright.records import JudgeAnswers, RoundRecord, RunResult, load_run, result_of
from scenewright.runfolder import (
    ANSWERS,
    CHECKPOINTS,
    EVENTS,
    IMAGES,
    RESULT,
    RunError,
    RunFolder,
    choose_folder,
    write_text,
)
from scenewright.scene import SceneGraph
from scenewright.scoring import Score, check_judges, panel_for, score
from scenewright.settings import Profile, Settings, find_profile, load_settings
from scenewright.tools.backends.base import ImageBackend

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
    settings: Settings | None = None,
) -> RunResult:
    """Draw ``scene``, check every fact of it, repair what is missing; the best image is kept.

    ``scene`` is a graph, a text or a file in any format that is read. ``profile`` names the
    models (default: ``miniature``, or what the settings say); ``backend``, ``judges``,
    ``report_judges`` and ``composer`` replace single ones. ``out`` is the run folder; by
    default one below ``runs/`` that the whole configuration names. ``rounds`` counts the
    first candidate. ``resume`` continues (or returns) the run of the same configuration;
    without it a new run begins. ``on_event`` gets every stored event once, in order, those
    from before a resumption first, and the denoising steps in between.

    Raises ``RunError`` (folder, disk, configuration), ``SceneError`` or the readers' errors
    for a wrong scene, ``SettingsError``, ``BackendError`` and ``JudgeError``. Cancelling
    keeps all that was done; the same call goes on from there.
    """
    plan = _plan(
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
    async with aclosing(_drive(_plan(scene, profile, **options))) as events:
        async for event in events:
            yield event


@dataclass(frozen=True, slots=True)
class _Plan:
    """All that is known of a run before a model is touched."""

    scene: SceneGraph
    profile: Profile
    settings: Settings
    options: LoopOptions
    config: dict[str, Any]
    folder: RunFolder
    given: dict[str, Any]
    resume: bool
    named: bool


def _plan(
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    *,
    out: str | Path | None = None,
    rounds: int = 3,
    seed: int = 0,
    patience: int = 2,
    budget: Budget | None = None,
    resume: bool = True,
    backend: ImageBackend | None = None,
    judges: Sequence[Judge] | None = None,
    report_judges: Sequence[Judge] | None = None,
    composer: Composer | None = None,
    settings: Settings | None = None,
) -> _Plan:
    graph = scene if isinstance(scene, SceneGraph) else load_scene(scene)
    if not graph:
        raise RunError("the scene has no objects: name at least one, for example 'red ball'")
    settings = settings or load_settings()
    if not isinstance(profile, Profile):
        profile = find_profile(profile or settings.profile, settings)
    options = loop_options(
        profile, rounds=rounds, seed=seed, patience=patience, budget=budget or Budget()
    )
    check_judges(judges, report_judges)
    replaced = {
        "backend": None if backend is None else backend.id,
        "composer": None if composer is None else composer.id,
        "judges": None if judges is None else [judge.id for judge in judges],
        "report_judges": None if report_judges is None else [j.id for j in report_judges],
    }
    config: dict[str, Any] = {
        "scene": graph.model_dump(mode="json"),
        "profile": profile.model_dump(mode="json", exclude={"about"}),
        "options": options.model_dump(mode="json"),
        "replaced": {key: value for key, value in replaced.items() if value is not None},
    }
    place = Path(out) if out is not None else choose_folder(settings.runs, config, resume=resume)
    return _Plan(
        scene=graph,
        profile=profile,
        settings=settings,
        options=options,
        config=config,
        folder=RunFolder(place),
        given={
            "backend": backend,
            "judges": judges,
            "report_judges": report_judges,
            "composer": composer,
        },
        resume=resume,
        named=out is not None,
    )


def loop_options(profile: Profile, **more: Any) -> LoopOptions:
    """The options of a loop: what the profile says, and ``more``. ``RunError`` if one is wrong."""
    shared = set(LoopOptions.model_fields) & set(Profile.model_fields)
    try:
        return LoopOptions.model_validate(profile.model_dump(include=shared) | more)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise RunError(f"{place} is {problem['input']!r}: {problem['msg']}") from error


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
        **known,
    }


async def _drive(plan: _Plan, on_result: _OnResult = None) -> AsyncGenerator[Event, None]:
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
        except (LogError, StoreError, ImageError) as error:
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
    plan: _Plan, team: Team, panel: Panel, log: EventLog, flusher: Flusher, on_result: _OnResult
) -> AsyncGenerator[Event, None]:
    """Drive the graph from where its checkpoints stand."""
    folder = plan.folder
    with ExitStack() as stack:
        if log.path is None:
            log = stack.enter_context(closing(EventLog(folder / EVENTS, flusher=flusher)))
        answers = stack.enter_context(closing(AnswerStore(folder / ANSWERS, flusher=flusher)))
        saver = stack.enter_context(Checkpoints.opened(folder / CHECKPOINTS, log.__len__))
        context = RefineContext(
            backend=team.backend,
            composer=team.composer,
            loop_judges=team.loop_judges,
            report_judges=team.report_judges,
            images=ImageStore(folder / IMAGES, flusher=flusher, held_bytes=_HELD_BYTES),
            answers=answers,
            log=log,
            options=plan.options,
            panel=panel,
            cascade=plan.profile.cascade,
            judge_timeout=plan.settings.judge_timeout,
        )
        config: RunnableConfig = {
            "configurable": {"thread_id": _THREAD},
            "recursion_limit": 20 + 10 * plan.options.rounds,
        }
        # Asked before the log grows: it must hold all that the checkpoints rest on.
        begun = saver.begun(config)
        first = _first_event(plan, log)
        log.append(first)
        yield first
        graph = copy(_compiled())
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


@cache
def _compiled() -> CompiledStateGraph[RefineState, RefineContext, RefineState, RefineState]:
    # Compiling looks through every node's source, which takes as long as a round of the loop.
    return build_refine().compile()


def _first_event(plan: _Plan, log: EventLog) -> Event:
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

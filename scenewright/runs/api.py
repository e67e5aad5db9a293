"""A run: a scene and a profile in, a run folder and a result out.

The same call continues a run that was killed or cancelled, and returns the result of a finished
one at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, Unpack

from langgraph.graph.state import CompiledStateGraph

from scenewright.agents.panel.panel import Panel
from scenewright.agents.parsers.unread import warn_of
from scenewright.config.profiles import DIRECTOR, REALISM_FIELDS, Profile, SettingsError
from scenewright.core.flushing import Flusher, in_thread, write_text
from scenewright.core.images import ImageError, ImageStore
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer, ComposerError
from scenewright.core.ports.judge import Judge
from scenewright.core.scene import SceneGraph
from scenewright.graphs.correcting import edited
from scenewright.graphs.driving import drive
from scenewright.graphs.errors import EditError, LogError
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import (
    Composed,
    Edit,
    Edited,
    Event,
    Finished,
    Generated,
    Paused,
    Resumed,
    RunStarted,
    Warned,
)
from scenewright.graphs.initial_image import check_initial_image, store_initial_image
from scenewright.graphs.large_scenes import run_in_worker_if_large, size_of
from scenewright.graphs.refine import build_refine
from scenewright.graphs.reporting import ServedWatch
from scenewright.graphs.state import DirectorError, RefineContext
from scenewright.providers import Answers, StoreError, open_answers
from scenewright.providers.clients.base import place_of
from scenewright.runs.coverage import Coverage, check_coverage, coverage_of
from scenewright.runs.folder import ANSWERS, EVENTS, IMAGES, RESULT, RunError, RunFolder
from scenewright.runs.model_factory.profiles import (
    JUDGE_GROUPS,
    RunModels,
    build_run_models,
    chat_name,
    warm,
)
from scenewright.runs.options import RunArguments
from scenewright.runs.plan import RunPlan, plan_run
from scenewright.runs.record import PageError, record_of
from scenewright.runs.result import PageWarning, RunResult, result_of
from scenewright.runs.run_reading import read_locked
from scenewright.runs.scoring import panel_for
from scenewright.runs.spending import check_limit

_HELD_BYTES = 64 * 2**20
"""Pixels that a run keeps in memory: its newest images, asked for by every judge and wave."""
_OnResult = Callable[[RunResult], None] | None


async def refine(
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    *,
    on_event: Callable[[Event], None] | None = None,
    **arguments: Unpack[RunArguments],
) -> RunResult:
    """Draw ``scene``, verify every fact of it, repair what is missing, and keep the best image.

    ``scene`` is a scene graph, a text, or a file in any supported format; a sentence is read by the
    profile's language model where it has one, else by rules (``reader``). ``profile`` names the
    models (default: the settings' profile, else ``miniature``). ``arguments`` are the
    options of :class:`~scenewright.config.options.RunOptions`, and those of
    :class:`~scenewright.runs.options.RunArguments`::

        await refine("red ball on table", profile="sdxl", rounds=3)

    ``on_event`` receives every stored event once and in order, earlier events of a resumed run
    first, and the denoising steps and partial images in between.

    - ``realism``: judges also say how real each object looks, in shape and texture. Of pictures
      that hold equally many facts, the more real one is kept.
    - ``self_report``: the judges of the loop report the result, as in the Scene-Bench paper, and
      the result is labelled so. Otherwise no model of the loop, its director included, may report.
    - ``start``: the run begins with this picture instead of a drawing. With ``mask``, only its
      white part may change.
    - ``pause`` and ``edit``: once ``pause`` returns true, the result is ``paused``. ``edit``
      continues a paused or finished run with a person's correction.

    - ``page``: at the end the run's HTML page is written into its folder, where the result's
      ``page`` finds it; False leaves it out.

    The result's ``warnings`` mention models whose served version changed.

    The same call continues an interrupted run, or returns a finished one; cancelling loses nothing.

    Raises ``RunError`` (folder, disk, configuration), ``SceneError`` or the readers' errors for an
    invalid scene, ``EditError`` for an edit that does not fit (the run stays as it was),
    ``SettingsError``, ``BackendError`` and ``JudgeError``.
    """
    return await execute(plan_run(scene, profile, **arguments), on_event)


async def execute(plan: RunPlan, on_event: Callable[[Event], None] | None = None) -> RunResult:
    """Begin or continue the run of ``plan``, as :func:`refine` does.

    :func:`scenewright.runs.plan.plan_again` makes the plan of an existing run folder.
    """
    results: list[RunResult] = []
    async with aclosing(_drive(plan, results.append)) as events:
        async for event in events:
            if on_event is not None:
                on_event(event)
    if plan.page:
        await asyncio.to_thread(_write_page, plan.folder.path)
    return results[-1]


def _write_page(folder: Path) -> None:
    """Write the run's page; a page that cannot be written is a warning: the result is there."""
    # The drawing of the page's graph takes a while to import.
    from scenewright.runs.report.render import write_page

    try:
        write_page(folder)
    except PageError as error:
        told = f"the run is done, but has no page: {error}"
        warnings.warn(told, PageWarning, stacklevel=2)


async def stream_refine(
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    **arguments: Unpack[RunArguments],
) -> AsyncGenerator[Event, None]:
    """Yield the events of :func:`refine` as they happen; same arguments except ``on_event``.

    A run that continues yields its stored events first. The last event is ``Finished``, after the
    result file was written, or ``Paused`` for a run that waits for a person.
    """
    async with aclosing(stream_plan(plan_run(scene, profile, **arguments))) as events:
        async for event in events:
            yield event


async def stream_plan(plan: RunPlan) -> AsyncGenerator[Event, None]:
    """Yield the events of :func:`execute` as they happen."""
    async with aclosing(_drive(plan)) as events:
        async for event in events:
            yield event


async def _drive(plan: RunPlan, on_result: _OnResult = None) -> AsyncGenerator[Event, None]:
    """Begin or continue the run and yield every event once.

    ``Finished`` or ``Paused`` comes last, after ``on_result``.
    """
    folder = plan.folder
    with folder.locked():
        try:
            if plan.unread is not None:
                plan = await read_locked(plan)
                warn_of(plan.scene)
            manifest = folder.check_config(plan.config)
            if manifest is not None and not plan.resume and plan.named:
                raise RunError(
                    f"{folder.path} already holds this run: resume it, or choose another folder"
                )
            async with (
                in_thread(lambda: closing(Flusher())) as flusher,
                in_thread(lambda: closing(_open_log(folder, manifest, flusher))) as log,
            ):
                edit = _check_edit(plan, manifest, log)
                if log.record.finished is not None and edit is None:
                    await _write_result(folder, log, on_result)
                    for event in log.record.events:
                        yield event
                    return
                check_limit(plan)
                realism = plan.options.realism
                run_models = await build_run_models(
                    plan.profile, settings=plan.settings, realism=realism, **plan.overrides
                )
                check_initial_image(plan.options, run_models.backend)
                panel = await panel_for(
                    plan.profile,
                    run_models,
                    realism=realism,
                    director=run_models.chat if plan.profile.strategy == DIRECTOR else None,
                    settings=plan.settings,
                )
                models = models_of(run_models, panel, realism)
                addresses = _addresses(plan)
                if manifest is None:
                    # A served model names its words only when it is asked.
                    check_coverage(
                        await run_in_worker_if_large(
                            size_of(plan.scene), _covered, plan, run_models, plan.scene
                        )
                    )
                    await asyncio.to_thread(
                        folder.write_manifest, plan.config, models, plan.nonce, addresses
                    )
                elif _is_untouched(log):
                    # It failed on its models before any work: those of now may take their place.
                    if manifest["models"] != models:
                        # What was written in place of a model that failed is written anew.
                        await asyncio.to_thread(_cut_at_first_prompt, log)
                    nonce = plan.nonce or folder.nonce()
                    await asyncio.to_thread(
                        folder.write_manifest, plan.config, models, nonce, addresses
                    )
                else:
                    folder.check_models(manifest, models, addresses)
                    await asyncio.to_thread(_cut_at_lost_image, folder, log)
                for event in log.record.events:
                    yield event
                await warm(run_models)
                kit = (run_models, panel, log, flusher)
                async with aclosing(_loop(plan, *kit, edit, on_result)) as events:
                    async for event in events:
                        yield event
        except (LogError, StoreError, ImageError, DirectorError, ComposerError) as error:
            raise RunError(str(error)) from error
        except (sqlite3.Error, OSError) as error:
            raise RunError(
                f"the run in {folder.path} cannot be kept: {error}. Check that the folder is "
                "writable and the disk not full, then run the same again: it goes on"
            ) from error


def _is_untouched(log: EventLog) -> bool:
    """Return whether a run was begun, and nothing was drawn, judged or paid for it yet."""
    return all(
        isinstance(event, RunStarted | Resumed | Warned)
        or (isinstance(event, Composed) and not (event.usd or event.tokens_in or event.tokens_out))
        for event in log.record.events
    )


def _cut_at_first_prompt(log: EventLog) -> None:
    found = (at for at, event in enumerate(log.record.events) if isinstance(event, Composed))
    log.cut(next(found, len(log.record)))


def _addresses(plan: RunPlan) -> dict[str, str]:
    """Return the servers of the accounts of a run, without secrets; empty: the provider's own."""
    found = {}
    for name in sorted(plan.profile.accounts):
        # Models that were given may take the place of those that need an unknown account.
        with suppress(SettingsError):
            found[name] = place_of(plan.settings.account(name).base_url or "")
    return found


def _check_edit(plan: RunPlan, manifest: Mapping[str, Any] | None, log: EventLog) -> Edit | None:
    """Return the plan's edit, if the run does not have it yet.

    ``EditError`` if it does not fit.
    """
    edit = plan.edit
    if edit is None:
        return None
    if manifest is None or log.record.started is None:
        raise EditError(
            f"{plan.folder.path} holds no run yet, so there is nothing to edit: start it first"
        )
    if edit.key in {event.edit_key for event in log.record.edits}:
        return None
    if log.record.finished is None and not log.record.paused:
        raise EditError(
            f"the run in {plan.folder.path} was cut off at work: go on with it without an edit, "
            "and edit it when it is paused or finished"
        )
    options = plan.options
    edited(edit, log.record, options.form, len(log.record.edits), log.now())
    return edit


def _open_log(folder: RunFolder, manifest: Mapping[str, Any] | None, flusher: Flusher) -> EventLog:
    # Without a manifest the folder is still untouched; it must stay so if a model is missing.
    return EventLog(folder / EVENTS if manifest is not None else None, flusher=flusher)


def _cut_at_lost_image(folder: RunFolder, log: EventLog) -> None:
    """Forget what was told from the first lost image on: a power cut can take its file alone."""
    images = ImageStore(folder / IMAGES)
    for at, event in enumerate(log.record.events):
        if isinstance(event, Generated):
            request = event.request
            made = [shown.mask for shown in request.references]
            if request.start is not None:
                made += [request.start.image, request.start.mask]
            if not all(images.sound(name) for name in (event.image, *made) if name is not None):
                log.cut(at)
                return


async def _loop(
    plan: RunPlan,
    run_models: RunModels,
    panel: Panel,
    log: EventLog,
    flusher: Flusher,
    edit: Edit | None,
    on_result: _OnResult,
) -> AsyncGenerator[Event, None]:
    """Drive the graph from where its checkpoints stand."""
    folder = plan.folder
    async with AsyncExitStack() as stack:
        if log.path is None:
            log = await stack.enter_async_context(
                in_thread(lambda: closing(EventLog(folder / EVENTS, flusher=flusher)))
            )
        answers = await stack.enter_async_context(
            in_thread(
                lambda: closing(
                    open_answers(
                        plan.settings.answers,
                        folder / ANSWERS,
                        flusher=flusher,
                        payer=folder.nonce(),
                    )
                )
            )
        )
        saver = await stack.enter_async_context(plan.checkpoints(folder, lambda: len(log.record)))
        context = context_of(plan, run_models, panel, log, answers, flusher)
        await asyncio.to_thread(store_initial_image, plan.pictures, plan.options, context.images)
        machine = machine_of(plan.profile.strategy == DIRECTOR)
        first = await run_in_worker_if_large(size_of(plan.scene), _first_event, plan, log)
        driven = drive(machine, saver, context, plan.scene, first, edit, plan.drain)
        events = await stack.enter_async_context(aclosing(driven))
        watch = ServedWatch(log.record.events)
        _check_versions(plan, watch)
        async for event in events:
            if isinstance(event, Edited) or (
                isinstance(event, Resumed) and log.record.finished is None
            ):
                # The result of before the edit is none any more.
                (folder / RESULT).unlink(missing_ok=True)
            if isinstance(event, Finished):
                await _write_result(folder, log, on_result)
            elif isinstance(event, Paused) and on_result is not None:
                on_result(result_of(record_of(log.record.events, folder.path)))
            yield event
            if (warned := _reading_warning(plan, log, event)) is not None:
                yield warned
            if (warned := await _warning(plan, run_models, log, event)) is not None:
                yield warned
            for told in watch.take(event):
                if log.append(told):
                    yield told
            _check_versions(plan, watch)


def _check_versions(plan: RunPlan, watch: ServedWatch) -> None:
    if plan.on_model_change == "stop" and watch.mixed:
        raise RunError(
            f"{' '.join(watch.mixed)} What is drawn and judged is kept. Run the same with "
            "--on-model-change accept (on_model_change='accept') to go on with both, or with "
            "--fresh (resume=False) to begin a new run by the version served now"
        )


def _covered(plan: RunPlan, run_models: RunModels, scene: SceneGraph) -> Coverage:
    """Return the coverage of ``scene`` by the models of a run."""
    return coverage_of(
        plan.profile,
        plan.options.form.facts(scene),
        judges=run_models.loop_judges,
        report_judges=run_models.report_judges,
        backend=run_models.backend,
        settings=plan.settings,
    )


def _reading_warning(plan: RunPlan, log: EventLog, event: Event) -> Warned | None:
    """Return the stored warning if the rules read in place of the language model of a new run."""
    problem = "" if plan.reading is None else plan.reading.problem
    if not problem or not isinstance(event, RunStarted):
        return None
    warned = Warned(key="run:reading", at=log.now(), about="reading", text=problem)
    return warned if log.append(warned) else None


async def _warning(
    plan: RunPlan, run_models: RunModels, log: EventLog, event: Event
) -> Warned | None:
    """Return the stored warning if ``event`` brings a scene that the models know only in part."""
    if not isinstance(event, RunStarted | Edited):
        return None
    found = await run_in_worker_if_large(
        size_of(event.scene), _covered, plan, run_models, event.scene
    )
    warned = Warned(
        key=f"{event.key}:warned", at=log.now(), text=found.text, facts=tuple(found.outside)
    )
    return warned if not found.complete and log.append(warned) else None


def _first_event(plan: RunPlan, log: EventLog) -> Event:
    if log.record.started is None:
        return RunStarted(
            key="run",
            at=log.now(),
            run_id=plan.folder.id,
            scene=plan.scene,
            facts=plan.options.form.facts(plan.scene),
            config=plan.config,
            reading=plan.reading,
        )
    times = sum(isinstance(event, Resumed) for event in log.record.events)
    return Resumed(key=f"resumed:{times + 1}", at=log.now(), after=log.record.events[-1].key)


async def _write_result(folder: RunFolder, log: EventLog, on_result: _OnResult) -> None:
    path = folder / RESULT
    scene = SceneGraph() if log.record.started is None else log.record.started.scene
    result = await run_in_worker_if_large(
        size_of(scene), lambda: result_of(record_of(log.record.events, folder.path))
    )
    if log.record.edits or not path.exists():
        await asyncio.to_thread(lambda: write_text(path, result.model_dump_json(indent=2)))
    if on_result is not None:
        on_result(result)


def models_of(run_models: RunModels, panel: Panel, realism: bool) -> dict[str, Any]:
    """Return the models of a run for its manifest, with those of ``realism`` if it asks for it."""

    def both(model: ImageBackend | Judge | Composer) -> dict[str, str]:
        loading = getattr(model, "loading", "")
        told = {"loading": loading} if loading else {}
        return {"id": model.id, "fingerprint": model.fingerprint, **told}

    # The profile names the calibration's file, but its content decides verdicts, as weights do.
    known = {} if panel.calibration is None else {"calibration": panel.calibration.digest}
    judges = zip(JUDGE_GROUPS, run_models.groups.values(), strict=True)
    return {
        "backend": both(run_models.backend),
        "composer": both(run_models.composer),
        **{
            name: [both(judge) for judge in group]
            for name, group in judges
            if realism or name not in REALISM_FIELDS
        },
        **({} if run_models.chat is None else {"chat": chat_name(run_models.chat)}),
        **known,
    }


def context_of(
    plan: RunPlan,
    run_models: RunModels,
    panel: Panel,
    log: EventLog,
    answers: Answers,
    flusher: Flusher,
) -> RefineContext:
    """Return the context of the loop of ``plan``; its pictures lie in the run folder."""
    images = ImageStore(plan.folder / IMAGES, flusher=flusher, held_bytes=_HELD_BYTES)
    parts: dict[str, Any] = {
        **run_models.groups,
        "backend": run_models.backend,
        "composer": run_models.composer,
        "detector": run_models.detector,
        "images": images,
        "answers": answers,
        "log": log,
        "options": plan.options,
        "panel": panel,
        "cascade": plan.profile.cascade,
        "judge_timeout": plan.settings.judge_timeout,
        "nonce": plan.folder.nonce(),
        "pause": plan.pause,
        "watched": plan.watched,
    }
    if plan.profile.strategy != DIRECTOR:
        return RefineContext(**parts)
    from scenewright.graphs.director_record import DirectorContext

    assert run_models.chat is not None
    previews = bool(getattr(run_models.chat, "pictures", True))
    return DirectorContext(**parts, chat=run_models.chat, previews=previews)


@cache
def machine_of(directed: bool) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the loop, or the director's graph, without a checkpointer."""
    # Compiling looks through every node's source, which takes as long as a round of the loop.
    if not directed:
        return build_refine().compile()
    # Agents of LangChain take a while to import, and only the director is one.
    from scenewright.graphs.director import build_director

    return build_director().compile()

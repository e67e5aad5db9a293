"""A run at work in its locked folder: its models, its event log, and the graph that it drives."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from scenewright.agents.panel.panel import Panel
from scenewright.agents.parsers.unread import warn_of
from scenewright.config.profiles import DIRECTOR, REALISM_FIELDS, SettingsError
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
from scenewright.runs.coverage import Coverage, check_coverage
from scenewright.runs.folder import ANSWERS, EVENTS, IMAGES, RESULT, RunError
from scenewright.runs.model_factory.profiles import (
    RunModels,
    build_run_models,
    chat_name,
    warm,
)
from scenewright.runs.plan import RunPlan
from scenewright.runs.record import record_of
from scenewright.runs.result import RunResult, result_of
from scenewright.runs.run_reading import read_locked
from scenewright.runs.scoring import panel_for
from scenewright.runs.spending import check_limit

_HELD_BYTES = 64 * 2**20
"""Pixels that a run keeps in memory: its newest images, asked for by every judge and wave."""
OnResult = Callable[[RunResult], None] | None


async def run_events(plan: RunPlan, on_result: OnResult = None) -> AsyncGenerator[Event, None]:
    """Begin or continue the run of ``plan`` and yield every event once.

    ``Finished`` or ``Paused`` comes last, after ``on_result``.
    """
    folder = plan.folder
    with folder.locked(), _as_run_errors(folder.path):
        if plan.unread is not None:
            plan = await read_locked(plan)
            warn_of(plan.scene)
        manifest = folder.check_config(plan.config)
        if manifest is not None and not plan.resume and plan.named:
            raise RunError(
                f"{folder.path} already holds this run: resume it, or choose another folder"
            )
        # Without a manifest the folder stays untouched until the models are there.
        path = None if manifest is None else folder / EVENTS
        async with (
            in_thread(lambda: closing(Flusher())) as flusher,
            in_thread(lambda: closing(EventLog(path, flusher=flusher))) as log,
        ):
            edit = _new_edit(plan, manifest, log)
            if log.record.finished is not None and edit is None:
                await _write_result(plan, log, on_result)
                for event in log.record.events:
                    yield event
                return
            check_limit(plan)
            session = await RunSession.build(plan, log, flusher, on_result)
            await session.write_manifest(manifest)
            for event in log.record.events:
                yield event
            await warm(session.models)
            async with aclosing(session.events(edit)) as events:
                async for event in events:
                    yield event


@contextmanager
def _as_run_errors(path: Path) -> Iterator[None]:
    """Raise what storage and models of a run raise as ``RunError``."""
    try:
        yield
    except (LogError, StoreError, ImageError, DirectorError, ComposerError) as error:
        raise RunError(str(error)) from error
    except (sqlite3.Error, OSError) as error:
        raise RunError(
            f"the run in {path} cannot be kept: {error}. Check that the folder is "
            "writable and the disk not full, then run the same again: it goes on"
        ) from error


def _new_edit(plan: RunPlan, manifest: Mapping[str, Any] | None, log: EventLog) -> Edit | None:
    """Return the plan's edit, if the run does not have it yet.

    ``EditError`` if it does not fit.
    """
    edit, record = plan.edit, log.record
    if edit is None:
        return None
    if manifest is None or record.started is None:
        raise EditError(
            f"{plan.folder.path} holds no run yet, so there is nothing to edit: start it first"
        )
    if edit.key in {event.edit_key for event in record.edits}:
        return None
    if record.finished is None and not record.paused:
        raise EditError(
            f"the run in {plan.folder.path} was cut off at work: go on with it without an edit, "
            "and edit it when it is paused or finished"
        )
    edited(edit, record, plan.options.form, len(record.edits), log.now())
    return edit


async def _write_result(plan: RunPlan, log: EventLog, on_result: OnResult) -> None:
    path = plan.folder / RESULT
    scene = SceneGraph() if log.record.started is None else log.record.started.scene
    result = await run_in_worker_if_large(
        size_of(scene), lambda: result_of(record_of(log.record.events, plan.folder.path))
    )
    if log.record.edits or not path.exists():
        await asyncio.to_thread(lambda: write_text(path, result.model_dump_json(indent=2)))
    if on_result is not None:
        on_result(result)


@dataclass
class RunSession:
    """A run whose folder is locked and whose models are built."""

    plan: RunPlan
    """Its plan."""
    models: RunModels
    """Its models."""
    panel: Panel
    """Panel of its judges."""
    log: EventLog
    """Its events; in memory until the run has a manifest."""
    flusher: Flusher
    """Flushes its files."""
    on_result: OnResult = None
    """Called with its result."""
    watch: ServedWatch = field(default_factory=ServedWatch)
    """Models behind its answers."""

    @classmethod
    async def build(
        cls, plan: RunPlan, log: EventLog, flusher: Flusher, on_result: OnResult = None
    ) -> RunSession:
        """Return the session of ``plan`` with its models built."""
        realism, profile = plan.options.realism, plan.profile
        models = await build_run_models(
            profile, settings=plan.settings, realism=realism, **plan.overrides
        )
        check_initial_image(plan.options, models.backend)
        panel = await panel_for(
            profile,
            models,
            realism=realism,
            director=models.chat if profile.strategy == DIRECTOR else None,
            settings=plan.settings,
        )
        return cls(plan, models, panel, log, flusher, on_result)

    async def write_manifest(self, manifest: Mapping[str, Any] | None) -> None:
        """Write the manifest of a new run, or check that of an earlier beginning."""
        plan, folder, record = self.plan, self.plan.folder, self.log.record
        models = models_of(self.models, self.panel, plan.options.realism)
        addresses = _addresses(plan)
        nonce = plan.nonce
        if manifest is None:
            # A served model names its words only when it is asked.
            check_coverage(await self._coverage(plan.scene))
        elif record.untouched:
            # It failed on its models before any work: those of now may take their place.
            if manifest["models"] != models:
                # What was written in place of a model that failed is written anew.
                await asyncio.to_thread(self._cut_at_first_prompt)
            nonce = nonce or folder.nonce()
        else:
            folder.check_models(manifest, models, addresses)
            await asyncio.to_thread(self._cut_at_lost_image)
            return
        await asyncio.to_thread(folder.write_manifest, plan.config, models, nonce, addresses)

    async def events(self, edit: Edit | None) -> AsyncGenerator[Event, None]:
        """Drive the graph from where its checkpoints stand."""
        plan, folder = self.plan, self.plan.folder
        async with AsyncExitStack() as stack:
            if self.log.path is None:
                self.log = await stack.enter_async_context(
                    in_thread(lambda: closing(EventLog(folder / EVENTS, flusher=self.flusher)))
                )
            answers = await stack.enter_async_context(
                in_thread(
                    lambda: closing(
                        open_answers(
                            plan.settings.answers,
                            folder / ANSWERS,
                            flusher=self.flusher,
                            payer=folder.nonce(),
                        )
                    )
                )
            )
            record = self.log.record
            saver = await stack.enter_async_context(plan.checkpoints(folder, lambda: len(record)))
            context = self._context(answers)
            await asyncio.to_thread(
                store_initial_image, plan.pictures, plan.options, context.images
            )
            machine = machine_of(plan.profile.strategy == DIRECTOR)
            first = await run_in_worker_if_large(size_of(plan.scene), self._first_event)
            driven = drive(machine, saver, context, plan.scene, first, edit, plan.drain)
            events = await stack.enter_async_context(aclosing(driven))
            self.watch = ServedWatch(record.events)
            self._check_versions()
            async for event in events:
                if isinstance(event, Edited) or (
                    isinstance(event, Resumed) and record.finished is None
                ):
                    # The result of before the edit is none any more.
                    (folder / RESULT).unlink(missing_ok=True)
                if isinstance(event, Finished):
                    await _write_result(plan, self.log, self.on_result)
                elif isinstance(event, Paused) and self.on_result is not None:
                    self.on_result(result_of(record_of(record.events, folder.path)))
                yield event
                for warned in [*await self._warnings(event), *self.watch.take(event)]:
                    if self.log.append(warned):
                        yield warned
                self._check_versions()

    async def _warnings(self, event: Event) -> list[Warned]:
        """Return what is to be told of the scene that ``event`` brings."""
        found: list[Warned] = []
        if not isinstance(event, RunStarted | Edited):
            return found
        at, reading = self.log.now(), self.plan.reading
        if isinstance(event, RunStarted) and reading is not None and reading.problem:
            found.append(Warned(key="run:reading", at=at, about="reading", text=reading.problem))
        coverage = await self._coverage(event.scene)
        if not coverage.complete:
            outside = tuple(coverage.outside)
            found.append(
                Warned(key=f"{event.key}:warned", at=at, text=coverage.text, facts=outside)
            )
        return found

    async def _coverage(self, scene: SceneGraph) -> Coverage:
        """Return the coverage of ``scene`` by the models that were built."""
        return await run_in_worker_if_large(size_of(scene), self.plan.coverage, scene, self.models)

    def _check_versions(self) -> None:
        """Raise ``RunError`` if a model is served by another version and the run is to stop."""
        if self.plan.on_model_change == "stop" and self.watch.mixed:
            raise RunError(
                f"{' '.join(self.watch.mixed)} What is drawn and judged is kept. Run the same with "
                "--on-model-change accept (on_model_change='accept') to go on with both, or with "
                "--fresh (resume=False) to begin a new run by the version served now"
            )

    def _cut_at_first_prompt(self) -> None:
        events = self.log.record.events
        found = (at for at, event in enumerate(events) if isinstance(event, Composed))
        self.log.cut(next(found, len(events)))

    def _cut_at_lost_image(self) -> None:
        """Forget all from the first lost image on: a power cut can take its file alone."""
        images = ImageStore(self.plan.folder / IMAGES)
        for at, event in enumerate(self.log.record.events):
            if not isinstance(event, Generated):
                continue
            request = event.request
            made = [event.image, *(shown.mask for shown in request.references)]
            if request.start is not None:
                made += [request.start.image, request.start.mask]
            if not all(images.sound(name) for name in made if name is not None):
                self.log.cut(at)
                return

    def _first_event(self) -> Event:
        plan, log = self.plan, self.log
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
        times = len(log.record.all(Resumed))
        return Resumed(key=f"resumed:{times + 1}", at=log.now(), after=log.record.events[-1].key)

    def _context(self, answers: Answers) -> RefineContext:
        """Return the context of the loop; its pictures lie in the run folder."""
        plan, models = self.plan, self.models
        made: Callable[..., RefineContext] = RefineContext
        if plan.profile.strategy == DIRECTOR:
            from scenewright.graphs.director_record import DirectorContext

            assert models.chat is not None
            previews = bool(getattr(models.chat, "pictures", True))
            made = partial(DirectorContext, chat=models.chat, previews=previews)
        return made(
            loop_judges=models.loop_judges,
            report_judges=models.report_judges,
            realism_judges=models.realism_judges,
            realism_report_judges=models.realism_report_judges,
            backend=models.backend,
            composer=models.composer,
            detector=models.detector,
            images=ImageStore(plan.folder / IMAGES, flusher=self.flusher, held_bytes=_HELD_BYTES),
            answers=answers,
            log=self.log,
            options=plan.options,
            panel=self.panel,
            cascade=plan.profile.cascade,
            judge_timeout=plan.settings.judge_timeout,
            nonce=plan.folder.nonce(),
            pause=plan.pause,
            watched=plan.watched,
        )


def _addresses(plan: RunPlan) -> dict[str, str]:
    """Return the servers of the accounts of a run, without secrets; empty: the provider's own."""
    found = {}
    for name in sorted(plan.profile.accounts):
        # Models that were given may take the place of those that need an unknown account.
        with suppress(SettingsError):
            found[name] = place_of(plan.settings.account(name).base_url or "")
    return found


def models_of(run_models: RunModels, panel: Panel, realism: bool) -> dict[str, Any]:
    """Return the models of a run for its manifest, with those of ``realism`` if it asks for it."""

    def both(model: ImageBackend | Judge | Composer) -> dict[str, str]:
        loading = getattr(model, "loading", "")
        told = {"loading": loading} if loading else {}
        return {"id": model.id, "fingerprint": model.fingerprint, **told}

    # The profile names the calibration's file, but its content decides verdicts, as weights do.
    known = {} if panel.calibration is None else {"calibration": panel.calibration.digest}
    return {
        "backend": both(run_models.backend),
        "composer": both(run_models.composer),
        **{
            name: [both(judge) for judge in group]
            for name, group in run_models.groups.items()
            if realism or name not in REALISM_FIELDS
        },
        **({} if run_models.chat is None else {"chat": chat_name(run_models.chat)}),
        **known,
    }


@cache
def machine_of(directed: bool) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the loop, or the director's graph, without a checkpointer."""
    # Compiling looks through every node's source, which takes as long as a round of the loop.
    if not directed:
        return build_refine().compile()
    # Agents of LangChain take a while to import, and only the director is one.
    from scenewright.graphs.director import build_director

    return build_director().compile()

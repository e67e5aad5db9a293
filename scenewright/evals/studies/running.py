"""Runs studies: evaluations first, then trials of their own, then tables, plots and the index."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scenewright.config.settings import Settings, load_settings
from scenewright.evals.runner.independence import self_report_notes
from scenewright.evals.runner.progress import Progress
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.served_versions import version_notes
from scenewright.evals.store.results import Results
from scenewright.evals.studies.context import Context
from scenewright.evals.studies.layout import Layout
from scenewright.evals.studies.planning import Evaluation, Job, PlannedTrial, plan, planned_trials
from scenewright.evals.studies.prompts_read import COLUMNS as PROMPT_COLUMNS
from scenewright.evals.studies.prompts_read import PromptsRead
from scenewright.evals.studies.prompts_read import layout as prompts_layout
from scenewright.evals.studies.readings import Readings, lost_notes, read
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import Outcome, StudyDefinition
from scenewright.evals.studies.writing import write_index, write_study

WORK = "evaluations"
"""Folder below the results that holds pictures, answers and tables."""

OnProgress = Callable[[Progress], None]
Watch = Callable[[Job, int, int], AbstractContextManager[OnProgress | None]]
"""From an evaluation or trial, its number from 1 and how many there are, to what is told of its
progress. Evaluations come first."""
Runner = Callable[[Evaluation, Path, OnProgress | None], Awaitable[Results]]
"""Runs one evaluation in a folder."""
Conductor = Callable[[PlannedTrial, Path, OnProgress | None], Awaitable[tuple[Any, Context]]]
"""Does one trial in a folder."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One study that is done."""

    study: StudyDefinition
    """Which."""
    outcome: Outcome
    """What it found."""
    files: tuple[Path, ...]
    """What was written."""


async def run_studies(
    studies: Sequence[StudyDefinition],
    setup: Setup,
    out: str | Path,
    *,
    work: str | Path | None = None,
    settings: Settings | None = None,
    retry: bool = False,
    watch: Watch | None = None,
    runner: Runner | None = None,
    conductor: Conductor | None = None,
) -> tuple[Finished, ...]:
    """Run ``studies`` and write their tables, plots and ``index.md`` into the folder ``out``.

    What failed or was left unscored before is tried again if ``retry`` is asked. Pictures and
    answers lie in ``work`` (default: ``out/evaluations``): the same call again goes on
    where it was stopped, and other studies of the same setup find there what is done. ``runner``
    replaces the runner of evaluations, ``conductor`` what does trials. Raises what
    :func:`~scenewright.evals.runner.runner.run_eval` and trials raise, ``SettingsError`` and
    ``StudyError`` for a setup that fits no profile, and ``EvalError`` if nothing came of an
    evaluation or trial.
    """
    settings = settings or load_settings()
    place = Path(out)
    base = Path(work) if work is not None else place / WORK
    jobs: tuple[Job, ...] = (
        *plan(studies, setup, settings, base),
        *planned_trials(studies, setup, settings),
    )
    run = runner or _runner(settings, base, retry)
    conduct = conductor or _conductor(retry)
    findings: dict[tuple[int, int], Any] = {}
    contexts: dict[tuple[int, int], Context] = {}
    for number, job in enumerate(jobs, start=1):
        folder = base / job.family
        found: Any
        with watch(job, number, len(jobs)) if watch else nullcontext() as told:
            if isinstance(job, PlannedTrial):
                found, context = await conduct(job, folder, told)
            else:
                results = await run(job, folder, told)
                context = context_of(results, job)
                # Read at once: another evaluation of the family writes its tables over these.
                found = await asyncio.to_thread(read, results, setup.profile)
        for key in job.wants:
            findings[key] = found
            contexts[key] = context
    return await asyncio.to_thread(_written, studies, setup, settings, place, findings, contexts)


def _conductor(retry: bool) -> Conductor:
    async def conduct(
        sitting: PlannedTrial, folder: Path, told: OnProgress | None
    ) -> tuple[Any, Context]:
        return await sitting.trial.run(folder, told, retry)

    return conduct


def _runner(settings: Settings, base: Path, retry: bool) -> Runner:
    async def run(evaluation: Evaluation, folder: Path, told: OnProgress | None) -> Results:
        return await run_eval(
            evaluation.config,
            folder,
            settings=settings,
            root=base,
            retry=retry,
            dataset=evaluation.dataset,
            on_progress=told,
        )

    return run


def _written(
    studies: Sequence[StudyDefinition],
    setup: Setup,
    settings: Settings,
    place: Path,
    findings: Mapping[tuple[int, int], Any],
    contexts: Mapping[tuple[int, int], Context],
) -> tuple[Finished, ...]:
    done = []
    for at, study in enumerate(studies):
        keys = [key for key in sorted(findings) if key[0] == at]
        found = tuple(findings[key] for key in keys)
        outcome = study.outcome(setup, settings, found)
        notes = [*outcome.notes, *lost_notes([one for one in found if isinstance(one, Readings)])]
        notes += [note for key in keys for note in contexts[key].self_reports]
        outcome = replace(
            outcome,
            tables=(*outcome.tables, *_prompts(outcome.tables, found)),
            notes=tuple(dict.fromkeys(notes)),
        )
        files = write_study(place, study, outcome, setup, [contexts[key] for key in keys])
        done.append(Finished(study, outcome, files))
    write_index(place)
    return tuple(done)


def _prompts(tables: Sequence[Layout], found: Sequence[Any]) -> tuple[Layout, ...]:
    """What of the prompts of a study's pictures was not read, where its ``tables`` do not say it
    themselves: those of a paper have its columns alone."""
    own = {column.key for table in tables for column in table.columns}
    if own.issuperset(column.key for column in PROMPT_COLUMNS):
        return ()
    read: dict[str, PromptsRead | None] = {}
    for one in found:
        if isinstance(one, Readings):
            read |= {condition: one.prompts_of(condition) for condition in one.prompts}
    table = prompts_layout(read, "Condition")
    return () if table is None else (table,)


def context_of(results: Results, evaluation: Evaluation) -> Context:
    """What a reader must know of an evaluation: its set, models, size and cost."""
    manifest: dict[str, Any] = results.manifest
    models = manifest.get("models", {})
    panels = {
        name: [judge["id"] for judge in judges] for name, judges in models.get("panels", {}).items()
    }
    drawn = {arm["backend"]["id"] for arm in models.get("arms", {}).values()}
    spec = evaluation.config.dataset
    own = evaluation.dataset
    return Context(
        set_name=spec.name,
        fingerprint=str(manifest.get("dataset", {}).get("fingerprint", ""))
        if own is None
        else own.fingerprint,
        items=results.table("items", ["item"]).num_rows,
        seeds=evaluation.config.seeds,
        protocol=evaluation.config.protocol,
        backends=tuple(sorted(drawn)),
        panels=panels,
        self_reports=(*self_report_notes(manifest), *version_notes(manifest)),
        totals={
            name: float(value)
            for name, value in manifest.get("totals", {}).items()
            if isinstance(value, int | float)
        },
    )

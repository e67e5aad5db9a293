"""Runs studies: evaluations first, one after the other, then tables, plots and the index."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.evals.results import Results
from scenewright.evals.runner import Progress, run_eval
from scenewright.evals.studies.planning import Evaluation, plan
from scenewright.evals.studies.readings import Readings, read
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import Outcome, Study
from scenewright.evals.studies.writing import Context, write_index, write_study
from scenewright.settings import Settings, load_settings

WORK = "evaluations"
"""Folder below the results that holds pictures, answers and tables."""

Told = Callable[[Progress], None]
Watch = Callable[[Evaluation, int, int], AbstractContextManager[Told | None]]
"""From an evaluation, its number from 1 and how many there are, to what is told of its progress."""
Runner = Callable[[Evaluation, Path, Told | None], Awaitable[Results]]
"""Runs one evaluation in a folder."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One study that is done."""

    study: Study
    """Which."""
    outcome: Outcome
    """What it found."""
    files: tuple[Path, ...]
    """What was written."""


async def run_studies(
    studies: Sequence[Study],
    setup: Setup,
    out: str | Path,
    *,
    work: str | Path | None = None,
    settings: Settings | None = None,
    watch: Watch | None = None,
    runner: Runner | None = None,
) -> tuple[Finished, ...]:
    """Run ``studies`` and write their tables, plots and ``index.md`` into the folder ``out``.

    Pictures and answers lie in ``work`` (default: ``out/evaluations``): the same call again goes on
    where it was stopped, and other studies of the same setup find there what is done. ``runner``
    replaces the runner of evaluations. Raises what :func:`~scenewright.evals.runner.run_eval`
    raises, ``SettingsError`` and ``StudyError`` for a setup that fits no profile, and ``EvalError``
    if nothing came of an evaluation.
    """
    settings = settings or load_settings()
    place = Path(out)
    base = Path(work) if work is not None else place / WORK
    evaluations = plan(studies, setup, settings, base)
    run = runner or _runner(settings, base)
    readings: dict[tuple[int, int], Readings] = {}
    contexts: dict[tuple[int, int], Context] = {}
    for number, evaluation in enumerate(evaluations, start=1):
        watched = watch(evaluation, number, len(evaluations)) if watch else nullcontext()
        with watched as told:
            results = await run(evaluation, base / evaluation.family, told)
        # Read at once: another evaluation of the family writes its tables over these.
        found = await asyncio.to_thread(read, results, setup.profile)
        for key in evaluation.wants:
            readings[key] = found
            contexts[key] = context_of(results, evaluation)
    return await asyncio.to_thread(_written, studies, setup, settings, place, readings, contexts)


def _runner(settings: Settings, base: Path) -> Runner:
    async def run(evaluation: Evaluation, folder: Path, told: Told | None) -> Results:
        return await run_eval(
            evaluation.config,
            folder,
            settings=settings,
            root=base,
            dataset=evaluation.dataset,
            on_progress=told,
        )

    return run


def _written(
    studies: Sequence[Study],
    setup: Setup,
    settings: Settings,
    place: Path,
    readings: Mapping[tuple[int, int], Readings],
    contexts: Mapping[tuple[int, int], Context],
) -> tuple[Finished, ...]:
    done = []
    for at, study in enumerate(studies):
        keys = [key for key in sorted(readings) if key[0] == at]
        outcome = study.outcome(setup, settings, tuple(readings[key] for key in keys))
        files = write_study(place, study, outcome, setup, [contexts[key] for key in keys])
        done.append(Finished(study, outcome, files))
    write_index(place)
    return tuple(done)


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
        totals={
            name: float(value)
            for name, value in manifest.get("totals", {}).items()
            if isinstance(value, int | float)
        },
    )

"""Run studies: evaluations first, then trials of their own, then tables, plots and the index.

Studies state their requirements; those of the same family, panels and seeds become one evaluation,
so that each picture is drawn once. A study's files are Markdown, CSV, JSON and a plot; ``index.md``
lists all of them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import PackageLoader

from scenewright.config.settings import Settings, load_settings
from scenewright.core.flushing import replacing
from scenewright.evals.datasets.base import Dataset, DatasetSpec
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting import plots
from scenewright.evals.reporting.pages import environment
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.independence import self_report_notes
from scenewright.evals.runner.progress import Progress
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.served_versions import version_notes
from scenewright.evals.store.results import Results
from scenewright.evals.studies.layout import Layout, as_csv
from scenewright.evals.studies.paper import COUNTED, VERDICTS, Claim
from scenewright.evals.studies.readings import COLUMNS as PROMPT_COLUMNS
from scenewright.evals.studies.readings import PromptsRead, Readings, lost_notes, read
from scenewright.evals.studies.readings import layout as prompts_layout
from scenewright.evals.studies.study import (
    SCENES_FAMILY,
    Context,
    Outcome,
    Setup,
    StudyDefinition,
    StudyRequirement,
    Trial,
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation, and the requirements that it meets."""

    family: str
    """Its folder: pictures and answers that lie there already are not made again."""
    config: EvalConfig
    """What is done."""
    dataset: Dataset | None
    """The set, where it is a study's own."""
    requirements: tuple[tuple[int, int], ...]
    """(number of the study, number of its requirement) of all that it meets."""

    @property
    def arms(self) -> int:
        """Backends × conditions × seeds."""
        config = self.config
        return len(config.backends) * len(config.conditions) * len(config.seeds)

    @property
    def title(self) -> str:
        """Name in the progress display."""
        return self.config.dataset.name


Job = Evaluation | Trial
"""What is run in a folder of its own."""


def plan(
    studies: Sequence[StudyDefinition], setup: Setup, settings: Settings, work: Path | None = None
) -> tuple[Job, ...]:
    """Return the evaluations that meet the requirements of ``studies``, then their trials.

    Requirements of the same family, panels and seeds become one evaluation. The largest of a family
    comes last, so that the tables that stay in its folder are the fullest. ``work`` is the folder
    of what they need on disk; without it nothing is written, and painted scenes have no photos.
    Raises what the studies' ``requirements`` raise.
    """
    groups: dict[str, list[tuple[tuple[int, int], StudyRequirement]]] = {}
    trials: list[Trial] = []
    for at, study in enumerate(studies):
        for number, one in enumerate(study.requirements(setup, settings)):
            if isinstance(one, Trial):
                trials.append(replace(one, requirements=((at, number),)))
                continue
            panels = [f"{name}={spec.model_dump_json()}" for name, spec in one.panels.items()]
            own = one.dataset.fingerprint if one.dataset is not None else ""
            key = "\n".join([one.family, one.apart, own, str(one.seeds), *panels])
            groups.setdefault(key, []).append(((at, number), one))
    found = [_merged(some, setup, work) for some in groups.values()]
    found.sort(key=lambda e: (e.family != SCENES_FAMILY, e.family, e.arms))
    return (*found, *trials)


def _merged(
    some: list[tuple[tuple[int, int], StudyRequirement]], setup: Setup, work: Path | None
) -> Evaluation:
    needs = [requirement for _, requirement in some]
    first = needs[0]
    metrics = {metric.model_dump_json(): metric for one in needs for metric in one.metrics}
    spec = setup.set_of_scenes(work)
    if first.dataset is not None:
        # It is handed over as it is: the name alone stands in the results.
        spec = DatasetSpec(name=first.dataset.name)
    config = setup.config(
        f"study-{first.family}",
        about=f"Pictures of the studies of Scene-Bench ({setup.profile})",
        dataset=spec,
        conditions=tuple(dict.fromkeys(name for one in needs for name in one.conditions)),
        panels=dict(first.panels),
        seeds=first.seeds,
        metrics=tuple(metrics.values()),
        scopes=tuple(dict.fromkeys(scope for one in needs for scope in one.scopes)),
        judge_rounds="all" if any(one.all_rounds for one in needs) else "kept",
    )
    return Evaluation(first.family, config, first.dataset, tuple(place for place, _ in some))


INDEX = "index.md"
_FORMAT = 1


def write_study(
    folder: Path,
    study: StudyDefinition,
    outcome: Outcome,
    setup: Setup,
    contexts: Sequence[Context],
) -> tuple[Path, ...]:
    """Write ``study``'s four files into ``folder``, each whole or not at all.

    Raises ``EvalError`` if the folder cannot be written.
    """
    stem = folder / study.file
    paper = study.paper()
    data = {
        "format": _FORMAT,
        "study": study.name,
        "number": study.number,
        "title": study.title,
        "answer": None if outcome.answer is None else outcome.answer.model_dump(),
        "profile": setup.profile,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "paper": {"name": paper.paper, "mark": paper.mark},
        "evaluations": [context.model_dump(mode="json") for context in contexts],
        "tables": [table.model_dump(mode="json") for table in outcome.tables],
        "claims": [_claim(claim) for claim in outcome.claims],
        "notes": list(outcome.notes),
        **({"data": dict(outcome.data)} if outcome.data else {}),
    }
    texts = {
        ".md": _page(
            "study.md.j2",
            study=study,
            outcome=outcome,
            profile=setup.profile,
            contexts=[context.sentence() for context in contexts],
        ),
        ".csv": as_csv(outcome.tables),
        ".json": json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    }
    title, figure = f"{study.number}: {study.title}", outcome.plot()
    writers: dict[str, Callable[[Path], object]] = {
        ending: partial(Path.write_text, data=text, encoding="utf-8")
        for ending, text in texts.items()
    }
    writers[".svg"] = lambda draft: plots.save(figure, draft, title)
    for ending, write in writers.items():
        _whole(stem.with_name(stem.name + ending), write)
    return tuple(stem.with_name(stem.name + ending) for ending in writers)


def write_index(folder: Path) -> Path:
    """Write ``index.md`` of all studies whose files lie in ``folder``, those of earlier calls too.

    Raises ``EvalError`` if a file there cannot be read, or the index cannot be written.
    """
    found = _studies(folder)
    order = list(VERDICTS)
    for data in found:
        data["claims"].sort(key=lambda claim: order.index(claim["verdict"]))
    counts = Counter(claim["verdict"] for data in found for claim in data["claims"])
    text = _page(
        "index.md.j2",
        profiles=sorted({data["profile"] for data in found}),
        papers=dict.fromkeys(f"*{d['paper']['name']}* ({d['paper']['mark']})" for d in found),
        total=counts.total(),
        counted=[f"{counts[name]} {words}" for name, words in COUNTED.items() if counts[name]],
        studies=found,
    )
    target = folder / INDEX
    _whole(target, lambda draft: draft.write_text(text, encoding="utf-8"))
    return target


def _page(template: str, **values: Any) -> str:
    pages = environment(PackageLoader("scenewright.evals.studies", "assets"), escapes=False)
    return pages.get_template(template).render(**values)


def _studies(folder: Path) -> list[dict[str, Any]]:
    from scenewright.evals.studies.registry import STUDIES

    found = []
    for study in STUDIES.values():
        file = folder / f"{study.file}.json"
        if not file.exists():
            continue
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            if data["format"] != _FORMAT:
                raise ValueError(f"format {data['format']}")
            # Files of earlier versions have no answer.
            found.append({"answer": None, **data, "file": study.file})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EvalError(
                f"{file} is not a result of a study ({error}): delete it, or run the study again"
            ) from error
    return found


def _claim(claim: Claim) -> dict[str, Any]:
    said = claim.model_dump(mode="json")
    return {**said, "verdict": claim.verdict, "sentence": claim.sentence()}


def _whole(file: Path, write: Callable[[Path], object]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as draft:
            write(draft)
    except OSError as error:
        raise EvalError(
            f"{file} cannot be written: {error.strerror or error}. Name another folder with --out; "
            "what was drawn is kept"
        ) from error


WORK = "evaluations"
"""Folder below the results that holds pictures, answers and tables."""

OnProgress = Callable[[Progress], None]
Watch = Callable[[Job, int, int], AbstractContextManager[OnProgress | None]]
"""Takes an evaluation or trial, its number from 1 and how many there are; yields a progress
callback. Evaluations come first."""
Perform = Callable[[Job, Path, OnProgress | None], Awaitable[tuple[Any, Context]]]
"""Does one job in a folder; returns what the studies' outcomes read, and its context."""


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
    perform: Perform | None = None,
) -> tuple[Finished, ...]:
    """Run ``studies`` and write their tables, plots and ``index.md`` into the folder ``out``.

    What failed or was left unscored before is tried again if ``retry`` is asked. Pictures and
    answers lie in ``work`` (default: ``out/evaluations``): the same call again goes on
    where it was stopped, and other studies of the same setup find there what is done. ``perform``
    replaces what does evaluations and trials. Raises what
    :func:`~scenewright.evals.runner.runner.run_eval` and trials raise, ``SettingsError`` and
    ``StudyError`` for a setup that fits no profile, and ``EvalError`` if nothing came of an
    evaluation or trial.
    """
    settings = settings or load_settings()
    place = Path(out)
    base = Path(work) if work is not None else place / WORK
    jobs = plan(studies, setup, settings, base)
    do = perform or partial(_perform, settings, base, retry, setup.profile)
    findings: dict[tuple[int, int], Any] = {}
    contexts: dict[tuple[int, int], Context] = {}
    for number, job in enumerate(jobs, start=1):
        with watch(job, number, len(jobs)) if watch else nullcontext() as told:
            found, context = await do(job, base / job.family, told)
        for key in job.requirements:
            findings[key] = found
            contexts[key] = context
    return await asyncio.to_thread(_written, studies, setup, settings, place, findings, contexts)


async def _perform(
    settings: Settings,
    base: Path,
    retry: bool,
    profile: str,
    job: Job,
    folder: Path,
    told: OnProgress | None,
) -> tuple[Any, Context]:
    if isinstance(job, Trial):
        return await job.run(folder, told, retry)
    results = await run_eval(
        job.config,
        folder,
        settings=settings,
        root=base,
        retry=retry,
        dataset=job.dataset,
        on_progress=told,
    )
    # Read at once: another evaluation of the family writes its tables over these.
    return await asyncio.to_thread(read, results, profile), context_of(results, job)


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
    """Return how much of the prompts of a study's pictures was not read.

    Only where its ``tables`` do not say it themselves: those of a paper have its columns alone.
    """
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
    """Return the set, models, size and cost of an evaluation, for readers of a study."""
    manifest: dict[str, Any] = results.manifest
    models = manifest.get("models", {})
    panels = {
        name: [judge["id"] for judge in judges] for name, judges in models.get("panels", {}).items()
    }
    drawn = {arm["backend"]["id"] for arm in models.get("arms", {}).values()}
    own = evaluation.dataset
    described = manifest.get("dataset", {}).get("fingerprint", "")
    return Context(
        set_name=evaluation.config.dataset.name,
        fingerprint=str(described if own is None else own.fingerprint),
        items=results.table("items", ["item"]).num_rows,
        seeds=evaluation.config.seeds,
        protocol=evaluation.config.protocol,
        backends=tuple(sorted(drawn)),
        panels=panels,
        self_reports=(*self_report_notes(manifest), *version_notes(manifest)),
        totals=manifest.get("totals", {}),
    )

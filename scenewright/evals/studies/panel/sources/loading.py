"""From the source that a configuration names to a table of answers, and what asking will take."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from scenewright.config.settings import Settings
from scenewright.evals.judge_reports.labelled_facts import (
    ABSENT,
    LabelError,
    LabelledFact,
    read_labels,
)
from scenewright.evals.runner.forecast import CostForecast
from scenewright.evals.studies.panel.sources.live_judges import (
    Loaded,
    OnProgress,
    expected,
    judges_of,
    query_table,
)
from scenewright.evals.studies.panel.sources.recorded import load_evaluation, load_runs
from scenewright.evals.studies.panel.sources.tables import read_answers
from scenewright.evals.studies.panel.study import (
    DsgSource,
    EvaluationSource,
    LabelsSource,
    LiveSource,
    RunsSource,
    SimulationSource,
    Source,
    SyntheticSource,
    TableSource,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from scenewright.providers import AnswerStore

EVALUATION = "evaluation"
"""Folder of an evaluation that a study runs, in the study's own."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a source will take."""

    questions: int = 0
    """Questions to judges, without what is kept already; 0: nothing is asked."""
    costs: CostForecast = field(default_factory=CostForecast)
    """Models behind accounts, at most."""


async def load_source(
    source: Source,
    *,
    root: Path,
    folder: Path,
    settings: Settings,
    store: AnswerStore,
    told: OnProgress = lambda doing, done, total: None,
) -> Loaded:
    """Return the answers of ``source``, whose relative paths begin at ``root``.

    ``folder`` is the study's, ``store`` keeps what judges answer. Raises ``PanelStudyError``, and
    for an evaluation or judges what these raise.
    """
    if isinstance(source, SyntheticSource | LabelsSource):
        facts, name, about = await asyncio.to_thread(_labelled, source, root)
        judges = await judges_of(source.judges, settings)
        limit = settings.judge_timeout
        return await query_table(name, about, facts, judges, store, limit=limit, told=told)
    if isinstance(source, EvaluationSource | LiveSource):
        place = root / source.path
        if isinstance(source, LiveSource):
            place = await _evaluated(source, root, folder, settings, told)
        return await load_evaluation(
            place,
            store=store,
            settings=settings,
            model=source.model,
            ratings=None if source.ratings is None else root / source.ratings,
            ask_again=source.ask_again,
        )
    if isinstance(source, RunsSource):
        return await asyncio.to_thread(load_runs, root / source.path)
    if isinstance(source, TableSource):
        path = root / source.path
        table, notes = await asyncio.to_thread(read_answers, path)
        return Loaded(table, f"Answers of the table {path.name}.", notes=notes)
    table, about = await asyncio.to_thread(_read, source, root)
    return Loaded(table, about)


async def plan_source(
    source: Source, *, root: Path, folder: Path, settings: Settings
) -> SourcePlan:
    """Estimate the most that :func:`load_source` will take, without asking or drawing.

    Raises what that raises.
    """
    if isinstance(source, SyntheticSource | LabelsSource):
        facts, _, _ = await asyncio.to_thread(_labelled, source, root)
        judges = await judges_of(source.judges, settings)
        return SourcePlan(len(facts) * len(judges), await expected(facts, judges))
    if not isinstance(source, LiveSource):
        return SourcePlan()
    from scenewright.evals.runner.config import load_config
    from scenewright.evals.runner.estimating import estimate

    config = root / source.path
    found = await estimate(
        load_config(config), _place(source, root, folder), settings=settings, root=config.parent
    )
    paid = (n for n in found.rest.lines if n.most.calls or n.most.usage.images)
    questions = round(found.facts * found.looks[1] / max(1, found.items))
    return SourcePlan(questions, CostForecast.of(paid))


def _labelled(
    source: SyntheticSource | LabelsSource, root: Path
) -> tuple[tuple[LabelledFact, ...], str, str]:
    """Its facts, its name, and a sentence about it."""
    if isinstance(source, LabelsSource):
        path = root / source.path
        try:
            facts = read_labels(path)
        except LabelError as error:
            raise PanelStudyError(str(error)) from error
        return facts, path.stem, f"Judges asked about the labelled pictures of {path.name}."
    from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts

    facts = synthetic_facts(source.paintings, source.seed)
    if source.as_in_runs:
        facts = tuple(f for f in facts if f.group != ABSENT or f.fact.kind == "object")
    about = (
        f"Judges asked about {source.paintings} paintings of the miniature world (seed "
        f"{source.seed}), whose truth is exact."
    )
    return facts, "miniature", about


def _read(source: DsgSource | SimulationSource, root: Path) -> tuple[AnswerTable, str]:
    """Return the table, and a sentence about it."""
    if isinstance(source, DsgSource):
        from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release

        about = (
            "Answers released with the Davidsonian Scene Graph (Cho et al., 2024) to the DSG "
            "questions of TIFA160, with human ratings of the same images."
        )
        return load_dsg_release(root / source.path), about
    from pydantic import ValidationError

    from scenewright.core.validation import first_problem
    from scenewright.evals.studies.panel.simulator import SimulationSpec, simulate

    try:
        spec = SimulationSpec.model_validate(source.spec)
    except ValidationError as error:
        raise PanelStudyError(f"source.spec: {first_problem(error)}") from error
    return simulate(spec), "Simulated judges whose rates are known."


def _place(source: LiveSource, root: Path, folder: Path) -> Path:
    return folder / EVALUATION if source.out is None else root / source.out


async def _evaluated(
    source: LiveSource, root: Path, folder: Path, settings: Settings, told: OnProgress
) -> Path:
    """Run the evaluation, or go on with it; its folder."""
    from scenewright.evals.datasets.registry import open_dataset
    from scenewright.evals.runner.config import load_config
    from scenewright.evals.runner.progress import Progress
    from scenewright.evals.runner.runner import run_eval

    config = root / source.path
    wanted = load_config(config)
    items = await asyncio.to_thread(open_dataset, wanted.dataset, config.parent)
    total = await asyncio.to_thread(lambda: sum(1 for _ in items))

    def show(now: Progress) -> None:
        told(f"the evaluation: {now.doing}", now.items, total)

    place = _place(source, root, folder)
    await run_eval(
        wanted, place, settings=settings, root=config.parent, dataset=items, on_progress=show
    )
    return place


def with_families(table: AnswerTable, families: Mapping[str, str]) -> AnswerTable:
    """``table`` with these families of judges. Raises ``PanelStudyError`` for an unknown judge."""
    unknown = sorted(set(families) - set(table.judge_ids))
    if unknown:
        raise PanelStudyError(
            f"[families] names {', '.join(unknown)}, but the judges are "
            f"{', '.join(table.judge_ids)}"
        )
    judges = tuple(replace(j, family=families.get(j.id, j.family)) for j in table.judges)
    return replace(table, judges=judges)


def fitting(learn: AnswerTable, table: AnswerTable) -> AnswerTable:
    """Return ``learn`` with the judges of ``table``, in their order.

    Raises ``PanelStudyError`` where one is lacking, or has another fingerprint.
    """
    places = {judge.id: at for at, judge in enumerate(learn.judges)}
    lacking = [judge for judge in table.judge_ids if judge not in places]
    if lacking:
        raise PanelStudyError(
            f"[learn] has no answers of {', '.join(lacking)}: what is learnt must be of the same "
            "judges"
        )
    for judge in table.judges:
        other = learn.judges[places[judge.id]].fingerprint
        if judge.fingerprint and other and judge.fingerprint != other:
            raise PanelStudyError(
                f"{judge.id} is another model in [learn] (its fingerprint differs): ask it anew"
            )
    columns = [places[judge] for judge in table.judge_ids]
    return learn.with_judges(columns, table.judges)

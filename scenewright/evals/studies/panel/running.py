"""Runs a study of a panel: its source, then part after part; what is done stays done.

The same call again goes on: judges' answers lie in a store, and the result of a part is read back
where its answers, options and code are the same.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from scenewright.config.settings import Settings, load_settings
from scenewright.evals.errors import EvalError
from scenewright.evals.studies.panel.base import PanelStudy, PanelStudyContext, unmet_need
from scenewright.evals.studies.panel.config import StudyConfig
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.parts.registry import PARTS, part_of
from scenewright.evals.studies.panel.result_cache import (
    ERROR,
    WORK,
    Outcome,
    clear,
    digest_of,
    key_of,
    load_cached,
    not_done,
    write_result,
)
from scenewright.evals.studies.panel.sources.base import Loaded
from scenewright.evals.studies.panel.sources.loading import fitting, load_source, with_families
from scenewright.evals.studies.panel.sources.table_file import write_table
from scenewright.evals.studies.panel.table import AnswerTable
from scenewright.providers import AnswerStore
from scenewright.runs.folder import RunFolder

ANSWERS = "answers.db"
"""In the study's folder: what judges were asked and said."""
TABLE = "answers.parquet"
"""In the study's folder: the table of answers, as the source ``table`` reads it."""


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """How far a study is."""

    doing: str
    """What is done now."""
    done: int
    """How far it is."""
    total: int
    """Of how much; 0 where that is not known."""
    step: int
    """Number of the step, from 1."""
    steps: int
    """How many there are: the source, what is learnt from, and each part."""


@dataclass(frozen=True, slots=True)
class PanelStudyRun:
    """A study that was run."""

    config: StudyConfig
    """What was asked."""
    folder: Path
    """Where it lies."""
    loaded: Loaded
    """The answers."""
    learn: AnswerTable | None
    """What was learnt from."""
    digests: tuple[str, str]
    """Of the table and of what was learnt from; empty without."""
    outcomes: tuple[Outcome, ...]
    """What came of the parts, in the order of the page."""

    @property
    def loop_judges(self) -> tuple[str, ...]:
        """Judges of the table that steered a loop."""
        given = self.config.loop_judges
        return self.loaded.loop_judges if given is None else given


Watch = Callable[[StudyProgress], None]
Written = Callable[[PanelStudyRun], object]


async def run_study(
    config: StudyConfig,
    out: str | Path,
    *,
    root: str | Path = ".",
    settings: Settings | None = None,
    only: Sequence[str] = (),
    watch: Watch = lambda stand: None,
    write: Written = lambda study: None,
    parts: Sequence[PanelStudy] | None = None,
) -> PanelStudyRun:
    """Run ``config`` in the folder ``out``, or go on with it.

    Relative paths of the configuration begin at ``root``. ``only`` names the parts that are run
    now; others are read back where they are still good. ``write`` is called with what there is
    after each part. ``parts`` replaces those of the configuration. A part that fails is told with
    its reason, and the others go on. Raises ``PanelStudyError`` for options and names that do not
    fit, before anything is asked, and what the source raises; ``RunError`` where another process
    works in the folder. Cancelling keeps all that is done.
    """
    settings = settings or load_settings()
    place, base = Path(out), Path(root)
    known = chosen_parts(config, only) if parts is None else tuple(parts)
    options = {part.name: config.options_of(part) for part in known}
    steps = len(known) + (1 if config.learn is None else 2)

    with RunFolder(place).locked(), closing(AnswerStore(place / ANSWERS)) as store:
        at = 1

        def told(doing: str, done: int, total: int) -> None:
            watch(StudyProgress(doing, done, total, at, steps))

        told("reading the answers", 0, 0)
        loaded = await load_source(
            config.source, root=base, folder=place, settings=settings, store=store, told=told
        )
        table = with_families(loaded.table, config.families)
        loaded = replace(loaded, table=table)
        learn = None
        if config.learn is not None:
            at += 1
            told("reading what may be learnt from", 0, 0)
            other = await load_source(
                config.learn,
                root=base,
                folder=place / "learn",
                settings=settings,
                store=store,
                told=told,
            )
            learn = fitting(other.table, table)
        loaded = await asyncio.to_thread(_written, loaded, place)
        digests = (digest_of(table), "" if learn is None else digest_of(learn))
        study = PanelStudyRun(config, place, loaded, learn, digests, ())
        unknown = sorted(set(study.loop_judges) - set(table.judge_ids))
        if unknown:
            raise PanelStudyError(
                f"loop_judges names {', '.join(unknown)}, but the judges are "
                f"{', '.join(table.judge_ids)}"
            )
        waiting = tuple(
            not_done(part, "not run", "the study has not come to it", options[part.name])
            for part in known
        )
        study = replace(study, outcomes=waiting)
        for number, part in enumerate(known):
            at += 1
            context = PanelStudyContext(
                table=table,
                learn=learn,
                folder=place / part.name / WORK,
                settings=settings,
                seed=config.seed,
                resamples=config.resamples,
                loop_judges=study.loop_judges,
                live=loaded.live,
                told=lambda done, total, part=part: told(part.title, done, total),  # type: ignore[misc]
            )
            found = await _outcome(
                part, config, context, place / part.name, digests, not only or part.name in only
            )
            outcomes = (*study.outcomes[:number], found, *study.outcomes[number + 1 :])
            study = replace(study, outcomes=outcomes)
            await asyncio.to_thread(write, study)
    return study


def chosen_parts(config: StudyConfig, only: Sequence[str] = ()) -> tuple[PanelStudy, ...]:
    """The parts of ``config`` in the order of the page; ``only`` may name more of them. Raises
    ``PanelStudyError`` for an unknown one."""
    for name in only:
        part_of(name)
    wanted = {*(config.parts or PARTS), *only}
    return tuple(part_of(name) for name in PARTS if name in wanted)


def _written(loaded: Loaded, place: Path) -> Loaded:
    """Keep the table beside the results; where its ids cannot be written that is a note."""
    try:
        write_table(loaded.table, place / TABLE)
    except PanelStudyError as error:
        return replace(loaded, notes=(*loaded.notes, f"{TABLE} was not written: {error}."))
    return loaded


async def _outcome(
    part: PanelStudy,
    config: StudyConfig,
    context: PanelStudyContext,
    folder: Path,
    digests: tuple[str, str],
    wanted: bool,
) -> Outcome:
    options = config.options_of(part)
    why = unmet_need(part, context.table, context.live)
    if why:
        return not_done(part, "left out", why, options)
    key = key_of(part, options, context, digests)
    before = await asyncio.to_thread(load_cached, folder, key)
    if before is not None:
        return before
    if not wanted:
        return not_done(part, "not run", "it was not asked for this time", options)
    try:
        context.folder.mkdir(parents=True, exist_ok=True)
        clear(folder)
    except OSError as error:
        raise PanelStudyError(f"{folder} cannot be written: {error.strerror or error}") from error
    context.told(0, 0)
    began = time.perf_counter()
    try:
        result = await part.run(context, options)
        seconds = time.perf_counter() - began
        return await asyncio.to_thread(write_result, folder, part, options, result, key, seconds)
    except Exception as error:
        (folder / ERROR).write_text(traceback.format_exc(), encoding="utf-8")
        return not_done(part, "failed", reason_of(error), options)


def reason_of(error: BaseException) -> str:
    """An error in one line: its own words where it is ours, else with its class."""
    if isinstance(error, ExceptionGroup) and error.exceptions:
        return reason_of(error.exceptions[0])
    text = str(error).strip().splitlines()
    said = text[0] if text else type(error).__name__
    return said if isinstance(error, EvalError) else f"{type(error).__name__}: {said}"

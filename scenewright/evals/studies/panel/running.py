"""Run a study of panels: its source, then part after part, with results kept on disk.

A second start continues: judges' answers are in a store, and the result of a part is read back
while its answers, options and code are the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import secrets
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from scenewright.config.settings import Settings, load_settings
from scenewright.core.error_text import error_text
from scenewright.core.flushing import write_text
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting import plots
from scenewright.evals.reporting.frames import Frame
from scenewright.evals.statistics.estimates import Measured
from scenewright.evals.store.provenance import code_digest
from scenewright.evals.studies.panel.sources.live_judges import Loaded
from scenewright.evals.studies.panel.sources.loading import fitting, load_source, with_families
from scenewright.evals.studies.panel.sources.tables import write_table
from scenewright.evals.studies.panel.study import (
    PARTS,
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    StudyConfig,
    part_of,
    unmet_need,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from scenewright.providers import AnswerStore
from scenewright.runs.folder import RunFolder

RESULT = "part.json"
"""In a part's folder: what it found, for the page and for the next start."""
ERROR = "error.txt"
"""In a part's folder: the traceback of a part that failed."""
WORK = "work"
"""In a part's folder: what it keeps for itself."""
State = Literal["done", "left out", "failed", "not run"]
"""``left out``: the answers lack what it needs; ``not run``: it was not asked for this time."""


class Outcome(BaseModel):
    """What came of a part."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    """Its name."""
    title: str
    """One line."""
    about: str
    """The question it answers."""
    state: State
    """Whether it was done."""
    reason: str = ""
    """Why not."""
    findings: tuple[str, ...] = ()
    """Sentences, the most important first."""
    frames: tuple[Frame, ...] = ()
    """Tables for the page."""
    plots: dict[str, str] = {}
    """File stem of each plot → its title."""
    records: tuple[str, ...] = ()
    """File stems of the parquet tables."""
    figures: dict[str, Any] = {}
    """Flat keys → number, none, or ``{"mean", "low", "high"}``."""
    notes: tuple[str, ...] = ()
    """What must be known to read them."""
    options: dict[str, Any] = {}
    """Its options, defaults included."""
    seconds: float = 0.0
    """How long it took when it was done."""
    key: str = ""
    """Digest of all that decides it."""


def digest_of(table: AnswerTable) -> str:
    """SHA-256 (hex) of all that a table holds, its name left out."""
    rows = [[asdict(one) for one in of] for of in (table.judges, table.images, table.facts)]
    found = hashlib.sha256(json.dumps(rows, sort_keys=True).encode())
    for name in ("said", "votes", "truth", "usd", "seconds", "tokens", "asked"):
        array = np.asarray(getattr(table, name), np.float64)
        # One NaN is like another.
        found.update(np.where(np.isnan(array), -1.0, array).tobytes())
    return found.hexdigest()


def key_of(
    part: PanelStudy, options: Options, context: PanelStudyContext, tables: tuple[str, str]
) -> str:
    """Return the digest of what decides the result of ``part``; ``tables``.

    Digests of the table and of what may be learnt from, empty without.
    """
    live = context.live
    told = {
        "part": part.name,
        "options": options.model_dump(mode="json"),
        "tables": tables,
        "seed": context.seed,
        "resamples": context.resamples,
        "loop_judges": context.loop_judges,
        "live": None if live is None else [judge.fingerprint for judge in live.judges],
        "code": _code_of(part),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _code_of(part: PanelStudy) -> str:
    """Return the digest of the code that measures ``part``, and a new one each time without it."""
    try:
        return code_digest(part.run.__module__)
    except (LookupError, ValueError):
        # A part of a notebook or script: whether it has changed is not known.
        return secrets.token_hex()


def load_cached(folder: Path, key: str) -> Outcome | None:
    """Return the result in a part's ``folder``, if it was made under ``key`` and is complete."""
    try:
        found = Outcome.model_validate_json((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValidationError, UnicodeDecodeError):
        return None
    names = [f"{stem}.svg" for stem in found.plots] + [f"{stem}.parquet" for stem in found.records]
    whole = all((folder / name).is_file() for name in names)
    return found if found.key == key and whole else None


def write_result(
    folder: Path,
    part: PanelStudy,
    options: Options,
    result: PanelStudyResult,
    key: str,
    seconds: float,
) -> Outcome:
    """Draw the plots of ``result`` and write it into the part's ``folder``.

    An earlier result there is taken away. A plot that cannot be drawn becomes a note. Raises
    ``PanelStudyError`` if the folder cannot be written.
    """
    clear(folder)
    notes = list(result.notes)
    drawn: dict[str, str] = {}
    kept = [frame for frame in result.frames if frame.kept and frame.rows]
    try:
        for chart in result.charts:
            try:
                figure = chart.draw()
            except Exception as error:
                notes.append(f"The plot {chart.name} could not be drawn: {error_text(error)}")
                continue
            drawn[chart.name] = chart.title or chart.name.replace("_", " ")
            plots.save(figure, folder / f"{chart.name}.svg", drawn[chart.name])
        for frame in kept:
            frame.write_parquet(folder)
        found = Outcome(
            **_head(part),
            state="done",
            findings=result.findings,
            frames=tuple(one.page for one in result.tables),
            plots=drawn,
            records=tuple(frame.name for frame in kept),
            figures={name: _plain(value) for name, value in result.figures.items()},
            notes=tuple(notes),
            options=options.model_dump(mode="json"),
            seconds=seconds,
            key=key,
        )
        write_text(folder / RESULT, found.model_dump_json(indent=1))
    except (OSError, EvalError) as error:
        raise PanelStudyError(f"the results of {part.name} cannot be written: {error}") from error
    return found


def _plain(value: Any) -> Any:
    """Return a figure as JSON takes it: what is not finite as none."""
    if isinstance(value, Measured):
        told = value.model_dump()
        return {"mean": told["value"], "low": told["low"], "high": told["high"]}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def not_done(
    part: PanelStudy, state: State, reason: str, options: Options | None = None
) -> Outcome:
    """Return the outcome of a part that was not done."""
    given = {} if options is None else options.model_dump(mode="json")
    return Outcome(**_head(part), state=state, reason=reason, options=given)


def _head(part: PanelStudy) -> dict[str, Any]:
    return {"name": part.name, "title": part.title, "about": part.about}


def clear(folder: Path) -> None:
    """Take away an earlier result in a part's ``folder``; what the part keeps for itself stays."""
    for pattern in (RESULT, ERROR, "*.svg", "*.parquet"):
        for file in folder.glob(pattern):
            file.unlink(missing_ok=True)


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
    def lead(self) -> Outcome | None:
        """Return the part that leads: the first of the page that found something."""
        return next((one for one in self.outcomes if one.state == "done" and one.findings), None)

    @property
    def answer(self) -> str:
        """Return the sentence that leads the page, the terminal and the JSON file."""
        return self.lead.findings[0] if self.lead else "No part of the study found anything."

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
    """Return the parts of ``config`` in the order of the page; ``only`` may name more of them.

    Raises ``PanelStudyError`` for an unknown one.
    """
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
        return not_done(part, "failed", error_text(error), options)

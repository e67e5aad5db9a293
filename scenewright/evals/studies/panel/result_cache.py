"""Results of parts on the disk: rendered once, and found again while nothing that decides them has
changed."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from scenewright.core.flushing import write_text
from scenewright.core.version import VERSION
from scenewright.evals.errors import EvalError
from scenewright.evals.store.parquet_files import drafted
from scenewright.evals.studies import plots
from scenewright.evals.studies.layout import Layout
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable

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
    tables: tuple[Layout, ...] = ()
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


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


def digest_of(table: AnswerTable) -> str:
    """SHA-256 (hex) of all that a table holds, its name left out."""
    found = hashlib.sha256()
    told = [
        [asdict(judge) for judge in table.judges],
        [asdict(image) for image in table.images],
        [asdict(fact) for fact in table.facts],
    ]
    found.update(json.dumps(told, sort_keys=True).encode())
    for name in ("said", "votes", "truth", "usd", "seconds", "tokens"):
        _feed(found, np.asarray(getattr(table, name), np.float64))
    _feed(found, np.asarray(table.asked, np.uint8))
    return found.hexdigest()


def _feed(found: _Hash, array: np.ndarray[Any, Any]) -> None:
    # One NaN is like another.
    whole = np.where(np.isnan(array), -1.0, array) if array.dtype.kind == "f" else array
    found.update(np.ascontiguousarray(whole).tobytes())


@functools.cache
def code_digest() -> str:
    """Digest of this package's version and of the code of the studies."""
    found = hashlib.sha256(VERSION.encode())
    root = Path(str(files("scenewright.evals.studies.panel")))
    for file in sorted(root.rglob("*.py")):
        found.update(str(file.relative_to(root)).encode())
        found.update(file.read_bytes())
    return found.hexdigest()


def key_of(
    part: PanelStudy, options: Options, context: PanelStudyContext, tables: tuple[str, str]
) -> str:
    """Digest of what decides the result of ``part``; ``tables``: digests of the table and of what
    may be learnt from, empty without."""
    live = context.live
    told = {
        "part": part.name,
        "options": options.model_dump(mode="json"),
        "tables": tables,
        "seed": context.seed,
        "resamples": context.resamples,
        "loop_judges": context.loop_judges,
        "live": None if live is None else [judge.fingerprint for judge in live.judges],
        "code": code_digest(),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def load_cached(folder: Path, key: str) -> Outcome | None:
    """What lies in a part's ``folder``, if it was made under ``key`` and is whole."""
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
    """Draw the plots of ``result`` and write it into the part's ``folder``; what lay there of an
    earlier result is taken away.

    A plot that cannot be drawn becomes a note. Raises ``PanelStudyError`` if the folder cannot be
    written.
    """
    clear(folder)
    notes = list(result.notes)
    drawn: dict[str, str] = {}
    try:
        for stem, draw in result.plots.items():
            try:
                figure = draw()
            except Exception as error:
                notes.append(f"The plot {stem} could not be drawn: {type(error).__name__}: {error}")
                continue
            title = _title(figure) or stem.replace("_", " ")
            plots.save(figure, folder / f"{stem}.svg", title)
            drawn[stem] = title
        for stem, rows in result.records.items():
            _write_records(folder, stem, rows)
        found = Outcome(
            **_head(part),
            state="done",
            findings=result.findings,
            tables=result.tables,
            plots=drawn,
            records=tuple(stem for stem, rows in result.records.items() if rows),
            figures={name: plain(value) for name, value in result.figures.items()},
            notes=tuple(notes),
            options=options.model_dump(mode="json"),
            seconds=seconds,
            key=key,
        )
        write_text(folder / RESULT, found.model_dump_json(indent=1))
    except (OSError, EvalError) as error:
        raise PanelStudyError(f"the results of {part.name} cannot be written: {error}") from error
    return found


def not_done(
    part: PanelStudy, state: State, reason: str, options: Options | None = None
) -> Outcome:
    """The outcome of a part that was not done."""
    given = {} if options is None else options.model_dump(mode="json")
    return Outcome(**_head(part), state=state, reason=reason, options=given)


def _head(part: PanelStudy) -> dict[str, Any]:
    return {"name": part.name, "title": part.title, "about": part.about}


def clear(folder: Path) -> None:
    """Take away an earlier result in a part's ``folder``; what the part keeps for itself stays."""
    for pattern in (RESULT, ERROR, "*.svg", "*.parquet"):
        for file in folder.glob(pattern):
            file.unlink(missing_ok=True)


def plain(value: Any) -> Any:
    """``value`` as JSON takes it: numpy's numbers as numbers, what is not finite as none, a model
    with value, low and high as ``{"mean", "low", "high"}``."""
    if isinstance(value, BaseModel):
        told = value.model_dump(mode="json")
        if "value" in told:
            return {"mean": told["value"], "low": told.get("low"), "high": told.get("high")}
        return plain(told)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(inner) for inner in value]
    return value


def _title(figure: Any) -> str:
    whole: str = figure.get_suptitle()
    return whole or next((t for axis in figure.axes if (t := axis.get_title())), "")


def _write_records(folder: Path, stem: str, rows: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not rows:
        return
    # The first row need not have every column.
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [plain(row.get(name)) for row in rows] for name in names}
    with drafted(folder, stem) as draft:
        pq.write_table(pa.table(columns), draft, compression="zstd")

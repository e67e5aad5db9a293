"""Rows of REAL scores, one a picture and class: what is written, shown, ranked and filtered.

A file of rows is JSON lines, so that a kill loses at most the line that is being written; the same
rows can be written as parquet for other tools.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.validation import first_problem
from scenewright.evals.errors import EvalError
from scenewright.evals.store.parquet_files import drafted

PARQUET = ".parquet"
Score = float | None


class RealRow(BaseModel):
    """What REAL says of one picture as one of a class."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    image: str = Field(min_length=1)
    """The picture's file, as it was named."""
    label: str = Field(min_length=1)
    """Its class, within which it is ranked."""
    digest: str = ""
    """Its :func:`~scenewright.core.images.hash_of_image`; empty if it could not be read."""
    plan: str = ""
    """Changes with the schema, the wording, the judges and the panel: rows of one plan can be
    compared."""
    s_att: Score = Field(default=None, ge=0.0, le=1.0)
    """S_att, weighted by probabilities unless the hard one was asked for; None without a schema of
    attributes, or if it could not be scored."""
    s_att_hard: Score = Field(default=None, ge=0.0, le=1.0)
    """S_att as the paper has it, R / C; None also in rows of older versions, whose ``s_att`` it
    is."""
    attributes: int = Field(default=0, ge=0)
    """N of the schema; 0: the picture is scored by relations alone."""
    visible: int = Field(default=0, ge=0)
    """C: attributes whose part can be seen."""
    matched: int = Field(default=0, ge=0)
    """R: those of them that are as described."""
    s_rel: Score = Field(default=None, ge=0.0, le=1.0)
    """S_rel divided by its maximum; None without relations, or if it could not be scored."""
    s_rel_raw: Score = Field(default=None, ge=0.0)
    """S_rel as the paper sums it."""
    s_style: Score = Field(default=None, ge=0.0, le=1.0)
    """Probability of the class "photo"; None if no style scorer looked."""
    combined: Score = Field(default=None, ge=0.0, le=1.0)
    """S_att × S_style, of pictures without attributes S_rel × S_style; None without either."""
    invisible: tuple[str, ...] = ()
    """Parts and entities that cannot be seen."""
    wrong: tuple[str, ...] = ()
    """Statements that were found not to hold: ``bill is curved``."""
    unscored: int = Field(default=0, ge=0)
    """Questions that were asked and that nobody could answer; the scores are of the others."""
    reason: str = ""
    """Why a score is missing."""
    usd: float = Field(default=0.0, ge=0.0)
    """Dollars of the calls."""
    tokens: int = Field(default=0, ge=0)
    """Tokens of the calls, in and out."""
    seconds: float = Field(default=0.0, ge=0.0)
    """Wall time."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        expected = combine(self.base, self.s_style)
        if (self.combined is None) != (expected is None) or (
            self.combined is not None
            and expected is not None
            and abs(self.combined - expected) > 1e-9
        ):
            raise ValueError(f"combined is {self.combined}, but the scores make {expected}")
        return self

    @property
    def base(self) -> Score:
        """The score that style multiplies: S_att, without a schema of attributes S_rel."""
        return self.s_att if self.attributes else self.s_rel

    def with_style(self, style: Score) -> Self:
        """The same row with another score of style in [0, 1], or without one."""
        return type(self).model_validate(
            self.model_dump() | {"s_style": style, "combined": combine(self.base, style)}
        )


def combine(score: Score, style: Score) -> Score:
    """``S_att × S_style`` or ``S_rel × S_style`` (REAL, Sec. 4.4.1); None if either is unknown.

    Both lie in [0, 1], S_rel normalised; ``ValueError`` for anything else.
    """
    for name, value in (("the score", score), ("the style", style)):
        if value is not None and not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} is {value}: it must lie in [0, 1]")
    return None if score is None or style is None else score * style


def read_rows(path: str | os.PathLike[str]) -> list[RealRow]:
    """The rows of a file of JSON lines or parquet, in its order.

    A last line that was cut off by a kill is left out. Raises ``EvalError`` with file and line for
    what cannot be read.
    """
    file = Path(path)
    found: list[RealRow] = []
    for place, data in _parquet(file) if file.suffix == PARQUET else _lines(file):
        try:
            found.append(RealRow.model_validate(data))
        except ValidationError as error:
            raise EvalError(f"{file}, {place}: {first_problem(error)}") from error
    return found


def _lines(file: Path) -> list[tuple[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise EvalError(
            f"{file} cannot be read ({error}): `scenewright real-bench score … --out FILE.jsonl` "
            "makes it"
        ) from error
    found: list[tuple[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append((f"line {number}", json.loads(line)))
        except ValueError as error:
            # Only the line being written when a process was killed has no line end.
            if number == len(lines):
                break
            raise EvalError(f"{file}, line {number}: no JSON ({error})") from error
    return found


def _parquet(file: Path) -> list[tuple[str, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        rows = parquet.read_table(file).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise EvalError(f"{file} cannot be read as parquet: {error}") from error
    return [(f"row {number}", row) for number, row in enumerate(rows, start=1)]


def append_row(path: Path, row: RealRow) -> None:
    """Add ``row`` to a file of JSON lines, safe from a power cut when this returns.

    A line that a kill cut off is ended first. Raises ``EvalError`` if it cannot be written.
    """
    try:
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size and (file.seek(size - 1), file.read(1))[1] != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
            file.write(f"{row.model_dump_json()}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(path, error) from error


def write_rows(path: str | os.PathLike[str], rows: Sequence[RealRow]) -> Path:
    """Write ``rows``, as parquet if the name ends so and else as JSON lines; the file is the old
    one or the whole new one. Raises ``EvalError`` if it cannot be written."""
    file = Path(path)
    if file.suffix == PARQUET:
        with drafted(file.parent, file.stem) as draft:
            _write_parquet(draft, rows)
        return file
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(f"{row.model_dump_json()}\n" for row in rows)
            out.flush()
            os.fsync(out.fileno())
        os.replace(draft, file)
    except OSError as error:
        raise _unwritable(file, error) from error
    finally:
        draft.unlink(missing_ok=True)
    return file


def _write_parquet(draft: Path, rows: Sequence[RealRow]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), Score: pa.float64()}
    schema = pa.schema(
        [
            (name, kinds.get(field.annotation, pa.list_(pa.string())))
            for name, field in RealRow.model_fields.items()
        ]
    )
    table = pa.Table.from_pylist([row.model_dump(mode="json") for row in rows], schema=schema)
    parquet.write_table(table, draft)


def latest(rows: Iterable[RealRow]) -> dict[tuple[str, str], RealRow]:
    """(image, label) → its newest row, in the order of first appearance."""
    return {(row.image, row.label): row for row in rows}


def _unwritable(path: Path, error: OSError) -> EvalError:
    return EvalError(
        f"{path} cannot be written: {error.strerror or error}. Make room or name another file, "
        "then run the same again: what was answered is kept"
    )

"""What an evaluation found: one line to a table, a DataFrame or a query.

::

    from scenewright.evals.store.results import Results

    frame = Results("evals/mine").frame("scores")
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.evals.errors import EvalError
from scenewright.evals.store.schema import SCHEMAS, TABLES, Table

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "manifest.json"
"""Configuration, fingerprints of models, hashes of prompts and versions, beside the tables."""
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
IMAGES = "images"
"""Image store of all pictures of the evaluation, by content hash."""


def filled(rows: Rows, table: Table, columns: list[str] | None = None) -> Rows:
    """``rows`` of ``table`` with all of ``columns`` (None: all there are), in their order: those
    that a file of an earlier version lacks are null."""
    schema = SCHEMAS[table]
    wanted = columns if columns is not None else schema.names
    for name in wanted:
        if name not in rows.schema.names:
            rows = rows.append_column(
                schema.field(name), pa.nulls(rows.num_rows, schema.field(name).type)
            )
    return rows.select(wanted)


class Results:
    """The folder of an evaluation, to read from."""

    def __init__(self, folder: str | Path) -> None:
        """Opens ``folder``; raises ``EvalError`` if it holds no evaluation."""
        self.folder = Path(folder)
        file = self.folder / MANIFEST
        try:
            self.manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise EvalError(
                f"{self.folder} holds no evaluation ({MANIFEST}: {error.strerror}): name the "
                "folder that `scenewright eval run` wrote"
            ) from error
        except ValueError as error:
            raise EvalError(f"{file} is damaged: {error}") from error

    def path(self, table: Table) -> Path:
        """The parquet file of ``table``."""
        return self.folder / f"{table}.parquet"

    def table(self, table: Table, columns: list[str] | None = None) -> pa.Table:
        """The whole table, or some ``columns`` of it; empty if nothing was finished.

        Raises ``EvalError`` for an unknown table or a file that cannot be read.
        """
        if table not in TABLES:
            raise EvalError(f"there is no table {table!r}: use one of {', '.join(TABLES)}")
        file = self.path(table)
        if not file.exists():
            empty: pa.Table = SCHEMAS[table].empty_table()
            return empty.select(columns) if columns is not None else empty
        try:
            with pq.ParquetFile(file) as parquet:
                there = [name for name in columns or () if name in parquet.schema_arrow.names]
            return filled(pq.read_table(file, columns=there if columns else None), table, columns)
        except (OSError, pa.ArrowException) as error:
            raise EvalError(
                f"{file} cannot be read: {error}. Run the evaluation again: it writes its tables "
                "anew from what it kept"
            ) from error

    def rows(self, table: Table, columns: list[str] | None = None) -> list[dict[str, Any]]:
        """The table as one dict a row."""
        found: list[dict[str, Any]] = self.table(table, columns).to_pylist()
        return found

    def frame(self, table: Table, columns: list[str] | None = None) -> pd.DataFrame:
        """The table as a pandas DataFrame; raises ``EvalError`` where pandas is not installed."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise EvalError(
                "a DataFrame needs pandas: pip install 'scenewright[evals]', or use table()"
            ) from error
        return self.table(table, columns).to_pandas()

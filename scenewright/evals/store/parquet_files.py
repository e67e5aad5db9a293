"""Parquet files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from scenewright.evals.errors import EvalError


@contextmanager
def drafted(folder: Path, table: str) -> Iterator[Path]:
    """Where to write the parquet file of ``table``; it gets its name in ``folder`` when it is
    whole. Raises ``EvalError`` if it cannot be written."""
    draft = folder / f".{table}.parquet.tmp"
    try:
        yield draft
        os.replace(draft, folder / f"{table}.parquet")
    except (OSError, pa.ArrowException) as error:
        draft.unlink(missing_ok=True)
        raise EvalError(
            f"the results cannot be written to {folder}: {error}. Make room, then run the same "
            "again: what is done is kept in the journal"
        ) from error

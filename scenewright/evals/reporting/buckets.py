"""Rows of several large tables brought together by item, without holding any table in memory.

Rows stand in the order in which work was finished. Each table is read once, a batch at a time, and
written apart into files of neighbouring items; then one such file of each table is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.score_matrix import batches
from scenewright.evals.store.results import Results
from scenewright.evals.store.schema import SCHEMAS, Table

SIZE = 100
"""Fewest items of a bucket."""
_OPEN = 200
"""Most files open at once for a table."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gathered:
    """One item with all rows that belong to it."""

    number: int
    """Its place in the set."""
    item: Row
    """Its row of the table of items."""
    rows: Mapping[Table, list[Row]]
    """Its rows of the other tables, in their order."""


def gather(
    results: Results, ids: pa.Array, tables: Sequence[Table], folder: Path
) -> Iterator[Gathered]:
    """Every item in the order of the set, with its rows of ``tables``.

    ``ids`` are those of :func:`~scenewright.evals.reporting.score_matrix.item_ids`; ``folder`` is
    an empty one for files that are removed as they are used. Rows of unknown items are passed over.
    Raises ``EvalError`` for a table that cannot be read or a disk that is full.
    """
    size = max(SIZE, -(-len(ids) // _OPEN))
    n_buckets = -(-len(ids) // size)
    kept: list[Table] = ["items", *tables]
    try:
        for table in kept:
            _part(results, table, ids, size, n_buckets, folder)
        for bucket in range(n_buckets):
            yield from _bucket(kept, ids, bucket, size, folder)
    except OSError as error:
        raise EvalError(
            f"{folder} cannot be written ({error.strerror or error}): the report needs about as "
            "much room as the tables for a while"
        ) from error


def _file(folder: Path, table: Table, bucket: int) -> Path:
    return folder / f"{table}-{bucket}.arrow"


def _part(
    results: Results, table: Table, ids: pa.Array, size: int, n_buckets: int, folder: Path
) -> None:
    """Write the rows of ``table`` into one file a bucket, the item's number as ``place``."""
    schema = SCHEMAS[table].append(pa.field("place", pa.int64()))
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in batches(results, table, SCHEMAS[table].names):
            place = np.asarray(
                pc.fill_null(pc.index_in(batch.column("item"), value_set=ids), -1), np.int64
            )
            order = np.argsort(place, kind="stable")
            order = order[place[order] >= 0]
            at = place[order] // size
            whole = batch.append_column("place", pa.array(place)).take(pa.array(order))
            for bucket in np.unique(at).tolist():
                if bucket not in writers:
                    file = _file(folder, table, bucket)
                    writers[bucket] = stack.enter_context(
                        pa.ipc.new_stream(file, schema, options=options)
                    )
                first, last = np.searchsorted(at, [bucket, bucket + 1])
                writers[bucket].write_batch(whole.slice(first, last - first).cast(schema))


def _bucket(
    tables: Sequence[Table], ids: pa.Array, bucket: int, size: int, folder: Path
) -> Iterator[Gathered]:
    found: dict[int, dict[Table, list[Row]]] = {
        number: {table: [] for table in tables}
        for number in range(bucket * size, min((bucket + 1) * size, len(ids)))
    }
    for table in tables:
        file = _file(folder, table, bucket)
        if not file.exists():
            continue
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                for row in batch.to_pylist():
                    found[row.pop("place")][table].append(row)
        file.unlink()
    for number in sorted(found):
        rows = found.pop(number)
        yield Gathered(number, rows.pop("items")[0], rows)

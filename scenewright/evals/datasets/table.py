"""A table of items: a parquet, CSV, TSV or JSON lines file, or a folder of such files.

Its columns are those of :mod:`scenewright.evals.datasets.rows`; others are left alone. Text files
may end in ``.gz``. A folder is read file by file in the order of their names, all of one kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.captions import check_parse
from scenewright.evals.datasets.reading import json_lines, rows_of
from scenewright.evals.datasets.rows import check_columns, columns_of, item_of
from scenewright.evals.datasets.stream import StreamedSet

VERSION = 1
NAME = "table"
SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson")
_BATCH = 256

Cells = Mapping[str, Any]


def load(
    path: Path | None, *, columns: Mapping[str, str] | None = None, parse: str = "none"
) -> StreamedSet:
    """The items of the file or folder ``path``.

    ``columns`` says which column holds which field, where they are called otherwise; ``parse``
    (``rules``) makes scenes of prompts that have none. Raises ``DatasetError`` for files of another
    kind and lost columns, here or on iteration.
    """
    check_parse(parse)
    named = columns_of(columns)
    files = table_files(path)
    return StreamedSet(
        partial(_entries, files, named, columns, parse),
        name=NAME,
        version=VERSION,
        options={"columns": named, "parse": parse},
        files=lambda: [(file.name, file) for file in files],
    )


def suffix_of(path: Path) -> str:
    """The kind of ``path``, one of :data:`SUFFIXES`; empty if it is none of them."""
    name = path.name.lower().removesuffix(".gz")
    found = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return "" if found == ".parquet" and path.suffix.lower() == ".gz" else found


def table_files(path: Path | None) -> list[Path]:
    """The files of the table ``path``; ``DatasetError`` if there are none, or of several kinds."""
    if path is None:
        raise DatasetError(f"{NAME} is read from a file: name a {', '.join(SUFFIXES)} file (path)")
    if not path.is_dir():
        if not path.is_file():
            raise DatasetError(f"there is no file {path}: check the name")
        if not suffix_of(path):
            raise DatasetError(
                f"{path} is no table: its name must end in {', '.join(SUFFIXES)} (text files may "
                "be packed, .gz)"
            )
        return [path]
    files = sorted(f for f in path.iterdir() if suffix_of(f) and f.is_file())
    kinds = sorted({suffix_of(file) for file in files})
    if len(kinds) != 1:
        held = f"holds tables of several kinds ({', '.join(kinds)})" if kinds else "holds no table"
        raise DatasetError(f"{path} {held}: name one file, or a folder with files of one kind")
    return files


def _entries(
    files: list[Path],
    columns: Mapping[str, str],
    given: Mapping[str, str] | None,
    parse: str,
    left_out: Counter[str],
) -> Iterator[Item]:
    number = 0
    for file in files:
        for place, cells in _rows(file, columns, given):
            number += 1
            yield item_of(cells, columns, place, number, file.parent, parse)


def _rows(
    file: Path, columns: Mapping[str, str], given: Mapping[str, str] | None
) -> Iterator[tuple[str, Cells]]:
    kind = suffix_of(file)
    if kind == ".parquet":
        yield from _parquet(file, columns, given)
        return
    if kind in (".jsonl", ".ndjson"):
        # Each line may hold other keys: a lost field shows in the item that lacks it.
        yield from json_lines(file)
        return
    checked = False
    for place, row in rows_of(file, delimiter="\t" if kind == ".tsv" else ","):
        if not checked:
            check_columns(str(file), list(row), columns, given)
            checked = True
        yield place, row


def _parquet(
    file: Path, columns: Mapping[str, str], given: Mapping[str, str] | None
) -> Iterator[tuple[str, Cells]]:
    # Imported here: pyarrow is large, and other tables do without it.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as table:
            there = list(table.schema_arrow.names)
            check_columns(str(file), there, columns, given)
            wanted = [name for name in there if name in set(columns.values())]
            row = 0
            for batch in table.iter_batches(batch_size=_BATCH, columns=wanted):
                for cells in batch.to_pylist():
                    row += 1
                    yield f"{file}, row {row}", cells
    except (pa.ArrowException, OSError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DatasetError(f"{file} is no parquet file: {said}: fetch or write it again") from error

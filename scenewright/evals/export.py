"""From the journal to parquet files, a thousand rows in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.evals.journal import Journal
from scenewright.evals.parquet_files import drafted
from scenewright.evals.schema import SCHEMAS, TABLES, Table

_ROWS = 1024
_ITEMS = 128
"""Rows of ``items`` in memory: each holds a scene and all its questions."""
_KINDS: dict[Table, str] = {
    "items": "item",
    "rounds": "draw",
    "answers": "judge",
    "verdicts": "judge",
    "scores": "score",
}


def export(journal: Journal, plan: str, folder: Path) -> dict[str, float]:
    """Write every table of ``plan`` into ``folder``, each whole or not at all.

    Gives what the rows add up to: images, calls of judges, tokens, dollars. Raises ``EvalError``
    if the folder cannot be written.
    """
    totals = dict.fromkeys(("images", "answers", "tokens_in", "tokens_out", "usd"), 0.0)
    for table in TABLES:
        with (
            drafted(folder, table) as draft,
            pq.ParquetWriter(draft, SCHEMAS[table], compression="zstd") as writer,
        ):
            for rows in _blocks(journal, plan, table):
                _add(totals, table, rows)
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[table]))
    return totals


def _blocks(journal: Journal, plan: str, table: Table) -> Iterator[list[dict[str, Any]]]:
    most = _ITEMS if table == "items" else _ROWS
    block: list[dict[str, Any]] = []
    for unit in journal.units(plan, _KINDS[table]):
        block += (dict(row) for row in unit.rows.get(table, ()))
        if len(block) >= most:
            yield block
            block = []
    if block:
        yield block


def _add(totals: dict[str, float], table: Table, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if table == "rounds":
            totals["images"] += row["images_drawn"]
        elif table == "answers":
            totals["answers"] += 1
        if table in ("rounds", "answers", "scores"):
            for name in ("tokens_in", "tokens_out", "usd"):
                # Rows of an evaluation that an earlier version began know no costs of scores.
                totals[name] += row.get(name, 0)


def as_text(data: Any) -> str:
    """Compact JSON, for columns that hold a scene or facts."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))

"""From the journal to parquet files, a thousand rows in memory at a time, and answers and verdicts
as rows of the tables and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.core.facts import Answer, Verdict
from scenewright.evals.store.journal import Journal
from scenewright.evals.store.parquet_files import drafted
from scenewright.evals.store.schema import SCHEMAS, TABLES, Table

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
_ANSWER = (
    *("state", "choice", "probability", "distribution", "method", "rationale", "reason", "note"),
    *("tokens_in", "tokens_out", "tokens_cached", "seconds", "usd", "model", "prompt_id"),
)
_VERDICT = ("state", "probability", "rival", "rival_probability", "disagreement", "reason")


class Labels(Protocol):
    """Labels of panels whose looks are held apart."""

    def of_look(self, key: str, panel: str, at: float) -> str:
        """Return the label of the look ``key`` of ``panel``, which ended at ``at``."""
        ...

    def model_of(self, judge: str, model: str, at: float) -> str:
        """Return the version of ``judge`` that answered as ``model`` in a look that ended at
        ``at``."""
        ...


def export(
    journal: Journal, plan: str, folder: Path, labels: Labels | None = None
) -> dict[str, float]:
    """Write every table of ``plan`` into ``folder``, each whole or not at all; ``labels`` go into
    the rows in place of the names of panels.

    Gives what the rows add up to: images, calls of judges, tokens, dollars. Raises ``EvalError``
    if the folder cannot be written.
    """
    totals = dict.fromkeys(("images", "answers", "tokens_in", "tokens_out", "usd"), 0.0)
    for table in TABLES:
        with (
            drafted(folder, table) as draft,
            pq.ParquetWriter(draft, SCHEMAS[table], compression="zstd") as writer,
        ):
            for rows in _blocks(journal, plan, table, labels):
                _add(totals, table, rows)
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[table]))
    return totals


def _blocks(
    journal: Journal, plan: str, table: Table, labels: Labels | None
) -> Iterator[list[dict[str, Any]]]:
    most = _ITEMS if table == "items" else _ROWS
    block: list[dict[str, Any]] = []
    for unit in journal.units(plan, _KINDS[table]):
        rows = [dict(row) for row in unit.rows.get(table, ())]
        if labels is not None:
            look = unit.key if unit.kind == "judge" else str(unit.facts.get("look", ""))
            for row in rows:
                if row.get("panel"):
                    row["panel"] = labels.of_look(look, row["panel"], unit.at)
                if table == "answers":
                    row["model"] = labels.model_of(row["judge"], row.get("model", ""), unit.at)
        block += rows
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


def answer_row(answer: Answer) -> dict[str, Any]:
    """Columns of an answer, without the names of judge and fact."""
    row = answer.model_dump(mode="json", include=set(_ANSWER))
    shares = answer.distribution
    return row | {"distribution": None if shares is None else as_text(shares)}


def answer_of(row: Mapping[str, Any]) -> Answer:
    """The answer in a row, of an earlier version or with only some columns too."""
    found = {name: row[name] for name in _ANSWER if row.get(name) is not None}
    if "distribution" in found:
        found["distribution"] = json.loads(found["distribution"])
    if found["state"] == "unscored":
        found.setdefault("reason", "no reason given")
    return Answer.model_validate({"fact_id": row["fact"], "judge_id": row["judge"]} | found)


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """Columns of a verdict, without the name of its fact."""
    return verdict.model_dump(mode="json", include=set(_VERDICT))


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """The verdict in a row, of an earlier version too."""
    found = {name: row[name] for name in _VERDICT if row.get(name) is not None}
    return Verdict.model_validate({"fact_id": row["fact"]} | found)

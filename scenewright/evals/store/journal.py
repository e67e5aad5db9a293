"""Journal of an evaluation: an SQLite file of finished work that survives a kill, and its export.

A *unit* is one finished piece of work: a drawing, the judging of a picture by a panel, a score. Its
key is a hash of all that decides it, so that a restarted run, or one of a larger configuration in
the same folder, finds the finished units and repeats nothing. The export writes parquet files with
a thousand rows in memory at a time.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scenewright.core.facts import Answer, Verdict
from scenewright.core.sqlite_file import SqliteFile
from scenewright.evals.errors import EvalError
from scenewright.evals.store.files import drafted
from scenewright.evals.store.results import SCHEMAS, Schemas

Features = NDArray[np.float32]
UnitState = Literal["done", "unscored", "failed"]
"""``unscored``: done, but something in it is unscored; ``failed``: without a result."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS units (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    rows BLOB NOT NULL,
    facts TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS planned (
    plan TEXT NOT NULL,
    position INTEGER NOT NULL,
    step INTEGER NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (plan, position, step)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vectors (
    extractor TEXT NOT NULL,
    image TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (extractor, image)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """A finished piece of work."""

    key: str
    """SHA-256 of all that decides it."""
    kind: str
    """``item``, ``draw``, ``judge`` or ``score``; other kinds of evaluations have their own."""
    state: UnitState = "done"
    reason: str = ""
    """Why it failed, or why something is unscored."""
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Rows of the tables of results."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON data for later steps."""
    at: float = field(default=0.0, compare=False)
    """Unix time when it was stored; 0 before."""


class KnownUnits(Protocol):
    """Finished units, to be read."""

    def get(self, key: str) -> Unit | None:
        """Return the unit of ``key``, if it was finished."""
        ...


class Units(KnownUnits, Protocol):
    """Store of finished units; :class:`Journal` is one."""

    def put(self, units: Iterable[Unit]) -> None:
        """Keep ``units``, in place of earlier ones of the same keys."""
        ...


class Journal(SqliteFile):
    """The units of an evaluation; one process writes at a time."""

    def __init__(self, path: Path | None) -> None:
        """Open or make the file; None: in memory. Raises ``EvalError`` if that fails."""
        # What a power cut takes back is work whose pictures and answers are stored elsewhere.
        super().__init__(path, _SCHEMA, synchronous="NORMAL", kept="what is done", wrong=EvalError)

    def get(self, key: str) -> Unit | None:
        """Return the unit of ``key`` if it is finished."""
        rows = self._rows(
            "SELECT key, kind, state, reason, rows, facts, at FROM units WHERE key = ?", (key,)
        )
        return _unit(rows[0]) if rows else None

    def put(self, units: Iterable[Unit]) -> None:
        """Keep ``units`` in one transaction, in place of earlier ones of the same keys.

        A unit that is made of a kept one keeps its time.
        """
        now = time.time()
        self._put(
            "units",
            [
                (u.key, u.kind, u.state, u.reason, _packed(u.rows), _text(u.facts), u.at or now)
                for u in units
            ],
        )

    def plan(self, plan: str, position: int, keys: Sequence[str]) -> None:
        """Note that the units ``keys`` belong to ``plan``, at the item of that ``position``."""
        with self.changing():
            self._db.execute(
                "DELETE FROM planned WHERE plan = ? AND position = ?", (plan, position)
            )
            self._put("planned", [(plan, position, step, key) for step, key in enumerate(keys)])

    def units(self, plan: str, kind: str | None = None) -> Iterator[Unit]:
        """Yield the units of ``plan`` in the order of its items, few of them in memory at a time.

        A unit with several places comes once for each of them.
        """
        query = (
            "SELECT u.key, u.kind, u.state, u.reason, u.rows, u.facts, u.at FROM planned p "
            "JOIN units u ON u.key = p.key WHERE p.plan = ? AND (? IS NULL OR u.kind = ?) "
            "ORDER BY p.position, p.step"
        )
        yield from map(_unit, self._stream(query, (plan, kind, kind)))

    def planned(self, plan: str, position: int) -> list[Unit]:
        """Return the units of ``plan`` at the item of that ``position``, in their order."""
        rows = self._rows(
            "SELECT u.key, u.kind, u.state, u.reason, u.rows, u.facts, u.at FROM planned p "
            "JOIN units u ON u.key = p.key WHERE p.plan = ? AND p.position = ? ORDER BY p.step",
            (plan, position),
        )
        return [_unit(row) for row in rows]

    def notes(self, plan: str, kind: str) -> Iterator[tuple[str, dict[str, Any], float]]:
        """Yield key, facts and time of the units of ``plan`` and ``kind``, without their rows.

        They come in the order of the plan's items.
        """
        query = (
            "SELECT u.key, u.facts, u.at FROM planned p JOIN units u ON u.key = p.key "
            "WHERE p.plan = ? AND u.kind = ? ORDER BY p.position, p.step"
        )
        for key, facts, at in self._stream(query, (plan, kind), 1024):
            yield key, json.loads(facts), at

    def tally(self, plan: str) -> dict[tuple[str, UnitState], int]:
        """Return (kind, state) → units of ``plan``."""
        rows = self._rows(
            "SELECT u.kind, u.state, count(*) FROM planned p JOIN units u ON u.key = p.key "
            "WHERE p.plan = ? GROUP BY 1, 2",
            (plan,),
        )
        return {(kind, state): count for kind, state, count in rows}

    def whole_items(self, plan: str) -> int:
        """Return how many items of ``plan`` have no failed or unscored unit."""
        ((count,),) = self._rows(
            "SELECT count(*) FROM (SELECT 1 FROM planned p JOIN units u ON u.key = p.key "
            "WHERE p.plan = ? GROUP BY p.position HAVING max(u.state != 'done') = 0)",
            (plan,),
        )
        return int(count)

    def problems(self, plan: str) -> list[tuple[str, str, int]]:
        """Return (kind, reason, count) of failed and unscored units, the 20 most frequent first."""
        return self._rows(
            "SELECT u.kind, u.reason, count(*) AS n FROM planned p JOIN units u "
            "ON u.key = p.key WHERE p.plan = ? AND u.state != 'done' GROUP BY 1, 2 "
            "ORDER BY n DESC, 1, 2 LIMIT 20",
            (plan,),
        )

    def known_vectors(
        self, extractor: str, names: Sequence[str], length: int | None = None
    ) -> dict[str, Features]:
        """Return the vectors of those of ``names`` that are kept.

        A vector of another ``length``, or with numbers that are not finite, counts as missing.
        """
        query = "SELECT image, vector FROM vectors WHERE extractor = ? AND image IN ({})"
        found: dict[str, Features] = {}
        for name, blob in self._among(query, (extractor,), names):
            if isinstance(blob, bytes) and len(blob) % 4 == 0:
                vector = np.frombuffer(blob, np.float32)
                if np.isfinite(vector).all() and length in (None, len(vector)):
                    found[name] = vector
        return found

    def vectors_missing(self, extractor: str, images: Sequence[str]) -> list[str]:
        """Return those of ``images`` without a vector of ``extractor``."""
        known = self.known_vectors(extractor, images)
        return [image for image in images if image not in known]

    def put_vectors(self, extractor: str, images: Sequence[str], vectors: Features) -> None:
        """Keep one row of ``vectors`` an image."""
        data = np.ascontiguousarray(vectors, np.float32)
        self._put(
            "vectors",
            [(extractor, image, row.tobytes()) for image, row in zip(images, data, strict=True)],
        )

    def vectors(self, extractor: str, images: Sequence[str]) -> Features:
        """Return the vectors of ``images``, (n, dimensions); ``EvalError`` if one is lost."""
        found = self.known_vectors(extractor, images)
        if lost := next((image for image in images if image not in found), ""):
            raise EvalError(f"the vector of {lost} is lost: run the evaluation again")
        return np.stack([found[image] for image in images])


def open_journal(path: Path | None) -> Journal:
    """Open the journal ``path`` in a folder that is made; None: in memory.

    Raises ``EvalError`` if that fails.
    """
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvalError(f"{path.parent} cannot be made: {error.strerror or error}") from error
    return Journal(path)


def _text(value: Mapping[Any, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _packed(rows: Mapping[Any, Any]) -> bytes:
    # Rows of answers repeat their words: packed they take about a tenth.
    return zlib.compress(_text(rows).encode(), 1)


def _unit(row: tuple[Any, ...]) -> Unit:
    key, kind, state, reason, rows, facts, at = row
    read = json.loads(zlib.decompress(rows))
    return Unit(key, kind, state, reason, read, json.loads(facts), at)


_ROWS = 1024
_ITEMS = 128
"""Rows of ``items`` in memory: each holds a scene and all its questions."""
_KINDS: Mapping[str, str] = {
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
    """Labels of panels whose judges were served by several versions."""

    def of_look(self, key: str, panel: str, at: float) -> str:
        """Return the label of the judging ``key`` of ``panel``, which ended at ``at``."""
        ...

    def model_of(self, judge: str, model: str, at: float) -> str:
        """Return the version of ``judge`` that answered as ``model`` at the time ``at``."""
        ...


def export(
    journal: Journal,
    plan: str,
    folder: Path,
    labels: Labels | None = None,
    *,
    schemas: Schemas = SCHEMAS,
    kinds: Mapping[str, str] = _KINDS,
) -> dict[str, float]:
    """Write every table of ``plan`` into ``folder``, each whole or not at all.

    ``labels`` go into the rows in place of the names of panels. ``schemas`` are the columns of the
    tables, and ``kinds`` the units that hold their rows.

    Gives what the rows add up to: images, calls of judges, tokens, dollars. Raises ``EvalError`` if
    the folder cannot be written.
    """
    totals = dict.fromkeys(("images", "answers", "tokens_in", "tokens_out", "usd"), 0.0)
    for table, schema in schemas.items():
        with (
            drafted(folder, table) as draft,
            pq.ParquetWriter(draft, schema, compression="zstd") as writer,
        ):
            for rows in _blocks(journal, plan, table, kinds[table], labels):
                _add(totals, table, rows)
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return totals


def _blocks(
    journal: Journal, plan: str, table: str, kind: str, labels: Labels | None
) -> Iterator[list[dict[str, Any]]]:
    most = _ITEMS if table == "items" else _ROWS
    block: list[dict[str, Any]] = []
    for unit in journal.units(plan, kind):
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


def _add(totals: dict[str, float], table: str, rows: list[dict[str, Any]]) -> None:
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
    """Return compact JSON, for columns that hold a scene or facts."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def answer_row(answer: Answer) -> dict[str, Any]:
    """Return columns of an answer, without the names of judge and fact."""
    row = answer.model_dump(mode="json", include=set(_ANSWER))
    shares = answer.distribution
    return row | {"distribution": None if shares is None else as_text(shares)}


def answer_of(row: Mapping[str, Any]) -> Answer:
    """Return the answer in a row, of an earlier version or with only some columns too."""
    found = {name: row[name] for name in _ANSWER if row.get(name) is not None}
    if "distribution" in found:
        found["distribution"] = json.loads(found["distribution"])
    if found["state"] == "unscored":
        found.setdefault("reason", "no reason given")
    return Answer.model_validate({"fact_id": row["fact"], "judge_id": row["judge"]} | found)


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """Return columns of a verdict, without the name of its fact."""
    return verdict.model_dump(mode="json", include=set(_VERDICT))


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """Return the verdict in a row, of an earlier version too."""
    found = {name: row[name] for name in _VERDICT if row.get(name) is not None}
    return Verdict.model_validate({"fact_id": row["fact"]} | found)

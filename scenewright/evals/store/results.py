"""Results of an evaluation: tables as Arrow, DataFrame or rows.

::

    from scenewright.evals.store.results import Results

    frame = Results("evals/mine").frame("scores")

:data:`SCHEMAS` has the columns of the parquet files. An *arm* is one way of drawing: backend,
condition and seed, joined as ``backend/condition/seed``. A *panel* is a named list of judges;
``NAME:PROTOCOL`` is the panel NAME asking by the other protocol than the evaluation's. ``protocol``
names the protocol of the questions; it is empty for the questions that a set brings, and for scores
without judges. Work that a kill interrupted has no rows; failed work has rows with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.evals.errors import EvalError

if TYPE_CHECKING:
    import pandas as pd

Table = Literal["items", "rounds", "answers", "verdicts", "scores"]
TABLES: tuple[Table, ...] = get_args(Table)


def fields(kind: str, names: str) -> list[pa.Field]:
    """Return columns of one kind (``text``, ``real``, ``whole``, ``truth``) by their names."""
    kinds = {
        "text": pa.string(),
        "real": pa.float64(),
        "whole": pa.int64(),
        "truth": pa.bool_(),
    }
    return [pa.field(name, kinds[kind]) for name in names.split()]


_ARM = [*fields("text", "item arm backend condition"), *fields("whole", "seed")]

Schemas = Mapping[str, pa.Schema]
"""Table → its columns."""
SCHEMAS: Mapping[str, pa.Schema] = {
    # One row an item. ``scene`` and ``facts`` are JSON; ``original`` is the photo's file.
    # ``reading`` is "doubtful reading" or "refused prompt" where the scene of a prompt was not read
    # surely, with ``doubts``; files of earlier versions lack both.
    "items": pa.schema(
        [
            *fields("text", "item dataset prompt"),
            *fields("whole", "objects relations"),
            *fields("real", "complexity"),
            *fields("text", "level group category original scene facts reading doubts"),
        ]
    ),
    # One row a picture of an item and arm, or a failure (``state`` "failed", with ``reason``).
    # ``kept`` marks the picture that the arm gives; ``image`` is its content hash. Of the tokens of
    # its prompt ``tokens_dropped`` were not read by what drew it, and with them the words of
    # ``facts_dropped`` facts; those of the round's reference count along. Null: not known.
    # ``prompt_author``: a composer's id, "model", "model again" (its second text) or "dataset";
    # ``work``: full-picture steps of the denoiser; null where the backend does not tell.
    # ``prompt_problem`` tells why another composer wrote in place of the language model.
    "rounds": pa.schema(
        [
            *_ARM,
            *fields("whole", "round"),
            *fields("truth", "kept"),
            *fields("text", "state reason image prompt"),
            *fields("whole", "prompt_tokens tokens_dropped facts_dropped"),
            *fields("text", "prompt_author prompt_model prompt_problem strategy reference_image"),
            *fields("whole", "images_drawn"),
            *fields("real", "seconds work"),
            *fields("whole", "tokens_in tokens_out"),
            *fields("real", "usd"),
        ]
    ),
    # One row a judge and fact of a judged picture. ``state``: yes, no or unscored.
    # ``distribution``: JSON of option → probability, where the judge tells it.
    "answers": pa.schema(
        [
            *_ARM,
            *fields("text", "panel protocol"),
            *fields("whole", "round"),
            *fields("text", "image judge fact kind state choice"),
            *fields("real", "probability"),
            *fields("text", "distribution method rationale reason note"),
            *fields("whole", "tokens_in tokens_out tokens_cached"),
            *fields("real", "seconds usd"),
            *fields("text", "model prompt_id"),
        ]
    ),
    # One row a fact of a judged picture. ``state``: yes, no, void or unscored. ``rival``: the
    # likeliest other option of a choice, which holds if its own option is likelier. ``dropped``:
    # whether its words stand in the part of the prompt that was not read; null: not known.
    "verdicts": pa.schema(
        [
            *_ARM,
            *fields("text", "panel protocol"),
            *fields("whole", "round"),
            *fields("text", "image fact kind statement question state"),
            *fields("real", "probability"),
            *fields("text", "rival"),
            *fields("real", "rival_probability disagreement"),
            *fields("text", "reason"),
            *fields("truth", "dropped"),
        ]
    ),
    # One row a score. ``part`` is empty for the metric's own value, else names what it is made of.
    # Scores of sets have an empty ``item`` and a ``scope``: empty for all items, else
    # ``level=hard``, ``group=…``, ``category=…``, ``complexity=5``; ``n`` counts their pictures.
    # ``panel`` is empty where no judge is needed. ``value`` is null for what could not be scored.
    # ``tokens_dropped`` and ``facts_dropped`` are those of the picture's row in ``rounds``.
    # ``unscored`` counts what failed of the sample and is left out of a value (questions, objects,
    # answers of judges; of sets pictures), with ``reason``; files of earlier versions lack it.
    # Tokens and dollars are of models that a metric asked by itself, in the row of its own value.
    "scores": pa.schema(
        [
            *_ARM,
            *fields("text", "panel protocol"),
            *fields("whole", "round"),
            *fields("text", "image metric version part scope"),
            *fields("real", "value"),
            *fields("text", "reason"),
            *fields("whole", "unscored n tokens_dropped facts_dropped tokens_in tokens_out"),
            *fields("real", "usd"),
        ]
    ),
}


def arm_name(backend: str, condition: str, seed: int) -> str:
    """Return ``backend/condition/seed``."""
    return f"{backend}/{condition}/{seed}"


MANIFEST = "manifest.json"
"""Configuration, fingerprints of models, hashes of prompts and versions, beside the tables."""
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
IMAGES = "images"
"""Image store of all pictures of the evaluation, by content hash."""


def filled(
    rows: Rows, table: str, columns: list[str] | None = None, schemas: Schemas = SCHEMAS
) -> Rows:
    """Return ``rows`` of ``table`` with ``columns`` (None: all) in their order.

    Columns that a file of an earlier version lacks are null.
    """
    schema = schemas[table]
    wanted = columns if columns is not None else schema.names
    for name in wanted:
        if name not in rows.schema.names:
            rows = rows.append_column(
                schema.field(name), pa.nulls(rows.num_rows, schema.field(name).type)
            )
    return rows.select(wanted)


KINDS = {"": ("an evaluation", "eval run"), "xtc": ("XTC-Bench", "eval xtc run")}
"""Key ``benchmark`` of a manifest, empty for an evaluation by metrics → its name and command."""


def read_json(folder: Path, benchmark: str = "") -> dict[str, Any]:
    """Return the manifest in ``folder``.

    Raises ``EvalError`` if there is none, or if it is not one of such an evaluation.
    """
    file = folder / MANIFEST
    kind, command = KINDS[benchmark]
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvalError(
            f"{folder} holds no evaluation ({MANIFEST}: {error.strerror or error}): name the "
            f"folder that `scenewright {command}` wrote"
        ) from error
    except ValueError as error:
        raise EvalError(f"{file} is damaged: {error}") from error
    if not isinstance(found, dict) or (found.get("benchmark") or "") != benchmark:
        raise EvalError(f"{file} is not a manifest of {kind}: choose another folder")
    return found


class Results:
    """Reader of the folder of an evaluation."""

    schemas: Schemas = SCHEMAS
    """Table → its columns."""
    benchmark = ""
    """Key of :data:`KINDS`."""
    main = "scores"
    """The table that is read unless another one is named."""

    def __init__(self, folder: str | Path) -> None:
        """Open ``folder``. Raises ``EvalError`` if it holds no such evaluation."""
        self.folder = Path(folder)
        self.manifest: dict[str, Any] = read_json(self.folder, self.benchmark)

    def path(self, table: str) -> Path:
        """Return the parquet file of ``table``."""
        return self.folder / f"{table}.parquet"

    def table(self, table: str = "", columns: list[str] | None = None) -> pa.Table:
        """Return the whole table, or some ``columns`` of it; empty if nothing was finished.

        Raises ``EvalError`` for an unknown table or a file that cannot be read.
        """
        table = table or self.main
        if table not in self.schemas:
            raise EvalError(f"there is no table {table!r}: use one of {', '.join(self.schemas)}")
        file = self.path(table)
        if not file.exists():
            empty: pa.Table = self.schemas[table].empty_table()
            return empty.select(columns) if columns is not None else empty
        try:
            with pq.ParquetFile(file) as parquet:
                there = [name for name in columns or () if name in parquet.schema_arrow.names]
            read = pq.read_table(file, columns=there if columns else None)
            return filled(read, table, columns, self.schemas)
        except (OSError, pa.ArrowException) as error:
            raise EvalError(
                f"{file} cannot be read: {error}. Run the evaluation again: it writes its tables "
                "anew from what it kept"
            ) from error

    def kept_pictures(self) -> dict[tuple[str, str], str]:
        """Return (item, arm) → content hash of the kept picture."""
        columns = ["item", "arm", "kept", "image"]
        return {
            (row["item"], row["arm"]): row["image"]
            for row in self.rows("rounds", columns)
            if row["kept"] and row["image"]
        }

    def rows(self, table: str = "", columns: list[str] | None = None) -> list[dict[str, Any]]:
        """Return the table as one dict a row."""
        found: list[dict[str, Any]] = self.table(table, columns).to_pylist()
        return found

    def frame(self, table: str = "", columns: list[str] | None = None) -> pd.DataFrame:
        """Return the table as a pandas DataFrame.

        Raises ``EvalError`` where pandas is not installed.
        """
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise EvalError(
                "a DataFrame needs pandas: pip install 'scenewright[evals]', or use table()"
            ) from error
        return self.table(table, columns).to_pandas()


JOURNAL = "journal.sqlite"
"""Finished units."""
ANSWERS = "answers.sqlite"
"""Answers of judges."""
SENTINELS = "sentinels.sqlite"
"""Replies to sentinel pictures, and detected changes of models."""

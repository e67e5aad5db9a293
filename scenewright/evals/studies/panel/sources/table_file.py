"""Tables of answers as CSV and parquet files: one row an answer.

Only image, fact, judge, and answer or probability are needed; see :data:`COLUMNS`.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scenewright.core.flushing import write_text
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable

COLUMNS = (
    *("image", "item", "model", "round", "rating", "fact", "kind", "group", "question", "parents"),
    *("truth", "judge", "family", "fingerprint", "answer", "probability"),
    *("seconds", "tokens", "usd"),
)
"""The columns of a table. Of an image: item (default: the image itself), model, round and rating
(several raters joined by ``|``). Of a fact: kind (default object), group, question, parents (ids of
facts of the same image, joined by ``|`` or a JSON list) and truth (1, 0 or empty). Of a judge:
family and fingerprint. Of an answer: answer (yes, no, ``unscored``: asked without a usable answer,
``unasked``) and probability that the fact holds, seconds, tokens and usd."""
SEPARATOR = "|"
"""Between ratings, and between parents."""
ANSWERS = ("yes", "no", "unscored", "unasked")
"""What stands in the column ``answer``."""


def rows_of(table: AnswerTable) -> Iterator[dict[str, Any]]:
    """The rows of ``table``: one a fact and judge, and one an image that has no facts."""
    facts_of: dict[int, list[int]] = {}
    for row, fact in enumerate(table.facts):
        facts_of.setdefault(fact.image, []).append(row)
    for number, image in enumerate(table.images):
        base: dict[str, Any] = dict.fromkeys(COLUMNS) | {
            "image": image.id,
            "item": image.item,
            "model": image.model or None,
            "round": image.round,
            "rating": SEPARATOR.join(repr(float(r)) for r in image.ratings) or None,
        }
        if number not in facts_of:
            yield base
        for row in facts_of.get(number, ()):
            fact = table.facts[row]
            truth = table.truth[row]
            of_fact = base | {
                "fact": fact.id,
                "kind": fact.kind,
                "group": fact.group or None,
                "question": fact.question or None,
                "parents": _joined([table.facts[parent].id for parent in fact.parents]),
                "truth": None if np.isnan(truth) else int(truth),
            }
            for at, judge in enumerate(table.judges):
                yield of_fact | {
                    "judge": judge.id,
                    "family": judge.family or None,
                    "fingerprint": judge.fingerprint or None,
                    **_answer(table, row, at),
                }


def _answer(table: AnswerTable, row: int, at: int) -> dict[str, Any]:
    said, vote = table.said[row, at], table.votes[row, at]
    if np.isnan(said):
        answer = "unscored" if table.asked[row, at] else "unasked"
    else:
        answer = "yes" if vote == 1.0 else "no"
    costs = {name: float(getattr(table, name)[row, at]) for name in ("seconds", "tokens", "usd")}
    return {"answer": answer, "probability": None if np.isnan(said) else float(said), **costs}


def _joined(parents: list[str]) -> str | None:
    if not parents:
        return None
    plain = SEPARATOR.join(parents)
    # An id may hold the separator, as those of relations do.
    unclear = any(SEPARATOR in parent for parent in parents) or plain.startswith("[")
    return json.dumps(parents, ensure_ascii=False) if unclear else plain


def write_table(table: AnswerTable, path: str | Path) -> Path:
    """Write ``table`` as CSV, or as parquet where the name ends so; whole or not at all.

    :func:`~scenewright.evals.studies.panel.sources.table_reading.load_table` reads it back. Raises
    ``PanelStudyError`` if it cannot be written, and where an id stands twice or has spaces at its
    ends, which could not be read back.
    """
    file = Path(path)
    _check(table)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix.lower() == ".parquet":
            _write_parquet(table, file)
        else:
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows_of(table))
            write_text(file, text.getvalue().removesuffix("\n"))
    except OSError as error:
        raise PanelStudyError(f"{file} cannot be written: {error.strerror or error}") from error
    return file


def _write_parquet(table: AnswerTable, file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[str, pa.DataType] = {
        "round": pa.int64(),
        "truth": pa.int8(),
        **dict.fromkeys(("probability", "seconds", "tokens", "usd"), pa.float64()),
    }
    schema = pa.schema([pa.field(name, kinds.get(name, pa.string())) for name in COLUMNS])
    draft = file.with_name(f".{file.name}.tmp")
    with pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        block: list[dict[str, Any]] = []
        for row in rows_of(table):
            block.append(row)
            if len(block) == 4096:
                writer.write_table(pa.Table.from_pylist(block, schema=schema))
                block = []
        writer.write_table(pa.Table.from_pylist(block, schema=schema))
    draft.replace(file)


def _check(table: AnswerTable) -> None:
    if not table.facts:
        raise PanelStudyError(f"{table.name} has no facts: there is nothing to write")
    images = [image.id for image in table.images]
    facts = [f"{fact.id} of {images[fact.image]}" for fact in table.facts]
    for what, found in (("image", images), ("fact", facts)):
        twice = [name for name, n in Counter(found).items() if n > 1]
        if twice:
            raise PanelStudyError(f"{table.name}: the {what} {twice[0]} stands twice")
    texts = [*images, *table.judge_ids, *(fact.id for fact in table.facts)]
    for text in texts:
        if not text or text != text.strip():
            raise PanelStudyError(f"{table.name}: the id {text!r} is empty or has spaces at an end")

"""The files of a built set: graphs in the MegaSG style, votes, statistics, manifest."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.evals.annotation.parts import PARTS
from scenewright.evals.errors import AnnotationError
from scenewright.evals.store.ledger import GraphRow

GRAPHS = "graphs.jsonl"
"""All graphs, one a line."""
VOTES = "votes.parquet"
MANIFEST = "manifest.json"
STATISTICS = "statistics.json"
ATTRIBUTES = "attributes.json"
_ROWS = 4096
_SHOWN = 50

VOTE_COLUMNS = pa.schema(
    [
        pa.field("image_id", pa.string()),
        pa.field("source", pa.string()),
        pa.field("relation", pa.string()),
        pa.field("target", pa.string()),
        pa.field("votes", pa.int64()),
        pa.field("of", pa.int64()),
        pa.field("share", pa.float64()),
        # Probability by the judges; null where none were asked or none could tell.
        pa.field("chance", pa.float64()),
        pa.field("reason", pa.string()),
        pa.field("kept", pa.bool_()),
        pa.field("voters", pa.list_(pa.string())),
        pa.field("said", pa.list_(pa.string())),
    ]
)
"""Columns of ``votes.parquet``: one row a relation that any reply named, in the set or not."""


def entry_of(row: GraphRow) -> dict[str, Any]:
    """A graph as MegaSG has it: boxes after the ids, and beside each relation its votes.

    Boxes are (xmin, ymin, xmax, ymax) in pixels, rounded. ``score`` is the judges' probability,
    or else the share of votes.
    """
    boxes = {id_: [round(value) for value in box] for id_, _, box in row.photo.objects}
    entry: dict[str, Any] = {
        "image_id": row.photo.id,
        "file_name": Path(row.photo.file).name,
        "width": row.photo.size[0],
        "height": row.photo.size[1],
        "objects": [f"{id_}:{box}" for id_, box in boxes.items()],
        "relationships": [
            {
                "source": claim["source"],
                "target": claim["target"],
                "relation": claim["relation"],
                "score": round(claim["share"] if claim["chance"] is None else claim["chance"], 6),
                "votes": len(claim["voters"]),
                "of": claim["of"],
                "by": claim["voters"],
            }
            for claim in (row.claims[at] for at in row.kept)
        ],
        "level": row.level,
        "split": row.part,
        "photo": row.photo.file,
    }
    if row.group:
        entry |= {"level 1": row.group, "level 2": row.category}
    elif row.unclassified:
        entry["unclassified"] = row.unclassified
    return entry


def write_graphs(folder: Path, rows: Iterable[GraphRow]) -> Counter[str]:
    """``graphs.jsonl`` and one file a part (``train.jsonl``, …); part → graphs. One graph is in
    memory at a time; readers find the old files until the new ones are whole."""
    counts: Counter[str] = Counter()
    with _replacing([folder / GRAPHS, *(folder / f"{part}.jsonl" for part in PARTS)]) as files:
        for row in rows:
            line = json.dumps(entry_of(row), ensure_ascii=False) + "\n"
            files[0].write(line)
            files[1 + PARTS.index(row.part)].write(line)
            counts[row.part] += 1
    return counts


def write_votes(path: Path, rows: Iterable[GraphRow]) -> int:
    """``votes.parquet``; how many rows."""
    total = 0
    part = path.with_name(f"{path.name}.part")
    try:
        with pq.ParquetWriter(part, VOTE_COLUMNS) as writer:
            block: list[dict[str, Any]] = []
            for row in rows:
                block += _votes(row)
                if len(block) >= _ROWS:
                    writer.write_table(pa.Table.from_pylist(block, VOTE_COLUMNS))
                    total += len(block)
                    block = []
            writer.write_table(pa.Table.from_pylist(block, VOTE_COLUMNS))
            total += len(block)
        os.replace(part, path)
    except OSError as error:
        raise unwritable(path, error) from error
    return total


def _votes(row: GraphRow) -> Iterator[dict[str, Any]]:
    kept = set(row.kept)
    for at, claim in enumerate(row.claims):
        yield {
            **claim,
            "image_id": row.photo.id,
            "votes": len(claim["voters"]),
            "kept": row.part != "" and at in kept,
        }


def statistics_of(rows: Iterable[GraphRow]) -> dict[str, Any]:
    """Counts of a built set: graphs, objects, relations, levels, classes, agreement of votes."""
    objects: Counter[str] = Counter()
    predicates: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    votes: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    graphs = 0
    for row in rows:
        graphs += 1
        objects.update(name for _, name, _ in row.photo.objects)
        levels[row.level] += 1
        parts[row.part] += 1
        classes[f"{row.group}: {row.category}" if row.group else "unclassified"] += 1
        for claim in (row.claims[at] for at in row.kept):
            predicates[claim["relation"]] += 1
            votes[f"{len(claim['voters'])} of {claim['of']}"] += 1
    total, related = sum(objects.values()), sum(predicates.values())
    return {
        "graphs": graphs,
        "objects": total,
        "relations": related,
        "objects_per_graph": total / graphs if graphs else None,
        "relations_per_graph": related / graphs if graphs else None,
        "categories": len(objects),
        "predicates": len(predicates),
        "parts": dict(parts),
        "levels": dict(levels),
        "classes": dict(classes.most_common()),
        "votes": dict(sorted(votes.items())),
        "commonest_categories": dict(objects.most_common(_SHOWN)),
        "commonest_predicates": dict(predicates.most_common(_SHOWN)),
    }


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """``data`` as JSON, in place of what is there, at once."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(json.dumps(data, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> AnnotationError:
    """The error for a file that cannot be written."""
    return AnnotationError(
        f"{path} cannot be written: {error.strerror or error}. Make room or name another folder, "
        "then run the same again: what was paid for is kept"
    )


@contextmanager
def _replacing(paths: list[Path]) -> Iterator[list[IO[str]]]:
    """Files beside ``paths`` that take their places when the block is over."""
    parts = [path.with_name(f"{path.name}.part") for path in paths]
    files: list[IO[str]] = []
    try:
        try:
            for part in parts:
                files.append(part.open("w", encoding="utf-8", newline="\n"))
            yield files
        finally:
            for file in files:
                file.close()
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
    except OSError as error:
        raise unwritable(paths[0], error) from error

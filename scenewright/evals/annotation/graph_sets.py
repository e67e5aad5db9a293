"""Files of a built set: graphs in the MegaSG style, votes, statistics; writing and reading."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.core.flushing import replacing, write_text
from scenewright.core.formats import FormatError
from scenewright.core.formats.megasg import read
from scenewright.core.scene import SceneGraph
from scenewright.evals.annotation.consensus import PARTS
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.json_stream import values
from scenewright.evals.datasets.reading import Box
from scenewright.evals.datasets.scene_graph_sets import bare_id, boxes_of
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
    """Return a graph in MegaSG's form: boxes after the ids, and votes beside each relation.

    Boxes are (xmin, ymin, xmax, ymax) in pixels, rounded. ``score`` is the judges' probability, or
    else the share of votes.
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
    """Write ``graphs.jsonl`` and one file a part (``train.jsonl``, …); return part → graphs.

    One graph is in memory at a time; readers find the old files until the new ones are whole.
    """
    counts: Counter[str] = Counter()
    try:
        with ExitStack() as stack:
            files = {
                name: stack.enter_context(draft.open("w", encoding="utf-8", newline="\n"))
                for name in (GRAPHS, *(f"{part}.jsonl" for part in PARTS))
                for draft in (stack.enter_context(replacing(folder / name)),)
            }
            for row in rows:
                line = json.dumps(entry_of(row), ensure_ascii=False) + "\n"
                files[GRAPHS].write(line)
                files[f"{row.part}.jsonl"].write(line)
                counts[row.part] += 1
    except OSError as error:
        raise unwritable(folder / GRAPHS, error) from error
    return counts


def write_votes(path: Path, rows: Iterable[GraphRow]) -> int:
    """Write ``votes.parquet``; return the number of rows."""
    total = 0
    try:
        with replacing(path) as draft, pq.ParquetWriter(draft, VOTE_COLUMNS) as writer:
            block: list[dict[str, Any]] = []
            for row in rows:
                block += _votes(row)
                if len(block) >= _ROWS:
                    writer.write_table(pa.Table.from_pylist(block, VOTE_COLUMNS))
                    total += len(block)
                    block = []
            writer.write_table(pa.Table.from_pylist(block, VOTE_COLUMNS))
    except OSError as error:
        raise unwritable(path, error) from error
    return total + len(block)


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
    """Return counts of a set: graphs, objects, relations, levels, classes, agreement of votes."""
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
    """Write ``data`` as JSON; readers find the old file or the new one."""
    try:
        write_text(path, json.dumps(data, ensure_ascii=False, indent=2))
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> AnnotationError:
    """Return the error for a file that cannot be written."""
    return AnnotationError(
        f"{path} cannot be written: {error.strerror or error}. Make room or name another folder, "
        "then run the same again: what was paid for is kept"
    )


_ID_KEYS = ("image_id", "id", "file_name")


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """One graph of a set."""

    id: str
    """Id of its photo."""
    scene: SceneGraph
    scores: tuple[float, ...] = ()
    """Score of each relation, 0 to 1; 1 where the set has none."""
    boxes: Mapping[str, Box] = field(default_factory=dict)
    """Object id → its box, where the set has it."""
    photo: str = ""
    """File of the photo, where the set has it."""
    votes: tuple[str, ...] = ()
    """For each relation ``2 of 3``; empty where the set has none."""


def graphs_file(path: Path) -> Path:
    """Return the file of a set: ``path``, or ``graphs.jsonl`` in it if it is a folder.

    Raises ``AnnotationError`` if there is none.
    """
    file = path / GRAPHS if path.is_dir() else path
    if not file.is_file():
        raise AnnotationError(
            f"there is no set {file}: name a folder that `scenewright data annotate` wrote, or a "
            "file of graphs in the MegaSG style (JSON or one JSON object a line)"
        )
    return file


def read_graphs(path: Path) -> Iterator[BuiltGraph]:
    """Yield the graphs of the set ``path`` (folder or file), one in memory at a time.

    Entries are in the MegaSG style with ``image_id`` (or ``id``, ``file_name``). Raises
    ``AnnotationError`` that names the file and the entry, also for a repeated id.
    """
    file = graphs_file(path)
    seen: set[str] = set()
    try:
        for number, entry in values(file):
            where = f"{file}, entry {number}"
            found = graph_of(entry, where)
            if found.id in seen:
                raise AnnotationError(
                    f"{where}: the photo {found.id!r} is there twice: keep one graph"
                )
            seen.add(found.id)
            yield found
    except DatasetError as error:
        raise AnnotationError(str(error)) from error


def graph_of(entry: Any, where: str) -> BuiltGraph:
    """Return the graph of one entry; raises ``AnnotationError``."""
    if not isinstance(entry, dict):
        raise AnnotationError(f"{where} is not a JSON object with image_id, objects, relationships")
    id_ = next((str(entry[key]) for key in _ID_KEYS if entry.get(key) not in (None, "")), "")
    if not id_:
        raise AnnotationError(f"{where} has no image_id: graphs are matched by it")
    try:
        scene = read(entry, where)
        boxes = boxes_of(scene, entry, where)
    except (FormatError, DatasetError) as error:
        raise AnnotationError(str(error)) from error
    said: dict[tuple[str, str, str], tuple[float, str]] = {}
    for at, row in enumerate(entry.get("relationships") or []):
        score = row.get("score", 1.0)
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise AnnotationError(
                f"{where}.relationships[{at}].score is {score!r}: write a number from 0 to 1"
            )
        votes = f"{row['votes']} of {row['of']}" if "votes" in row and "of" in row else ""
        ends = bare_id(row["source"]), str(row["relation"]).strip(), bare_id(row["target"])
        said.setdefault(ends, (float(score), votes))
    known = [said.get((r.source, r.predicate, r.target), (1.0, "")) for r in scene.relations]
    return BuiltGraph(
        id_,
        scene,
        tuple(score for score, _ in known),
        boxes,
        str(entry.get("photo") or ""),
        tuple(votes for _, votes in known),
    )

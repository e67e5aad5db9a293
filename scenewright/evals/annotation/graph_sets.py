"""Sets of scene graphs read from disk: photo id → graph, boxes and scores of its relations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scenewright.core.formats import FormatError
from scenewright.core.formats.base import split_id
from scenewright.core.formats.megasg import read
from scenewright.core.scene import SceneGraph
from scenewright.evals.annotation.writing import GRAPHS
from scenewright.evals.errors import AnnotationError

Box = tuple[float, float, float, float]
"""(xmin, ymin, xmax, ymax) in pixels."""
_ID_KEYS = ("image_id", "id", "file_name")


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """One graph of a set."""

    id: str
    """Of its photo."""
    scene: SceneGraph
    """Objects and relations."""
    scores: tuple[float, ...] = ()
    """How sure each relation is, 0 to 1; 1 where the set says nothing."""
    boxes: Mapping[str, Box] = field(default_factory=dict)
    """Object id → its place, where the set tells."""
    photo: str = ""
    """File of the photo, where the set tells."""
    votes: tuple[str, ...] = ()
    """Of each relation ``2 of 3``; empty where the set says nothing."""


def graphs_file(path: Path) -> Path:
    """The file of a set: ``path``, or ``graphs.jsonl`` in it if it is a folder.

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
    """The graphs of the set ``path`` (folder or file), one in memory at a time if a line each.

    Entries are in the MegaSG style with ``image_id`` (or ``id``, ``file_name``). Raises
    ``AnnotationError`` that names the file and the entry, also for an id that is given twice.
    """
    file = graphs_file(path)
    seen: set[str] = set()
    for entry, where in _entries(file):
        found = graph_of(entry, where)
        if found.id in seen:
            raise AnnotationError(f"{where}: the photo {found.id!r} is there twice: keep one graph")
        seen.add(found.id)
        yield found


def graph_of(entry: Any, where: str) -> BuiltGraph:
    """The graph of one entry; raises ``AnnotationError``."""
    if not isinstance(entry, dict):
        raise AnnotationError(f"{where} is no JSON object with image_id, objects, relationships")
    id_ = next((str(entry[key]) for key in _ID_KEYS if entry.get(key) not in (None, "")), "")
    if not id_:
        raise AnnotationError(f"{where} has no image_id: graphs are matched by it")
    try:
        scene = read(entry, where)
    except FormatError as error:
        raise AnnotationError(str(error)) from error
    said: dict[tuple[str, str, str], tuple[float, str]] = {}
    for at, row in enumerate(entry.get("relationships") or []):
        place = f"{where}.relationships[{at}]"
        score = row.get("score", 1.0)
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise AnnotationError(f"{place}.score is {score!r}: write a number from 0 to 1")
        votes = f"{row['votes']} of {row['of']}" if "votes" in row and "of" in row else ""
        ends = (_bare(row["source"]), str(row["relation"]).strip(), _bare(row["target"]))
        said.setdefault(ends, (float(score), votes))
    known = [said.get((r.source, r.predicate, r.target), (1.0, "")) for r in scene.relations]
    return BuiltGraph(
        id_,
        scene,
        tuple(score for score, _ in known),
        dict(filter(None, map(_boxed, entry.get("objects") or []))),
        str(entry.get("photo") or ""),
        tuple(votes for _, votes in known),
    )


def _bare(text: Any) -> str:
    found = _boxed(text)
    return found[0] if found else str(text).strip()


def _boxed(text: Any) -> tuple[str, Box] | None:
    """Id and box of ``person.2:[116, 49, 309, 491]``."""
    id_, colon, numbers = str(text).rpartition(":")
    if not colon or split_id(id_.strip())[1] is None:
        return None
    try:
        values = [float(value) for value in json.loads(numbers)]
    except (ValueError, TypeError):
        return None
    if len(values) != 4 or not all(map(math.isfinite, values)):
        return None
    return id_.strip(), (values[0], values[1], values[2], values[3])


def _entries(file: Path) -> Iterator[tuple[Any, str]]:
    try:
        with file.open(encoding="utf-8") as lines:
            first = lines.readline()
            lines.seek(0)
            if file.suffix == ".jsonl" or _is_object(first):
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        where = f"{file}, line {number}"
                        yield _parsed(line, where), where
                return
            data = _parsed(lines.read(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        told = getattr(error, "strerror", None) or error
        raise AnnotationError(f"{file} cannot be read: {told}") from error
    if isinstance(data, list):
        for at, entry in enumerate(data):
            yield entry, f"{file}: [{at}]"
    else:
        yield data, str(file)


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f"{where} is no JSON: {error}") from error

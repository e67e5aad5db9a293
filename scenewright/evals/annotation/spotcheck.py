"""A page on which people check a sample of a built set, and what their answers say.

The page is a folder of plain files: no server, nothing is sent. Answers stay in the browser until
they are exported as CSV or JSON.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.images import ImageError, load_image
from scenewright.evals.annotation.graph_sets import BuiltGraph
from scenewright.evals.annotation.writing import unwritable
from scenewright.evals.errors import AnnotationError
from scenewright.evals.statistics.figures import Bootstrap, Figure

COLUMNS = ("image_id", "source", "relation", "target", "answer", "rater")
ANSWERS = ("yes", "no", "unsure")
MOST_SIDE = 1280
"""Longest side, in pixels, of a photo on the page; the original stays as it is."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was written."""

    path: Path
    """To open in a browser."""
    photos: int
    """Photos on it."""
    relations: int
    """Relations to check."""
    lost: tuple[str, ...]
    """Photos that could not be read."""


def sample(graphs: Iterable[BuiltGraph], n: int, seed: int = 0) -> list[BuiltGraph]:
    """``n`` of the graphs that have relations, each as likely (reservoir), in a random order."""
    rng = random.Random(f"spotcheck/{seed}")
    kept: list[BuiltGraph] = []
    count = 0
    for graph in graphs:
        if not graph.scene.relations:
            continue
        count += 1
        if len(kept) < n:
            kept.append(graph)
        elif (at := rng.randrange(count)) < n:
            kept[at] = graph
    rng.shuffle(kept)
    return kept


def write_page(graphs: Sequence[BuiltGraph], folder: Path, name: str) -> Page:
    """``index.html`` and the photos in ``folder``, for ``graphs`` of the set ``name``.

    Photos that cannot be read are left out. Raises ``AnnotationError`` if none can, or if the
    folder cannot be written.
    """
    try:
        (folder / "photos").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    shown: list[dict[str, Any]] = []
    lost: list[str] = []
    for graph in graphs:
        try:
            image = load_image(Path(graph.photo))
        except (ImageError, OSError) as error:
            lost.append(f"{graph.id}: {error}")
            continue
        size = image.size
        digest = hashlib.sha256(graph.id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        image.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.LANCZOS)
        try:
            image.save(folder / "photos" / f"{digest}.jpg", quality=90)
        except OSError as error:
            raise unwritable(folder, error) from error
        shown.append(_shown(graph, f"photos/{digest}.jpg", size))
    if not shown:
        why = lost[0] if lost else "no graph has relations"
        raise AnnotationError(f"there is nothing to check: {why}")
    data = {"name": name, "photos": shown}
    told = json.dumps(data, ensure_ascii=False)
    key = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    assets = files("scenewright.evals.annotation") / "assets"
    page = (assets / "spotcheck.html").read_text(encoding="utf-8")
    # The data must not be able to end the script in which it stands.
    for mark, text in (
        ("/*STYLE*/", (assets / "spotcheck.css").read_text(encoding="utf-8")),
        ("/*SCRIPT*/", (assets / "spotcheck.js").read_text(encoding="utf-8")),
        ('"KEY"', json.dumps(key)),
        ('"DATA"', told.replace("<", "\\u003c").replace("\u2028", "\\u2028")),
    ):
        page = page.replace(mark, text, 1)
    path = folder / "index.html"
    try:
        path.write_text(page, encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise AnnotationError(f"{path} cannot be written: {error}") from error
    return Page(path, len(shown), sum(len(one["relations"]) for one in shown), tuple(lost))


def _shown(graph: BuiltGraph, photo: str, size: tuple[int, int]) -> dict[str, Any]:
    votes = graph.votes or ("",) * len(graph.scene.relations)
    return {
        "id": graph.id,
        "photo": photo,
        "size": size,
        "boxes": {key: list(box) for key, box in graph.boxes.items()},
        "relations": [
            {
                "source": r.source, "relation": r.predicate, "target": r.target,
                "score": score, "votes": said,
            }
            for r, score, said in zip(graph.scene.relations, graph.scores, votes, strict=True)
        ],
    }  # fmt: skip


class SpotCheck(BaseModel):
    """What people said of a sample."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    photos: int
    """Photos with an answer."""
    answers: int
    """Relations that were said to be right or wrong."""
    unsure: int
    """Relations of which somebody was unsure; they count in no share."""
    precision: Figure
    """Share of relations that are right, over photos."""
    predicates: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Predicate → (right, answered)."""


def read_answers(path: Path) -> list[dict[str, str]]:
    """The rows of an exported CSV or JSON file.

    Raises ``AnnotationError`` that names the file, the row and what is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        told = getattr(error, "strerror", None) or error
        raise AnnotationError(f"{path} cannot be read: {told}") from error
    rows: Any
    if path.suffix == ".json":
        try:
            rows = json.loads(text)
        except ValueError as error:
            raise AnnotationError(f"{path} is no JSON: {error}") from error
        rows = rows.get("answers") if isinstance(rows, dict) else rows
        if not isinstance(rows, list):
            raise AnnotationError(f"{path} holds no answers: export them on the page again")
    else:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    found = []
    for number, row in enumerate(rows, 1):
        where = f"{path}, answer {number}"
        wanted = COLUMNS[:5]
        if not isinstance(row, dict) or any(not isinstance(row.get(c), str) for c in wanted):
            raise AnnotationError(f"{where} lacks one of the columns {', '.join(wanted)}")
        if row["answer"] not in ANSWERS:
            raise AnnotationError(f"{where} is {row['answer']!r}: write {', '.join(ANSWERS)}")
        found.append({name: str(row.get(name) or "") for name in COLUMNS})
    if not found:
        raise AnnotationError(f"{path} holds no answers: answer on the page, then export")
    return found


def spot_check(rows: Iterable[dict[str, str]], seed: int = 0) -> SpotCheck:
    """Precision of the relations that people looked at, with an interval over photos.

    Raises ``AnnotationError`` if nobody said yes or no.
    """
    photos: dict[str, int] = {}
    places: list[int] = []
    right: list[int] = []
    predicates: dict[str, tuple[int, int]] = {}
    unsure = 0
    for row in rows:
        if row["answer"] == "unsure":
            unsure += 1
            continue
        yes = int(row["answer"] == "yes")
        places.append(photos.setdefault(row["image_id"], len(photos)))
        right.append(yes)
        good, n = predicates.get(row["relation"], (0, 0))
        predicates[row["relation"]] = (good + yes, n + 1)
    if not right:
        raise AnnotationError("nobody said yes or no: there is nothing to count")
    return SpotCheck(
        photos=len(photos),
        answers=len(right),
        unsure=unsure,
        precision=Bootstrap(len(photos), seed).share(places, right),
        predicates=dict(sorted(predicates.items(), key=lambda one: (-one[1][1], one[0]))),
    )

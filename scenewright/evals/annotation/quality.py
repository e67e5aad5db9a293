"""Quality of a built set: recall against a reference set, and spot checks by people.

**Recall** of ranked relations as scene graph models are measured: R@K and mR@K for PredCls. Objects
are given (predicate classification), so a predicted triple is right if the reference has the same
subject, predicate and object, by identity. Of each image the K surest triples count:

- *with graph constraint* at most one predicate a pair (ordered), the surest;
- *without* all of them.

``R@K`` is the mean over images of the share of reference triples that are among the first K.
``mR@K`` is the mean over predicates of the mean, over the images whose reference has the predicate,
of the share of those triples that are found (Tang et al. 2019; Chen et al. 2019). Images whose
reference has no relations count in neither.

**Spot check**: a page on which people check a sample of a built set. It is a folder of plain files
without a server. Answers stay in the browser until they are exported as CSV or JSON.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.images import ImageError, load_image, nothing_drawn
from scenewright.core.sentences import relation_parts
from scenewright.core.user_files import parsed_json, read_user_text
from scenewright.evals.annotation.graph_sets import BuiltGraph, unwritable
from scenewright.evals.annotation.panel_queries import Triple, plain
from scenewright.evals.datasets.registry import reservoir
from scenewright.evals.errors import AnnotationError
from scenewright.evals.statistics.figures import Bootstrap, Figure

KS = (20, 50, 100)


def ranked(triples: Sequence[Triple], scores: Sequence[float], constrained: bool) -> list[Triple]:
    """Return ``triples`` by falling score, those of equal score in their order.

    Of each ordered pair the first alone if ``constrained``. Raises ``ValueError`` if there is not
    one score a triple.
    """
    order = [t for _, t in sorted(zip(scores, triples, strict=True), key=lambda one: -one[0])]
    if not constrained:
        return list(dict.fromkeys(order))
    best: dict[tuple[str, str], Triple] = {}
    for triple in order:
        best.setdefault((triple[0], triple[2]), triple)
    return list(best.values())


@dataclass
class Recalls:
    """Sums over images for R@K and mR@K."""

    k: int
    """Number of triples of an image that count."""
    images: list[float] = field(default_factory=list)
    """Recall of each image with reference relations."""
    _by_predicate: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, found: Sequence[Triple], reference: Iterable[Triple]) -> None:
        """Add an image: its ``found`` triples, ranked, and the true ones."""
        wanted = set(reference)
        if not wanted:
            return
        hits = wanted & set(found[: self.k])
        self.images.append(len(hits) / len(wanted))
        right = Counter(predicate for _, predicate, _ in hits)
        for predicate, count in Counter(predicate for _, predicate, _ in wanted).items():
            self._by_predicate[predicate].append(right[predicate] / count)

    @property
    def recall(self) -> float | None:
        """R@K; None without an image that counts."""
        return sum(self.images) / len(self.images) if self.images else None

    @property
    def predicates(self) -> dict[str, float]:
        """Predicate → its mean recall."""
        return {word: sum(all_) / len(all_) for word, all_ in sorted(self._by_predicate.items())}

    @property
    def mean_recall(self) -> float | None:
        """mR@K; None without a predicate that counts."""
        found = self.predicates
        return sum(found.values()) / len(found) if found else None


class Quality(BaseModel):
    """Measures of a built set against its reference."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    photos: int
    """Photos that both sets have; those of the reference alone count as empty graphs."""
    missing: int
    """Photos of the reference that the built set does not have."""
    unknown: int
    """Photos of the built set that the reference does not have; they are not measured."""
    built: int
    """Relations of the built graphs that were measured."""
    reference: int
    """Relations of the reference."""
    recall_at: dict[str, Figure] = Field(default_factory=dict)
    """``R@K`` with graph constraint and ``ng-R@K`` without, K = 20, 50, 100."""
    mean_recall_at: dict[str, float | None] = Field(default_factory=dict)
    """``mR@K`` and ``ng-mR@K``."""
    relations: dict[str, Figure] = Field(default_factory=dict)
    """``precision`` and ``recall`` of all relations, whatever their rank."""
    objects: dict[str, Figure] = Field(default_factory=dict)
    """``precision`` and ``recall`` of objects, by id and class."""
    predicates: dict[str, float] = Field(default_factory=dict)
    """Predicate → its recall among the first 100, with graph constraint."""


def triples_of(graph: BuiltGraph) -> list[Triple]:
    """Return the relations with plain predicates."""
    return [(r.source, plain(r.predicate), r.target) for r in graph.scene.relations]


def quality(
    built: Iterable[BuiltGraph], reference: Mapping[str, BuiltGraph], seed: int = 0
) -> Quality:
    """Measure ``built`` against ``reference`` (photo id → graph).

    A triple is right if the reference holds the same ids and the same predicate; scores rank it.
    Intervals are bootstraps over photos. Raises ``AnnotationError`` if no photo is in both sets.
    """
    tables = {
        ("" if constrained else "ng-", k): Recalls(k) for constrained in (True, False) for k in KS
    }
    counts: list[list[int]] = []
    unknown = 0
    seen: set[str] = set()

    def one(graph: BuiltGraph | None, truth: BuiltGraph) -> None:
        triples = [] if graph is None else triples_of(graph)
        scores = () if graph is None else graph.scores
        wanted = set(triples_of(truth))
        for (prefix, _), recalls in tables.items():
            recalls.add(ranked(triples, scores, constrained=not prefix), wanted)
        there = set() if graph is None else {(o.id, plain(o.name)) for o in graph.scene.objects}
        objects = {(o.id, plain(o.name)) for o in truth.scene.objects}
        found = set(triples)
        counts.append(
            [len(found & wanted), len(found), len(wanted),
             len(there & objects), len(there), len(objects)]
        )  # fmt: skip

    for graph in built:
        truth = reference.get(graph.id)
        if truth is None:
            unknown += 1
            continue
        seen.add(graph.id)
        one(graph, truth)
    if not seen:
        raise AnnotationError(
            "no photo is in both sets: graphs are matched by image_id, so give both the same ids"
        )
    missing = [truth for id_, truth in reference.items() if id_ not in seen]
    for truth in missing:
        one(None, truth)
    boot = Bootstrap(len(counts), seed)
    photos = range(len(counts))
    columns = list(zip(*counts, strict=True))

    def ratio(part: int, whole: int) -> Figure:
        return boot.figure(photos, [columns[part], columns[whole]], lambda s: s[:, 0] / s[:, 1])

    recall_at = {}
    for (prefix, k), recalls in tables.items():
        if recalls.images:
            over = Bootstrap(len(recalls.images), seed)
            recall_at[f"{prefix}R@{k}"] = over.share(range(len(recalls.images)), recalls.images)
    return Quality(
        photos=len(seen),
        missing=len(missing),
        unknown=unknown,
        built=sum(columns[1]),
        reference=sum(columns[2]),
        recall_at=recall_at,
        mean_recall_at={f"{p}mR@{k}": t.mean_recall for (p, k), t in tables.items()},
        relations={"precision": ratio(0, 1), "recall": ratio(0, 2)},
        objects={"precision": ratio(3, 4), "recall": ratio(3, 5)},
        predicates=tables["", max(KS)].predicates,
    )


def by_id(graphs: Iterable[BuiltGraph]) -> dict[str, BuiltGraph]:
    """Return photo id → graph."""
    return {graph.id: graph for graph in graphs}


def as_rows(found: Quality) -> list[tuple[str, str]]:
    """Return the measures and their values, for tables."""
    rows: list[tuple[str, Any]] = [*found.recall_at.items(), *found.mean_recall_at.items()]
    rows += [(f"relations: {name}", figure) for name, figure in found.relations.items()]
    rows += [(f"objects: {name}", figure) for name, figure in found.objects.items()]
    return [
        (name, value.text() if isinstance(value, Figure) else _digits(value))
        for name, value in rows
    ]


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


COLUMNS = ("image_id", "source", "relation", "target", "answer", "rater", "first")
"""Columns of the answers. ``first`` is the answer that was given before the judges' votes were
shown, where the person changed it afterwards; else empty."""
ANSWERS = ("yes", "no", "unsure")
MOST_SIDE = 1280
"""Longest side, in pixels, of a photo on the page; the original stays as it is."""


@dataclass(frozen=True, slots=True)
class Page:
    """A written page."""

    path: Path
    """To open in a browser."""
    photos: int
    """Photos on it."""
    relations: int
    """Relations to check."""
    lost: tuple[str, ...]
    """Photos that could not be read."""


def sample(graphs: Iterable[BuiltGraph], n: int, seed: int = 0) -> list[BuiltGraph]:
    """Return ``n`` of the graphs with relations, each as likely (reservoir), in a random order."""
    rng = random.Random(f"spotcheck/{seed}")
    _, kept = reservoir((graph for graph in graphs if graph.scene.relations), n, rng)
    rng.shuffle(kept)
    return kept


def write_page(graphs: Sequence[BuiltGraph], folder: Path, name: str) -> Page:
    """Write ``index.html`` and the photos into ``folder``, for ``graphs`` of the set ``name``.

    Photos that cannot be read are left out. Raises ``AnnotationError`` if none can, or if the
    folder cannot be written.
    """
    shown: list[dict[str, Any]] = []
    lost: list[str] = []
    path = folder / "index.html"
    try:
        (folder / "photos").mkdir(parents=True, exist_ok=True)
        for graph in graphs:
            try:
                image = load_image(Path(graph.photo))
            except (ImageError, OSError) as error:
                lost.append(f"{graph.id}: {error}")
                continue
            if empty := nothing_drawn(image):
                lost.append(f"{graph.id}: {empty}")
                continue
            size = image.size
            digest = hashlib.sha256(graph.id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            image.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.LANCZOS)
            image.save(folder / "photos" / f"{digest}.jpg", quality=90)
            shown.append(_shown(graph, f"photos/{digest}.jpg", size))
        if not shown:
            why = lost[0] if lost else "no graph has relations"
            raise AnnotationError(f"there is nothing to check: {why}")
        path.write_text(
            _page(json.dumps({"name": name, "photos": shown}, ensure_ascii=False)), "utf-8"
        )
    except OSError as error:
        raise unwritable(folder, error) from error
    except UnicodeEncodeError as error:
        raise AnnotationError(f"{path} cannot be written: {error}") from error
    return Page(path, len(shown), sum(len(one["relations"]) for one in shown), tuple(lost))


def _page(told: str) -> str:
    """Return the page with its data, which is JSON."""
    key = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    assets = files("scenewright.evals.annotation") / "assets"
    page = (assets / "spotcheck.html").read_text(encoding="utf-8")
    # The data must not be able to end its script element.
    for mark, text in (
        ("/*STYLE*/", (assets / "spotcheck.css").read_text(encoding="utf-8")),
        ("/*SCRIPT*/", (assets / "spotcheck.js").read_text(encoding="utf-8")),
        ('"KEY"', json.dumps(key)),
        ('"DATA"', told.replace("<", "\\u003c").replace("\u2028", "\\u2028")),
    ):
        page = page.replace(mark, text, 1)
    return page


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
                "words": relation_parts(graph.scene, r),
                "score": score, "votes": said,
            }
            for r, score, said in zip(graph.scene.relations, graph.scores, votes, strict=True)
        ],
    }  # fmt: skip


class SpotCheck(BaseModel):
    """Result of people's answers about a sample."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    photos: int
    """Photos with an answer."""
    answers: int
    """Relations answered as right or wrong."""
    unsure: int
    """Relations with an unsure answer; they count in no share."""
    changed: int
    """Answers changed once the judges' votes were shown; the first ones count."""
    precision: Figure
    """Share of relations that are right, over photos."""
    predicates: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Predicate → (right, answered)."""


def read_answers(path: Path) -> list[dict[str, str]]:
    """Return the rows of an exported CSV or JSON file.

    Raises ``AnnotationError`` that names the file, the row and what is wrong.
    """
    text = read_user_text(path, AnnotationError)
    rows: Any
    if path.suffix.lower() == ".json":
        rows = parsed_json(text, str(path), AnnotationError)
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
        taken = {name: str(row.get(name) or "") for name in COLUMNS}
        if taken["first"] not in ("", *ANSWERS):
            raise AnnotationError(
                f"{where} was first {taken['first']!r}: write {', '.join(ANSWERS)}, or nothing"
            )
        found.append(taken)
    if not found:
        raise AnnotationError(f"{path} holds no answers: answer on the page, then export")
    return found


def spot_check(rows: Iterable[dict[str, str]], seed: int = 0) -> SpotCheck:
    """Return the precision of the checked relations, with an interval over photos.

    An answer that was changed once the judges' votes were shown counts as it was before.

    Raises ``AnnotationError`` if no answer is yes or no.
    """
    photos: dict[str, int] = {}
    places: list[int] = []
    right: list[int] = []
    predicates: dict[str, tuple[int, int]] = {}
    unsure = changed = 0
    for row in rows:
        first = row.get("first", "")
        changed += bool(first)
        answer = first or row["answer"]
        if answer == "unsure":
            unsure += 1
            continue
        yes = int(answer == "yes")
        places.append(photos.setdefault(row["image_id"], len(photos)))
        right.append(yes)
        good, n = predicates.get(row["relation"], (0, 0))
        predicates[row["relation"]] = (good + yes, n + 1)
    if not right:
        raise AnnotationError("no answer is yes or no: there is nothing to count")
    return SpotCheck(
        photos=len(photos),
        answers=len(right),
        unsure=unsure,
        changed=changed,
        precision=Bootstrap(len(photos), seed).share(places, right),
        predicates=dict(sorted(predicates.items(), key=lambda one: (-one[1][1], one[0]))),
    )

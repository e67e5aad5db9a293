"""How well pictures are read as scene graphs, on painted scenes whose truth is known.

``python -m benchmarks.extraction [--quick]``. Held-out paintings of 1–8 things, read by

- ``one_stage``: the judges a and b asked for every word of their world, two things of a kind;
- ``two_stage``: the segmenter finds things, the judges a and b read colours, judge a scores
  relations and judge b confirms them;
- ``two_stage_unverified``: the same without judge b's word;
- ``two_stage_true_boxes``: the same with the painted things' own boxes in place of the segmenter.

Figures, ``precision.KIND.READER`` and ``recall.KIND.READER``, are of all facts together:

- ``objects``: by class and number. Said and painted things of one class are paired so that as
  many colours agree as can be, then as many relations.
- ``attributes``: the colour of a paired thing; a thing that is not paired has a wrong one.
- ``relations``: a stated one is right if it holds between the painted things (a direction by the
  larger difference of the middles, none between things in contact). Recall is over the relations
  that the painting's scene names, its contacts first and up to twice as many as things; without
  *near*, which no reader is asked for; a direction is found from either end.
- ``clear_relations``: precision without directions of pairs shifted so little that their direction
  is a matter of taste.
- ``contacts``: on, under, holding, wearing, riding, inside alone; recall over all that are drawn.
- ``placed_objects``: an object is right if it covers a painted one of its class with an
  intersection over union of 0.5 or more; of readers that know places.

``seconds.READER`` is of one picture; ablations share the answers of ``two_stage`` and have none.
Intervals are 95% percentile intervals of a bootstrap over pictures.
"""

from __future__ import annotations

import asyncio
import random
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks._harness import RESAMPLES, benchmark, intervals, progress, ratio
from benchmarks._models import SharedJudge
from scenewright.core.ports.vision import Box, Detection, Detector, Extraction, GraphExtractor
from scenewright.core.scene import Relation, SceneGraph
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import CONTACTS
from scenewright.runs.model_factory.extractors import MINIATURE
from scenewright.runs.model_factory.local_models import detector_of
from scenewright.runs.model_factory.profiles import build_judge
from scenewright.tools.vision.detection.boxes import iou
from scenewright.tools.vision.extraction.judged_readers import (
    JudgedAttributes,
    JudgedRelations,
    JudgedVerifier,
)
from scenewright.tools.vision.extraction.one_stage import OneStageExtractor
from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel
from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor
from scenewright.tools.vision.extraction.world import miniature_world

TURNED = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
KINDS = ("objects", "attributes", "relations", "contacts", "clear_relations", "placed_objects")
KINDS_WITH_RECALL = tuple(kind for kind in KINDS if kind != "clear_relations")
_PLACED = 0.5


class Count(NamedTuple):
    """Facts of one kind in one picture."""

    right: int = 0
    """Said and true."""
    said: int = 0
    """Said."""
    found: int = 0
    """True and said."""
    true: int = 0
    """True."""


def true_box(painting: Painting, object_id: str) -> Box:
    """Return the painted thing's box within the picture, in pixels."""
    box = painting.truth.boxes[object_id]
    width, height = painting.image.size
    right, bottom = min(width, box.left + box.width), min(height, box.top + box.height)
    return float(max(0, box.left)), float(max(0, box.top)), float(right), float(bottom)


def aligned(said: SceneGraph, painting: Painting) -> dict[str, str]:
    """Return id in the graph that was read → id in the painting, within classes.

    As many equal colours as can be, then, exchanging pairs, as many true relations as can be.
    """
    match: dict[str, str] = {}
    for name in sorted({item.name for item in said.objects}):
        ours, theirs = (
            [item for item in scene.objects if item.name == name]
            for scene in (said, painting.scene)
        )
        same = [[a.attributes.get("color") == b.attributes["color"] for b in theirs] for a in ours]
        rows, columns = linear_sum_assignment(np.array(same, float), maximize=True)
        match |= {ours[a].id: theirs[b].id for a, b in zip(rows, columns, strict=True)}
    return _exchanged(match, said, painting)


def _exchanged(match: dict[str, str], said: SceneGraph, painting: Painting) -> dict[str, str]:
    def true_relations(match: Mapping[str, str]) -> int:
        return sum(holds(relation, match, painting) for relation in said.relations)

    looks = {item.id: (item.name, item.attributes.get("color")) for item in said.objects}
    twins = [(a, b) for a, b in combinations(sorted(match), 2) if looks[a] == looks[b]]
    best, better = true_relations(match), True
    while better:
        better = False
        for a, b in twins:
            tried = {**match, a: match[b], b: match[a]}
            value = true_relations(tried)
            if value > best:
                match, best, better = tried, value, True
    return match


def holds(relation: Relation, match: Mapping[str, str], painting: Painting) -> bool:
    """Return whether a relation that was read holds between the painted things."""
    ends = match.get(relation.source), match.get(relation.target)
    return None not in ends and relation.predicate in painting.truth.relations_between(*ends)


def counted(found: Extraction, painting: Painting) -> dict[str, Count]:
    """Return kind → its count.

    The kinds are those of :data:`KINDS`, as the benchmark defines them.
    """
    scene, truth = found.scene, painting.truth
    match = aligned(scene, painting)
    said = {
        (match[r.source], r.predicate, match[r.target])
        for r in scene.relations
        if r.source in match and r.target in match
    }
    said |= {(t, TURNED[p], s) for s, p, t in said if p in TURNED}
    asked = [
        (r.source, r.predicate, r.target) for r in painting.scene.relations if r.predicate != "near"
    ]
    colors = sum(
        painting.scene.object(match[item.id]).attributes["color"] == item.attributes["color"]
        for item in scene.objects
        if item.id in match and "color" in item.attributes
    )
    colored = sum(len(item.attributes) for item in scene.objects)
    n = len(painting.scene.objects)

    def related(some: list[Relation], true: list[tuple[str, str, str]]) -> Count:
        right = sum(holds(relation, match, painting) for relation in some)
        return Count(right, len(some), sum(one in said for one in true), len(true))

    def clear(relation: Relation) -> bool:
        ends = match.get(relation.source), match.get(relation.target)
        return relation.predicate not in TURNED or None in ends or not truth.is_ambiguous(*ends)

    relations = list(scene.relations)
    counts = {
        "objects": Count(len(match), len(scene.objects), len(match), n),
        "attributes": Count(colors, colored, colors, n),
        "relations": related(relations, asked),
        "contacts": related(
            [r for r in relations if r.predicate in CONTACTS], sorted(truth.contacts)
        ),
        "clear_relations": related([r for r in relations if clear(r)], asked),
    }
    if found.things:
        counts["placed_objects"] = _placed(found, painting)
    return counts


def _placed(found: Extraction, painting: Painting) -> Count:
    ours = list(found.things.values())
    theirs = painting.scene.objects
    table = np.array(
        [
            [iou(a.box, true_box(painting, b.id)) if a.name == b.name else 0.0 for b in theirs]
            for a in ours
        ]
    )
    rows, columns = linear_sum_assignment(-table)
    right = int((table[rows, columns] >= _PLACED).sum())
    return Count(right, len(ours), right, len(theirs))


PICTURES = 300
QUICK_PICTURES = 4
SEED = "benchmark of extraction"
TIMED = ("one_stage", "two_stage")


class TrueBoxes:
    """Detects the things of one painting where they are."""

    id = "true boxes"
    fingerprint = "true boxes"

    def __init__(self, painting: Painting) -> None:
        self._painting = painting

    async def detect(self, image: Any, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """Return the painted things."""
        return tuple(
            Detection(item.name, true_box(self._painting, item.id))
            for item in self._painting.scene.objects
        )

    async def aclose(self) -> None:
        """Do nothing: there is nothing to free."""


def readers(painting: Painting, detector: Detector) -> dict[str, GraphExtractor]:
    """Return name → extractor for one painting; answers are kept for this picture alone."""
    world = miniature_world()
    judges = [build_judge(name) for name in MINIATURE.attributes.names]
    a, b = (SharedJudge(judge) for judge in judges)

    def two_stage(found: Detector, verified: bool = True) -> TwoStageExtractor:
        return TwoStageExtractor(
            found,
            JudgedAttributes(ExtractionPanel([a, b]), world.attributes),
            JudgedRelations(ExtractionPanel([a]), world),
            JudgedVerifier(ExtractionPanel([b]), "miniature") if verified else None,
            keys=lambda label: tuple(world.attributes),
            merging=None,
            attributes_first=True,
        )

    return {
        "one_stage": OneStageExtractor.by_judges(ExtractionPanel(judges), world),
        "two_stage": two_stage(detector),
        "two_stage_unverified": two_stage(detector, verified=False),
        "two_stage_true_boxes": two_stage(TrueBoxes(painting)),
    }


async def measure(n: int) -> dict[str, Any]:
    """Return all figures over ``n`` paintings."""
    rng = random.Random(SEED)
    detector = detector_of(MINIATURE.detector)
    first = sample_painting(random.Random(f"{SEED}: warm up"))
    for reader in readers(first, detector).values():
        await reader.extract(first.image)
    rows: dict[str, list[Mapping[str, Count]]] = {}
    seconds: list[dict[str, float]] = []
    for _ in progress(range(n)):
        painting = sample_painting(rng)
        seconds.append({})
        for name, reader in readers(painting, detector).items():
            began = time.perf_counter()
            found = await reader.extract(painting.image)
            seconds[-1][name] = time.perf_counter() - began
            rows.setdefault(name, []).append(counted(found, painting))
    figures: dict[str, Any] = {}
    for name, counts in rows.items():
        figures |= figures_of(name, counts)
    timed = [{name: row[name] for name in TIMED} for row in seconds]
    return figures | intervals(timed, "seconds.")


def figures_of(
    name: str, rows: Sequence[Mapping[str, Count]], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Return ``precision.KIND.name`` and ``recall.KIND.name`` of the counts of pictures.

    A value is left out if nothing was said, or nothing was there. Raises ``ValueError`` without
    pictures.
    """
    figures: dict[str, Any] = {}
    for measure, (part, whole) in {"precision": (0, 1), "recall": (2, 3)}.items():
        for kind in KINDS if measure == "precision" else KINDS_WITH_RECALL:
            counts = np.array([row.get(kind, Count()) for row in rows]).reshape(-1, 4)
            if not len(counts) or counts[:, whole].any():
                figures[f"{measure}.{kind}.{name}"] = ratio(counts[:, [part, whole]], resamples)
    return dict(sorted(figures.items()))


@benchmark(
    "few pictures",
    measures=("scenewright.tools.vision.extraction",),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all readers."""
    n = QUICK_PICTURES if options.quick else PICTURES
    return n, asyncio.run(measure(n))


if __name__ == "__main__":
    main()

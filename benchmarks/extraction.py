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
- ``clear_relations``: precision without directions of pairs that stand so diagonally that their
  direction is a matter of taste.
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
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks._harness import RESAMPLES, benchmark, interval, progress, ratio
from benchmarks._models import SharedJudge
from scenewright.core.ports.vision import Box, Detection, Detector, Extraction, GraphExtractor
from scenewright.core.scene import Relation
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import CONTACTS
from scenewright.runs.model_factory.extractors import MINIATURE
from scenewright.runs.model_factory.local_models import detector_of
from scenewright.runs.model_factory.profiles import judge_of
from scenewright.tools.vision.detection.boxes import iou
from scenewright.tools.vision.extraction.judged_parser import ExtractionPanel
from scenewright.tools.vision.extraction.judged_readers import (
    JudgedAttributes,
    JudgedRelations,
    JudgedVerifier,
)
from scenewright.tools.vision.extraction.one_stage import OneStageExtractor
from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor
from scenewright.tools.vision.extraction.world import miniature_world

TURNED = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
KINDS = ("objects", "attributes", "relations", "contacts", "clear_relations", "placed_objects")
_PLACED = 0.5


@dataclass(frozen=True, slots=True)
class Count:
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


def aligned(found: Extraction, painting: Painting) -> dict[str, str]:
    """Return id in the extraction → id in the painting, within classes.

    As many equal colours as can be, then, exchanging pairs, as many true relations as can be.
    """
    truth = painting.scene
    match: dict[str, str] = {}
    for name in sorted({item.name for item in found.scene.objects}):
        ours = [item for item in found.scene.objects if item.name == name]
        theirs = [item for item in truth.objects if item.name == name]
        if not theirs:
            continue
        same = np.array(
            [
                [float(a.attributes.get("color") == b.attributes["color"]) for b in theirs]
                for a in ours
            ]
        )
        for row, column in zip(*linear_sum_assignment(-same), strict=True):
            match[ours[row].id] = theirs[column].id
    return _exchanged(match, found, painting)


def _exchanged(match: dict[str, str], found: Extraction, painting: Painting) -> dict[str, str]:
    names = {item.id: item.name for item in found.scene.objects}
    told = {item.id: item.attributes.get("color") for item in found.scene.objects}
    best = _true_relations(match, found, painting)
    better = True
    while better:
        better = False
        for a in match:
            for b in match:
                if a >= b or names[a] != names[b] or told[a] != told[b]:
                    continue
                tried = {**match, a: match[b], b: match[a]}
                value = _true_relations(tried, found, painting)
                if value > best:
                    match, best, better = tried, value, True
    return match


def _true_relations(match: Mapping[str, str], found: Extraction, painting: Painting) -> int:
    return sum(_holds(relation, match, painting) for relation in found.scene.relations)


def _holds(relation: Relation, match: Mapping[str, str], painting: Painting) -> bool:
    source, target = match.get(relation.source), match.get(relation.target)
    if source is None or target is None:
        return False
    return relation.predicate in painting.truth.relations_between(source, target)


def counted(found: Extraction, painting: Painting) -> dict[str, Count]:
    """Return kind → its count.

    The kinds are those of :data:`KINDS`, as the benchmark defines them.
    """
    scene, truth = found.scene, painting.truth
    match = aligned(found, painting)
    relations = scene.relations
    said = {
        (match[r.source], r.predicate, match[r.target])
        for r in relations
        if r.source in match and r.target in match
    }
    said |= {(t, TURNED[p], s) for s, p, t in said if p in TURNED}
    asked = [
        (r.source, r.predicate, r.target) for r in painting.scene.relations if r.predicate != "near"
    ]
    colors = [
        painting.scene.object(match[item.id]).attributes["color"] == item.attributes["color"]
        for item in scene.objects
        if item.id in match and "color" in item.attributes
    ]
    n = len(painting.scene.objects)

    def related(some: list[Relation], true: list[tuple[str, str, str]]) -> Count:
        right = sum(_holds(relation, match, painting) for relation in some)
        return Count(right, len(some), sum(one in said for one in true), len(true))

    def clear(relation: Relation) -> bool:
        ends = match.get(relation.source), match.get(relation.target)
        diagonal = None not in ends and truth.is_ambiguous(str(ends[0]), str(ends[1]))
        return not (relation.predicate in TURNED and diagonal)

    counts = {
        "objects": Count(len(match), len(scene.objects), len(match), n),
        "attributes": Count(
            sum(colors), sum(len(item.attributes) for item in scene.objects), sum(colors), n
        ),
        "relations": related(list(relations), asked),
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
    judges = [judge_of(name) for name in MINIATURE.attributes.names]
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
    rows: dict[str, list[Mapping[str, Count]]] = {}
    seconds: dict[str, list[float]] = {}
    first = sample_painting(random.Random(f"{SEED}: warm up"))
    for reader in readers(first, detector).values():
        await reader.extract(first.image)
    for _ in progress(range(n)):
        painting = sample_painting(rng)
        for name, reader in readers(painting, detector).items():
            began = time.perf_counter()
            found = await reader.extract(painting.image)
            seconds.setdefault(name, []).append(time.perf_counter() - began)
            rows.setdefault(name, []).append(counted(found, painting))
    figures: dict[str, Any] = {}
    for name, counts in rows.items():
        figures |= figures_of(name, counts)
    for name in TIMED:
        figures[f"seconds.{name}"] = interval(seconds[name])
    return figures


def figures_of(
    name: str, rows: Sequence[Mapping[str, Count]], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Return ``precision.KIND.name`` and ``recall.KIND.name`` of the counts of pictures.

    A value is left out if nothing was said, or nothing was there. Raises ``ValueError`` without
    pictures.
    """
    if not rows:
        raise ValueError("no pictures: nothing was measured")
    figures: dict[str, Any] = {}
    for kind in KINDS:
        counts = [row.get(kind, Count()) for row in rows]
        values = {
            "precision": [(count.right, count.said) for count in counts],
            "recall": [(count.found, count.true) for count in counts],
        }
        if kind == "clear_relations":
            del values["recall"]
        for measure_, pairs in values.items():
            if any(below for _, below in pairs):
                figures[f"{measure_}.{kind}.{name}"] = ratio(pairs, resamples)
    return dict(sorted(figures.items()))


@benchmark("few pictures")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all readers."""
    n = QUICK_PICTURES if options.quick else PICTURES
    return n, asyncio.run(measure(n))


if __name__ == "__main__":
    main()

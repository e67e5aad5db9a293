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

import argparse
import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks._extraction_match import KINDS, Count, counted, true_box
from benchmarks._progress import progress
from benchmarks._report import interval, report
from benchmarks._shared import SharedJudge
from scenewright.core.ports.vision import Detection, Detector, GraphExtractor
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.runs.model_factory.extractors import MINIATURE
from scenewright.runs.model_factory.local_models import detector_of
from scenewright.runs.model_factory.profiles import judge_of
from scenewright.tools.vision.extraction.judged_parser import ExtractionPanel
from scenewright.tools.vision.extraction.judged_readers import (
    JudgedAttributes,
    JudgedRelations,
    JudgedVerifier,
)
from scenewright.tools.vision.extraction.one_stage import OneStageExtractor
from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor
from scenewright.tools.vision.extraction.world import miniature_world

PICTURES = 300
QUICK_PICTURES = 4
RESAMPLES = 2000
SEED = "benchmark of extraction"
TIMED = ("one_stage", "two_stage")
_VALUES = (("precision", 0, 1), ("recall", 2, 3))


class TrueBoxes:
    """Detects the things of one painting where they are."""

    id = "true boxes"
    fingerprint = "true boxes"

    def __init__(self, painting: Painting) -> None:
        self._painting = painting

    async def detect(self, image: Any, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """The painted things."""
        return tuple(
            Detection(item.name, true_box(self._painting, item.id))
            for item in self._painting.scene.objects
        )

    async def aclose(self) -> None:
        """Nothing to free."""


def readers(painting: Painting, detector: Detector) -> dict[str, GraphExtractor]:
    """Name → extractor for one painting; answers are kept for this picture alone."""
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
    """All figures over ``n`` paintings."""
    rng = random.Random(SEED)
    detector = detector_of(MINIATURE.detector)
    rows: dict[str, list[Mapping[str, Count]]] = {}
    seconds: dict[str, list[float]] = {}
    first = sample_painting(random.Random(f"{SEED}: warm up"))
    for reader in readers(first, detector).values():
        await reader.extract(first.image)
    for _ in progress("pictures", range(n), n):
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
    """``precision.KIND.name`` and ``recall.KIND.name`` of the counts of pictures; a value is left
    out if nothing was said, or nothing was there. Raises ``ValueError`` without pictures."""
    if not rows:
        raise ValueError("no pictures: nothing was measured")
    picks = np.random.default_rng(0).integers(0, len(rows), (resamples, len(rows)))
    figures: dict[str, Any] = {}
    for kind in KINDS:
        given = [row.get(kind) for row in rows]
        if not any(given):
            continue
        table = np.array(
            [(c.right, c.said, c.found, c.true) if c is not None else (0, 0, 0, 0) for c in given]
        )
        sums, drawn = table.sum(0), table[picks].sum(1)
        for measure_, top, bottom in _VALUES:
            if not sums[bottom] or (kind == "clear_relations" and measure_ == "recall"):
                continue
            some = drawn[drawn[:, bottom] > 0]
            low, high = np.percentile(some[:, top] / some[:, bottom], [2.5, 97.5])
            mean = float(sums[top] / sums[bottom])
            key = f"{measure_}.{kind}.{name}"
            figures[key] = {"mean": mean, "low": float(low), "high": float(high)}
    return dict(sorted(figures.items()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few pictures; nothing is written")
    quick: bool = parser.parse_args(arguments).quick
    n = QUICK_PICTURES if quick else PICTURES
    report("extraction", n, asyncio.run(measure(n)), quick)


if __name__ == "__main__":
    main()

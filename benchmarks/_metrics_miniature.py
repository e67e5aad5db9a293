"""Whether metrics by the miniature's encoders mean something, on paintings that no fit saw."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from benchmarks._report import interval
from scenewright.evals.metrics.blocks import ArrayBlocks
from scenewright.evals.metrics.extractors import encoder_of, extractor_of
from scenewright.evals.metrics.miniature_fits import (
    CLASSES,
    class_of,
    paired_painting,
    single_painting,
    texts_of,
)
from scenewright.evals.metrics.registry import metric_of
from scenewright.miniature.truth import Painting

HELD_OUT = "held-out/benchmarks.metrics"
TEXTS = ("composed", "relations", "things")
"""What the texts of a painting with relations say, in their order."""


async def classes(count: int) -> dict[str, Any]:
    """Accuracy of the head on paintings of one thing, and the Inception Score of what has many
    kinds, one kind, or none."""
    extractor = extractor_of("is", "miniature", "logits", {})
    found: dict[str, Any] = {"miniature.chance.class": 1 / len(CLASSES)}
    score: Any = metric_of("is", {"extractor": "miniature"})
    for style in ("flat", "pencil"):
        paintings = [single_painting(at, HELD_OUT, style) for at in range(count)]
        logits = await extractor.features([painting.image for painting in paintings])
        truth = np.array([class_of(painting) for painting in paintings])
        found[f"miniature.class_accuracy.{style}"] = interval(logits.argmax(1) == truth)
        found[f"miniature.is.{style}"] = score.compute(ArrayBlocks(logits), None).value
    rng = np.random.default_rng(0)
    noise = [
        Image.fromarray(rng.integers(0, 256, (128, 128, 3), dtype=np.uint8)) for _ in range(count)
    ]
    logits = await extractor.features(noise)
    found["miniature.is.noise"] = score.compute(ArrayBlocks(logits), None).value
    return found


async def retrieval(count: int) -> dict[str, Any]:
    """How often a text's own painting is the nearest of ``count``, and its CLIPScore there."""
    encoder = encoder_of("clipscore", "miniature", {})
    paintings: list[Painting] = []
    at = 0
    while len(paintings) < count:
        painting = paired_painting(at, HELD_OUT)
        at += 1
        if painting.scene.relations:
            paintings.append(painting)
    images = await encoder.images([painting.image for painting in paintings])
    found: dict[str, Any] = {"miniature.chance.retrieval": 1 / count}
    for number, name in enumerate(TEXTS):
        texts = await encoder.texts([texts_of(painting)[number] for painting in paintings])
        cosines = texts.vectors @ images.T
        own = np.diag(cosines)
        found[f"miniature.retrieval_at_1.{name}"] = interval(own >= cosines.max(1))
        found[f"miniature.clipscore.own.{name}"] = float(100 * np.maximum(own, 0).mean())
        other = np.maximum(cosines[~np.eye(count, dtype=bool)], 0).mean()
        found[f"miniature.clipscore.other.{name}"] = float(100 * other)
    return found


async def small_samples(sizes: tuple[int, ...]) -> dict[str, Any]:
    """Distances of paintings to other paintings of the same sort, by their number: what is left
    of them is the bias of small sets. And to pencil drawings, for comparison."""
    largest = max(sizes)
    metrics: dict[str, Any] = {
        "fid": metric_of("fid", {"extractor": "miniature"}),
        "cmmd": metric_of("cmmd", {"extractor": "miniature"}),
        "cmmd_unbiased": metric_of("cmmd", {"extractor": "miniature", "estimator": "unbiased"}),
    }
    extractor = metrics["fid"].extractor
    rows = {
        name: await extractor.features(
            [paired_painting(at, f"{HELD_OUT}/{name}", style).image for at in range(largest)]
        )
        for name, style in (("first", "flat"), ("second", "flat"), ("drawn", "pencil"))
    }
    found: dict[str, Any] = {}
    for name, metric in metrics.items():
        for size in sizes:
            first, second = (ArrayBlocks(rows[part][:size]) for part in ("first", "second"))
            found[f"miniature.same.{name}.{size}"] = metric.compute(first, second).value
        first, drawn = (ArrayBlocks(rows[part]) for part in ("first", "drawn"))
        found[f"miniature.pencil.{name}.{largest}"] = metric.compute(drawn, first).value
    return found

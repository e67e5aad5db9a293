"""How exact the metrics are: each against the formula of its paper and another library.

``python -m benchmarks.metrics [--quick]``. ``rel_error.METRIC`` is the largest relative
difference over all of its references and sets, all computed in this call on the same vectors or
the same small models with random weights; ``rel_error.METRIC.REFERENCE`` tells them apart. The
vectors are single precision; torchmetrics works in double precision where it can, its CLIPScore
in single. ``identical.*`` are distances of a set to itself, ``closed.*`` relative differences to
closed forms. ``miniature.*`` tell what metrics by the miniature's encoders mean, on held-out
paintings.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers.utils import logging

from benchmarks import _metrics_miniature as miniature
from benchmarks import _metrics_references as references
from benchmarks._metrics_models import save_clip, save_dinov2
from benchmarks._pool import Progress
from benchmarks._report import report
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import Sample
from scenewright.evals.metrics.blocks import ArrayBlocks
from scenewright.evals.metrics.cmmd import CMMD
from scenewright.evals.metrics.frechet import FrechetDistance
from scenewright.evals.metrics.inception_score import InceptionScore
from scenewright.evals.metrics.miniature import MiniatureExtractor
from scenewright.evals.metrics.moments import frechet
from scenewright.evals.metrics.registry import metric_of
from scenewright.miniature.world import words

ROWS = 200
"""Rows of a block: sets have several."""
TEXTS = 12

Rows = references.Rows
Errors = dict[str, list[float]]


def sets(count: int, shapes: tuple[tuple[int, int, int], ...]) -> Iterator[tuple[Rows, Rows]]:
    """``count`` pairs of sets of each shape (rows, rows, width), like features of a network:
    skewed, correlated, and 0 or more."""
    for at in range(count):
        for m, n, width in shapes:
            rng = np.random.default_rng((at, m, n, width))
            mix = rng.normal(size=(width, width)) / width**0.5
            first, second = (
                np.maximum(rng.normal(size=(rows, width)) @ mix + shift, 0).astype(np.float32)
                for rows, shift in ((m, 0.2), (n, 0.4))
            )
            yield first, second


def note(errors: Errors, name: str, value: float | None, expected: float) -> None:
    """Keeps the relative difference under ``name``."""
    if value is None:
        raise RuntimeError(f"{name} was not scored")
    errors.setdefault(name, []).append(abs(value - expected) / abs(expected))


def of_fid(errors: Errors, count: int, full: bool) -> float:
    """Against scipy's root, torchmetrics, and rows where they are fewer than the width."""
    metric = FrechetDistance("fid", MiniatureExtractor())
    same = 0.0
    shapes = ((500, 400, 64), (900, 1200, 256)) + (((1500, 2000, 512),) if full else ())
    for x, y in sets(count, shapes):
        value = metric.compute(ArrayBlocks(x, ROWS), ArrayBlocks(y, ROWS)).value
        note(errors, "fid.scipy", value, references.frechet_by_root(x, y))
        note(errors, "fid.torchmetrics", value, references.frechet_by_torchmetrics(x, y))
        same = max(same, metric.compute(ArrayBlocks(x, 7), ArrayBlocks(x, ROWS)).value or 0.0)
    for x, y in sets(count, ((60, 90, 256), (100, 300, 512))):
        value = metric.compute(ArrayBlocks(x, ROWS), ArrayBlocks(y, ROWS)).value
        note(errors, "fid.fewer_rows_than_width", value, references.frechet_by_rows(x, y))
    return same


def of_gaussians(count: int) -> float:
    """Largest relative difference to ``Σ (μ − μ')² + (σ − σ')²`` of Gaussians with common axes."""
    worst = 0.0
    for at in range(count):
        rng = np.random.default_rng(at)
        turn, _ = np.linalg.qr(rng.normal(size=(200, 200)))
        first, second, step = (
            rng.gamma(1.0, size=200),
            rng.gamma(1.0, size=200),
            rng.normal(size=200),
        )
        found = frechet(np.zeros(200), turn * first**2 @ turn.T, step, turn * second**2 @ turn.T)
        expected = float((step**2 + (first - second) ** 2).sum())
        worst = max(worst, abs(found.distance - expected) / expected)
    return worst


def of_is(errors: Errors, count: int) -> None:
    """Against the published code's formula, and torchmetrics with one split."""
    extractor = MiniatureExtractor("logits")
    for logits, _ in sets(count, ((500, 1, 12), (2000, 1, 1008))):
        logits = 4 * logits
        for splits in (1, 10):
            metric = InceptionScore(extractor, splits, shuffle=False)
            value = metric.compute(ArrayBlocks(logits, ROWS), None).value
            note(errors, "is.published", value, references.inception_score(logits, splits))
        value = InceptionScore(extractor, 1).compute(ArrayBlocks(logits, ROWS), None).value
        note(errors, "is.torchmetrics", value, references.inception_score_by_torchmetrics(logits))


def of_cmmd(errors: Errors, count: int, full: bool) -> float:
    """Against the whole matrices of pairs."""
    same = 0.0
    shapes = ((300, 500, 64),) + (((1500, 2000, 768),) if full else ((400, 300, 768),))
    for x, y in sets(count, shapes):
        for unbiased in (False, True):
            estimator = "unbiased" if unbiased else "biased"
            metric = CMMD(MiniatureExtractor(), estimator=estimator)
            value = metric.compute(ArrayBlocks(x, ROWS), ArrayBlocks(y, ROWS)).value
            note(errors, f"cmmd.{estimator}", value, references.cmmd(x, y, unbiased))
        found = CMMD(MiniatureExtractor()).compute(ArrayBlocks(x, 97), ArrayBlocks(x, ROWS)).value
        same = max(same, found or 0.0)
    return same


def pictures(count: int, seed: int) -> list[Image.Image]:
    """Coloured blots of several sizes."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        blot = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8))
        width, height = rng.integers(28, 80, 2)
        found.append(blot.resize((int(width), int(height)), Image.Resampling.BICUBIC))
    return found


async def of_clipscore(errors: Errors, folder: Path) -> None:
    """Through a small CLIP with random weights, from picture and text to score."""
    metric: Any = metric_of("clipscore", {"extractor": str(folder)})
    rng = np.random.default_rng(0)
    for image in pictures(TEXTS, 1):
        text = " ".join(rng.choice(words(), 6))
        item = Item(id="one", prompt=text)
        found = await metric.score(
            Sample(item=item, prompt=text, image="", load=lambda image=image: image)
        )
        cosine = references.cosine(folder, image, text)
        note(errors, "clipscore.cosine", found.parts["cosine"], cosine)
        if cosine > 0:
            note(errors, "clipscore.formula", found.value, 100 * cosine)
            other = references.clipscore_by_torchmetrics(folder, image, text)
            note(errors, "clipscore.torchmetrics", found.value, other)


async def of_fd_dinov2(errors: Errors, folder: Path, count: int) -> None:
    """Through a small DINOv2 with random weights, from pictures to distance."""
    metric: Any = metric_of("fd_dinov2", {"extractor": str(folder)})
    first, second = pictures(count, 1), pictures(count, 2)
    x, y = [await metric.extractor.features(part) for part in (first, second)]
    value = metric.compute(ArrayBlocks(x, ROWS), ArrayBlocks(y, ROWS)).value
    a, b = (references.dinov2_rows(folder, part) for part in (first, second))
    note(errors, "fd_dinov2.scipy", value, references.frechet_by_root(a, b))
    note(errors, "fd_dinov2.torchmetrics", value, references.frechet_by_torchmetrics(a, b))


async def measure(quick: bool) -> tuple[int, dict[str, Any]]:
    """How many comparisons there were, and all figures."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    progress = Progress(8, sys.stderr)
    errors: Errors = {}
    count = 1 if quick else 3
    found: dict[str, Any] = {"identical.fid": of_fid(errors, count, not quick)}
    progress.step()
    found["closed.gaussians"] = of_gaussians(count)
    of_is(errors, count)
    progress.step()
    found["identical.cmmd"] = of_cmmd(errors, count, not quick)
    progress.step()
    with tempfile.TemporaryDirectory(prefix="bench-metrics-") as folder:
        await of_clipscore(errors, save_clip(Path(folder) / "clip"))
        progress.step()
        await of_fd_dinov2(errors, save_dinov2(Path(folder) / "dinov2"), 60 if quick else 400)
        progress.step()
    found |= await miniature.classes(100 if quick else 1000)
    progress.step()
    found |= await miniature.retrieval(100 if quick else 400)
    progress.step()
    found |= await miniature.small_samples((100, 200) if quick else (200, 500, 1000, 2000))
    progress.step()
    by_metric: Errors = {}
    for name, values in errors.items():
        by_metric.setdefault(name.partition(".")[0], []).extend(values)
    worst = {f"rel_error.{name}": max(values) for name, values in sorted(by_metric.items())}
    worst |= {f"rel_error.{name}": max(values) for name, values in sorted(errors.items())}
    return sum(map(len, errors.values())), worst | found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller sets, writes nothing")
    quick = parser.parse_args().quick
    count, figures = asyncio.run(measure(quick))
    report("metrics", count, figures, quick)


if __name__ == "__main__":
    main()

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

import asyncio
import tempfile
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers.utils import logging

from benchmarks._harness import Progress, benchmark, interval
from benchmarks._metrics_models import IMAGENET_MEAN, IMAGENET_STD, save_clip, save_dinov2
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import Sample
from scenewright.evals.metrics.extractors import encoder_of, extractor_of
from scenewright.evals.metrics.miniature import (
    CLASSES,
    class_of,
    miniature_extractor,
    paired_painting,
    single_painting,
    texts_of,
)
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.metrics.set_metrics import (
    CMMD,
    ArrayBlocks,
    FrechetDistance,
    InceptionScore,
    frechet,
)
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import words

HELD_OUT = "held-out/benchmarks.metrics"
PAINTING_TEXTS = ("composed", "relations", "things")
"""What the texts of a painting with relations say, in their order."""


async def classes(count: int) -> dict[str, Any]:
    """Return the head's accuracy on single things, and Inception Scores of many kinds and none."""
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
    """Return how often a text's own painting is the nearest of ``count``, and its CLIPScore."""
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
    for number, name in enumerate(PAINTING_TEXTS):
        texts = await encoder.texts([texts_of(painting)[number] for painting in paintings])
        cosines = texts.vectors @ images.T
        own = np.diag(cosines)
        found[f"miniature.retrieval_at_1.{name}"] = interval(own >= cosines.max(1))
        found[f"miniature.clipscore.own.{name}"] = float(100 * np.maximum(own, 0).mean())
        other = np.maximum(cosines[~np.eye(count, dtype=bool)], 0).mean()
        found[f"miniature.clipscore.other.{name}"] = float(100 * other)
    return found


async def small_samples(sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return distances of paintings to others of the same sort, by their number.

    They are the bias of small sets; distances to pencil drawings stand beside them.
    """
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


Vectors = NDArray[np.float32]


def frechet_by_root(x: Vectors, y: Vectors) -> float:
    """‖μ − μ'‖² + tr(Σ + Σ' − 2(ΣΣ')^½) by scipy's root of a matrix, in double precision."""
    from scipy.linalg import sqrtm

    a, b = x.astype(np.float64), y.astype(np.float64)
    first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    step = a.mean(0) - b.mean(0)
    return float(step @ step + np.trace(first + second - 2 * np.real(sqrtm(first @ second))))


def frechet_by_rows(x: Vectors, y: Vectors) -> float:
    """Return the same from the centred rows themselves.

    For sets smaller than their vectors are long.
    """
    a, b = x.astype(np.float64), y.astype(np.float64)
    step = a.mean(0) - b.mean(0)
    a, b = a - a.mean(0), b - b.mean(0)
    m, n = len(a) - 1, len(b) - 1
    root = np.linalg.svd(a @ b.T, compute_uv=False).sum() / np.sqrt(m * n)
    return float(step @ step + (a**2).sum() / m + (b**2).sum() / n - 2 * root)


def frechet_by_torchmetrics(x: Vectors, y: Vectors) -> float:
    """Run torchmetrics with a network that hands its vectors through."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    metric = FrechetInceptionDistance(torch.nn.Flatten(), input_img_size=(x.shape[1], 1, 1))
    metric.set_dtype(torch.float64)
    for rows, real in ((y, True), (x, False)):
        for part in np.array_split(rows, 4):
            metric.update(torch.from_numpy(part)[:, :, None, None], real=real)
    return float(metric.compute())


def inception_score(logits: Vectors, splits: int) -> float:
    """Return as in the code of Salimans et al.: rows in their order."""
    from scipy.special import softmax

    p = softmax(logits.astype(np.float64), axis=1)
    found = []
    for k in range(splits):
        part = p[k * len(p) // splits : (k + 1) * len(p) // splits]
        found.append(np.exp((part * np.log(part / part.mean(0))).sum(1).mean()))
    return float(np.mean(found))


def inception_score_by_torchmetrics(logits: Vectors) -> float:
    """Run torchmetrics with one split, whose order of rows is by chance."""
    from torchmetrics.image.inception import InceptionScore

    with warnings.catch_warnings():
        # It keeps all vectors, and one split has no standard deviation.
        warnings.simplefilter("ignore")
        metric = InceptionScore(torch.nn.Flatten(), splits=1)
        metric.set_dtype(torch.float64)
        metric.update(torch.from_numpy(logits.astype(np.float64))[:, :, None, None])
        return float(metric.compute()[0])


def cmmd(x: Vectors, y: Vectors, unbiased: bool = False) -> float:
    """1000 times the squared discrepancy, from the whole matrices of pairs."""
    from scipy.spatial.distance import cdist

    a, b = (r / np.linalg.norm(r, axis=1, keepdims=True) for r in map(np.float64, (x, y)))
    xx, yy, xy = (np.exp(-cdist(p, q, "sqeuclidean") / 200) for p, q in ((a, a), (b, b), (a, b)))
    m, n = len(a), len(b)
    if unbiased:
        within = (xx.sum() - m) / (m * (m - 1)) + (yy.sum() - n) / (n * (n - 1))
    else:
        within = xx.mean() + yy.mean()
    return float(1000 * (within - 2 * xy.mean()))


def cosine(folder: Path, image: Image.Image, text: str) -> float:
    """Of a CLIP in ``folder``, by transformers' own calls."""
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder)
    prepare = AutoImageProcessor.from_pretrained(folder, backend="pil")
    words = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        seen = model.get_image_features(**prepare(images=image, return_tensors="pt")).pooler_output
        read = model.get_text_features(**words).pooler_output
    return float(torch.cosine_similarity(seen.double(), read.double()))


def clipscore_by_torchmetrics(folder: Path, image: Image.Image, text: str) -> float:
    """Run torchmetrics with the CLIP in ``folder``."""
    from torchmetrics.functional.multimodal.clip_score import clip_score
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    model: Any = AutoModel.from_pretrained(folder).requires_grad_(False)
    # It expects the vectors themselves, as older versions of transformers gave them.
    seen, read = model.get_image_features, model.get_text_features
    model.get_image_features = lambda *given: seen(*given).pooler_output
    model.get_text_features = lambda *given: read(*given).pooler_output
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prepare = AutoImageProcessor.from_pretrained(folder, backend="pil")

    class Processor:
        """What it asks of a processor."""

        def __init__(self) -> None:
            self.tokenizer = tokenizer

        def __call__(self, text: Any = None, images: Any = None, **more: Any) -> Any:
            if text is not None:
                return tokenizer(text, return_tensors="pt", padding=True)
            return prepare(images=images, return_tensors="pt")

    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    return float(clip_score(pixels, text, lambda: (model, Processor())))


def dinov2_rows(folder: Path, images: list[Image.Image]) -> Vectors:
    """Return class tokens of a DINOv2 in ``folder``, pictures prepared by hand."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder).requires_grad_(False)
    side = model.config.image_size
    rows = []
    for image in images:
        small = image.resize((side, side), Image.Resampling.BICUBIC)
        normal = (np.asarray(small, np.float64) / 255 - IMAGENET_MEAN) / IMAGENET_STD
        pixels = torch.from_numpy(normal.transpose(2, 0, 1)[None]).float()
        rows.append(model(pixel_values=pixels).last_hidden_state[0, 0].numpy())
    return np.stack(rows)


ROWS = 200
"""Vectors of a block: sets have several."""
TEXTS = 12


Errors = dict[str, list[float]]


def sets(count: int, shapes: tuple[tuple[int, int, int], ...]) -> Iterator[tuple[Vectors, Vectors]]:
    """Yield ``count`` pairs of sets of each shape (rows, rows, width).

    Like features of a network: skewed, correlated, and 0 or more.
    """
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
    """Keep the relative difference under ``name``."""
    if value is None:
        raise RuntimeError(f"{name} was not scored")
    errors.setdefault(name, []).append(abs(value - expected) / abs(expected))


def of_fid(errors: Errors, count: int, full: bool) -> float:
    """Return against scipy's root, torchmetrics, and rows where they are fewer than the width."""
    metric = FrechetDistance("fid", miniature_extractor())
    same = 0.0
    shapes = ((500, 400, 64), (900, 1200, 256)) + (((1500, 2000, 512),) if full else ())
    for x, y in sets(count, shapes):
        value = metric.compute(ArrayBlocks(x, ROWS), ArrayBlocks(y, ROWS)).value
        note(errors, "fid.scipy", value, frechet_by_root(x, y))
        note(errors, "fid.torchmetrics", value, frechet_by_torchmetrics(x, y))
        same = max(same, metric.compute(ArrayBlocks(x, 7), ArrayBlocks(x, ROWS)).value or 0.0)
    for x, y in sets(count, ((60, 90, 256), (100, 300, 512))):
        value = metric.compute(ArrayBlocks(x, ROWS), ArrayBlocks(y, ROWS)).value
        note(errors, "fid.fewer_rows_than_width", value, frechet_by_rows(x, y))
    return same


def of_gaussians(count: int) -> float:
    """Return the largest relative difference to the closed form of Gaussians with common axes."""
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
    """Return against the published code's formula, and torchmetrics with one split."""
    extractor = miniature_extractor("logits")
    for logits, _ in sets(count, ((500, 1, 12), (2000, 1, 1008))):
        logits = 4 * logits
        for splits in (1, 10):
            metric = InceptionScore(extractor, splits, shuffle=False)
            value = metric.compute(ArrayBlocks(logits, ROWS), None).value
            note(errors, "is.published", value, inception_score(logits, splits))
        value = InceptionScore(extractor, 1).compute(ArrayBlocks(logits, ROWS), None).value
        note(errors, "is.torchmetrics", value, inception_score_by_torchmetrics(logits))


def of_cmmd(errors: Errors, count: int, full: bool) -> float:
    """Return against the whole matrices of pairs."""
    same = 0.0
    shapes = ((300, 500, 64),) + (((1500, 2000, 768),) if full else ((400, 300, 768),))
    for x, y in sets(count, shapes):
        for unbiased in (False, True):
            estimator = "unbiased" if unbiased else "biased"
            metric = CMMD(miniature_extractor(), estimator=estimator)
            value = metric.compute(ArrayBlocks(x, ROWS), ArrayBlocks(y, ROWS)).value
            note(errors, f"cmmd.{estimator}", value, cmmd(x, y, unbiased))
        found = CMMD(miniature_extractor()).compute(ArrayBlocks(x, 97), ArrayBlocks(x, ROWS)).value
        same = max(same, found or 0.0)
    return same


def pictures(count: int, seed: int) -> list[Image.Image]:
    """Return coloured blots of several sizes."""
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
        expected = cosine(folder, image, text)
        note(errors, "clipscore.cosine", found.parts["cosine"], expected)
        if expected > 0:
            note(errors, "clipscore.formula", found.value, 100 * expected)
            other = clipscore_by_torchmetrics(folder, image, text)
            note(errors, "clipscore.torchmetrics", found.value, other)


async def of_fd_dinov2(errors: Errors, folder: Path, count: int) -> None:
    """Through a small DINOv2 with random weights, from pictures to distance."""
    metric: Any = metric_of("fd_dinov2", {"extractor": str(folder)})
    first, second = pictures(count, 1), pictures(count, 2)
    x, y = [await metric.extractor.features(part) for part in (first, second)]
    value = metric.compute(ArrayBlocks(x, ROWS), ArrayBlocks(y, ROWS)).value
    a, b = (dinov2_rows(folder, part) for part in (first, second))
    note(errors, "fd_dinov2.scipy", value, frechet_by_root(a, b))
    note(errors, "fd_dinov2.torchmetrics", value, frechet_by_torchmetrics(a, b))


async def measure(quick: bool) -> tuple[int, dict[str, Any]]:
    """Return how many comparisons there were, and all figures."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    shown = Progress(8)
    errors: Errors = {}
    count = 1 if quick else 3
    found: dict[str, Any] = {"identical.fid": of_fid(errors, count, not quick)}
    shown.step()
    found["closed.gaussians"] = of_gaussians(count)
    of_is(errors, count)
    shown.step()
    found["identical.cmmd"] = of_cmmd(errors, count, not quick)
    shown.step()
    with tempfile.TemporaryDirectory(prefix="bench-metrics-") as folder:
        await of_clipscore(errors, save_clip(Path(folder) / "clip"))
        shown.step()
        await of_fd_dinov2(errors, save_dinov2(Path(folder) / "dinov2"), 60 if quick else 400)
        shown.step()
    found |= await classes(100 if quick else 1000)
    shown.step()
    found |= await retrieval(100 if quick else 400)
    shown.step()
    found |= await small_samples((100, 200) if quick else (200, 500, 1000, 2000))
    shown.step()
    by_metric: Errors = {}
    for name, values in errors.items():
        by_metric.setdefault(name.partition(".")[0], []).extend(values)
    worst = {f"rel_error.{name}": max(values) for name, values in sorted(by_metric.items())}
    worst |= {f"rel_error.{name}": max(values) for name, values in sorted(errors.items())}
    return sum(map(len, errors.values())), worst | found


@benchmark("smaller sets")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Compare all metrics."""
    return asyncio.run(measure(options.quick))


if __name__ == "__main__":
    main()

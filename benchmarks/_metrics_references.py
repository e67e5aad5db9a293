"""What the metrics are compared with: the formulas as papers write them, and other libraries."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from benchmarks._metrics_models import IMAGENET_MEAN, IMAGENET_STD

Rows = NDArray[np.float32]


def frechet_by_root(x: Rows, y: Rows) -> float:
    """‖μ − μ'‖² + tr(Σ + Σ' − 2(ΣΣ')^½) by scipy's root of a matrix, in double precision."""
    from scipy.linalg import sqrtm

    a, b = x.astype(np.float64), y.astype(np.float64)
    first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    step = a.mean(0) - b.mean(0)
    return float(step @ step + np.trace(first + second - 2 * np.real(sqrtm(first @ second))))


def frechet_by_rows(x: Rows, y: Rows) -> float:
    """The same from the centred rows themselves: for sets smaller than their vectors are long."""
    a, b = x.astype(np.float64), y.astype(np.float64)
    step = a.mean(0) - b.mean(0)
    a, b = a - a.mean(0), b - b.mean(0)
    m, n = len(a) - 1, len(b) - 1
    root = np.linalg.svd(a @ b.T, compute_uv=False).sum() / np.sqrt(m * n)
    return float(step @ step + (a**2).sum() / m + (b**2).sum() / n - 2 * root)


def frechet_by_torchmetrics(x: Rows, y: Rows) -> float:
    """torchmetrics with a network that hands its vectors through."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    metric = FrechetInceptionDistance(torch.nn.Flatten(), input_img_size=(x.shape[1], 1, 1))
    metric.set_dtype(torch.float64)
    for rows, real in ((y, True), (x, False)):
        for part in np.array_split(rows, 4):
            metric.update(torch.from_numpy(part)[:, :, None, None], real=real)
    return float(metric.compute())


def inception_score(logits: Rows, splits: int) -> float:
    """As in the code of Salimans et al.: rows in their order."""
    from scipy.special import softmax

    p = softmax(logits.astype(np.float64), axis=1)
    found = []
    for k in range(splits):
        part = p[k * len(p) // splits : (k + 1) * len(p) // splits]
        found.append(np.exp((part * np.log(part / part.mean(0))).sum(1).mean()))
    return float(np.mean(found))


def inception_score_by_torchmetrics(logits: Rows) -> float:
    """torchmetrics with one split, whose order of rows is by chance."""
    from torchmetrics.image.inception import InceptionScore

    with warnings.catch_warnings():
        # It keeps all vectors, and one split has no standard deviation.
        warnings.simplefilter("ignore")
        metric = InceptionScore(torch.nn.Flatten(), splits=1)
        metric.set_dtype(torch.float64)
        metric.update(torch.from_numpy(logits.astype(np.float64))[:, :, None, None])
        return float(metric.compute()[0])


def cmmd(x: Rows, y: Rows, unbiased: bool = False) -> float:
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
    """torchmetrics with the CLIP in ``folder``."""
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


def dinov2_rows(folder: Path, images: list[Image.Image]) -> Rows:
    """Class tokens of a DINOv2 in ``folder``, pictures prepared by hand."""
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

"""Metrics of sets by vectors: FID, FD-DINOv2, CMMD and Inception Score.

Vectors are read block by block. The moments of blocks are merged as in Chan, Golub and LeVeque
(1979), "Updating formulae and a pairwise algorithm for computing sample variances": each block is
centred before it is squared, so that vectors far from the origin lose no digits. One block and two
matrices of the vectors' width are in memory, however long the stream is.

**Fréchet distance** between the vectors of pictures and of originals: ``‖μ − μ'‖² + tr(Σ + Σ' −
2(ΣΣ')^½)`` of the Gaussians with the sets' means and covariances. With the pooled features of
Inception-V3 it is FID (Heusel et al., 2017), with DINOv2's class token FD-DINOv2 (Stein et al.,
2023, "Exposing flaws of generative model evaluation metrics").

**CMMD** (Jayasumana et al., 2024, "Rethinking FID"): maximum mean discrepancy between CLIP's unit
vectors with the kernel ``exp(−‖x − y‖² / 2σ²)``, σ = 10, times 1000. No Gaussian is assumed, and
few rows suffice. The authors' code takes the biased (minimum-variance) estimate, in which each
vector also meets itself; the paper's text writes the unbiased one (Gretton et al., 2012, Eq. 5 and
3). The biased one is the default here, since the published figures use it; it is 0 or more, and
larger by up to ``1000·(1 − k̄)·(1/m + 1/n)``.

**Inception Score** ``exp(E KL(p(y|x) ‖ p(y)))`` (Salimans et al., 2016), from the logits of a
classifier: 1 if all pictures get the same classes, the number of classes if each gets one surely
and all are equally frequent. As published, the set is cut into ten splits; the score is their mean,
with the standard deviation beside it. Rows are dealt to the splits in a shuffled order, as in
torch-fidelity and torchmetrics: pictures are in the order of their items, and scenes of one sort in
a split would lower its score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenewright.config.settings import Settings
from scenewright.evals.metrics.base import (
    Blocks,
    FeatureExtractor,
    MetricError,
    MetricScore,
    Need,
    real,
    switch,
    text,
    whole,
)
from scenewright.evals.metrics.extractors import INCEPTION, extractor_of
from scenewright.evals.store.journal import Features


@dataclass(frozen=True, slots=True)
class ArrayBlocks:
    """Blocks of vectors in memory."""

    vectors: Features
    """(n, dimensions)."""
    rows: int = 1024
    """Rows of a block."""

    def __iter__(self) -> Iterator[Features]:
        """Yield views of the vectors, in their order."""
        for begin in range(0, len(self.vectors), self.rows):
            yield self.vectors[begin : begin + self.rows]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.vectors)


def checked(blocks: Blocks, what: str, rows: int | None = None) -> Iterator[Features]:
    """Yield the non-empty blocks, cut to ``rows`` rows at most if given.

    Raises ``MetricError`` for blocks that are not matrices, differ in width or hold values that are
    not finite; ``what`` names the set.
    """
    width: int | None = None
    for block in blocks:
        if block.ndim != 2 or (width is not None and block.shape[1] != width):
            raise MetricError(f"the vectors of the {what} have the shape {block.shape}: not a set")
        width = block.shape[1]
        if not np.isfinite(block).all():
            raise MetricError(f"vectors of the {what} hold values that are not finite")
        step = len(block) if rows is None else rows
        for begin in range(0, len(block), max(1, step)):
            yield block[begin : begin + step]


def require_rows(name: str, needed: int, pictures: int, originals: int | None = None) -> None:
    """Raise ``MetricError`` for a set with less than ``needed`` rows on a side."""
    if min(pictures, pictures if originals is None else originals) < needed:
        sides = "" if originals is None else f" and {originals} originals"
        raise MetricError(f"{name} needs {needed} pictures or more: there are {pictures}{sides}")


def require_originals(name: str, originals: Blocks | None) -> Blocks:
    """Return ``originals``; raises ``MetricError`` where there are none to compare with."""
    if originals is None:
        raise MetricError(f"{name} compares with original photos, and the set has none here")
    return originals


def require_one_width(pictures: int, originals: int) -> None:
    """Raise ``MetricError`` for vectors of pictures and originals of different lengths."""
    if pictures != originals:
        raise MetricError(
            f"the pictures' vectors have {pictures} numbers and the originals' {originals}: they "
            "come from different extractors"
        )


Real = NDArray[np.float64]


class Moments:
    """Count, mean and covariance of the rows seen so far, in double precision."""

    def __init__(self, blocks: Iterable[Features] = ()) -> None:
        """Compute the moments of ``blocks``, each of shape (rows, dimensions)."""
        self.count = 0
        self.mean: Real = np.zeros(0)
        self._scatter: Real = np.zeros((0, 0))
        for block in blocks:
            self.add(block)

    def add(self, block: Features) -> None:
        """Add the rows of ``block`` (rows, dimensions)."""
        rows = np.asarray(block, np.float64)
        if not len(rows):
            return
        mean = rows.mean(0)
        centred = rows - mean
        scatter = centred.T @ centred
        if not self.count:
            self.count, self.mean, self._scatter = len(rows), mean, scatter
            return
        total = self.count + len(rows)
        step = mean - self.mean
        self._scatter += scatter
        self._scatter += np.outer(step, step * (self.count * len(rows) / total))
        self.mean = self.mean + step * (len(rows) / total)
        self.count = total

    @property
    def covariance(self) -> Real:
        """(dimensions, dimensions), divided by count − 1; ``ValueError`` below two rows."""
        if self.count < 2:
            raise ValueError(f"a covariance needs two rows: there are {self.count}")
        return self._scatter / (self.count - 1)


@dataclass(frozen=True, slots=True)
class Frechet:
    """The squared Fréchet distance of two Gaussians in its two parts, each 0 or more."""

    means: float
    """‖μ₁ − μ₂‖²."""
    covariances: float
    """tr Σ₁ + tr Σ₂ − 2·tr (Σ₁Σ₂)^½."""

    @property
    def distance(self) -> float:
        """Sum of both parts."""
        return self.means + self.covariances


def frechet(mean_1: Real, covariance_1: Real, mean_2: Real, covariance_2: Real) -> Frechet:
    """Return the squared Fréchet distance of N(μ₁, Σ₁) and N(μ₂, Σ₂) (Dowson and Landau, 1982).

    Means (d,), covariances (d, d), symmetric and without negative eigenvalues.
    """
    step = mean_1 - mean_2
    spread = np.trace(covariance_1) + np.trace(covariance_2)
    rest = float(spread - 2 * root_trace(covariance_1, covariance_2))
    return Frechet(float(step @ step), max(0.0, rest))


def root_trace(first: Real, second: Real) -> float:
    """Return tr (Σ₁Σ₂)^½ of two covariances (d, d), also where they have no full rank.

    With Σ₁ = AAᵀ and Σ₂ = BBᵀ the eigenvalues of Σ₁Σ₂ are the squared singular values of AᵀB, so
    the trace is their sum. A root of the product itself, which is not symmetric, would turn
    rounding errors ε of its zero eigenvalues into √ε each.
    """
    product = _factor(first).T @ _factor(second)
    if not product.size:
        return 0.0
    return float(np.linalg.svd(product, compute_uv=False).sum())


def _factor(covariance: Real) -> Real:
    """Return A with AAᵀ = ``covariance``, (d, rank), without directions below rounding errors."""
    values, vectors = np.linalg.eigh(covariance)
    floor = max(0.0, float(values[-1])) * len(values) * np.finfo(np.float64).eps
    kept = values > floor
    found: Real = vectors[:, kept] * np.sqrt(values[kept])
    return found


DINOV2 = "facebook/dinov2-large"
"""The model of FD-DINOv2's paper: ViT-L/14."""


class FrechetDistance:
    """Fréchet distance of a set of pictures to its originals.

    Implements :class:`~scenewright.evals.metrics.base.SetMetric`.
    """

    higher_is_better = False
    needs: frozenset[Need] = frozenset({"image", "original"})

    def __init__(self, name: str, extractor: FeatureExtractor) -> None:
        """Make the metric ``name`` from the vectors of ``extractor``."""
        self.name = name
        self.extractor = extractor

    @property
    def version(self) -> str:
        """Number and the extractor's fingerprint."""
        return f"1:{self.extractor.fingerprint[:16]}"

    def compute(self, pictures: Blocks, originals: Blocks | None) -> MetricScore:
        """Return the distance; each side is read once, with one block and the moments in memory.

        Parts: ``means`` and ``covariances``, its two terms; ``originals``, how many there are; and
        ``rank_deficient``, 1 where a side has no more rows than a vector has numbers: its
        covariance has no full rank then, and the distance is far too large.
        """
        originals = require_originals(self.name, originals)
        drawn = Moments(checked(pictures, "pictures"))
        photos = Moments(checked(originals, "originals"))
        require_rows(self.name, 2, drawn.count, photos.count)
        require_one_width(len(drawn.mean), len(photos.mean))
        found = frechet(drawn.mean, drawn.covariance, photos.mean, photos.covariance)
        return MetricScore(
            value=found.distance,
            parts={
                "means": found.means,
                "covariances": found.covariances,
                "originals": float(photos.count),
                "rank_deficient": float(min(drawn.count, photos.count) <= len(drawn.mean)),
            },
        )


def make_fid(
    settings: Settings | None, extractor: Any = INCEPTION, **options: Any
) -> FrechetDistance:
    """Make FID for the registry."""
    return FrechetDistance("fid", extractor_of("fid", extractor, "pool", options))


def make_fd_dinov2(
    settings: Settings | None, extractor: Any = DINOV2, **options: Any
) -> FrechetDistance:
    """Make FD-DINOv2 for the registry."""
    return FrechetDistance("fd_dinov2", extractor_of("fd_dinov2", extractor, "class", options))


CLIP = "openai/clip-vit-large-patch14-336"
"""The model of the authors' code."""
ROWS = 1024
"""Most rows of a block of kernel values."""


class CMMD:
    """Maximum mean discrepancy of a set of pictures to its originals.

    Implements :class:`~scenewright.evals.metrics.base.SetMetric`.
    """

    name = "cmmd"
    higher_is_better = False
    needs: frozenset[Need] = frozenset({"image", "original"})

    def __init__(
        self,
        extractor: FeatureExtractor,
        sigma: float = 10.0,
        scale: float = 1000.0,
        estimator: str = "biased",
        normalise: bool = True,
    ) -> None:
        """Compare the vectors of ``extractor``.

        Args:
            extractor: makes the vectors.
            sigma: width of the kernel.
            scale: factor of the result.
            estimator: ``biased`` or ``unbiased``.
            normalise: whether vectors are scaled to length 1.
        """
        self.extractor = extractor
        self._sigma = real("sigma", sigma, 1e-6)
        self._scale = real("scale", scale, 1e-12)
        self._unbiased = text("estimator", estimator, ("biased", "unbiased")) == "unbiased"
        self._normalise = switch("normalise", normalise)

    @property
    def version(self) -> str:
        """Number, kernel, estimator and the extractor's fingerprint."""
        kind = "unbiased" if self._unbiased else "biased"
        raw = "" if self._normalise else ":raw"
        kernel = f"sigma={self._sigma:g}:scale={self._scale:g}:{kind}{raw}"
        return f"1:{kernel}:{self.extractor.fingerprint[:16]}"

    def compute(self, pictures: Blocks, originals: Blocks | None) -> MetricScore:
        """Return the squared discrepancy times the scale; part ``originals``: how many there are.

        Time grows with the product of the sizes, memory does not: two blocks of at most
        :data:`ROWS` rows meet at a time. The unbiased estimate may be below 0.
        """
        originals = require_originals(self.name, originals)
        require_rows(self.name, 2 if self._unbiased else 1, len(pictures), len(originals))
        within = self._within(pictures, "pictures") + self._within(originals, "originals")
        value = self._scale * (within - 2 * self._between(pictures, originals))
        if not self._unbiased:
            # It is the squared length of a vector: below 0 it is a rounding error.
            value = max(0.0, value)
        return MetricScore(value=value, parts={"originals": float(len(originals))})

    def _within(self, blocks: Blocks, what: str) -> float:
        """Return mean of k − 1 over the pairs of one set."""
        total, rows = 0.0, 0
        for at, x in enumerate(self._vectors(blocks, what)):
            rows += len(x)
            for later, y in enumerate(islice(self._vectors(blocks, what), at, None)):
                total += (2.0 if later else 1.0) * self._less_one(x, y)
        # A vector and itself have k − 1 = 0: only the number of pairs tells the estimates apart.
        return total / (rows * (rows - 1 if self._unbiased else rows))

    def _between(self, pictures: Blocks, originals: Blocks) -> float:
        """Return mean of k − 1 over the pairs of the two sets."""
        total, pairs = 0.0, 0
        for x in self._vectors(pictures, "pictures"):
            for y in self._vectors(originals, "originals"):
                total += self._less_one(x, y)
                pairs += len(x) * len(y)
        return total / pairs

    def _less_one(self, x: Real, y: Real) -> float:
        """Return the sum of k − 1: with σ = 10 all k are nearly 1, and their differences count."""
        require_one_width(x.shape[1], y.shape[1])
        squared = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :] - 2 * (x @ y.T)
        return float(np.expm1(-np.maximum(squared, 0.0) / (2 * self._sigma**2)).sum())

    def _vectors(self, blocks: Blocks, what: str) -> Iterator[Real]:
        for block in checked(blocks, what, ROWS):
            rows = np.asarray(block, np.float64)
            if self._normalise:
                length = np.linalg.norm(rows, axis=1, keepdims=True)
                if not length.all():
                    raise MetricError(f"a vector of the {what} has the length 0: it has no angle")
                rows = rows / length
            yield rows


def make_cmmd(
    settings: Settings | None,
    extractor: Any = CLIP,
    sigma: Any = 10.0,
    scale: Any = 1000.0,
    estimator: Any = "biased",
    normalise: Any = True,
    **options: Any,
) -> CMMD:
    """Return the metric of the registry."""
    found = extractor_of("cmmd", extractor, "projection", options)
    return CMMD(found, sigma, scale, estimator, normalise)


class InceptionScore:
    """Inception Score of a set of pictures.

    Implements :class:`~scenewright.evals.metrics.base.SetMetric`.
    """

    name = "is"
    higher_is_better = True
    needs: frozenset[Need] = frozenset({"image"})

    def __init__(
        self, extractor: FeatureExtractor, splits: int = 10, shuffle: bool = True, seed: int = 0
    ) -> None:
        """Score the logits of ``extractor``.

        Args:
            extractor: gives logits, one a class.
            splits: number of parts that are scored separately.
            shuffle: whether rows are dealt to splits at random, else in their order.
            seed: seed of the shuffle.
        """
        self.extractor = extractor
        self._splits = whole("splits", splits, 1)
        self._shuffle = switch("shuffle", shuffle)
        self._seed = whole("seed", seed, 0)

    @property
    def version(self) -> str:
        """Number, splits and the extractor's fingerprint."""
        order = f"shuffled-{self._seed}" if self._shuffle else "in-order"
        return f"1:splits={self._splits}:{order}:{self.extractor.fingerprint[:16]}"

    def compute(self, pictures: Blocks, originals: Blocks | None) -> MetricScore:
        """Return the mean over the splits.

        Parts: ``std`` over them (divided by their number, as published).

        Reads the logits once and holds sums alone. Raises ``MetricError`` with fewer rows than
        splits.
        """
        require_rows(f"is with splits = {self._splits}", self._splits, len(pictures))
        scores = self._scores(pictures)
        return MetricScore(value=float(scores.mean()), parts={"std": float(scores.std())})

    def _scores(self, pictures: Blocks) -> NDArray[np.float64]:
        counts = np.zeros(self._splits)
        gains = np.zeros(self._splits)
        sums: NDArray[np.float64] | None = None
        splits = self._split_of(len(pictures))
        begin = 0
        for logits in checked(pictures, "pictures"):
            of_rows = splits[begin : begin + len(logits)]
            begin += len(logits)
            if begin > len(splits):
                break
            p, gain = _probabilities(logits)
            if sums is None:
                sums = np.zeros((self._splits, p.shape[1]))
            for split in np.unique(of_rows):
                chosen = of_rows == split
                counts[split] += chosen.sum()
                gains[split] += gain[chosen].sum()
                sums[split] += p[chosen].sum(0)
        if begin != len(splits) or sums is None:
            raise MetricError(
                f"the set says that it has {len(splits)} rows and gives another number"
            )
        # E KL(p(y|x) ‖ p(y)) = E Σ p log p − Σ p̄ log p̄.
        mean = sums / counts[:, None]
        divergence = gains / counts - _plogp(mean).sum(1)
        found: NDArray[np.float64] = np.exp(np.maximum(divergence, 0.0))
        return found

    def _split_of(self, rows: int) -> NDArray[np.intp]:
        """Return the split of each row: the k-th begins at ``rows·k // splits``, as published."""
        ends = np.array([rows * (k + 1) // self._splits for k in range(self._splits)])
        places = np.arange(rows)
        if self._shuffle:
            places = np.random.default_rng(self._seed).permutation(rows)
        return np.searchsorted(ends, places, side="right")


def _probabilities(logits: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the softmax of each row, and its Σ p log p."""
    shifted = np.asarray(logits, np.float64) - logits.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    p = np.exp(log_p)
    return p, (p * log_p).sum(1)


def _plogp(p: NDArray[np.float64]) -> NDArray[np.float64]:
    # A class that no picture gets counts nothing.
    return p * np.log(np.where(p > 0, p, 1.0))


def make_inception_score(
    settings: Settings | None,
    extractor: Any = INCEPTION,
    splits: Any = 10,
    shuffle: Any = True,
    seed: Any = 0,
    **options: Any,
) -> InceptionScore:
    """Return the metric of the registry."""
    return InceptionScore(extractor_of("is", extractor, "logits", options), splits, shuffle, seed)

"""CMMD: maximum mean discrepancy between the CLIP vectors of pictures and of originals.

Jayasumana et al. (2024), "Rethinking FID": unit vectors, the kernel ``exp(−‖x − y‖² / 2σ²)`` with
σ = 10, times 1000. No Gaussian is assumed, and few rows do. The authors' code takes the biased
(minimum-variance) estimate, in which each vector also meets itself; the paper's text writes the
unbiased one (Gretton et al., 2012, Eq. 5 and 3). The biased one is the default here, since the
published figures are its; it is 0 or more, and larger by up to ``1000·(1 − k̄)·(1/m + 1/n)``.
"""

from __future__ import annotations

from collections.abc import Iterator
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
)
from scenewright.evals.metrics.blocks import checked, no_originals, too_few
from scenewright.evals.metrics.extractors import extractor_of
from scenewright.evals.metrics.options import real, switch, text

CLIP = "openai/clip-vit-large-patch14-336"
"""What the authors' code uses."""
ROWS = 1024
"""Most rows that meet as many others at a time."""

Real = NDArray[np.float64]


class CMMD:
    """Implements :class:`~scenewright.evals.metrics.base.SetMetric`."""

    name = "cmmd"
    higher_is_better = False

    def __init__(
        self,
        extractor: FeatureExtractor,
        sigma: float = 10.0,
        scale: float = 1000.0,
        estimator: str = "biased",
        normalise: bool = True,
    ) -> None:
        """``sigma``: width of the kernel; ``scale``: factor of the result; ``estimator``:
        ``biased`` or ``unbiased``; ``normalise``: whether vectors are brought to length 1."""
        self._extractor = extractor
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
        return f"1:{kernel}:{self._extractor.fingerprint[:16]}"

    @property
    def needs(self) -> frozenset[Need]:
        """Pictures and photos."""
        return frozenset({"image", "original"})

    @property
    def extractor(self) -> FeatureExtractor:
        """What makes the vectors."""
        return self._extractor

    def compute(self, pictures: Blocks, originals: Blocks | None) -> MetricScore:
        """The squared discrepancy times the scale; part ``originals``: how many there are.

        Time grows with the product of the sizes, memory does not: two blocks of at most
        :data:`ROWS` rows meet at a time. The unbiased estimate may be below 0.
        """
        if originals is None:
            return no_originals(self.name)
        m, n = len(pictures), len(originals)
        needed = 2 if self._unbiased else 1
        if min(m, n) < needed:
            return too_few(self.name, needed, m, n)
        try:
            within = self._within(pictures, "pictures") + self._within(originals, "originals")
            between = self._between(pictures, originals)
        except MetricError as error:
            return MetricScore(value=None, reason=str(error))
        value = self._scale * (within - 2 * between)
        if not self._unbiased:
            # It is the squared length of a vector: below 0 it is a rounding error.
            value = max(0.0, value)
        return MetricScore(value=value, parts={"originals": float(n)})

    def _within(self, blocks: Blocks, what: str) -> float:
        """Mean of k − 1 over the pairs of one set."""
        total, rows = 0.0, 0
        for at, x in enumerate(self._vectors(blocks, what)):
            rows += len(x)
            for later, y in enumerate(islice(self._vectors(blocks, what), at, None)):
                total += (2.0 if later else 1.0) * self._less_one(x, y)
        # A vector and itself have k − 1 = 0: only the number of pairs tells the estimates apart.
        return total / (rows * (rows - 1 if self._unbiased else rows))

    def _between(self, pictures: Blocks, originals: Blocks) -> float:
        """Mean of k − 1 over the pairs of the two sets."""
        total, pairs = 0.0, 0
        for x in self._vectors(pictures, "pictures"):
            for y in self._vectors(originals, "originals"):
                total += self._less_one(x, y)
                pairs += len(x) * len(y)
        return total / pairs

    def _less_one(self, x: Real, y: Real) -> float:
        """Sum of k − 1: with σ = 10 all k are nearly 1, and their differences are what counts."""
        if x.shape[1] != y.shape[1]:
            raise MetricError(
                f"the pictures' vectors have {x.shape[1]} numbers and the originals' "
                f"{y.shape[1]}: they come from different extractors"
            )
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


def make(
    settings: Settings | None,
    extractor: Any = CLIP,
    sigma: Any = 10.0,
    scale: Any = 1000.0,
    estimator: Any = "biased",
    normalise: Any = True,
    **options: Any,
) -> CMMD:
    """The metric of the registry."""
    found = extractor_of("cmmd", extractor, "projection", options)
    return CMMD(found, sigma, scale, estimator, normalise)

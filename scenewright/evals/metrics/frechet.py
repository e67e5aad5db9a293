"""FID and FD-DINOv2: the Fréchet distance between the vectors of pictures and of originals.

``‖μ − μ'‖² + tr(Σ + Σ' − 2(ΣΣ')^½)`` of the Gaussians with the sets' means and covariances: with
the pooled features of Inception-V3 it is FID (Heusel et al., 2017), with DINOv2's class token it
is FD-DINOv2 (Stein et al., 2023, "Exposing flaws of generative model evaluation metrics").
"""

from __future__ import annotations

from typing import Any

from scenewright.config.settings import Settings
from scenewright.evals.metrics.base import (
    Blocks,
    FeatureExtractor,
    MetricError,
    MetricScore,
    Need,
)
from scenewright.evals.metrics.blocks import checked, no_originals, too_few
from scenewright.evals.metrics.extractors import INCEPTION, extractor_of
from scenewright.evals.metrics.moments import Moments, frechet

DINOV2 = "facebook/dinov2-large"
"""What the paper of FD-DINOv2 uses: ViT-L/14."""


class FrechetDistance:
    """Implements :class:`~scenewright.evals.metrics.base.SetMetric`."""

    higher_is_better = False

    def __init__(self, name: str, extractor: FeatureExtractor) -> None:
        """``name``: as in configurations; ``extractor``: what makes the vectors."""
        self.name = name
        self._extractor = extractor

    @property
    def version(self) -> str:
        """Number and the extractor's fingerprint."""
        return f"1:{self._extractor.fingerprint[:16]}"

    @property
    def needs(self) -> frozenset[Need]:
        """Pictures and photos."""
        return frozenset({"image", "original"})

    @property
    def extractor(self) -> FeatureExtractor:
        """What makes the vectors."""
        return self._extractor

    def compute(self, pictures: Blocks, originals: Blocks | None) -> MetricScore:
        """The distance; reads each side once, and holds one block and the moments in memory.

        Parts: ``means`` and ``covariances``, its two terms; ``originals``, how many there are; and
        ``rank_deficient``, 1 where a side has no more rows than a vector has numbers: its
        covariance has no full rank then, and the distance is far too large.
        """
        if originals is None:
            return no_originals(self.name)
        sides: list[Moments] = []
        try:
            for blocks, what in ((pictures, "pictures"), (originals, "originals")):
                sides.append(Moments(checked(blocks, what)))
        except MetricError as error:
            return MetricScore(value=None, reason=str(error))
        drawn, photos = sides
        fewest = min(drawn.count, photos.count)
        if fewest < 2:
            return too_few(self.name, 2, drawn.count, photos.count)
        if len(drawn.mean) != len(photos.mean):
            return MetricScore(
                value=None,
                reason=f"the pictures' vectors have {len(drawn.mean)} numbers and the originals' "
                f"{len(photos.mean)}: they come from different extractors",
            )
        found = frechet(drawn.mean, drawn.covariance, photos.mean, photos.covariance)
        return MetricScore(
            value=found.distance,
            parts={
                "means": found.means,
                "covariances": found.covariances,
                "originals": float(photos.count),
                "rank_deficient": float(fewest <= len(drawn.mean)),
            },
        )


def make_fid(
    settings: Settings | None, extractor: Any = INCEPTION, **options: Any
) -> FrechetDistance:
    """FID of the registry."""
    return FrechetDistance("fid", extractor_of("fid", extractor, "pool", options))


def make_fd_dinov2(
    settings: Settings | None, extractor: Any = DINOV2, **options: Any
) -> FrechetDistance:
    """FD-DINOv2 of the registry."""
    return FrechetDistance("fd_dinov2", extractor_of("fd_dinov2", extractor, "class", options))

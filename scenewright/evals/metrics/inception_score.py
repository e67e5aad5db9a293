"""Inception Score: whether pictures look like something, and like many different things.

``exp(E KL(p(y|x) ‖ p(y)))`` (Salimans et al., 2016), from the logits of a classifier: 1 if all
pictures get the same classes, the number of classes if each gets one surely and all are equally
frequent. As published, the set is cut into ten splits; the score is their mean, with the standard
deviation beside it. Rows are dealt to the splits in a shuffled order, as in torch-fidelity and
torchmetrics: pictures stand in the order of their items, and scenes of one sort in a split would
lower its score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenewright.config.settings import Settings
from scenewright.evals.metrics.base import Blocks, FeatureExtractor, MetricError, MetricScore, Need
from scenewright.evals.metrics.blocks import checked, too_few
from scenewright.evals.metrics.extractors import INCEPTION, extractor_of
from scenewright.evals.metrics.options import switch, whole
from scenewright.evals.store.journal import Features


class InceptionScore:
    """Implements :class:`~scenewright.evals.metrics.base.SetMetric`."""

    name = "is"
    higher_is_better = True

    def __init__(
        self, extractor: FeatureExtractor, splits: int = 10, shuffle: bool = True, seed: int = 0
    ) -> None:
        """``extractor``: gives logits, one a class; ``splits``: parts that are scored alone;
        ``shuffle``: whether rows go to splits by chance of ``seed``, else in their order."""
        self._extractor = extractor
        self._splits = whole("splits", splits, 1)
        self._shuffle = switch("shuffle", shuffle)
        self._seed = whole("seed", seed, 0)

    @property
    def version(self) -> str:
        """Number, splits and the extractor's fingerprint."""
        order = f"shuffled-{self._seed}" if self._shuffle else "in-order"
        return f"1:splits={self._splits}:{order}:{self._extractor.fingerprint[:16]}"

    @property
    def needs(self) -> frozenset[Need]:
        """Pictures alone."""
        return frozenset({"image"})

    @property
    def extractor(self) -> FeatureExtractor:
        """What makes the logits."""
        return self._extractor

    def compute(self, pictures: Blocks, originals: Blocks | None) -> MetricScore:
        """Mean over the splits; parts: ``std`` over them (divided by their number, as published).

        Reads the logits once and holds sums alone. Unscored with fewer rows than splits.
        """
        if len(pictures) < self._splits:
            return too_few(f"is with splits = {self._splits}", self._splits, len(pictures))
        try:
            scores = self._scores(pictures)
        except MetricError as error:
            return MetricScore(value=None, reason=str(error))
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
        """Split of each row: ``rows·k // splits`` is where the k-th begins, as published."""
        ends = np.array([rows * (k + 1) // self._splits for k in range(self._splits)])
        places = np.arange(rows)
        if self._shuffle:
            places = np.random.default_rng(self._seed).permutation(rows)
        return np.searchsorted(ends, places, side="right")


def _probabilities(logits: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Softmax of each row, and its Σ p log p."""
    shifted = np.asarray(logits, np.float64) - logits.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    p = np.exp(log_p)
    return p, (p * log_p).sum(1)


def _plogp(p: NDArray[np.float64]) -> NDArray[np.float64]:
    # A class that no picture gets counts nothing.
    return p * np.log(np.where(p > 0, p, 1.0))


def make(
    settings: Settings | None,
    extractor: Any = INCEPTION,
    splits: Any = 10,
    shuffle: Any = True,
    seed: Any = 0,
    **options: Any,
) -> InceptionScore:
    """The metric of the registry."""
    return InceptionScore(extractor_of("is", extractor, "logits", options), splits, shuffle, seed)

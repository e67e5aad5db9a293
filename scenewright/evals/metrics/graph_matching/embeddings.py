"""Likeness of texts by the cosine of their sentence embeddings (XTC-Bench, Sec. 3.2.6)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scenewright.evals.metrics.graph_matching.base import MatchingError
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.metrics.graph_matching.sentence_model import (
    SentenceModel,
    digest_of,
    find_sentence_model,
    how_to_get,
    layout_of,
)
from scenewright.evals.metrics.graph_matching.vector_store import (
    Vector,
    VectorStore,
    VectorStoreError,
)

_LOG = logging.getLogger(__name__)
_VERSION = 1
"""Raised when the same text would get another vector."""
_REMEMBERED = 50_000
"""Vectors in memory at most."""
_AT_ONCE = 4096
"""Pairs whose vectors are multiplied at once."""
_DIGITS = 5
"""Vectors differ in their last digits by what else was in the batch; likeness must not."""


class SentenceSimilarity:
    """Cosine of two sentence embeddings, cut at 0 below and rounded to five digits.

    Texts are folded before. Each is encoded once; vectors stay in memory and, with a store, on the
    disk for later processes. Loads the model at the first text that is not kept. Safe for threads.
    """

    def __init__(self, model: str, *, device: str = "auto", store: Path | None = None) -> None:
        """``model`` is a name or a folder, ``store`` the file of vectors; None keeps them in memory
        only. Raises ``MatchingError`` with the remedies if the model is not on this machine."""
        folder = find_sentence_model(model)
        if folder is None:
            raise MatchingError(how_to_get(model))
        self._folder, self._device, self._path = folder, device, store
        # Results do not name folders of one machine.
        self._name = Path(model).name if Path(model).expanduser().is_dir() else model
        self._lock = threading.RLock()
        self._rows: dict[str, int] = {}
        self._vectors: Vector = np.empty((0, 0), np.float32)

    @cached_property
    def id(self) -> str:
        """``sentence-transformers:`` with the model's name and the start of its digest."""
        return f"sentence-transformers:{self._name}#{digest_of(self._folder)[:12]}-{_VERSION}"

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """One number in [0, 1] a pair; 1 for texts that are equal after folding."""
        with self._lock:
            if len(self._rows) > _REMEMBERED:
                self._rows, self._vectors = {}, self._vectors[:0]
            folds: dict[str, str] = {}
            for pair in pairs:
                for text in pair:
                    if text not in folds:
                        folds[text] = folded(text)
            # A text that is only met by itself needs no vector.
            wanted = {
                folds[text] for pair in pairs if folds[pair[0]] != folds[pair[1]] for text in pair
            }
            self._learn(sorted(wanted - self._rows.keys()))
            found = np.ones(len(pairs))
            unlike = [at for at, (a, b) in enumerate(pairs) if folds[a] != folds[b]]
            rows = [
                np.array([self._rows[folds[pairs[at][side]]] for at in unlike], np.int64)
                for side in (0, 1)
            ]
            for start in range(0, len(unlike), _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                left, right = (self._vectors[side[part]].astype(np.float64) for side in rows)
                cosine = np.einsum("nd,nd->n", left, right)
                found[unlike[part]] = np.round(np.clip(cosine, 0.0, 1.0), _DIGITS)
            return found

    def _learn(self, texts: Sequence[str]) -> None:
        """Bring the vectors of ``texts`` into memory."""
        if not texts:
            return
        length = self._length
        kept = self._kept(texts, length)
        new = [text for text in texts if text not in kept]
        if new:
            fresh = dict(zip(new, self._model.encode(new), strict=True))
            if not all(np.isfinite(vector).all() for vector in fresh.values()):
                raise MatchingError(f"{self.id} gives vectors that are not finite: fetch it again")
            self._keep(fresh)
            kept |= fresh
        start = len(self._rows)
        self._rows |= {text: start + at for at, text in enumerate(texts)}
        block = np.stack([kept[text] for text in texts])
        self._vectors = block if start == 0 else np.concatenate([self._vectors, block])

    @cached_property
    def _length(self) -> int:
        """Numbers of a vector; read from the folder, for a model need not be loaded for those that
        are kept."""
        return layout_of(self._folder).dimensions

    @cached_property
    def _model(self) -> SentenceModel:
        return SentenceModel(self._folder, self._device)

    @cached_property
    def _store(self) -> VectorStore | None:
        return VectorStore(self._path) if self._path is not None else None

    def _kept(self, texts: Sequence[str], length: int) -> dict[str, Vector]:
        try:
            return self._store.get(self.id, texts, length) if self._store is not None else {}
        except VectorStoreError as error:
            self._without(error)
            return {}

    def _keep(self, vectors: dict[str, Vector]) -> None:
        try:
            if self._store is not None:
                self._store.put(self.id, vectors)
        except VectorStoreError as error:
            self._without(error)

    def _without(self, error: VectorStoreError) -> None:
        """Go on without the disk: it only saves time."""
        _LOG.warning("Vectors of texts are encoded again in each process: %s", error)
        self._path, self._store = None, None

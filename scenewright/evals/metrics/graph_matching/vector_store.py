"""Vectors of texts that are kept on this machine: what a model encoded once, no process encodes
again."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scenewright.config.settings import user_cache
from scenewright.evals.errors import EvalError
from scenewright.evals.store.sqlite_file import SqliteFile

Vector = NDArray[np.float32]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL,
    text TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (model, text)
)
"""
_AT_ONCE = 500
"""Texts asked for in one statement."""


class VectorStoreError(EvalError):
    """The file of vectors cannot be opened, read or written."""


def default_store() -> Path:
    """Return the file where vectors are kept. It may be deleted at any time."""
    return user_cache("similarity") / "vectors.sqlite"


class VectorStore(SqliteFile):
    """A map from (model, text) to a vector, in one SQLite file; safe for threads and processes."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file and its folder. Raises ``VectorStoreError``."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VectorStoreError(f"{path.parent} cannot be made: {error}") from error
        # What a power cut takes back is encoded again.
        super().__init__(
            path, _SCHEMA, synchronous="NORMAL", kept="every vector", wrong=VectorStoreError
        )
        self._lock = threading.Lock()

    def get(self, model: str, texts: Sequence[str], length: int) -> dict[str, Vector]:
        """The vectors that are kept of ``texts``; those of another length are taken for lost."""
        found: dict[str, Vector] = {}
        with self._lock, self._told():
            for start in range(0, len(texts), _AT_ONCE):
                some = texts[start : start + _AT_ONCE]
                rows = self._db.execute(
                    "SELECT text, vector FROM vectors WHERE model=? AND text IN "
                    f"({','.join('?' * len(some))})",
                    (model, *some),
                )
                for text, blob in rows:
                    if isinstance(blob, bytes) and len(blob) == 4 * length:
                        vector = np.frombuffer(blob, "<f4")
                        if np.isfinite(vector).all():
                            found[text] = vector
        return found

    def put(self, model: str, vectors: Mapping[str, Vector]) -> None:
        """Keep ``vectors`` in one transaction."""
        rows = [(model, text, vector.astype("<f4").tobytes()) for text, vector in vectors.items()]
        with self._lock, self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
                self._db.execute("COMMIT")
            except BaseException:
                self._db.rollback()
                raise

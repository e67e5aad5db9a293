"""Where metrics that ask judges by themselves keep the answers for other days."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from scenewright.evals.metrics.base import MetricError

if TYPE_CHECKING:
    from scenewright.providers import AnswerStore


@lru_cache(maxsize=8)
def store_in(folder: Path) -> AnswerStore:
    """One store a folder, for metrics of several evaluations in this process.

    Raises ``MetricError`` if the folder cannot be made, and ``StoreError``.
    """
    from scenewright.providers import AnswerStore

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetricError(f"{folder} cannot be made: {error.strerror or error}") from error
    return AnswerStore(folder / "answers.db")

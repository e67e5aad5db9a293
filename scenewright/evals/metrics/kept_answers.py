"""Where metrics that ask judges by themselves keep the answers for other days."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from scenewright.evals.metrics.base import MetricError

if TYPE_CHECKING:
    from scenewright.calls import AnswerStore


def default_folder(name: str) -> Path:
    """``~/.cache/scenewright/NAME``, or below ``XDG_CACHE_HOME``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "scenewright" / name


@lru_cache(maxsize=8)
def store_in(folder: Path) -> AnswerStore:
    """One store a folder, for metrics of several evaluations in this process.

    Raises ``MetricError`` if the folder cannot be made, and ``StoreError``.
    """
    from scenewright.calls import AnswerStore

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetricError(f"{folder} cannot be made: {error.strerror or error}") from error
    return AnswerStore(folder / "answers.db")

"""Runs an evaluation of scripted models in a folder, in a process that may kill itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from scenewright.evals.runner.runner import run_eval
from tests.doubles import CallBook
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted

ITEMS, AT_ONCE = 16, 3


class LastWords(CallBook):
    """A book of calls that kills its process (SIGKILL) once it has noted ``most`` lines."""

    def __init__(self, path: Path, most: float) -> None:
        super().__init__(path)
        self._most = most

    def note(self, *lines: str) -> None:
        super().note(*lines)
        if len(self.lines) >= self._most:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    place, most = Path(sys.argv[1]), float(sys.argv[2])
    asyncio.run(
        run_eval(
            config(conditions=["triplets", "feedback"], concurrency=AT_ONCE),
            place / "eval",
            given=scripted(LastWords(place / "book", most)),
            dataset=ListedSet(scene_items(ITEMS)),
        )
    )

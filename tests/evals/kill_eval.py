"""Runs an evaluation of scripted models in a folder: a process to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from scenewright.evals.runner.runner import run_eval
from tests.doubles import CallBook
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted

ITEMS, AT_ONCE = 16, 3


if __name__ == "__main__":
    place = Path(sys.argv[1])
    asyncio.run(
        run_eval(
            config(conditions=["triplets", "feedback"], concurrency=AT_ONCE),
            place / "eval",
            given=scripted(CallBook(place / "book")),
            dataset=ListedSet(scene_items(ITEMS)),
        )
    )

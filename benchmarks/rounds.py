"""How long a run of three rounds takes on the embedded models, against the limit of 15 seconds.

``python -m benchmarks.rounds [--quick]``. Models are loaded before the clock starts; every
scene is a held-out painted one of six objects and eight relations, and only runs that went
through all three rounds count.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from benchmarks._report import interval, report
from scenewright.miniature.sampler import sample_painting
from scenewright.profiles import team_of, warm
from scenewright.runs import refine
from scenewright.settings import find_profile

LIMIT_SECONDS = 15.0
ROUNDS = 3


async def measure(count: int) -> None:
    """Run ``count`` scenes, print and write the figures."""
    quick = count < 10
    team = team_of(find_profile("miniature"))
    started = time.perf_counter()
    await warm(team)
    loading = time.perf_counter() - started
    rng = random.Random("held-out rounds")
    runs: list[float] = []
    first: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for at in range(count):
            scene = sample_painting(rng, n_objects=6, n_relations=8).scene
            begun = time.perf_counter()
            result = await refine(scene, "miniature", out=Path(folder) / str(at), rounds=ROUNDS)
            if len(result.rounds) == ROUNDS:
                runs.append(time.perf_counter() - begun)
                first.append(result.rounds[0].seconds)
    report(
        "rounds",
        len(runs),
        {
            "three_rounds_seconds": interval(runs),
            "limit_seconds": LIMIT_SECONDS,
            "ratio_to_limit": interval([seconds / LIMIT_SECONDS for seconds in runs]),
            "first_round_seconds": interval(first),
            "loading_seconds": loading,
        },
        quick,
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three scenes instead of thirty")
    asyncio.run(measure(3 if parser.parse_args().quick else 30))


if __name__ == "__main__":
    main()

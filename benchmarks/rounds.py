"""What three rounds cost and gain on the embedded models.

``python -m benchmarks.rounds [--quick]``. Time: seconds of a run that went through all three
rounds, models loaded before, against the limit of 15. Gain: SGScore of the kept candidate
against that of round 0 in the same run, by the report judges, which the loop never saw, and by
the loop's own. Scenes are held-out painted ones of six objects and eight relations.
"""

from __future__ import annotations

import asyncio
import random
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks._harness import BenchmarkError, benchmark, interval, intervals, work_folder
from scenewright.config.settings import find_profile
from scenewright.miniature.sampler import sample_painting
from scenewright.runs.api import refine
from scenewright.runs.model_factory.profiles import build_run_models, warm

LIMIT_SECONDS = 15.0
ROUNDS = 3


async def measure(count: int, folder: Path) -> tuple[int, dict[str, Any]]:
    """Run ``count`` scenes."""
    run_models = await build_run_models(find_profile("miniature"))
    started = time.perf_counter()
    await warm(run_models)
    loading = time.perf_counter() - started
    rng = random.Random("held-out rounds")
    runs: list[float] = []
    first: list[float] = []
    scores: list[dict[str, float]] = []
    for at in range(count):
        scene = sample_painting(rng, n_objects=6, n_relations=8).scene
        begun = time.perf_counter()
        result = await refine(scene, "miniature", out=folder / str(at), rounds=ROUNDS, page=False)
        for role, gained in (("report", result.gain("report")), ("loop", result.gain("loop"))):
            kept = result.rounds[result.best_round or 0]
            card = kept.report_card if role == "report" else kept.loop_card
            if gained is None or card is None or card.sgscore is None:
                continue
            row = {"sgscore_kept": card.sgscore, "gain": gained}
            row["sgscore_round_0"] = card.sgscore - gained
            scores.append({f"{role}_{name}": value for name, value in row.items()})
        if len(result.rounds) == ROUNDS:
            runs.append(time.perf_counter() - begun)
            first.append(result.rounds[0].seconds)
    if not runs:
        raise BenchmarkError(f"none of {count} runs went through all {ROUNDS} rounds: not timed")
    return (
        len(runs),
        {
            "three_rounds_seconds": interval(runs),
            "limit_seconds": LIMIT_SECONDS,
            "ratio_to_limit": interval([seconds / LIMIT_SECONDS for seconds in runs]),
            "first_round_seconds": interval(first),
            "loading_seconds": loading,
            "scenes": count,
            **intervals(scores),
        },
    )


@benchmark("twelve scenes instead of sixty")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the rounds."""
    with work_folder(options) as folder:
        return asyncio.run(measure(12 if options.quick else 60, folder))


if __name__ == "__main__":
    main()

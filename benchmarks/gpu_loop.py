"""A two-round refinement with our backend against the script a user writes from the docs.

``python -m benchmarks.gpu_loop [--quick]``. On a GPU: SDXL and its IP-Adapter in their real sizes
with random weights, 1024×1024 pixels, 30 steps, bfloat16. Without one, the same with a small
pipeline of the same classes. Each side runs in processes of its own, in turn, at equal steps,
seeds and guidance; the pictures are compared.

``speedup`` is that of one refinement from the model's folder to the last picture, libraries
imported; ``speedup_next`` that of the refinements after it, while both sides keep what they have
loaded; ``speedup_drawing`` that of the three calls alone. ``*_cpu`` are the same in processor
time, which other work on the machine disturbs less (of little use with a GPU). ``*_together`` are
those with base and reference picture in one batch, ``*_compiled`` those of compiled blocks, whose
first refinement includes the compiling. ``max_abs_diff`` is the largest difference of a pixel, of
255, and ``mean_abs_diff`` the mean one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._gpu_models import FULL, SMALL, Sizes, build
from benchmarks._gpu_sides import Outcome, Times, jobs, measure
from benchmarks._report import interval, report

REPEATS = 5
LATER = 2
"""Refinements after the first one in each process."""
QUICK = replace(SMALL, pixels=128, steps=4)
LIMIT = 8.0
"""Mean difference, of 255, from which on the pictures are not the same ones."""

SUFFIXES = {"ours": "", "together": "_together", "compiled": "_compiled"}
"""How the figures of our sides end."""

Runner = Callable[..., Outcome]


def in_process(side: str, folder: Path, device: str, *given: Any) -> Outcome:
    """``measure`` in a process of its own, which has imported everything before the clock runs."""
    context = multiprocessing.get_context("spawn")
    # One thread on a CPU: the ratio then depends less on what else runs there.
    threads = 1 if device == "cpu" else torch.get_num_threads()
    with ProcessPoolExecutor(
        1, mp_context=context, initializer=torch.set_num_threads, initargs=(threads,)
    ) as pool:
        return pool.submit(measure, side, folder, device, *given).result()


def compare(
    sizes: Sizes,
    device: str,
    dtype: torch.dtype,
    *,
    repeats: int,
    compiled: bool,
    folder: Path,
    run: Runner = in_process,
) -> dict[str, Any]:
    """All figures; the models are built in ``folder``.

    Raises ``RuntimeError`` if the sides do not draw the same pictures.
    """
    build(folder, sizes, device, dtype)
    work = jobs(1 + LATER, sizes.pixels, sizes.steps)
    sides = ["script", "ours", "together", *(["compiled"] if compiled else [])]
    outcomes: list[dict[str, Outcome]] = []
    for repeat in range(repeats):
        # Each side begins as often.
        order = sides[repeat % len(sides) :] + sides[: repeat % len(sides)]
        outcomes.append({side: run(side, folder, device, dtype, work) for side in order})
        print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return figures(outcomes)


def figures(outcomes: Sequence[Mapping[str, Outcome]]) -> dict[str, Any]:
    """The figures of repeats, each of which has an outcome of each side.

    Raises ``RuntimeError`` if the sides did not draw the same pictures.
    """
    found: dict[str, Any] = {}
    for side, suffix in SUFFIXES.items():
        pairs = [(one["script"], one[side]) for one in outcomes if side in one]
        if not pairs:
            continue
        for name, seconds in READINGS.items():
            for clock in ("wall", "cpu"):
                kind = "" if clock == "wall" else "_cpu"
                found[f"{name}{kind}{suffix}"] = interval(
                    [
                        seconds(getattr(script, clock)) / seconds(getattr(ours, clock))
                        for script, ours in pairs
                    ]
                )
        apart = [_apart(script, ours) for script, ours in pairs]
        found[f"max_abs_diff{suffix}"] = max(far for far, _ in apart)
        found[f"mean_abs_diff{suffix}"] = mean = max(mean for _, mean in apart)
        found[f"peak_mib{suffix}"] = max(ours.peak_mib for _, ours in pairs)
        if not mean <= LIMIT:
            raise RuntimeError(
                f"the pictures of script and {side} differ by {mean:.1f} of 255 in the mean: "
                "times of different pictures cannot be compared"
            )
    found["script_peak_mib"] = max(one["script"].peak_mib for one in outcomes)
    for side in ("script", *SUFFIXES):
        runs = [one[side] for one in outcomes if side in one]
        if runs:
            found[f"{side}_first_seconds"] = interval([one.wall.first for one in runs])
            found[f"{side}_next_seconds"] = interval([one.wall.later for one in runs])
    return found


READINGS: dict[str, Callable[[Times], float]] = {
    "speedup": lambda times: times.first,
    "speedup_next": lambda times: times.later,
    "speedup_drawing": lambda times: times.drawing,
}


def _apart(one: Outcome, other: Outcome) -> tuple[int, float]:
    """Largest and mean difference of the pictures' bytes."""
    differences = [
        np.abs(a.astype(int) - b.astype(int))
        for a, b in zip(one.pictures, other.pictures, strict=True)
    ]
    return int(max(d.max() for d in differences)), float(np.mean([d.mean() for d in differences]))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small, once, writes nothing")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="default: %(default)s")
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        help="measure compiled blocks too (default: on a GPU)",
    )
    parser.add_argument("--folder", type=Path, help="for the models: 14 GB in full, kept")
    given = parser.parse_args()
    if given.repeats < 1:
        parser.error("--repeats must be 1 or more")
    gpu = torch.cuda.is_available() and not given.quick
    compiled = gpu if given.compile is None else given.compile
    repeats = 1 if given.quick else given.repeats
    with tempfile.TemporaryDirectory(prefix="bench-gpu-loop-") as temporary:
        found = compare(
            QUICK if given.quick else FULL if gpu else SMALL,
            "cuda" if gpu else "cpu",
            torch.bfloat16 if gpu else torch.float32,
            repeats=repeats,
            compiled=compiled,
            folder=given.folder or Path(temporary),
        )
    report("gpu_loop", repeats, found, given.quick)


if __name__ == "__main__":
    main()

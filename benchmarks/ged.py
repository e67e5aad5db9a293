"""Graph edit distance: ours against NetworkX's, and how close the bounds of large graphs are.

``python -m benchmarks.ged [--quick]``. Random scene graphs with 1.5 relations an object, five
labels, five predicates and four colours; half of the pairs are a graph and itself with about four
edits, half are two graphs drawn by themselves. ``speedup.N`` at N objects is the time of
``networkx.graph_edit_distance`` divided by ours over the same pairs in this run, both in all. It
has 20 seconds a pair: where it is not done (``finished.N`` tells the share that is), the figure
is a lower bound, and ``excess.N`` says how far its best path was above the distance.
``max_abs_diff`` is over pairs that it finished (it is told 1e-7 less of each substitution, see
:mod:`benchmarks._ged_pairs`). ``gap.N`` is upper minus lower bound, divided by
the upper, for two unrelated graphs within ``seconds.N``; ``gap_at_once.N`` the same by the linear
assignment alone. Intervals are over pairs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._ged_pairs import KINDS, Found, Pair, by_networkx, pair_of
from benchmarks._pool import Progress
from benchmarks._report import interval, report
from scenewright.evals.metrics.graph_edit import EditDistance, EditLimits, edit_distance

PAIRS = {5: 40, 8: 20, 12: 12}
"""Objects → pairs that NetworkX is given, half of each kind."""
LARGE = {20: 10, 50: 6, 100: 4}
"""Objects → unrelated pairs of which the bounds are measured; as many damaged ones."""
TIMEOUT = 20.0
QUICK_TIMEOUT = 2.0
LIMIT = 20.0
"""Seconds that a distance of large graphs may take."""


def timed(pair: Pair, limits: EditLimits) -> tuple[EditDistance, float]:
    """Our distance, and its seconds."""
    begun = time.perf_counter()
    found = edit_distance(pair.first, pair.second, limits=limits)
    return found, time.perf_counter() - begun


def ratio(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """Ratio of the sums with its 95 % bootstrap interval over pairs."""
    a, b = np.asarray(above), np.asarray(below)
    picks = np.random.default_rng(0).integers(0, len(a), (2000, len(a)))
    low, high = np.percentile(a[picks].sum(1) / b[picks].sum(1), [2.5, 97.5])
    return {"mean": float(a.sum() / b.sum()), "low": float(low), "high": float(high)}


def against_networkx(
    objects: int, count: int, timeout: float, progress: Progress
) -> tuple[dict[str, Any], list[float]]:
    """Figures of one size, and the differences where NetworkX was done."""
    ours: list[tuple[EditDistance, float]] = []
    theirs: list[Found] = []
    for at in range(count):
        pair = pair_of(KINDS[at % 2], objects, at)
        ours.append(timed(pair, EditLimits(seconds=60.0)))
        theirs.append(by_networkx(pair, timeout))
        progress.step()
    if not all(found.exact for found, _ in ours):
        raise RuntimeError(f"a distance of {objects} objects was not proven: raise its limit")
    both = list(zip(ours, theirs, strict=True))
    open_ones = [(a, b) for (a, _), b in both if not b.finished]
    figures: dict[str, Any] = {
        f"speedup.{objects}": ratio([b.seconds for b in theirs], [s for _, s in ours]),
        f"seconds.{objects}": interval([s for _, s in ours]),
        f"seconds_networkx.{objects}": interval([b.seconds for b in theirs]),
        f"finished.{objects}": sum(b.finished for b in theirs) / count,
    }
    if open_ones and all(np.isfinite(b.distance) for _, b in open_ones):
        # NetworkX is told a little less of each substitution, hence the 0.
        excess = [max(0.0, b.distance / a.upper - 1) for a, b in open_ones]
        figures[f"excess.{objects}"] = interval(excess)
    return figures, [abs(a.upper - b.distance) for (a, _), b in both if b.finished]


def bounds(objects: int, count: int, limit: float, progress: Progress) -> dict[str, Any]:
    """Figures of the bounds at one size."""
    found: dict[str, list[float]] = {}
    for kind in KINDS:
        for at in range(count):
            pair = pair_of(kind, objects, at)
            exact, seconds = timed(pair, EditLimits(seconds=limit))
            quick, at_once = timed(pair, EditLimits(seconds=0.0))
            rows = {"exact": float(exact.exact), "seconds": seconds}
            if kind == "unrelated":
                rows |= {
                    "gap": exact.gap / exact.upper,
                    "gap_at_once": quick.gap / quick.upper,
                    "seconds_at_once": at_once,
                }
            for name, value in rows.items():
                suffix = "" if kind == "unrelated" else f".{kind}"
                found.setdefault(f"{name}.{objects}{suffix}", []).append(value)
            progress.step()
    return {
        name: sum(values) / len(values) if name.startswith("exact") else interval(values)
        for name, values in found.items()
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few pairs, under 50 seconds")
    quick = parser.parse_args().quick
    pairs = {5: 6, 8: 4, 12: 2} if quick else PAIRS
    large = {20: 1, 50: 1} if quick else LARGE
    timeout, limit = (QUICK_TIMEOUT, 3.0) if quick else (TIMEOUT, LIMIT)
    # The first call loads libraries and is not counted.
    timed(pair_of("unrelated", 12, -1), EditLimits())
    progress = Progress(sum(pairs.values()) + 2 * sum(large.values()), sys.stderr)
    figures: dict[str, Any] = {}
    differences: list[float] = []
    for objects, count in pairs.items():
        found, apart = against_networkx(objects, count, timeout, progress)
        figures |= found
        differences += apart
    if differences:
        figures["max_abs_diff"] = max(differences)
        figures["compared"] = len(differences)
    for objects, count in large.items():
        figures |= bounds(objects, count, limit, progress)
    report("ged", sum(pairs.values()) + 2 * sum(large.values()), figures, quick)


if __name__ == "__main__":
    main()

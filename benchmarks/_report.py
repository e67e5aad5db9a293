"""What every benchmark shares: intervals, the table and the results file."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._commit import CommitError, measured_commit, tree_of

RESULTS = Path(__file__).parent / "results"
ASIDE = Path("out/benchmarks")
"""Where the figures of a full run go that may not be published."""
STARTED = tree_of()
"""The checkout when this process began to measure."""


def interval(values: Sequence[float], seed: int = 0) -> dict[str, float]:
    """Mean with its 95% bootstrap interval (2,000 resamples)."""
    data = np.asarray(values, float)
    if not len(data):
        raise ValueError("no values: nothing was measured")
    picks = np.random.default_rng(seed).integers(0, len(data), (2000, len(data)))
    low, high = np.percentile(data[picks].mean(1), [2.5, 97.5])
    return {"mean": float(data.mean()), "low": float(low), "high": float(high)}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import torch

    return {
        "cpus": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }


def require_commit() -> None:
    """Exit with what to do unless a full result may be written from this tree.

    For benchmarks that take long or write more than a file of results, before they begin.
    """
    try:
        measured_commit(STARTED)
    except CommitError as error:
        sys.exit(f"no full result may be written: {error}. --quick works from any tree")


def report(name: str, n: int, figures: Mapping[str, Any], quick: bool) -> None:
    """Print the figures and, in full mode, write ``benchmarks/results/NAME.json``."""
    width = max(32, *(len(key) + 2 for key in figures))
    for key, value in figures.items():
        if isinstance(value, Mapping):
            value = f"{value['mean']:.3f}  [{value['low']:.3f}, {value['high']:.3f}]"
        elif isinstance(value, float):
            value = f"{value:.3f}" if value >= 0.01 else f"{value:.2g}"
        print(f"{key:<{width}}{value}")
    print(f"{'n':<{width}}{n}")
    if quick:
        print("quick: not written to benchmarks/results")
        return
    path = write(name, n, figures)
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def write(name: str, n: int, figures: Mapping[str, Any]) -> Path:
    """Write ``benchmarks/results/NAME.json`` and return its path.

    From a tree whose code is not a commit of the main branch nothing is published: the figures go
    into :data:`ASIDE`, and the process exits with what to do.
    """
    content = {
        "name": name,
        "commit": STARTED.commit,
        "date": today(),
        "machine": machine(),
        "n": n,
        "figures": dict(figures),
    }
    try:
        content["commit"] = measured_commit(STARTED)
    except CommitError as error:
        kept = _put(ASIDE / f"{name}.json", content | {"unpublished": str(error)})
        sys.exit(f"{RESULTS / name}.json is unchanged: {error}. The figures are in {kept}")
    return _put(RESULTS / f"{name}.json", content)


def _put(path: Path, content: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def today() -> str:
    """The date (UTC) that results carry."""
    return time.strftime("%Y-%m-%d", time.gmtime())

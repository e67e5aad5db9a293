"""A report of 2,000 items and more: its memory stays flat."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from scenewright.evals.reporting.items import gather
from scenewright.evals.reporting.score_matrix import item_ids
from scenewright.evals.store.results import Results
from tests.evals.reporting.made import Made, write_evaluation
from tests.evals.reporting.test_report_pages import data

RATIONALE = "The picture shows it in the foreground, a little to the left of the middle. " * 4


def peak_of_gathering(folder: Path, scratch: Path) -> tuple[float, float]:
    """MiB at the most while all rows go by: of Python, and of Arrow above what it held before."""
    results = Results(folder)
    ids = item_ids(results)
    scratch.mkdir()
    held = pa.total_allocated_bytes()
    tracemalloc.start()
    arrow = 0
    for one in gather(results, ids, ("rounds", "verdicts", "answers"), scratch):
        if one.number % 100 == 0:
            arrow = max(arrow, pa.total_allocated_bytes() - held)
    _, python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return python / 2**20, arrow / 2**20


@pytest.mark.slow
def test_rows_go_by_in_flat_memory(tmp_path: Path) -> None:
    small, large = (
        Made(items=items, pictures=False, rationale=RATIONALE, most=4) for items in (300, 1500)
    )
    folders = [write_evaluation(tmp_path / str(made.items), made) for made in (small, large)]
    (python, arrow), (python_5, arrow_5) = (
        peak_of_gathering(folder, tmp_path / f"scratch{folder.name}") for folder in folders
    )
    rows = Results(folders[1]).table("answers").nbytes / 2**20
    assert rows > 2 * python_5, f"the table of {rows:.0f} MiB is too small to show anything"
    # Five times the items: all rows at once would take five times the memory.
    assert python_5 < 1.6 * python
    assert arrow_5 < arrow + 8


BUILD = """
import resource, sys
from scenewright.evals.reporting.report import build_report
from scenewright.evals.store.results import Results

build_report(Results(sys.argv[1]), resamples=500)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_two_thousand_items_have_a_report_in_flat_memory(tmp_path: Path) -> None:
    peaks = []
    for items in (400, 2000):
        made = Made(items=items, pictures=False, rationale=RATIONALE, most=4, clip=False)
        folder = write_evaluation(tmp_path / str(items), made)
        # A process of its own: its most memory is that of nothing else, Arrow's included.
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(folder)], capture_output=True, text=True, check=True
        )
        peaks.append(float(done.stdout))
    # The resamples' counts, 8 bytes for 1,000 of each item, are most of what is more.
    assert peaks[1] < peaks[0] + 80
    page = folder / "report" / "index.html"
    assert data(page, "meta")["items"] == 2000
    assert data(page, "meta")["indexes"] == 2
    assert len(data(page, "index", 1)) == 1000
    assert len(list((page.parent / "data").glob("chunk-*.js"))) == 100
    index = sum(file.stat().st_size for file in (page.parent / "data").glob("index-*.js"))
    assert index < 2 * 2**20

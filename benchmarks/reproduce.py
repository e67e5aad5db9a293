"""The studies of Scene-Bench and XTC-Bench on the miniature, beside the papers' figures.

``python -m benchmarks.reproduce [--quick]``, or ``make reproduce``. Scene-Bench's Tables 2 to 4, 7
and 9 and Figures 3, 7, 11 and 12, XTC-Bench's Tables 2 to 4 and Figure 4, the PSG-style score and
the damage of graphs are written in the papers' layouts to ``benchmarks/results/reproduce``, with an
index that says by the numbers what agrees with the papers. Pictures and answers are kept in
``out/reproduce``: the same command goes on after a kill. The same studies run on SDXL by
``scenewright study run all --profile sdxl``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks._progress import telling
from benchmarks._report import RESULTS, report, require_commit
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.errors import EvalError
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.claims import VERDICTS
from scenewright.evals.studies.planning import Job
from scenewright.evals.studies.registry import ALL, STUDIES, studies_named
from scenewright.evals.studies.running import Finished, OnProgress, run_studies
from scenewright.evals.studies.setup import MINIATURE, SCENES, Setup

WORK = Path("out/reproduce")
FOLDER = RESULTS / "reproduce"
QUICK_SCENES = 2
QUICK_STEPS = 4
"""Denoising steps of ``--quick``: enough to see that all of it works."""
_SHOWN: dict[str, tuple[tuple[str, str], ...]] = {
    "feedback": (("table4", "sgscore"),),
    "psg": (("psg", "psg"),),
    "xtc": (("xtc4", "ccta"), ("xtc4", "aw_ccta")),
}
"""Study → (table, column) whose measured rows are figures of the benchmark."""


@contextmanager
def watch(job: Job, number: int, of: int) -> Iterator[OnProgress]:
    """Says how far an evaluation or trial is, on the error stream, now and then."""
    began = time.perf_counter()
    name = f"{number}/{of} {job.title}"
    yield telling(name)
    print(f"{name}: done, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def figures_of(done: Sequence[Finished]) -> dict[str, Any]:
    """How many statements agree, by verdict, and the main figures of some studies: SGScore of
    Table 4's rows, the PSG-style score by way of drawing, CCTA and AW-CCTA by model."""
    figures: dict[str, Any] = {
        name.replace(" ", "_"): sum(
            claim.verdict == name for one in done for claim in one.outcome.claims
        )
        for name in VERDICTS
    }
    for one in done:
        for table_id, column in _SHOWN.get(one.study.name, ()):
            (table,) = (table for table in one.outcome.tables if table.id == table_id)
            at = [c.key for c in table.columns].index(column)
            for row in table.rows:
                found = row.cells[at].measured or Estimate()
                if found.value is not None and found.low is not None:
                    key = f"{column}.{row.key.replace('/', '.')}"
                    figures[key] = {"mean": found.value, "low": found.low, "high": found.high}
    return figures


def main(given: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_SCENES} scenes, writes nothing"
    )
    parser.add_argument(
        "--scenes", type=int, default=SCENES[MINIATURE], help="how many (default: %(default)s)"
    )
    parser.add_argument("--only", nargs="+", metavar="STUDY", help=f"some of {', '.join(STUDIES)}")
    parser.add_argument("--work", type=Path, help=f"folder of the pictures (default: {WORK})")
    parser.add_argument("--out", type=Path, help="folder of the tables (default: the results)")
    arguments = parser.parse_args(given)
    if arguments.scenes < 2:
        parser.error("--scenes must be 2 or more")
    try:
        chosen = studies_named(*(arguments.only or [ALL]))
    except EvalError as error:
        parser.error(str(error))
    setup = Setup(n=arguments.scenes)
    if arguments.quick:
        setup = Setup(n=QUICK_SCENES, seeds=(0,), steps=QUICK_STEPS)
    if not arguments.quick and arguments.out is None:
        require_commit()
    began = time.perf_counter()
    try:
        with ExitStack() as stack:
            aside = (
                Path(stack.enter_context(tempfile.TemporaryDirectory()))
                if arguments.quick
                else WORK
            )
            work = arguments.work or aside
            out = arguments.out or (aside / "tables" if arguments.quick else FOLDER)
            done = asyncio.run(run_studies(chosen, setup, out, work=work, watch=watch))
    except (DatasetError, EvalError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped: the same command goes on from here")
    # A sitting may have found most of it done: its seconds are no figure of the studies.
    print(f"{time.perf_counter() - began:.0f} s in this sitting")
    figures = figures_of(done)
    if not arguments.quick:
        print(
            f"tables, plots and index.md are in {arguments.out or 'benchmarks/results/reproduce'}"
        )
    whole = not arguments.only and arguments.out is None
    report("reproduce", setup.scenes, figures, quick=arguments.quick or not whole)


if __name__ == "__main__":
    main()

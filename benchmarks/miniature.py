"""What the shipped miniature models can do, and their model card.

``python -m benchmarks.miniature [--quick] [--work DIR]`` measures sizes, the autoencoder,
the segmenter, text-to-image facts by level and by guidance, what a reference adds, and every
judge's error rates. The full mode writes ``benchmarks/results/miniature.json`` and
``docs/model-card.md``; a run that was cut off goes on from the folder of ``--work``.
``--card-only`` writes the card from the last result, ``--grid`` draws ``docs/images/grid.png``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._kept import KeptTeam
from benchmarks._labels import FILE, FOLDER, read_labels
from benchmarks._miniature_adapter import AdapterPlan, adapter_figures
from benchmarks._miniature_autoencoder import autoencoder_figures
from benchmarks._miniature_card import card
from benchmarks._miniature_drawing import guidance_figures, level_figures
from benchmarks._miniature_grid import LIMIT_BYTES, grid
from benchmarks._miniature_judges import judge_figures, label_figures
from benchmarks._miniature_segmenter import segmenter_figures
from benchmarks._miniature_weights import judge_specs, read_training, size_figures
from benchmarks._report import RESULTS, report, require_commit
from benchmarks._sheets import small_png
from scenewright.config.settings import find_profile
from scenewright.runs.model_factory.profiles import build_run_models, judge_of, warm

ROOT = Path(__file__).parent.parent
CARD = ROOT / "docs" / "model-card.md"
GRID = ROOT / "docs" / "images" / "grid.png"
WORK = Path("out") / "benchmarks" / "miniature"
NAME = "miniature"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    paintings: int
    """For the autoencoder and the segmenter."""
    scenes: int
    """A level, drawn at the profile's guidance."""
    guided: int
    """A level, drawn at every scale."""
    scales: tuple[int, ...]
    """Guidance scales."""
    adapter: AdapterPlan
    """References."""
    judged: int
    """Paintings that judges look at."""
    labels: int | None
    """Labelled pictures; None: all."""


FULL = Plan(128, 40, 12, (0, 1, 2, 3, 5, 8), AdapterPlan(60, 240, 40, 40, 8), 200, None)
QUICK = Plan(16, 2, 1, (0, 1, 3), AdapterPlan(2, 3, 1, 1, 1), 6, 6)


async def measure(plan: Plan, folder: Path, quick: bool) -> None:
    """Measure, print and, unless ``quick``, write the result."""
    profile = find_profile("miniature")
    figures: dict[str, Any] = size_figures()
    run_models = await build_run_models(profile)
    await warm(run_models)
    kept = KeptTeam(profile, run_models, folder)
    judges = [judge_of(spec) for spec in judge_specs()]
    with contextlib.closing(kept):
        figures |= autoencoder_figures(plan.paintings)
        figures |= segmenter_figures(plan.paintings)
        figures |= await judge_figures(kept, judges, plan.judged)
        figures |= await level_figures(kept, plan.scenes)
        figures |= await guidance_figures(kept, plan.guided, plan.scales)
        figures |= await adapter_figures(kept, plan.adapter)
        if (FOLDER / FILE).is_file():
            labels = read_labels()
            part = labels.model_copy(update={"pictures": labels.pictures[: plan.labels]})
            figures |= await label_figures(kept, judges, part)
    report(NAME, 3 * plan.scenes, figures, quick)


async def drawn_grid(folder: Path) -> bytes:
    """The page of pictures as PNG."""
    profile = find_profile("miniature")
    kept = KeptTeam(profile, await build_run_models(profile), folder)
    with contextlib.closing(kept):
        return small_png(await grid(kept), LIMIT_BYTES)


def write_card() -> None:
    """Write the model card from the last full result."""
    path = RESULTS / f"{NAME}.json"
    if not path.is_file():
        sys.exit(f"error: there is no {path}: measure first with python -m benchmarks.miniature")
    result = json.loads(path.read_text(encoding="utf-8"))
    CARD.write_text(card(result, read_training()), encoding="utf-8")
    print(f"written to {CARD.relative_to(ROOT)}")


@contextlib.contextmanager
def _folder(given: Path | None, quick: bool) -> Iterator[Path]:
    """``given``, or the usual folder; a quick measurement without one leaves nothing behind."""
    if given is None and quick:
        with tempfile.TemporaryDirectory(prefix="scenewright-") as folder:
            yield Path(folder)
    else:
        yield given or WORK


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--quick", action="store_true", help="few of everything; writes nothing")
    modes.add_argument("--card-only", action="store_true", help="the card from the last result")
    modes.add_argument("--grid", action="store_true", help="draw docs/images/grid.png")
    parser.add_argument("--work", type=Path, help=f"pictures and answers (default: {WORK})")
    given = parser.parse_args(arguments)
    if given.card_only:
        write_card()
        return
    with _folder(given.work, given.quick) as folder:
        if given.grid:
            GRID.write_bytes(asyncio.run(drawn_grid(folder)))
            print(f"written to {GRID.relative_to(ROOT)}")
            return
        if not given.quick:
            require_commit()
        asyncio.run(measure(QUICK if given.quick else FULL, folder, given.quick))
    if not given.quick:
        write_card()


if __name__ == "__main__":
    main()

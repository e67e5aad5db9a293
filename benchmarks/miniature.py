"""What the shipped miniature models can do, and their model card.

``python -m benchmarks.miniature [--quick] [--work DIR]`` measures sizes, the autoencoder,
the segmenter, text-to-image facts by level and by guidance, what a reference adds, and every
judge's error rates. The full mode writes ``benchmarks/results/miniature.json`` and
``docs/model-card.md``; a run that was cut off goes on from the folder of ``--work``.
``--card-only`` writes the card from the last result, ``--grid`` draws ``docs/images/grid.png``.
"""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._harness import (
    RESULTS,
    BenchmarkError,
    Option,
    benchmark,
    folder,
    require_commit,
    work_folder,
)
from benchmarks._miniature_models import (
    FILE,
    FOLDER,
    Training,
    autoencoder_figures,
    judge_figures,
    judge_specs,
    label_figures,
    read_labels,
    read_training,
    segmenter_figures,
    size_figures,
)
from benchmarks._miniature_pictures import (
    LIMIT_BYTES,
    ROLES,
    SCORES,
    AdapterPlan,
    KeptTeam,
    adapter_figures,
    grid,
    guidance_figures,
    level_figures,
    small_png,
)
from benchmarks._scenes import ALL_LEVELS
from benchmarks._templates import template
from scenewright.config.settings import find_profile
from scenewright.core.facts import FACT_KINDS
from scenewright.miniature.training.judges import TITLES
from scenewright.miniature.world import COLORS, KINDS, PREDICATES, SETTINGS, SIZE
from scenewright.runs.model_factory.profiles import build_judge, build_run_models, warm

LICENSE = "Apache-2.0"
ROOT = Path(__file__).parent.parent
CARD = ROOT / "docs" / "model-card.md"
GRID = ROOT / "docs" / "images" / "grid.png"
WORK = Path("out") / "benchmarks" / "miniature"


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


async def measure(plan: Plan, place: Path) -> dict[str, Any]:
    """Return all figures; pictures and answers are kept in ``place``."""
    profile = find_profile("miniature")
    figures: dict[str, Any] = size_figures()
    run_models = await build_run_models(profile)
    await warm(run_models)
    judges = [build_judge(spec) for spec in judge_specs()]
    with closing(KeptTeam(profile, run_models, place)) as kept:
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
    return figures


async def drawn_grid(place: Path) -> bytes:
    """Return the page of pictures as PNG."""
    profile = find_profile("miniature")
    with closing(KeptTeam(profile, await build_run_models(profile), place)) as kept:
        return small_png(await grid(kept), LIMIT_BYTES)


def figure(value: Any, digits: int = 3, sign: bool = False) -> str:
    """Return ``0.912 [0.880, 0.941]`` for a figure with a spread; a dash without a figure."""
    form = f"{'+' if sign else ''}.{digits}f"
    if isinstance(value, Mapping):
        return f"{value['mean']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:{form}}" if isinstance(value, float) else "–"


def trend(gain: Any) -> str:
    """Say what the interval of a difference allows to say."""
    if not isinstance(gain, Mapping):
        return "was not compared"
    if gain["low"] > 0:
        return "rises"
    return "falls" if gain["high"] < 0 else "does not clearly change"


def card(result: Mapping[str, Any], training: Training) -> str:
    """Return the model card from the benchmark's result file and the record of trainings."""
    figures: Mapping[str, Any] = result["figures"]

    def between(prefix: str, suffix: str) -> list[str]:
        return [
            key[len(prefix) : len(key) - len(suffix)]
            for key in figures
            if key.startswith(prefix) and key.endswith(suffix)
        ]

    def fig(key: str, digits: int = 3, sign: bool = False) -> str:
        return figure(figures.get(key), digits, sign)

    world = {"kinds": KINDS, "colors": COLORS, "predicates": PREDICATES, "settings": SETTINGS}
    return template("model_card.md").render(
        **result,
        training=training,
        between=between,
        fig=fig,
        trend=trend,
        scores=SCORES,
        levels=ALL_LEVELS,
        roles=ROLES,
        kinds=FACT_KINDS,
        titles=TITLES,
        scales=sorted(between("guidance.facts.", ""), key=float),
        world={name: len(some) for name, some in world.items()} | {"size": SIZE},
        license=LICENSE,
    )


def write_card() -> None:
    """Write the model card from the last full result."""
    path = RESULTS / "miniature.json"
    if not path.is_file():
        raise BenchmarkError(f"there is no {path}: measure with python -m benchmarks.miniature")
    result = json.loads(path.read_text(encoding="utf-8"))
    CARD.write_text(card(result, read_training()), encoding="utf-8")
    print(f"written to {CARD.relative_to(ROOT)}")


@benchmark(
    "few of everything",
    card_only=Option(False, "write the card from the last result", more={"action": "store_true"}),
    grid=Option(False, "draw docs/images/grid.png", more={"action": "store_true"}),
    work=folder(f"pictures and answers (default: {WORK})"),
)
def main(options: Namespace) -> None:
    """Measure, and write the card of a full result."""
    if options.card_only:
        write_card()
        return
    with work_folder(options, WORK) as place:
        if options.grid:
            GRID.write_bytes(asyncio.run(drawn_grid(place)))
            print(f"written to {GRID.relative_to(ROOT)}")
            return
        if not options.quick:
            require_commit()
        plan = QUICK if options.quick else FULL
        figures = asyncio.run(measure(plan, place))
        options.report(len(ALL_LEVELS) * plan.scenes, figures)
    if not options.quick:
        write_card()


if __name__ == "__main__":
    main()

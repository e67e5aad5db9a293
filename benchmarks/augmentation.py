"""Does filtering by REAL help training? Classes and relations learned from filtered pictures.

``python -m benchmarks.augmentation [--quick] [--work FOLDER]``

Painted classes that differ in colours alone, and painted queries for relations, each with a pool
of candidate pictures that have exactly known faults: wrong or missing parts, other relations,
damage, pencil for photo. judge-a and judge-b score the pool (S_att or S_rel, plain wording), a
CLIP trained here gives S_style. An image encoder of the miniature is then trained on real pictures
alone (``none``) or with the pictures of the pool that rank ``high``, ``low`` or at ``random``
(REAL, Section 4.4), all for as many steps, and read on held-out real pictures.

- ``f1.SET``: macro F1 of the classes; ``f1.A_less_B``: paired difference of two sets.
  ``f1.SET.att``: ranked by S_att alone (Section 5.2); ``f1.style_gain``: what style adds to *high*.
- ``mr.SET``, ``mr.A_less_B``: mean recall at 5 of relations; ``mr20.SET``: at 20.
- Intervals of these are 95 % by Student's t over the seeds. A seed has real pictures, a head and an
  order of batches of its own; the pool is the same for all.
- ``agreement.RANK.att``: S_att beside the exact share of right attributes, ``.att_seen``: beside
  the share of the visible ones; ``agreement.RANK.rel``: S_rel beside the exact share of relations
  that hold. RANK is ``spearman`` or ``kendall``, with 95 % intervals over pictures.
- ``tied.att``: classes of whose best by S_att alone some are chosen by a hash, as the cut falls
  among equal scores; ``tied.att_hard`` the same by the paper's R / C.
- ``style.accuracy``: the CLIP's on held-out paintings. ``unscored``: pictures without a score.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._augmentation import (
    JUDGES,
    Drawn,
    Scored,
    agreement,
    candidates,
    drawings,
    exact,
    exact_drawings,
    predicates_of,
    queries_of,
    query_schemas,
    ranked,
    scored,
    species_of,
    species_schemas,
    trained_style,
)
from benchmarks._harness import benchmark, figure, folder, work_folder
from scenewright import miniature
from scenewright.core.ports.judge import Judge
from scenewright.evals.studies.real.augmentation import (
    DIFFERENCE,
    DIFFERENCES,
    AugmentationStudy,
    Comparison,
    Recipe,
    compare_classifiers,
    over_seeds,
)
from scenewright.evals.studies.real.ranking import How, Ranked, ties
from scenewright.evals.studies.real.relation_recognition import Annotated, compare_relations
from scenewright.evals.studies.real.style import StyleScorer
from scenewright.runs.model_factory.profiles import build_panel

NAME = "augmentation"
START = Path(str(miniature.__file__)).parent / "weights" / "ip-adapter" / "image_encoder"
"""The miniature's image encoder, in the place of the paper's ViT trained on ImageNet."""
DRAW = "measured"
"""Draws species, queries and all pictures. Rates and epochs were chosen on those of ``tuning``."""
KS = (5, 20)
"""Of the 12 pairs × predicates that a picture has; the first is the benchmark's ``mr``."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done."""

    classes: int = 12
    """Species, and queries for relations."""
    pool: int = 40
    """Candidates of each."""
    real: int = 5
    """Real pictures of each that are learned from."""
    k: int = 5
    """Pictures of each that are added."""
    test: int = 10
    """Held-out real pictures of each."""
    seeds: int = 5
    """Trainings of each set."""
    styles: int = 120
    """Paintings of each style that the CLIP learns from."""
    classify: Recipe = field(default_factory=lambda: Recipe(epochs=10, rate=1e-3))
    """How classes are learned."""
    relate: Recipe = field(default_factory=lambda: Recipe(epochs=10, rate=5e-4))
    """How relations are learned."""


FULL = Plan()
QUICK = Plan(
    classes=3,
    pool=8,
    k=3,
    test=3,
    seeds=2,
    styles=40,
    classify=Recipe(epochs=3, rate=1e-3),
    relate=Recipe(epochs=3, rate=5e-4),
)


@dataclass(frozen=True, slots=True)
class Bench:
    """What both tasks use."""

    plan: Plan
    """How much is done."""
    style: StyleScorer
    """Gives S_style."""
    judges: Sequence[Judge]
    """Give S_att and S_rel."""
    folder: Path
    """Where answers and trainings are kept."""

    def study(self, recipe: Recipe) -> AugmentationStudy:
        """Return the trainings of one task."""
        return AugmentationStudy(START, recipe, self.plan.k, self.folder / "trained")


def told(task: str) -> Any:
    """Show each training on the error stream."""

    def tell(done: int, of: int) -> None:
        print(f"{task}: trained {done}/{of}", file=sys.stderr, flush=True)

    return tell


async def class_figures(bench: Bench, draw: str = DRAW) -> dict[str, Any]:
    """Return ``f1.*``, ``agreement.*.att`` and ``unscored.att``."""
    plan = bench.plan
    species = species_of(plan.classes, draw)
    pool = candidates(species, plan.pool, draw)
    file = bench.folder / "answers.sqlite"
    rows = await scored(pool, species_schemas(species), bench.style, bench.judges, file)
    real = [exact(species, plan.real, f"{draw} real {seed}") for seed in range(plan.seeds)]
    test = exact(species, plan.test, f"{draw} test")
    images = {one.name: one.image for one in pool}
    study = bench.study(plan.classify)
    both = await asyncio.to_thread(
        compare_classifiers, study, real, images, ranked(rows), test, on_progress=told("classes")
    )
    alone = await asyncio.to_thread(
        compare_classifiers,
        study,
        real,
        images,
        ranked(rows, style=False),
        test,
        sets=("high", "low"),
        on_progress=told("classes by S_att alone"),
    )
    print(f"\nClasses (Table 2)\n\n{both.markdown()}", file=sys.stderr)
    gains = [a - b for a, b in zip(both.values["high"], alone.values["high"], strict=True)]
    seen = {one.name: one.s_att for one in pool}
    return {
        **compared("f1", both),
        **{f"f1.{how}.att": figure(alone.mean(how)) for how in alone.values},
        "f1.style_gain": figure(over_seeds(gains, bounds=DIFFERENCE)),
        **agreed("att", rows, {one.name: one.share for one in pool}),
        **agreed("att_seen", rows, seen),
        "unscored.att": sum(row.base is None for row in rows),
        **tied("att", rows, plan.k),
    }


def tied(key: str, rows: Sequence[Scored], k: int) -> dict[str, int]:
    """In how many classes the cut after the best ``k`` falls among equal scores."""
    weighted = ranked(rows, style=False)
    hard = [Ranked(row.name, row.label, row.hard) for row in rows]
    return {
        name: sum(count > 0 for count in ties(some, k, "high").values())
        for name, some in ((f"tied.{key}", weighted), (f"tied.{key}_hard", hard))
    }


async def relation_figures(bench: Bench, draw: str = DRAW) -> dict[str, Any]:
    """Return ``mr*.*``, ``agreement.*.rel`` and ``unscored.rel``."""
    plan = bench.plan
    queries = queries_of(plan.classes, draw)
    pool = drawings(queries, plan.pool, draw)
    file = bench.folder / "answers.sqlite"
    rows = await scored(pool, query_schemas(queries), bench.style, bench.judges, file)
    real = [
        annotated(exact_drawings(queries, plan.real, f"{draw} real {seed}"))
        for seed in range(plan.seeds)
    ]
    drawn = [one.learned for one in exact_drawings(queries, plan.test, f"{draw} test")]
    # The painted world is small: a few of the test's pictures are to the last pixel in the pool.
    known = {one.image.tobytes() for one in pool}
    known |= {one.relations.image.tobytes() for some in real for one in some}
    test = [one for one in drawn if one.image.tobytes() not in known]
    found = await asyncio.to_thread(
        compare_relations,
        bench.study(plan.relate),
        real,
        {one.name: one.learned for one in pool},
        ranked(rows),
        test,
        predicates_of(queries),
        KS,
        on_progress=told("relations"),
    )
    for comparison in found.values():
        print(f"\nRelations (Table 4)\n\n{comparison.markdown()}", file=sys.stderr)
    return {
        **compared("mr", found[KS[0]]),
        **{f"mr{KS[1]}.{how}": figure(found[KS[1]].mean(how)) for how in found[KS[1]].values},
        **agreed("rel", rows, {one.name: one.s_rel for one in pool}),
        "unscored.rel": sum(row.base is None for row in rows),
    }


def annotated(drawn: Sequence[Drawn]) -> list[Annotated]:
    """Real pictures as they are learned from."""
    return [Annotated(one.learned, one.label) for one in drawn]


def compared(name: str, comparison: Comparison) -> dict[str, Any]:
    """Return the sets of ``comparison`` and their paired differences."""
    sets: list[How] = list(comparison.values)
    found = {f"{name}.{how}": figure(comparison.mean(how)) for how in sets}
    for first, second in DIFFERENCES:
        found[f"{name}.{first}_less_{second}"] = figure(comparison.difference(first, second))
    return found


def agreed(name: str, rows: Sequence[Scored], truth: Mapping[str, float]) -> dict[str, Any]:
    """Return ``agreement.spearman.NAME`` and ``agreement.kendall.NAME``, where they are defined."""
    found = agreement(rows, truth)
    values = {"spearman": found.spearman, "kendall": found.kendall}
    return {
        f"agreement.{rank}.{name}": figure(value)
        for rank, value in values.items()
        if value.value is not None
    }


async def measure(plan: Plan, folder: Path, draw: str = DRAW) -> dict[str, Any]:
    """Return all figures."""
    style, trained = await trained_style(folder, plan.styles)
    judges = await build_panel(JUDGES)
    try:
        bench = Bench(plan, style, judges, folder)
        classes = await class_figures(bench, draw)
        relations = await relation_figures(bench, draw)
    finally:
        for judge in judges:
            await judge.aclose()
    return {**classes, **relations, **{f"style.{key}": value for key, value in trained.items()}}


@benchmark(
    "few of everything",
    clean=True,
    work=folder("keeps answers and trainings here; started again, it goes on"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure both tasks."""
    plan = QUICK if options.quick else FULL
    with work_folder(options) as place:
        return plan.classes * plan.pool, asyncio.run(measure(plan, place))


if __name__ == "__main__":
    main()

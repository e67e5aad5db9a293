"""Object realism: OLIP against judges, alignment scores and chance, and what its parts are worth.

``python -m benchmarks.olip [--quick]``. Held-out paintings of the miniature, a fifth of them in
pencil, whose every object has an exact shape grade and an exact texture grade from 1 to 5 (graded
damage): no rater stands between truth and score. Three quarters train, 8 % tell when to stop, the
rest is the test that every row is measured on. Rows, as in Table 3a of the paper:

- ``olip``: the paper's heads (multi-head attention of 8 heads, MLP 1024 → 768 → 384 → 1, AdamW,
  1e-4, cosine, weight decay 0.01) trained on the frozen BLIP that comes with the miniature;
- ``olip_shipped``: the small heads that ship with it, trained on paintings of their own;
- ``zero_shot``: judge-a asked by yes and no, its probability as a place on the scale;
  ``zero_shot_b`` is judge-b; ``vqascore`` and ``blip_match`` compare an object with the paper's
  texts (by judge-a, and by the cosine of the BLIP's embeddings);
- ``few_shot``: judge-a with its scores mapped onto the grades by five examples a category,
  spread over the scale; ``blip_match_few_shot`` likewise;
- rows that look at no picture: ``constant_mean`` and ``constant_median`` of the training part's
  grades, ``majority`` (its most frequent class), ``random`` (drawn evenly from the scale).

Figures: ``mae.COLUMN.ROW`` (of normalized scores, less is better), ``acc.COLUMN.ROW`` (five
classes) and ``spearman.COLUMN.ROW`` (ranks; a constant has none) for the columns shape, texture,
average, joint. ``ablation.{mae,acc,spearman}.VARIANT`` is Table 3b on the joint score over several
seeds, ``literal`` the attention as it is written, without adding the query;
``ablation.worse_{mae,acc}.VARIANT`` are paired differences from full OLIP. Intervals (95 %) are of
a bootstrap over pictures.
"""

from __future__ import annotations

import asyncio
import random
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._harness import benchmark, figure, prefixed, progress, work_folder
from scenewright.evals.human_ratings.rated_objects import (
    FILE,
    RatedObject,
    Split,
    read_objects,
    write_objects,
)
from scenewright.evals.studies.olip.comparing import compare, scorers_with
from scenewright.evals.studies.olip.evaluation import (
    Evaluation,
    evaluate,
    floors,
    scores_of,
    table,
)
from scenewright.evals.studies.olip.training import (
    TITLES,
    VARIANTS,
    Ablation,
    ablate,
    ablation_table,
    fit,
    prepare,
)
from scenewright.miniature.damage import sample_graded
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.tools.vision.realism.blip import BlipEncoder
from scenewright.tools.vision.realism.olip import OlipConfig
from scenewright.tools.vision.realism.olip_training import TrainingOptions, predict

SEED = "benchmark of olip"
SHARES: tuple[tuple[Split, float], ...] = (("train", 0.75), ("validation", 0.08), ("test", 0.17))
"""Of the paintings; the paper tests on 5 % of its objects, which here would be too few for the
intervals of an ablation."""
PENCIL = 0.2
"""Share of the paintings in the pencil style."""


def split_of(number: int, count: int) -> Split:
    """Return which part painting ``number`` of ``count`` belongs to."""
    done = 0.0
    for split, share in SHARES:
        done += share
        if number < round(done * count):
            return split
    return SHARES[-1][0]


def paint_set(folder: Path, paintings: int) -> list[RatedObject]:
    """Return ``paintings`` held-out graded paintings below ``folder``.

    A set that is there is taken.

    Held out: the miniature's own OLIP and its BLIP never saw them.
    """
    if (folder / FILE).is_file():
        found = read_objects(folder)
        if len({item.image for item in found}) == paintings:
            return found
    folder.mkdir(parents=True, exist_ok=True)
    objects: list[RatedObject] = []
    made = 0
    for number in progress(range(2 * paintings), paintings):
        if made == paintings:
            break
        rng = random.Random(f"{SEED} {number}")
        style = "pencil" if rng.random() < PENCIL else "flat"
        painting = sample_graded(rng, style)
        if not painting.objects:
            continue
        name = f"{made:05d}.png"
        painting.image.save(folder / name)
        objects += [
            RatedObject(
                id=f"{made:05d}/{item.id}",
                image=name,
                category=item.name,
                box=item.box,
                shape=item.shape,
                texture=item.texture,
                source=style,
                split=split_of(made, paintings),
            )
            for item in painting.objects
        ]
        made += 1
    write_objects(folder, objects)
    return objects


def part(objects: Sequence[RatedObject], split: Split) -> list[RatedObject]:
    """Return the objects of one part."""
    return [item for item in objects if item.split == split]


FOLDER = Path("out/olip")
BLIP = MINIATURE_WEIGHTS / "blip"
SCORERS = {
    "olip_shipped": "olip:miniature/olip-a",
    "zero_shot": "judge:local:miniature/judge-a",
    "zero_shot_b": "judge:local:miniature/judge-b",
    "vqascore": "vqa:local:miniature/judge-a",
    "blip_match": "blip:miniature",
    "few_shot": "few-shot:judge:local:miniature/judge-a",
    "blip_match_few_shot": "few-shot:blip:miniature",
}
"""Row → scorer."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    paintings: int
    """About four objects each."""
    epochs: int
    """Most passes over the training part."""
    seeds: tuple[int, ...]
    """Of the ablation."""
    scorers: tuple[str, ...] = tuple(SCORERS)
    """Rows besides ``olip`` and those that look at no picture."""


FULL = Plan(1500, 60, (0, 1))
QUICK = Plan(30, 2, (0,), ("olip_shipped", "zero_shot", "few_shot"))


async def measure(plan: Plan, folder: Path) -> dict[str, Any]:
    """Return all figures; what was painted, encoded and scored before is taken from ``folder``."""
    data = folder / "set"
    objects = paint_set(data, plan.paintings)
    encoder = BlipEncoder(BLIP)
    try:
        prepared = await prepare(data, encoder, cache=folder / "features")
    finally:
        await encoder.aclose()
    config = OlipConfig(embedding=prepared.features.full.shape[1])
    options = TrainingOptions(epochs=plan.epochs)
    trained = fit(prepared, config, options)
    said = predict(trained.model, prepared.features, prepared.splits.test).tolist()
    rows = {"olip": evaluate("OLIP", prepared.part("test"), scores_of(said))}
    test, training = part(objects, "test"), part(objects, "train")
    scorers = scorers_with([SCORERS[name] for name in plan.scorers], data, training)
    # One after another: they share models, and two of them at once would be no faster.
    for name, scorer in zip(plan.scorers, scorers, strict=True):
        found = await compare([scorer], data, test, kept=folder / "scores", at_once=1)
        rows[name] = evaluate(name, test, found[0])
    rows |= floors(test, training)
    print(table(list(rows.values())).markdown(), flush=True)
    ablations = ablate(
        prepared, config, options, seeds=plan.seeds, work=folder / "ablation", on_variant=_told
    )
    print(ablation_table(ablations).markdown(), flush=True)
    return {
        "objects.all": len(objects),
        "objects.test": len(prepared.splits.test),
        "best_epoch.olip": trained.best,
        **figures_of(rows),
        **ablation_figures(ablations),
    }


def figures_of(rows: dict[str, Evaluation]) -> dict[str, Any]:
    """Return ``{mae,acc,spearman}.COLUMN.ROW``, and ``unscored.ROW`` where there are some."""
    found = {f"unscored.{name}": row.unscored for name, row in rows.items() if row.unscored}
    for name, row in rows.items():
        for column, measured in row.columns.items():
            for measure in ("mae", "acc", "spearman"):
                if (one := getattr(measured, measure)).value is not None:
                    found[f"{measure}.{column}.{name}"] = figure(one)
    return dict(sorted(found.items()))


def ablation_figures(rows: Sequence[Ablation]) -> dict[str, Any]:
    """Of each variant: joint MAE, ACC and rank correlation, and how much worse than full OLIP."""
    found: dict[str, Any] = {}
    for row in rows:
        joint = row.evaluation.columns["joint"]
        values = {
            "mae": joint.mae,
            "acc": joint.acc,
            "spearman": joint.spearman,
            "worse_mae": row.worse_mae,
            "worse_acc": row.worse_acc,
        }
        for name, value in values.items():
            found |= prefixed(f"ablation.{name}.", {row.variant: figure(value)})
    return found


def _told(variant: str, seed: int) -> None:
    print(
        f"{TITLES[variant]}, seed {seed} ({list(VARIANTS).index(variant) + 1} of {len(VARIANTS)})"
    )


@benchmark("few pictures", clean=True)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all rows and ablations."""
    with work_folder(options, FOLDER) as folder:
        found = asyncio.run(measure(QUICK if options.quick else FULL, folder))
    return found["objects.test"], found


if __name__ == "__main__":
    main()

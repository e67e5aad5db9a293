"""What each part of OLIP is worth: Table 3b, the literal reading of its attention, and the rows
that look at no picture."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from scenewright.core.ports.vision import ObjectRealism
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.olip.evaluation import (
    FLOORS,
    Evaluation,
    evaluate,
    floor_scores,
    scores_of,
)
from scenewright.evals.studies.olip.training import Prepared, fit
from scenewright.tools.vision.realism.olip import OlipConfig
from scenewright.tools.vision.realism.olip_training import TrainingOptions, predict
from scenewright.tools.vision.realism.vlm import normalized_error, same_class

FULL = "full"
VARIANTS: Mapping[str, Mapping[str, bool]] = {
    FULL: {},
    "no_full_image": {"full_image": False},
    "no_multi_head": {"multi_head": False},
    "no_deep": {"deep": False},
    "none": {"full_image": False, "multi_head": False, "deep": False},
    "literal": {"residual": False},
}
"""Variant → its switches: the rows of Table 3b in their order, then attention as it is written."""
TITLES: Mapping[str, str] = {
    FULL: "Full OLIP",
    "no_full_image": "– Full image",
    "no_multi_head": "– Multi-head",
    "no_deep": "– Deep proj.",
    "none": "– All",
    "literal": "Literal reading (no residual)",
    **FLOORS,
}
"""Variant → its row's name."""


class Ablation(BaseModel):
    """One row of Table 3b."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    """Of :data:`VARIANTS`, or a row that looks at no picture, of
    :data:`~scenewright.evals.studies.olip.evaluation.FLOORS`."""
    evaluation: Evaluation
    """All columns, over all seeds: ``objects`` counts an object once a seed."""
    worse_mae: Figure | None = None
    """Its joint MAE minus that of full OLIP on the same objects; None for full OLIP."""
    worse_acc: Figure | None = None
    """The joint ACC of full OLIP minus its own."""


def ablate(
    prepared: Prepared,
    config: OlipConfig,
    options: TrainingOptions,
    *,
    variants: Iterable[str] = VARIANTS,
    seeds: Sequence[int] = (0,),
    work: str | os.PathLike[str] | None = None,
    on_variant: Callable[[str, int], None] | None = None,
) -> list[Ablation]:
    """Train each variant once a seed, and evaluate it on the test part.

    All variants share features, parts, options and seeds; full OLIP is always among them, as the
    differences are paired with it. After them come constant and random scores. ``work``: a folder
    of checkpoints, so that an interrupted ablation goes on. Raises as
    :func:`~scenewright.evals.studies.olip.training.fit`, and ``KeyError`` for a variant that is not
    known.
    """
    objects = prepared.part("test") * len(seeds)
    wanted = np.array([item.joint for item in objects])
    numbers = {name: at for at, name in enumerate(dict.fromkeys(item.image for item in objects))}
    pictures = [numbers[item.image] for item in objects]
    boots = Bootstrap(len(numbers), options.seed)
    rows: list[Ablation] = []
    errors: list[tuple[np.ndarray, np.ndarray]] = []

    def add(variant: str, scores: Sequence[ObjectRealism]) -> None:
        joint = np.array([score.joint for score in scores], np.float64)
        errors.append((normalized_error(joint, wanted), same_class(joint, wanted)))
        mae, acc = errors[-1][0] - errors[0][0], errors[0][1] - errors[-1][1]
        rows.append(
            Ablation(
                variant=variant,
                evaluation=evaluate(TITLES[variant], objects, scores, seed=options.seed),
                worse_mae=boots.share(pictures, mae) if rows else None,
                worse_acc=boots.share(pictures, acc) if rows else None,
            )
        )

    for variant in dict.fromkeys((FULL, *variants)):
        architecture = config.model_copy(update=dict(VARIANTS[variant]))
        said: list[list[float]] = []
        for seed in seeds:
            if on_variant is not None:
                on_variant(variant, seed)
            trained = fit(
                prepared,
                architecture,
                options.model_copy(update={"seed": seed}),
                checkpoint=Path(work) / f"{variant}-{seed}.pt" if work is not None else None,
            )
            said += predict(trained.model, prepared.features, prepared.splits.test).tolist()
        add(variant, scores_of(said))
    for floor in FLOORS:
        add(floor, floor_scores(floor, prepared.part("train"), len(objects), options.seed))
    return rows


def markdown(rows: Sequence[Ablation]) -> str:
    """Table 3b in Markdown: joint MAE, ACC and rank correlation, and how much worse than full
    OLIP."""
    lines = [
        "| Model design | MAE ↓ | ACC ↑ | rank ↑ | MAE over full | ACC under full |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        joint = row.evaluation.columns["joint"]
        over = [figure.text() if figure else "" for figure in (row.worse_mae, row.worse_acc)]
        lines.append(
            f"| {TITLES[row.variant]} | {joint.mae.text()} | {joint.acc.text()} | "
            f"{joint.spearman.text()} | "
            f"{' | '.join(over)} |"
        )
    return "\n".join(lines) + "\n"

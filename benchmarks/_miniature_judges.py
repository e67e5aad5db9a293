"""How often each judge is right: on held-out paintings, whose truth is exact, and on labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks._kept import KeptTeam, short
from benchmarks._labels import FOLDER, Labels, known_facts
from benchmarks._miniature_scenes import held_out
from benchmarks._progress import progress
from scenewright.core.facts import FACT_KINDS
from scenewright.core.images import load_image
from scenewright.core.ports.judge import Judge
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_questions import KnownFact, ask_about
from scenewright.miniature.training.judges import Scored, answerable, figures_of, weathered

RESAMPLES = 300
_CHANGED = 0.4
"""How often what is asked of a painting is not what it shows."""


def spread(clusters: Sequence[Sequence[Scored]], resamples: int = RESAMPLES) -> dict[str, Any]:
    """``figures_of`` all facts: counts as they are, shares with a 95% bootstrap interval.

    Whole clusters (the facts of one picture) are drawn again, because facts of one
    picture fail together. A share that some resample lacks (no false fact in it) is
    taken over the others.
    """
    whole = figures_of([scored for cluster in clusters for scored in cluster])
    drawn: dict[str, list[float]] = {k: [] for k, v in whole.items() if isinstance(v, float)}
    rng = np.random.default_rng(0)
    for _ in range(resamples):
        picks = rng.integers(0, len(clusters), len(clusters))
        sample = figures_of([scored for at in picks for scored in clusters[at]])
        for key, values in drawn.items():
            if key in sample:
                values.append(float(sample[key]))
    figures: dict[str, Any] = dict(whole)
    for key, values in drawn.items():
        low, high = np.percentile(values, [2.5, 97.5]) if values else (whole[key], whole[key])
        figures[key] = {"mean": whole[key], "low": float(low), "high": float(high)}
    return figures


def by_kind(prefix: str, clusters: Sequence[Sequence[Scored]]) -> dict[str, Any]:
    """``<prefix>.<kind>.<figure>`` for every kind of fact that was asked."""
    figures: dict[str, Any] = {}
    for kind in FACT_KINDS:
        own = [[s for s in cluster if s[0].fact.kind == kind] for cluster in clusters]
        asked = [cluster for cluster in own if cluster]
        if asked:
            figures |= {f"{prefix}.{kind}.{key}": v for key, v in spread(asked).items()}
    return figures


async def _scored(
    kept: KeptTeam, judge: Judge, image: Image.Image, known: Sequence[KnownFact]
) -> list[Scored]:
    answers = await kept.answers(judge, image, [k.fact for k in known])
    return list(zip(known, answers, strict=True))


async def judge_figures(kept: KeptTeam, judges: Sequence[Judge], count: int) -> dict[str, Any]:
    """``judges.<judge>.<painted or weathered>.<kind>.<figure>`` on ``count`` paintings, and
    ``judges.<judge>.role`` (see ``KeptTeam.role_of``)."""
    clusters: dict[tuple[str, str], list[list[Scored]]] = {}
    for at in progress("judges", range(count), count):
        rng = held_out("judges", at)
        painting = sample_painting(rng)
        known = answerable(ask_about(rng, painting.truth, change=_CHANGED))
        shown = {"painted": painting.image, "weathered": weathered(painting.image, at)}
        for title, image in shown.items():
            for judge in judges:
                row = await _scored(kept, judge, image, known)
                clusters.setdefault((short(judge), title), []).append(row)
    figures: dict[str, Any] = {"judges.paintings": count}
    figures |= {f"judges.{short(judge)}.role": kept.role_of(judge) for judge in judges}
    for (name, title), rows in clusters.items():
        figures |= by_kind(f"judges.{name}.{title}", rows)
    return figures


def label_counts(labels: Labels) -> dict[str, int]:
    """``<kind>.<true, false or unclear>``: how many facts got each label."""
    counts = {f"{k}.{mark}": 0 for k in FACT_KINDS for mark in ("true", "false", "unclear")}
    for picture in labels.pictures:
        for fact in picture.all_facts():
            counts[f"{fact.kind}.{picture.facts[fact.id]}"] += 1
    return counts


async def label_figures(
    kept: KeptTeam, judges: Sequence[Judge], labels: Labels, folder: Path = FOLDER
) -> dict[str, Any]:
    """``labels.<judge>.<kind>.<figure>``: each judge against what was seen by eye.

    Asked is what a run would ask: facts whose objects are there. Unclear facts are
    counted (``labels.<kind>.unclear``) and left out.
    """
    clusters: dict[str, list[list[Scored]]] = {}
    for picture in progress("labels", labels.pictures, len(labels.pictures)):
        known = known_facts(picture)
        for judge in judges:
            row = await _scored(kept, judge, load_image(folder / picture.file), known)
            clusters.setdefault(short(judge), []).append(row)
    figures: Mapping[str, Any] = {
        "pictures": len(labels.pictures),
        "seen_by": labels.seen_by,
        **label_counts(labels),
    }
    found = {f"labels.{key}": value for key, value in figures.items()}
    for name, rows in clusters.items():
        found |= by_kind(f"labels.{name}", rows)
    return found

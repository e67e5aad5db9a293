"""One scene under every repair strategy at equal images, and the figures of many.

Every strategy begins with the same picture and may draw :data:`IMAGES` images in all, references
included. All but best-of-n stop as soon as the loop's judges find nothing missing; none stops out
of patience. The strategies that redraw the whole picture use the paper's weights, λ0 = λ1 = 0.5;
``feedback`` and the router are as the profile has them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._estimates import estimate, stacked
from benchmarks._loop_scenes import balanced_scenes
from benchmarks._miniature_scenes import LEVELS
from benchmarks._report import interval
from benchmarks._rows import code_digest, fingerprint_of
from benchmarks._scene_rows import MeasuredScene
from benchmarks._shared import SharedBackend, SharedJudge
from benchmarks._strategies import Kept, overridden, read
from scenewright.config.settings import Profile
from scenewright.core.scene import SceneGraph
from scenewright.graphs.strategies.base import attempts_of
from scenewright.graphs.strategies.registry import strategies
from scenewright.runs.api import Budget, refine
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.records import RunResult

IMAGES = 7
"""Images of a run: three rounds of feedback with their references, and the first picture."""
WHOLE: Mapping[str, Any] = {"repair": "whole", "weight_best": 0.5, "weight_missing": 0.5}
"""The paper's form of feedback."""
RUNS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"strategy": name} for name in strategies()},
    "feedback-whole": {"strategy": "feedback", **WHOLE},
    "schedule": {"strategy": "schedule", **WHOLE},
    "masked": {"strategy": "masked", **WHOLE},
}
"""Name of a run → the fields of the profile that it changes."""
ROUTER = "router"
MEASURES = ("sgscore", "facts")
TUNING = 1000
"""Scenes from this number on are for trying settings out; none of them is in a result."""


class RepairRow(MeasuredScene):
    """All strategies on one scene."""

    kept: dict[str, Kept]
    """By run: the image that is kept, and what the judges say of it."""
    regressions: dict[str, float | None]
    """By run: facts lost a round, of those confirmed in the picture that the round began from;
    none where no round was needed."""
    rounds: dict[str, int]
    """By run: rounds after the first."""
    acting: dict[str, int]
    """Strategies that the router chose, and how often."""
    gained: dict[str, int]
    """Of those, how often the round's picture became the best."""


def scenes_of(count: int, first: int = 0) -> list[SceneGraph]:
    """``count`` held-out scenes from number ``first`` on, the levels in turn."""
    return balanced_scenes(first + count)[first:]


def fingerprint(profile: Profile, run_models: RunModels) -> str:
    """Names all that decides a row: profile, runs, weights, prompts and code."""
    models = (
        run_models.backend,
        run_models.composer,
        *run_models.loop_judges,
        *run_models.report_judges,
    )
    return fingerprint_of(
        {
            "profile": profile.model_dump(mode="json", exclude={"about"}),
            "runs": {name: dict(changes) for name, changes in RUNS.items()},
            "images": IMAGES,
            "models": [[model.id, model.fingerprint] for model in models],
            "code": code_digest(),
        }
    )


async def measure_scene(
    scene: SceneGraph,
    at: int,
    profile: Profile,
    run_models: RunModels,
    *,
    fingerprint: str,
    scratch: Path | None = None,
) -> RepairRow:
    """All of :data:`RUNS` on ``scene`` with the models of ``run_models``; ``at`` is the seed of
    all."""
    begun = time.perf_counter()
    backend = SharedBackend(run_models.backend)
    judges = [SharedJudge(judge) for judge in run_models.loop_judges]
    report = [SharedJudge(judge) for judge in run_models.report_judges]
    results: dict[str, RunResult] = {}
    with tempfile.TemporaryDirectory(prefix="bench-strategies-", dir=scratch) as folder:
        for name, changes in RUNS.items():
            results[name] = await refine(
                scene,
                overridden(profile, changes),
                out=Path(folder) / name,
                rounds=IMAGES,
                patience=IMAGES,
                seed=at,
                budget=Budget(images=IMAGES),
                backend=backend,
                judges=judges,
                report_judges=report,
            )
    router = tries(results[ROUTER])
    return RepairRow(
        fingerprint=fingerprint,
        at=at,
        scene=scene.digest,
        level=scene.level(),
        kept={name: read(result, IMAGES) for name, result in results.items()},
        regressions={name: lost_a_round(result) for name, result in results.items()},
        rounds={name: len(result.rounds) - 1 for name, result in results.items()},
        acting=_counts([name for name, _, _ in router]),
        gained=_counts([name for name, _, better in router if better]),
        seconds=time.perf_counter() - begun,
    )


def tries(result: RunResult) -> list[tuple[str, int, bool]]:
    """Strategy, facts lost and whether it gave the best picture: every round after the first."""
    cards = {r.round: r.loop_card for r in result.rounds if r.loop_card is not None}
    acting = {r.round: r.strategy for r in result.rounds if r.strategy}
    found = attempts_of(cards, acting, result.facts)
    return [(attempt.strategy, len(attempt.broken), attempt.better) for attempt in found]


def lost_a_round(result: RunResult) -> float | None:
    """Mean of the facts that a round lost; None where there was no second round."""
    lost = [broken for _, broken, _ in tries(result)]
    return sum(lost) / len(lost) if lost else None


def _counts(names: Sequence[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}


def figures_of(rows: Sequence[RepairRow]) -> dict[str, Any]:
    """Flat figures; scores are by report judges.

    ``[LEVEL.]sgscore.RUN``, ``[LEVEL.]facts.RUN``, ``images.RUN``, ``regressions.RUN`` (means over
    the scenes that needed a second round), ``gain.router_vs_RUN`` (paired, SGScore) and
    ``gain.facts_router_vs_RUN``, ``chosen.STRATEGY`` (share of the router's rounds) and
    ``helped.STRATEGY`` (share of those whose picture became the best). Raises ``ValueError``
    without rows.
    """
    if not rows:
        raise ValueError("no scenes: nothing was measured")
    figures: dict[str, Any] = {}
    for prefix, some in _parts(rows):
        for measure in MEASURES:
            tables = {
                name: stacked([row.kept[name].report for row in some], measure)  # type: ignore[arg-type]
                for name in RUNS
            }
            ours, known_ours = tables[ROUTER]
            for name, (shares, known) in tables.items():
                if known.any():
                    figures[f"{prefix}{measure}.{name}"] = estimate(shares[known])
                both = known & known_ours
                if name != ROUTER and both.any():
                    key = f"{prefix}gain.{'facts_' if measure == 'facts' else ''}router_vs_{name}"
                    figures[key] = estimate((ours - shares)[both], bounded=False)
    for name in RUNS:
        figures[f"images.{name}"] = interval([row.kept[name].images for row in rows])
        lost = [value for row in rows if (value := row.regressions[name]) is not None]
        if lost:
            figures[f"regressions.{name}"] = interval(lost)
    chosen = {name: sum(row.acting.get(name, 0) for row in rows) for name in strategies()}
    for name, count in chosen.items():
        if count:
            figures[f"chosen.{name}"] = count / sum(chosen.values())
            figures[f"helped.{name}"] = sum(row.gained.get(name, 0) for row in rows) / count
    return figures


def _parts(rows: Sequence[RepairRow]) -> list[tuple[str, list[RepairRow]]]:
    parts = [("", list(rows))]
    parts += [(f"{level}.", [row for row in rows if row.level == level]) for level in LEVELS]
    return [(prefix, some) for prefix, some in parts if some]

"""How much of what is asked the generator draws: by level of the scene, and by guidance."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks._kept import ROLES, KeptTeam
from benchmarks._miniature_scenes import LEVELS, painting_of_level
from benchmarks._progress import progress
from benchmarks._report import interval
from scenewright.core.facts import ScoreCard
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.scene import Level, SceneGraph

SCORES = ("objects", "attributes", "relations", "sgscore", "facts")
"""ObjectRecall, AttributeRecall, RelationRecall, SGScore, share of all facts."""


@dataclass(frozen=True, slots=True)
class Task:
    """A held-out scene and the seed it is drawn with."""

    level: Level
    """Level of the scene."""
    scene: SceneGraph
    """What is asked."""
    seed: int
    """Of the composition and of the noise."""


def tasks_of(count: int) -> list[Task]:
    """``count`` held-out scenes of each level."""
    return [
        Task(level, painting_of_level(level, "drawing", at).scene, at)
        for at in range(count)
        for level in LEVELS
    ]


def scores_of(card: ScoreCard) -> dict[str, float | None]:
    """The scores of a card by the names of :data:`SCORES`; None: nothing was scored."""
    values = (
        card.objects.value,
        card.attributes.value,
        card.relations.value,
        card.sgscore,
        card.fact_recall,
    )
    return dict(zip(SCORES, values, strict=True))


def averaged(prefix: str, rows: Iterable[Mapping[str, float | None]]) -> dict[str, Any]:
    """``<prefix>.<score>`` with its interval, for every score that some row has."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for key, value in row.items():
            if value is not None:
                columns.setdefault(key, []).append(value)
    return {f"{prefix}.{key}": interval(values) for key, values in columns.items()}


def request_at(prompt: str, seed: int, guidance: float | None) -> GenerationRequest:
    """The drawing of ``prompt`` at a guidance scale; None: the backend's own.

    With scale 0 classifier-free guidance leaves what the model predicts without text, which
    is the drawing of a prompt without words.
    """
    if guidance == 0:
        return GenerationRequest(prompt=" ", seed=seed, guidance=1.0)
    return GenerationRequest(prompt=prompt, seed=seed, guidance=guidance)


async def _draw(kept: KeptTeam, task: Task, guidance: float | None) -> tuple[str, int]:
    """The picture's hash, and how many tokens of the prompt were cut off."""
    prompt = await kept.run_models.composer.compose(task.scene, task.seed)
    request = request_at(prompt, task.seed, guidance)
    image = await kept.draw(request)
    count = kept.count(request)
    return image, 0 if count is None else count.dropped


async def level_figures(kept: KeptTeam, count: int) -> dict[str, Any]:
    """``levels.<level>.<role>.<score>``, ``.prompts_cut`` (share) and ``.n`` for ``count``
    scenes a level, drawn as the profile draws."""
    cards: dict[tuple[Level, str], list[dict[str, float | None]]] = {}
    cut: dict[Level, list[float]] = {level: [] for level in LEVELS}
    tasks = tasks_of(count)
    for task in progress("levels", tasks, len(tasks)):
        image, dropped = await _draw(kept, task, None)
        cut[task.level].append(float(dropped > 0))
        facts = kept.profile.form().facts(task.scene)
        for role in ROLES:
            card = await kept.card(image, facts, role)
            cards.setdefault((task.level, role), []).append(scores_of(card))
    figures: dict[str, Any] = {}
    for level in LEVELS:
        figures[f"levels.{level}.n"] = len(cut[level])
        figures[f"levels.{level}.prompts_cut"] = sum(cut[level]) / len(cut[level])
        for role in ROLES:
            figures |= averaged(f"levels.{level}.{role}", cards[level, role])
    return figures


def guidance_summary(
    facts: Mapping[int, Sequence[float]], suffix: str = ""
) -> dict[str, dict[str, float]]:
    """``facts<suffix>.<g>`` and, against the scale before scene by scene, ``gain<suffix>.<g>``.

    ``facts`` maps a guidance scale to the shares of facts of the same scenes in the same order.
    """
    scales = sorted(facts)
    found = {f"facts{suffix}.{g}": interval(facts[g]) for g in scales}
    for before, g in itertools.pairwise(scales):
        gains = [now - then for now, then in zip(facts[g], facts[before], strict=True)]
        found[f"gain{suffix}.{g}"] = interval(gains)
    return found


async def guidance_figures(kept: KeptTeam, count: int, scales: Sequence[int]) -> dict[str, Any]:
    """``guidance.facts.<g>`` and ``guidance.gain.<g>`` by the report judges (``_loop``: by the
    loop's) for ``count`` scenes a level, the same seeds at every scale."""
    shares: dict[str, dict[int, list[float]]] = {role: {g: [] for g in scales} for role in ROLES}
    tasks = tasks_of(count)
    own = kept.run_models.backend.features.default_guidance
    drawn = [(task, g) for task in tasks for g in scales]
    for task, g in progress("guidance", drawn, len(drawn)):
        # At the backend's own scale the picture is that of the levels.
        image, _ = await _draw(kept, task, None if g == own else float(g))
        facts = kept.profile.form().facts(task.scene)
        for role in ROLES:
            share = (await kept.card(image, facts, role)).fact_recall
            if share is None:
                raise RuntimeError(f"the {role} judges scored no fact of {task.scene.digest[:12]}")
            shares[role][g].append(share)
    found: dict[str, Any] = {}
    for role in ROLES:
        suffix = "" if role == "report" else f"_{role}"
        found |= guidance_summary(shares[role], suffix)
    return {
        "guidance.n": len(tasks),
        "guidance.default": own,
        **{f"guidance.{key}": v for key, v in found.items()},
    }

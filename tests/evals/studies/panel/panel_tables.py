"""Small tables of random answers for the tests of panels."""

from __future__ import annotations

import numpy as np

from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn


def random_table(
    seed: int,
    *,
    n_items: int = 6,
    n_judges: int = 3,
    missing: float = 0.1,
    hard: bool = False,
    rated: bool = True,
    truth: bool = True,
) -> AnswerTable:
    """Two images an item; objects first, then facts that depend on one or two of them, and one
    that depends on such a fact."""
    rng = np.random.default_rng(seed)
    images = tuple(
        ImageRow(
            id=f"{item}/{model}",
            item=str(item),
            model=model,
            ratings=tuple(rng.integers(1, 6, 2).astype(float)) if rated else (),
        )
        for item in range(n_items)
        for model in "xy"
    )
    facts: list[FactRow] = []
    for image in range(len(images)):
        start = len(facts)
        parents: list[tuple[int, ...]] = [(), (), (0,), (0, 1), (2,)]
        for at, of in enumerate(parents[: int(rng.integers(3, 6))]):
            kind = "object" if not of else ("attribute" if len(of) == 1 else "relation")
            facts.append(
                FactRow(
                    id=f"f{at}",
                    image=image,
                    kind=kind,  # type: ignore[arg-type]
                    parents=tuple(start + parent for parent in of),
                )
            )
    holds = (rng.random(len(facts)) < 0.6).astype(float)
    said = np.clip(
        0.5 + (holds[:, None] - 0.5) * 0.8 + rng.normal(0, 0.35, (len(facts), n_judges)), 0, 1
    )
    if hard:
        said = (said > 0.5).astype(float)
    said[rng.random(said.shape) < missing] = np.nan
    answered = ~np.isnan(said)
    return AnswerTable(
        name="random",
        judges=tuple(
            JudgeColumn(f"judge-{at}", family="one" if at < 2 else "") for at in range(n_judges)
        ),
        images=images,
        facts=tuple(facts),
        said=said,
        truth=holds if truth else np.full(len(facts), np.nan),
        asked=np.ones(said.shape, bool),
        tokens=np.where(answered, rng.integers(5, 50, said.shape), 0).astype(float),
        usd=np.where(answered, rng.random(said.shape) / 1000, 0.0),
        seconds=np.where(answered, rng.random(said.shape), 0.0),
    )

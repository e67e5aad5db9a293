"""How good a judge is on held-out paintings, by kind of fact."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.panel.agreement import brier_score, expected_calibration_error
from scenewright.core.facts import FACT_KINDS, Answer
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_pixels import to_pixels, weather
from scenewright.miniature.training.judge_questions import KnownFact, ask_about

HELD_OUT = "held-out"
"""Begins the seeds of test paintings; training seeds begin with a number."""

Scored = tuple[KnownFact, Answer]


def answerable(known: Sequence[KnownFact]) -> list[KnownFact]:
    """The facts that a run would ask and whose answer is beyond doubt: parents hold, no
    diagonal pair, one right option."""
    holding = {k.fact.id for k in known if k.holds}
    return [k for k in known if k.clear and holding.issuperset(k.fact.parents)]


def weathered(image: Image.Image, seed: int) -> Image.Image:
    """``image`` smeared, noisy and shifted in colour, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    pixels = weather(to_pixels([image]), generator, 1.0)[0]
    array = ((pixels.permute(1, 2, 0) + 1) * 127.5).round().to(torch.uint8).numpy()
    return Image.fromarray(array)


def figures_of(scored: Sequence[Scored]) -> dict[str, float | int]:
    """Counts; accuracy, balanced accuracy, sensitivity and specificity of fact states; Brier
    score and calibration error (:func:`calibration_error`) of probabilities.

    Unscored answers are counted and else left out. A figure that has nothing to be measured
    on is left out: no sensitivity without true facts, no specificity without false ones.
    """
    rated = [(k.holds, a) for k, a in scored if a.probability is not None]
    sides = [
        [a.state == "yes" for h, a in rated if h],
        [a.state == "no" for h, a in rated if not h],
    ]
    shares = [sum(side) / len(side) for side in sides if side]
    result: dict[str, float | int] = {
        "n": len(scored),
        "true": len(sides[0]),
        "false": len(sides[1]),
        "unscored": len(scored) - len(rated),
    }
    for name, side in zip(("sensitivity", "specificity"), sides, strict=True):
        if side:
            result[name] = round(sum(side) / len(side), 4)
    if rated:
        result["accuracy"] = round(sum(map(sum, sides)) / len(rated), 4)
        result["balanced_accuracy"] = round(sum(shares) / len(shares), 4)
        pairs = [(a.probability or 0.0, h) for h, a in rated]
        result["brier"] = round(brier_score(*zip(*pairs, strict=True)), 4)
        result["ece"] = round(calibration_error(pairs), 4)
    return result


def calibration_error(pairs: Sequence[tuple[float, bool]], bins: int = 10) -> float:
    """:func:`~scenewright.agents.panel.agreement.expected_calibration_error` of (probability,
    whether the fact holds) pairs. Raises ``ValueError`` without pairs.
    """
    if not pairs:
        raise ValueError("no probabilities: nothing was answered")
    probabilities, labels = zip(*pairs, strict=True)
    return expected_calibration_error(probabilities, labels, bins)


async def _ask(judge: LocalJudge, n: int, seed: int, bad_weather: bool) -> list[Scored]:
    scored: list[Scored] = []
    for at in range(n):
        rng = random.Random(f"{HELD_OUT}/{seed}/{at}")
        painting = sample_painting(rng)
        known = answerable(ask_about(rng, painting.truth, change=0.4))
        image = weathered(painting.image, seed * 100_003 + at) if bad_weather else painting.image
        answers = await judge.answer(image, [k.fact for k in known])
        scored += zip(known, answers, strict=True)
    return scored


def evaluate_judge(folder: Path, n: int = 300, seed: int = 0) -> dict[str, Any]:
    """Measure the judge in ``folder`` on ``n`` held-out paintings, as painted and in bad weather.

    Returns, for each of both, the figures of every kind of fact and of relations by
    predicate. Facts of diagonal pairs and facts that a run would not ask are left out.
    """

    async def measure() -> dict[str, Any]:
        judge = LocalJudge(folder)
        try:
            await judge.load()
            report: dict[str, Any] = {"paintings": n, "seed": seed}
            for title, bad_weather in (("painted", False), ("weathered", True)):
                scored = await _ask(judge, n, seed, bad_weather)
                report[title] = {
                    kind: figures_of([s for s in scored if s[0].fact.kind == kind])
                    for kind in FACT_KINDS
                }
                relations = [s for s in scored if s[0].fact.kind == "relation"]
                report[title]["predicates"] = {
                    predicate: figures_of(
                        [s for s in relations if s[0].fact.predicate == predicate]
                    )
                    for predicate in sorted({str(k.fact.predicate) for k, _ in relations})
                }
            return report
        finally:
            await judge.aclose()

    return asyncio.run(measure())

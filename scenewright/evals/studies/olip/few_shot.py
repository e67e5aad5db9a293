"""Scorers by name, those included that are shown rated examples."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from scenewright.config.settings import Settings
from scenewright.core.ports.vision import RealismError, RealismScorer
from scenewright.evals.human_ratings.objects.data import RatedObject
from scenewright.evals.studies.olip.comparing import examples_of
from scenewright.runs.model_factory.realism_scorers import scorer_of
from scenewright.tools.vision.realism.calibrated import CalibratedScorer
from scenewright.tools.vision.realism.trained_on import TrainedScorer
from scenewright.tools.vision.realism.vlm import STRATEGIES, VlmScorer

CALIBRATED = "few-shot:"
"""Before a scorer's name: its scores, mapped onto the ratings by a few examples."""
TRAINED = "olip:"
"""Before heads: scorers that were trained on rated pictures."""
ALL_STRATEGIES = "strategies:"
"""Before a chat model's name: all eight strategies."""


def expanded(specs: Sequence[str]) -> list[str]:
    """``specs``, each once, with ``strategies:ACCOUNT:MODEL`` as its eight scorers."""
    found: list[str] = []
    for spec in specs:
        model = spec.removeprefix(ALL_STRATEGIES)
        found += [spec] if model == spec else [f"vlm:{model}:{name}" for name in STRATEGIES]
    return list(dict.fromkeys(found))


def takes_examples(specs: Sequence[str]) -> bool:
    """Whether one of ``specs`` is shown rated examples, or calibrated on them."""
    few = {name for name, strategy in STRATEGIES.items() if strategy.few_shot}
    return any(
        spec.startswith(CALIBRATED) or spec.rpartition(":")[2] in few for spec in expanded(specs)
    )


def trained_scorers(specs: Sequence[str]) -> list[TrainedScorer]:
    """Return the scorers of ``specs`` whose weights were fitted to pictures, those included whose
    scores a few examples calibrate. Raises ``RealismError`` as :func:`scorers_with`."""
    inner = [spec.removeprefix(CALIBRATED) for spec in expanded(specs)]
    made = [scorer_of(spec) for spec in inner if spec.startswith(TRAINED)]
    return [one for one in made if isinstance(one, TrainedScorer)]


def scorers_with(
    specs: Sequence[str],
    folder: str | os.PathLike[str],
    training: Sequence[RatedObject],
    settings: Settings | None = None,
) -> list[RealismScorer]:
    """The scorers of ``specs``, see :func:`expanded`; where one takes examples they come from
    ``training``, whose pictures are in ``folder``.

    Beyond what :func:`~scenewright.runs.model_factory.realism_scorers.scorer_of` knows,
    ``vlm:ACCOUNT:MODEL:STRATEGY`` may name a few-shot strategy, and ``few-shot:SCORER`` is any
    scorer calibrated on the examples. Raises ``RealismError`` as it does, and where there are no
    examples.
    """
    return [_one(spec, folder, training, settings) for spec in expanded(specs)]


def _one(
    spec: str,
    folder: str | os.PathLike[str],
    training: Sequence[RatedObject],
    settings: Settings | None,
) -> RealismScorer:
    if spec.startswith(CALIBRATED):
        inner = spec.removeprefix(CALIBRATED)
        scorer = scorer_of(inner, settings)
        return CalibratedScorer(scorer, examples_of(folder, training))
    before, _, last = spec.rpartition(":")
    strategy = STRATEGIES.get(last)
    if strategy is None or not strategy.few_shot:
        return scorer_of(spec, settings)
    zero = dataclasses.replace(strategy, few_shot=False)
    made = scorer_of(f"{before}:{zero.name}", settings)
    if not isinstance(made, VlmScorer):
        raise RealismError(
            f"{spec!r}: only a language model (vlm:) takes a strategy; write {CALIBRATED}{before}"
        )
    return dataclasses.replace(made, strategy=strategy, examples=examples_of(folder, training))

"""Facts of several models on the same scenes, and any function of their means with its interval.

A mean is over facts, as in XTC-Bench (Eqs. 4 to 7); a resample draws scenes, each with all of its
facts and of all models alike, so that differences of models are paired by scene.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from scenewright.evals.statistics.estimates import RESAMPLES, Array, Estimate, nothing
from scenewright.evals.statistics.figures import Bootstrap
from scenewright.evals.studies.xtc.base import QUESTION_KINDS, FactScore, QuestionKind
from scenewright.evals.studies.xtc.scores import COMPARED, is_absent, is_matched

Measure = Literal["u", "v", "ccta", "aw"]
"""Of one fact: generation u, understanding v, agreement 1 − |v − u|, and that times (u + v) / 2."""
Statistic = Callable[[Array], Array]
"""From means (resamples, parts) to one number each, NaN where it is undefined."""


class Sheet:
    """The scores of all facts, by model."""

    def __init__(self, facts: Mapping[str, Sequence[FactScore]]) -> None:
        """``facts``: model → its facts."""
        self._facts = {model: list(of_model) for model, of_model in facts.items()}
        named = dict.fromkeys(fact.scene for some in self._facts.values() for fact in some)
        self._scenes = {scene: at for at, scene in enumerate(named)}
        self._boot = Bootstrap(max(1, len(named)), resamples=RESAMPLES)

    @property
    def models(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._facts)

    @property
    def scenes(self) -> int:
        """Scenes with facts."""
        return len(self._scenes)

    def part(
        self,
        model: str,
        measure: Measure,
        kind: QuestionKind | None = None,
        matched: bool = False,
    ) -> Array:
        """(scenes, 2): sum and count of ``measure`` over the facts of ``model`` that have it.

        Of one ``kind``; without, of all kinds for ``v``, else of those that
        :data:`~scenewright.evals.studies.xtc.scores.COMPARED` names. ``matched``: only those whose
        objects have partners, and of relations the edge too.
        """
        wanted = (kind,) if kind else QUESTION_KINDS if measure == "v" else COMPARED
        sums = np.zeros((self.scenes, 2))
        for fact in self._facts[model]:
            value = _value(fact, measure)
            if (
                value is None
                or fact.kind not in wanted
                or (matched and (fact.u is None or not is_matched(fact)))
            ):
                continue
            sums[self._scenes[fact.scene]] += (value, 1.0)
        return sums

    def of(self, parts: Sequence[Array], statistic: Statistic | None = None) -> Estimate:
        """``statistic`` of the means of ``parts``, by default the mean of the only one."""
        counted = [part[:, 1] > 0 for part in parts]
        n = int(np.logical_or.reduce(counted).sum())
        if not all(some.any() for some in counted):
            return nothing("nothing was scored")

        def figure(sums: Array) -> Array:
            with np.errstate(all="ignore"):
                means = sums[:, 0::2] / np.where(sums[:, 1::2] > 0, sums[:, 1::2], np.nan)
            return means[:, 0] if statistic is None else statistic(means)

        found = self._boot.figure(
            np.arange(self.scenes), [column for part in parts for column in part.T], figure
        )
        if found.value is None:
            return nothing("it is undefined for these values")
        return Estimate(value=found.value, low=found.low, high=found.high, n=n)

    def mean(
        self,
        model: str,
        measure: Measure,
        kind: QuestionKind | None = None,
        matched: bool = False,
    ) -> Estimate:
        """The mean of ``measure``, as :meth:`part` has it."""
        return self.of([self.part(model, measure, kind, matched)])

    def share(self, model: str) -> dict[str, int]:
        """How many facts ``model`` has: all, those ``missing`` in its pictures, and those unscored
        on the sides of generation and understanding."""
        some = self._facts[model]
        return {
            "facts": len(some),
            "missing": sum(is_absent(fact) for fact in some),
            "unscored_u": sum(fact.u is None for fact in some),
            "unscored_v": sum(fact.v is None for fact in some),
        }


def _value(fact: FactScore, measure: Measure) -> float | None:
    if measure == "u":
        return fact.u
    if measure == "v":
        return fact.v
    if fact.u is None or fact.v is None:
        return None
    agreement = 1.0 - abs(fact.v - fact.u)
    return agreement if measure == "ccta" else agreement * (fact.u + fact.v) / 2


def spread(values: Array) -> Array:
    """Largest less smallest of each row."""
    found: Array = values.max(1) - values.min(1)
    return found

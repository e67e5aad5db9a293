"""What the study of statistical power measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import LEVEL
from scenewright.evals.statistics.paired import Paired
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.power import Spread, Test, detectable, images_needed, power_at
from scenewright.evals.studies.panel.resampling import summary


@dataclass(frozen=True, slots=True)
class Simulated:
    """Studies that were drawn from the table."""

    effect: float
    """True difference, a share."""
    judges: int
    """Size of the panel."""
    images: int
    """Of each model."""
    formula: float
    """Power by the formula."""
    found: int
    """Studies that found the difference."""
    studies: int
    """How many there were."""

    @property
    def share(self) -> Estimate:
        """Power by simulation, with Wilson's (1927) interval."""
        n, p, z = self.studies, self.found / self.studies, 1.959964
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)
        return Estimate(value=p, low=middle - half, high=middle + half, n=n)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two models of the table."""

    models: tuple[str, str]
    """Their names."""
    test: Paired
    """Of the scores by all judges."""
    truth: float | None
    """Difference of the shares of facts that hold, where that is known."""
    holm: float = 1.0
    """p after Holm's correction for all pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class Power:
    """All that was measured."""

    paired: bool
    """Whether models draw the same items."""
    real: int
    """Judges of the table."""
    names: tuple[str, ...]
    """Their ids."""
    n_items: int
    """Items of the table."""
    spread: Spread
    """Variance of the difference of two images."""
    facts: float
    """Facts of an image."""
    slopes: Array
    """λ of each judge."""
    slope: float
    """λ that is used."""
    slope_drawn: Array
    """Mean λ of each resample."""
    slope_given: bool
    """Whether it was set."""
    labelled: bool
    """Whether it was measured on truth."""
    judges: tuple[int, ...]
    """Sizes of the panel."""
    variances: tuple[float, ...]
    """V(J, F), one a size."""
    ratio: Array
    """V/λ² of each resample over that of the table, (resamples, sizes)."""
    effects: tuple[float, ...]
    """True differences."""
    powers: tuple[float, ...]
    """Wanted."""
    alpha: float
    """Level."""
    images: tuple[int, ...]
    """For which the detectable difference is told."""
    simulated: tuple[Simulated, ...]
    """By drawing from the table."""
    several: Mapping[int, Sequence[tuple[int, float]]]
    """Models → (images, power of Holm's procedure), one a size."""
    compared: tuple[Compared, ...]
    """Models of the table."""

    def test(self, power: float) -> Test:
        """The test with that power."""
        return Test(paired=self.paired, alpha=self.alpha, power=power)

    def needed(self, effect: float, at: int, power: float) -> Estimate:
        """Images of each model for size number ``at``, with the interval of V/λ²."""
        try:
            n = images_needed(effect, self.variances[at], slope=self.slope, test=self.test(power))
        except PanelStudyError as error:
            return Estimate(reason=str(error))
        low, high = self._ends(self.ratio[:, at])
        return Estimate(value=n, low=max(2.0, n * low), high=max(2.0, n * high), n=self.n_items)

    def smallest(self, n: int, at: int, power: float) -> Estimate:
        """Detectable difference in points, likewise."""
        found = detectable(n, self.variances[at], slope=self.slope, test=self.test(power))
        low, high = self._ends(np.sqrt(self.ratio[:, at]))
        return Estimate(value=found, low=found * low, high=found * high).times(100)

    @property
    def shown_slope(self) -> Estimate:
        """λ with its interval; without one where it was set."""
        if self.slope_given:
            return Estimate(value=self.slope)
        return Estimate(**summary(self.slope, self.slope_drawn, self.n_items).model_dump())

    @staticmethod
    def _ends(ratio: Array) -> tuple[float, float]:
        known = ratio[np.isfinite(ratio)]
        if not len(known):
            return 1.0, 1.0
        low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)


def records(study: Power) -> dict[str, list[dict[str, Any]]]:
    """Rows of parquet tables, by file stem."""
    needed = [
        {
            "power": power,
            "effect": effect,
            "judges": judges,
            **_ends(study.needed(effect, at, power)),
        }
        for power in study.powers
        for effect in study.effects
        for at, judges in enumerate(study.judges)
    ]
    smallest = [
        {"images": n, "judges": judges, **_ends(study.smallest(n, at, study.powers[0]))}
        for n in study.images
        for at, judges in enumerate(study.judges)
    ]
    simulated = [
        {"effect": s.effect, "judges": s.judges, "images": s.images, "formula": s.formula,
         "studies": s.studies, **_ends(s.share)}
        for s in study.simulated
    ]  # fmt: skip
    several = [
        {"models": models, "judges": judges, "images": n,
         "holm_power": None if np.isnan(power) else power}
        for models, rows in study.several.items()
        for judges, (n, power) in zip(study.judges, rows, strict=True)
    ]  # fmt: skip
    compared = [
        {"first": c.models[0], "second": c.models[1], "value": c.test.mean, "low": c.test.low,
         "high": c.test.high, "p": c.test.p, "holm": c.holm, "truth": c.truth}
        for c in study.compared
    ]  # fmt: skip
    components: list[dict[str, Any]] = [
        {"component": name, "value": value} for name, value in study.spread.model_dump().items()
    ]
    components += [
        {"component": f"slope:{name}", "value": float(value) if np.isfinite(value) else None}
        for name, value in zip(study.names, study.slopes, strict=True)
    ]
    return {
        "images_needed": needed,
        "detectable": smallest,
        "power_simulated": simulated,
        "several_models": several,
        "models_compared": compared,
        "variance": components,
    }


def curve(study: Power, effect: float, at: int, ns: Sequence[int]) -> list[float]:
    """Power of size number ``at`` with each number of images."""
    test = study.test(study.powers[0])
    seen = effect * study.slope
    return [power_at(n, seen, study.variances[at], test) for n in ns]


def _ends(found: Estimate) -> dict[str, float | None]:
    return {"value": found.value, "low": found.low, "high": found.high}

"""What people say of facts beside what panels of judges say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.human_ratings.measures import cohen
from scenewright.evals.human_ratings.units import Unit, Units
from scenewright.evals.statistics.figures import Bootstrap, Figure


class PanelAgreement(BaseModel):
    """One panel's verdicts against the majority of the raters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    panel: str
    """Name of the panel."""
    same: Figure
    """Share of facts on which both say the same; ``n`` counts facts."""
    kappa: Figure
    """Cohen's κ of the two."""
    sensitivity: Figure
    """Of the facts that hold by people's majority, the share that the panel finds."""
    specificity: Figure
    """Of those that do not hold, the share that the panel denies."""
    ties: int = Field(ge=0)
    """Facts of which as many raters said yes as no: left out."""
    unscored: int = Field(ge=0)
    """Rated facts without a verdict: left out."""


def panel_agreement(
    panel: str, verdicts: Mapping[Unit, float], units: Units, boot: Bootstrap
) -> PanelAgreement:
    """``verdicts`` (1 or 0 a fact) of a ``panel`` against the ratings in ``units``."""
    there = ~np.isnan(units.values)
    votes = there.sum(1)
    yes = np.nansum(units.values, axis=1)
    tied = (2 * yes == votes) & (votes > 0)
    said = np.array([verdicts.get(key, np.nan) for key in units.keys])
    silent = np.isnan(said) & (votes > 0) & ~tied
    usable = (votes > 0) & ~tied & ~silent
    at, machine = units.items[usable], said[usable]
    human = (2 * yes[usable] > votes[usable]).astype(np.float64)
    found = {
        "same": boot.share(at, machine == human) if len(at) else Figure(value=None),
        "kappa": cohen(boot, at, human, machine),
    }
    for name, side in (("sensitivity", 1.0), ("specificity", 0.0)):
        these = human == side
        found[name] = (
            boot.share(at[these], machine[these] == side) if these.any() else Figure(value=None)
        )
    return PanelAgreement(panel=panel, ties=int(tied.sum()), unscored=int(silent.sum()), **found)

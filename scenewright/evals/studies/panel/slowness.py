"""Judges that are slow: what a time limit loses, and what it saves.

A judge answers all facts of an image in one call. Judges are asked at the same time, so an image
takes as long as its slowest judge, or the limit; a call that takes longer than the limit leaves all
its facts unscored for that judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A table under a time limit."""

    limit: float
    """Seconds; infinite: none."""
    table: AnswerTable
    """What is left of the answers."""
    lost: float
    """Share of the answers that were given up."""
    wall: Array
    """Seconds of each image, (n_images,); NaN for one that was not asked about."""


def call_seconds(table: AnswerTable) -> Array | None:
    """Seconds of each judge's call for each image, (n_images, n_judges), NaN where it was not
    asked; None where the table has no times."""
    if not (np.nan_to_num(table.seconds) > 0.0).any():
        return None
    return _by_image(table, np.nan_to_num(table.seconds))


def modelled_seconds(table: AnswerTable, median: float, spread: float, seed: int = 0) -> Array:
    """The same, drawn log-normal with that median (seconds) and standard deviation of the logarithm
    (0.5 is a steady server, 1 one with a heavy tail). Raises ``PanelStudyError`` for numbers that
    are not positive, or a negative spread."""
    if not (median > 0.0 and spread >= 0.0):
        raise PanelStudyError(f"a median of {median} s and a spread of {spread}: use positive ones")
    asked = _by_image(table, np.ones(table.said.shape))
    rng = np.random.default_rng([seed, 7])
    drawn = median * np.exp(spread * rng.standard_normal(asked.shape))
    found: Array = np.where(np.isnan(asked), np.nan, drawn)
    return found


def cut_off(table: AnswerTable, seconds: Array, limits: Sequence[float]) -> list[Cut]:
    """The table under each of the ``limits``, by the ``seconds`` (n_images, n_judges) of calls."""
    found = []
    answered = ~np.isnan(table.said)
    for limit in limits:
        late = (np.nan_to_num(seconds, nan=0.0) > limit)[table.image_of]
        said = np.where(late, np.nan, table.said)
        capped = np.minimum(seconds, limit)
        known = ~np.isnan(capped).all(1)
        wall = np.full(len(capped), np.nan)
        wall[known] = np.nanmax(capped[known], axis=1)
        found.append(
            Cut(
                limit=float(limit),
                table=replace(table, said=said, votes=np.where(late, np.nan, table.votes)),
                lost=float((late & answered).sum() / max(1, answered.sum())),
                wall=wall,
            )
        )
    return found


def _by_image(table: AnswerTable, values: Array) -> Array:
    shape = (len(table.images), len(table.judges))
    sums, asked = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, table.image_of, np.where(table.asked, values, 0.0))
    np.add.at(asked, table.image_of, table.asked.astype(float))
    found: Array = np.where(asked > 0, sums, np.nan)
    return found

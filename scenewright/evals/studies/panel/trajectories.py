"""Loops in a table: what was kept after each round, by those who steered and by those who did not.

Kept after round r is the picture of rounds 0 to r that the steering judges score highest, the
earliest of equals. A loop that ended keeps what it had, so that all loops count in all rounds and
the easy ones, which end early, do not fall out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.panel.resampling import DECIMALS
from scenewright.evals.studies.panel.selection import mean_of, ratio
from scenewright.evals.studies.panel.table import AnswerTable, Places


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Pictures that loops kept."""

    kept: Places
    """Number of the image that each loop keeps after each round, (n_loops, n_rounds)."""
    drew: Array
    """Whether the loop drew in that round, (n_loops, n_rounds)."""
    items: Places
    """Number of each loop's item, (n_loops,)."""

    @property
    def rounds(self) -> int:
        """How many rounds the longest loop has."""
        return int(self.kept.shape[1])


def trajectories_of(table: AnswerTable, steering: Array) -> Trajectories:
    """The loops of ``table``; ``steering``: score by those who steered, (n_images,).

    Models that never drew a second round are no loops. Where one item and model has several
    pictures of a round, as with several seeds, the first of each round make one loop, the second
    another, and so on. Loops without a scored round 0 are left out.
    """
    looped = {image.model for image in table.images if (image.round or 0) > 0}
    seen: dict[tuple[str, str, int], int] = {}
    loops: dict[tuple[str, str, int], dict[int, int]] = {}
    for at, image in enumerate(table.images):
        if image.round is None or image.model not in looped or np.isnan(steering[at]):
            continue
        number = seen.get((image.item, image.model, image.round), 0)
        seen[image.item, image.model, image.round] = number + 1
        loops.setdefault((image.item, image.model, number), {})[image.round] = at
    found = [rounds for rounds in loops.values() if 0 in rounds]
    n = 1 + max((max(rounds) for rounds in found), default=-1)
    kept = np.zeros((len(found), n), np.intp)
    drew = np.zeros((len(found), n))
    score = np.round(steering, DECIMALS)
    for loop, rounds in enumerate(found):
        best = rounds[0]
        for number in range(n):
            if number in rounds:
                drew[loop, number] = 1.0
                if score[rounds[number]] > score[best]:
                    best = rounds[number]
            kept[loop, number] = best
    items = np.array([table.item_of_image[row[0]] for row in kept], np.intp)
    return Trajectories(kept, drew, items)


@dataclass(frozen=True, slots=True)
class Round:
    """What is kept after a round, by one reporter against those who steered. Scores in [0, 1]."""

    round: int
    """Its number, from 0."""
    drew: int
    """Loops that drew in it."""
    steering: Figure
    """Mean score of the kept pictures by those who steered."""
    reporting: Figure
    """By the reporter."""
    gain: Figure
    """Change of ``steering`` from round 0, in its unit."""
    reported: Figure
    """Change of ``reporting`` from round 0, in its unit."""
    gap: Figure
    """``gain`` − ``reported``: what nobody else sees."""
    confirmed: Figure
    """``reported`` / ``gain``; no value unless there is a gain."""


def rounds_of(
    loops: Trajectories,
    steering: Array,
    reporting: Array,
    bootstrap: Bootstrap,
    units: tuple[float, float] = (1.0, 1.0),
) -> tuple[Round, ...]:
    """One entry a round; both scores (n_images,). Gains are divided by the ``units`` of the two
    scores. Loops in which the reporter lacks a score of a kept picture are left out of gains."""
    s, r = steering[loops.kept], reporting[loops.kept]
    found = []
    for number in range(loops.rounds):
        known = ~np.isnan(r[:, number] + r[:, 0])
        gain = np.where(known, s[:, number] - s[:, 0], np.nan) / units[0]
        reported = (r[:, number] - r[:, 0]) / units[1]

        def mean(values: Array) -> Figure:
            return mean_of(loops.items, values, bootstrap)

        found.append(
            Round(
                round=number,
                drew=int(loops.drew[:, number].sum()),
                steering=mean(s[:, number]),
                reporting=mean(r[:, number]),
                gain=mean(gain),
                reported=mean(reported),
                gap=mean(gain - reported),
                confirmed=ratio(loops.items, reported, gain, bootstrap),
            )
        )
    return tuple(found)


def columns_of(table: AnswerTable, loop_judges: Sequence[str]) -> tuple[list[int], list[int]]:
    """Columns of the judges that steered, and of the others."""
    steered = [at for at, judge in enumerate(table.judge_ids) if judge in set(loop_judges)]
    return steered, [at for at in range(len(table.judges)) if at not in steered]

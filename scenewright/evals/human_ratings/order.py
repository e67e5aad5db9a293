"""In which order a rater meets the tasks, and the candidates of each."""

from __future__ import annotations

import random
from dataclasses import dataclass

from scenewright.evals.human_ratings.study import RatingStudy

GAP = 10
"""Fewest tasks between the two showings of a repeated one, where there are so many."""


@dataclass(frozen=True, slots=True)
class Place:
    """One showing of a task."""

    task: int
    """Its index among the tasks of the study."""
    slots: tuple[int, ...]
    """Which candidate stands at each position."""
    repeat: bool
    """Whether the rater has met the task before."""


def order_for(study: RatingStudy, rater: str) -> tuple[Place, ...]:
    """The showings for the rater of that name.

    The same seed and name give the same order, and other names give others. Of all tasks a share
    ``study.repeats`` comes a second time, with its candidates shuffled anew and at least
    :data:`GAP` tasks later where the study is long enough.
    """
    rng = random.Random(f"{study.seed}\n{rater}")
    tasks = list(range(len(study.tasks)))
    rng.shuffle(tasks)
    wanted = round(study.repeats * len(tasks))
    gap = min(GAP, len(tasks) // 2)
    early = max(len(tasks) - gap, wanted)
    again = sorted(rng.sample(range(early), wanted))
    keyed = [(float(at), at, False) for at in range(len(tasks))]
    for at in again:
        # Between two whole numbers, so that the order is never left to chance.
        after = rng.uniform(at + gap, max(at + gap, len(tasks) - 1)) + rng.uniform(0.01, 0.99)
        keyed.append((after, at, True))
    places = []
    for _, at, repeat in sorted(keyed):
        slots = list(range(len(study.tasks[tasks[at]].candidates)))
        rng.shuffle(slots)
        places.append(Place(tasks[at], tuple(slots), repeat))
    return tuple(places)

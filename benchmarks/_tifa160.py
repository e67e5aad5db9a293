"""TIFA160 with human ratings, image by image: what three released judges said to DSG's questions.

Read by :mod:`scenewright.evals.studies.panel.sources.dsg_release`, which tells what the release is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release
from scenewright.evals.studies.peers.published import UNASKED

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "dsg"


@dataclass(frozen=True, slots=True)
class Question:
    """One yes/no question of a prompt; yes says that the fact holds."""

    id: int
    """Its number within the prompt, from 1."""
    text: str
    """As the judges were asked."""
    category: str
    """``entity``, ``attribute``, ``relation``, ``action``, ``global`` or ``other``."""
    parents: tuple[int, ...]
    """Places in the image's ``questions`` that it depends on; all lie before it."""


@dataclass(frozen=True)
class RatedImage:
    """One image: its questions, the judges' answers and the human rating."""

    prompt: str
    """Id of the prompt."""
    model: str
    """The text-to-image model that drew it."""
    questions: tuple[Question, ...]
    """Parents before their children; empty if it was never asked about."""
    answers: NDArray[np.float64]
    """(n_questions, n_judges) in the order of ``JUDGES``: 1 yes, 0 no, NaN neither."""
    ratings: tuple[float, ...]
    """One a rater, 1 (worst) to 5."""

    @cached_property
    def rating(self) -> float:
        """Mean over the raters."""
        return float(np.mean(self.ratings))


def published_score(image: RatedImage, judge: int) -> float:
    """The score of one judge as in the published evaluation, in [0, 1].

    The mean over questions of *said yes, and so to every parent*. Parents count by what was
    answered, even where they were set to 0 themselves; an answer that is neither yes nor no
    counts as no; an image without questions scores ``UNASKED``.
    """
    if not image.questions:
        return UNASKED
    said = image.answers[:, judge] == 1.0
    kept = [said[at] and all(said[list(q.parents)]) for at, q in enumerate(image.questions)]
    return float(np.mean(kept))


def load(folder: Path = DATA) -> list[RatedImage]:
    """All rated images in the release's ``folder``, by prompt and model.

    Raises ``PanelStudyError`` as :func:`load_dsg_release` does.
    """
    table = load_dsg_release(folder)
    rows: list[list[int]] = [[] for _ in table.images]
    for row, fact in enumerate(table.facts):
        rows[fact.image].append(row)
    return [
        RatedImage(
            prompt=image.item,
            model=image.model,
            questions=tuple(
                Question(
                    int(table.facts[row].id),
                    table.facts[row].question,
                    table.facts[row].group,
                    tuple(parent - mine[0] for parent in table.facts[row].parents),
                )
                for row in mine
            ),
            answers=table.said[mine],
            ratings=image.ratings,
        )
        for image, mine in zip(table.images, rows, strict=True)
    ]

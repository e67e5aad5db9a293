"""An image's answer drawn towards those to the same question about the item's other images.

``(n·p + pull·p̄) / (n + pull)``, with the mean p of the n judges who answered and the mean p̄ of such
means over the other images of the item. Judges say yes too easily; an image that got a yes to
everything is worth less where others fail, since the question (or the prompt) is a difficult one.
No truth and no rating is used, but several images of an item are needed: where a question was asked
about one image only, the mean is left as it is.

What it does not do: it moves all images of an item alike, so that it helps to compare images of
different prompts, and tells nothing new about two images of one prompt.
"""

from __future__ import annotations

import numpy as np

from scenewright.agents.panel.aggregation import Array, mean_probability
from scenewright.evals.studies.panel.aggregators.base import Aggregator
from scenewright.evals.studies.panel.aggregators.evidence import mean_of_others, questions_of
from scenewright.evals.studies.panel.aggregators.plain import Plain
from scenewright.evals.studies.panel.table import Places

PULL = 1.0
"""The other images together count as much as one more judge."""


def drawn_to_others(said: Array, questions: Places, pull: float = PULL) -> Array:
    """The formula above for ``said`` (n_facts, n_judges), (n_facts,); NaN where nobody answered.

    ``questions`` (n_facts,) numbers the questions from 0.
    """
    own, n = mean_probability(said), (~np.isnan(said)).sum(1)
    others, _ = mean_of_others(own, questions)
    drawn = (n * own + pull * others) / np.maximum(n + pull, 1.0)
    result: Array = np.where(np.isnan(others) | (n == 0), own, drawn)
    return result


def same_question() -> Aggregator:
    """The mean drawn towards that of the item's other images."""
    return Plain(
        "same_question", "answers", lambda table: drawn_to_others(table.said, questions_of(table))
    )

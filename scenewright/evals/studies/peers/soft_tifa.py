"""Soft-TIFA (GenEval 2, Kamath et al., 2025): means of the probabilities of the right answers.

The arithmetic mean over a prompt's questions says how many of its atoms a picture shows (Soft-TIFA
AM); the geometric mean says whether it shows all of them, since one that is missing pulls it to
nothing (Soft-TIFA GM). Questions do not depend on each other: nothing is void.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Answer, Fact
from scenewright.evals.metrics.options import text
from scenewright.evals.studies.peers.item_questions import QuestionSource, ledger_in
from scenewright.evals.studies.peers.panel_metric import MetricJudges, metric_judges_of
from scenewright.evals.studies.peers.question_metric import QuestionMetric, questions_folder
from scenewright.evals.studies.peers.tifa_questions import TifaMaker
from scenewright.evals.studies.peers.writing import model_of

MEANS = ("arithmetic", "geometric")


class SoftTifa(QuestionMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "soft_tifa"
    maker = 2

    def __init__(
        self, bench: MetricJudges, asker: QuestionSource, mean: str = "arithmetic"
    ) -> None:
        """``mean``: of :data:`MEANS`; raises ``MetricError`` for another."""
        super().__init__(bench, asker, "probabilities")
        self._mean = text("mean", mean, MEANS)

    def wording(self) -> str:
        """Which mean, and what is asked."""
        return f"{self._mean} {super().wording()}"

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """The mean; see :func:`soft_tifa` for unscored questions."""
        return soft_tifa(likely, self._mean)

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """``am`` and ``gm``: both means by the aggregator."""
        return {"am": soft_tifa(likely, "arithmetic"), "gm": soft_tifa(likely, "geometric")}


def soft_tifa(likely: Array, mean: str = "arithmetic") -> float | None:
    """Arithmetic or ``geometric`` mean of the probabilities (n_facts,), NaN where nobody answered.

    The arithmetic mean is that of the others, None without any. The geometric one says whether all
    hold, which an unknown answer leaves open: None, unless one that is known is 0 already.
    """
    known = likely[~np.isnan(likely)]
    if mean == "geometric" and len(known) < len(likely):
        return 0.0 if (known == 0.0).any() else None
    if not len(known):
        return None
    if mean == "arithmetic":
        return float(known.mean())
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(known).mean()))


def make(
    settings: Settings | None,
    mean: Any = "arithmetic",
    questions: Any = "auto",
    chat: Any = None,
    protocol: Any = "scene-bench",
    judges: Any = None,
    profile: Any = None,
    aggregator: Any = "mean",
    folder: Any = None,
) -> SoftTifa:
    """The metric of the registry; raises ``MetricError`` for a wrong option."""
    here = settings or load_settings()
    bench = metric_judges_of(SoftTifa.name, here, judges, profile, aggregator, folder)
    maker = None
    if chat is not None:
        # The questions that TIFA filters: of one model and folder they are written once for both.
        maker = TifaMaker(
            ledger_in(questions_folder(folder)), model_of(SoftTifa.name, chat, here), "choice"
        )
    return SoftTifa(bench, QuestionSource(questions, maker, protocol, shuffled=True), mean)

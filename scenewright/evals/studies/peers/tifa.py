"""TIFA (Hu et al., ICCV 2023): the share of questions that a picture answers as its text does.

Questions are yes/no or multiple choice and do not depend on each other. The published code lets a
visual question answering model answer freely and takes the choice that a sentence model finds
nearest; judges here are given the choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Answer, Fact
from scenewright.evals.studies.peers.item_questions import QuestionSource, ledger_in
from scenewright.evals.studies.peers.panel_metric import metric_judges_of
from scenewright.evals.studies.peers.question_metric import QuestionMetric, questions_folder
from scenewright.evals.studies.peers.tifa_questions import TifaMaker
from scenewright.evals.studies.peers.writing import model_of


class Tifa(QuestionMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "tifa"

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """:func:`tifa_score`."""
        return tifa_score(likely)

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """``type:NAME``: the mean over the questions about elements of one type, by the
        aggregator; without types by kind of fact."""
        types = np.array([fact.key or fact.kind for fact in facts])
        return {
            f"type:{name}": self.reduce(facts, likely[types == name])
            for name in sorted(set(types.tolist()))
        }


def tifa_score(likely: Array) -> float | None:
    """Mean of ``likely`` (n_questions,) without NaN, which is a question that nobody answered;
    None without any."""
    known = likely[~np.isnan(likely)]
    return float(known.mean()) if len(known) else None


def make(
    settings: Settings | None,
    questions: Any = "auto",
    chat: Any = None,
    filter: Any = "choice",
    protocol: Any = "scene-bench",
    order: Any = "dealt",
    count: Any = "choices",
    judges: Any = None,
    profile: Any = None,
    aggregator: Any = "mean",
    folder: Any = None,
) -> Tifa:
    """The metric of the registry; raises ``MetricError`` for a wrong option."""
    from scenewright.evals.metrics.options import text

    here = settings or load_settings()
    text("order", order, ("dealt", "given"))
    maker = None
    if chat is not None:
        model = model_of(Tifa.name, chat, here)
        maker = TifaMaker(ledger_in(questions_folder(folder)), model, filter)
    asker = QuestionSource(questions, maker, protocol, shuffled=order == "dealt")
    return Tifa(
        metric_judges_of(Tifa.name, here, judges, profile, aggregator, folder), asker, count
    )

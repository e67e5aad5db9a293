"""DSG (Cho et al., ICLR 2024): the share of a graph of yes/no questions that a picture says yes
to, where nothing counts whose parent was denied.

Each voter's parents are its own: a judge that sees no motorcycle gets nothing for saying that it is
blue. A question under a void one is void too; the published code looks at the parent's own answer
alone (:func:`scenewright.evals.studies.peers.published.published_scores`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import FACT_KINDS, Answer, Fact
from scenewright.evals.studies.peers.dsg_questions import DsgMaker
from scenewright.evals.studies.peers.item_questions import QuestionSource, ledger_in
from scenewright.evals.studies.peers.panel_metric import metric_judges_of
from scenewright.evals.studies.peers.question_metric import QuestionMetric, questions_folder
from scenewright.evals.studies.peers.writing import model_of


class Dsg(QuestionMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "dsg"

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """:func:`dsg_score`."""
        return dsg_score(facts, likely)

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """``kind:object``, ``kind:attribute`` and ``kind:relation``: the mean over facts of one
        kind, by the aggregator; ``void``: how many facts are."""
        kept = voided(facts, likely)
        kinds = np.array([fact.kind for fact in facts])
        parts: dict[str, float | None] = {}
        for kind in FACT_KINDS:
            mine = kept[(kinds == kind) & ~np.isnan(kept)]
            parts[f"kind:{kind}"] = float(mine.mean()) if len(mine) else None
        return {**parts, "void": float(len(void_rows(facts, likely)))}


def dsg_score(facts: Sequence[Fact], likely: Array) -> float | None:
    """Mean of ``likely`` (n_facts,) over the facts that were answered or are void, which count 0;
    None where nothing was answered. Order of ``facts`` and NaN: see :func:`voided`."""
    if np.isnan(likely).all():
        return None
    return float(np.nanmean(voided(facts, likely)))


def voided(facts: Sequence[Fact], likely: Array) -> Array:
    """``likely`` (n_facts,) with 0 for every fact that is void.

    ``facts`` lists parents before their children. A parent that nobody could judge (NaN) voids
    nothing; one that is not among the facts neither.
    """
    found = np.array(likely, float)
    found[void_rows(facts, likely)] = 0.0
    return found


def void_rows(facts: Sequence[Fact], likely: Array) -> list[int]:
    """Rows of the facts under a parent that is void itself or not above ½."""
    row_of = {fact.id: row for row, fact in enumerate(facts)}
    denied: set[int] = set()
    void: list[int] = []
    for row, fact in enumerate(facts):
        if any(row_of.get(parent) in denied for parent in fact.parents):
            void.append(row)
            denied.add(row)
        elif likely[row] <= THRESHOLD:
            denied.add(row)
    return void


def make(
    settings: Settings | None,
    questions: Any = "auto",
    chat: Any = None,
    # The questions of scene-bench do not depend on each other, and this score does on that.
    protocol: Any = "grounded",
    count: Any = "choices",
    judges: Any = None,
    profile: Any = None,
    aggregator: Any = "mean",
    folder: Any = None,
) -> Dsg:
    """The metric of the registry; raises ``MetricError`` for a wrong option."""
    here = settings or load_settings()
    maker = None
    if chat is not None:
        maker = DsgMaker(ledger_in(questions_folder(folder)), model_of(Dsg.name, chat, here))
    asker = QuestionSource(questions, maker, protocol)
    return Dsg(metric_judges_of(Dsg.name, here, judges, profile, aggregator, folder), asker, count)

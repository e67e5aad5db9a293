"""What the study of a panel's composition measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.members import OfSize
from scenewright.evals.studies.panel.metric_evaluator import Measure
from scenewright.evals.studies.panel.pairs import Pair
from scenewright.evals.studies.panel.subsets import Members
from scenewright.evals.studies.panel.table import AnswerTable
from scenewright.evals.studies.panel.wording import joined, short_names

PRICES = {"usd": "dollars", "tokens": "tokens", "judges": "judges"}
"""What panels are paid in → in words."""


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """What was measured."""

    table: AnswerTable
    names: tuple[str, ...]
    """Aggregators, the main one first."""
    measure: Measure
    """By which panels are compared."""
    margin: float
    """A loss surely smaller than this is none."""
    complete: bool
    """Whether every panel was measured."""
    panels: tuple[Members, ...]
    figures: Mapping[tuple[str, Measure, Members], Figure]
    """Of every panel."""
    scored: Mapping[tuple[str, Members], float]
    """Share of the facts that a panel has a probability for."""
    sizes: Mapping[str, tuple[OfSize, ...]]
    """By aggregator."""
    over_best: tuple[Members, Figure] | None
    """The best single judge, and the full panel less it."""
    adds: Mapping[str, tuple[Figure, ...]]
    """By aggregator: the full panel less that without each judge."""
    shapley: tuple[Figure, ...]
    """Of the main aggregator; empty unless every panel was measured."""
    reliability: Mapping[Members, Figure]
    """Only where no quality can be measured."""
    pairs: Mapping[Pair, Figure]
    """Correlation of errors, or κ of votes."""
    pairs_are_errors: bool
    """Which of the two."""
    all_pairs: Figure | None
    within: Figure | None
    """Mean of the pairs within a family."""
    between: Figure | None
    families: Figure | None
    """``within`` less ``between``."""
    family_pairs: Figure | None
    """What pairs of one family gain over the mean of their two members, on average."""
    mixed_pairs: Figure | None
    """What pairs of two families gain."""
    family_gain: Figure | None
    """Mixed less family pairs."""
    costs: Mapping[str, Array]
    cost: Mapping[Members, Mapping[str, float]]
    """For an image: ``usd``, ``tokens`` and ``seconds`` where they are known."""
    price: str
    """What ``prices`` are in: a key of :data:`PRICES`."""
    prices: Mapping[Members, float]
    as_good: tuple[Members, Figure] | None
    """The cheapest panel that is as good as the full one, and its difference from it."""
    notes: tuple[str, ...]

    @property
    def everyone(self) -> Members:
        """The full panel."""
        return tuple(range(len(self.table.judges)))

    @property
    def short(self) -> tuple[str, ...]:
        """Names of the judges, for people."""
        return short_names(self.table.judge_ids)

    def named(self, members: Members) -> str:
        """The judges of a panel."""
        return joined([self.short[at] for at in members])

    def figure(self, members: Members, name: str = "", measure: Measure | None = None) -> Figure:
        """Of a panel, by default by the main aggregator and measure."""
        return self.figures[name or self.names[0], measure or self.measure, members]

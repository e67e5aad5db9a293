"""What the study of quorum, abstention and cascades measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scenewright.evals.statistics.estimates import number
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.cascades import Plan
from scenewright.evals.studies.panel.metric_evaluator import Measure
from scenewright.evals.studies.panel.table import AnswerTable
from scenewright.evals.studies.panel.wording import joined, short_names


@dataclass(frozen=True, slots=True)
class Quorum:
    """A quorum at a share of missing answers."""

    missing: float
    """Share of answers taken away at random."""
    quorum: int
    """Fewest judges that a verdict needs."""
    scored: Figure
    """Share of facts that get a verdict."""
    quality: Figure
    """Of those."""
    gain: Figure
    """Against a quorum of one, paired."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A bound beyond which the panel abstains."""

    kind: Literal["", "threshold", "spread"]
    """Empty: it never does."""
    bound: float | None
    """t or d; None without a rule."""
    coverage: Figure
    """Share of the judged facts that keep their verdict."""
    quality: Figure
    """Of those."""
    gain: Figure
    """Against no rule, paired."""


@dataclass(frozen=True, slots=True)
class Abstaining:
    """What a voter gains by abstaining from what it is least sure of."""

    voter: str
    """An aggregator's name, or a judge's id."""
    kind: Literal["margin", "spread", "judge"]
    """How the panel's sureness is told: by its probability's distance from ½, or by how little its
    judges differ; a judge's by its own probability."""
    accuracy: Figure
    """With a verdict on every fact."""
    area: Figure
    """Area under the risk–coverage curve."""
    more_area: Figure
    """Less that of the panel by its margin, paired."""
    saved: Figure
    """Share of the risk that the order takes away: 1 − area / risk; 0 for an order by chance."""
    at: Mapping[float, Figure]
    """Coverage → accuracy."""
    gains: Mapping[float, Figure]
    """Coverage → that less ``accuracy``, paired."""


@dataclass(frozen=True, slots=True)
class OfPlan:
    """A panel or a cascade with intervals."""

    plan: Plan | None
    """None for the two that were chosen on halves of the items."""
    quality: Figure
    gap: Figure
    """Less that of the full panel, paired."""
    cost: Mapping[str, Figure]
    """For an image."""
    saved: Mapping[str, Figure]
    """Share of the full panel's cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Cascading:
    """Panels and cascades against their cost."""

    cost: str
    """What is to be saved."""
    costs: tuple[str, ...]
    """What is known of: of ``calls``, ``answers``, ``tokens``, ``usd``."""
    points: Mapping[Plan, tuple[float, Mapping[str, float]]]
    """Plan → its quality, and its costs for an image."""
    fronts: Mapping[str, tuple[Plan, ...]]
    """Cost → the Pareto frontier, cheapest first."""
    plans: Mapping[Plan, OfPlan]
    """The full panel, single judges, and those on a frontier."""
    chosen: tuple[OfPlan, tuple[Plan, Plan]] | None
    """The plan for each half of the items that was cheapest on the other half."""


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Everything."""

    table: AnswerTable
    names: tuple[str, ...]
    """Aggregators, the main one first."""
    measure: Measure
    margin: float
    """Quality that may be given up."""
    quorums: tuple[Quorum, ...]
    rules: tuple[Rule, ...]
    """The first is no rule."""
    abstaining: tuple[Abstaining, ...]
    """The main aggregator first; empty without truth."""
    observed_missing: float
    """Share of the asked answers that the table itself lacks."""
    complete: bool
    """Whether every cascade of the judges was walked."""
    cascades: Cascading
    notes: tuple[str, ...]

    @property
    def full(self) -> Plan:
        """All judges."""
        return Plan(tuple(range(len(self.table.judges))))

    def named(self, plan: Plan) -> str:
        """A plan in words."""
        names = short_names(self.table.judge_ids)
        first = joined([names[at] for at in plan.first])
        if not plan.others:
            return first
        low, high = (number(bound, 2) for bound in plan.unsure)
        others = joined([names[at] for at in plan.others])
        return f"{first}; within {low}–{high} also {others}"

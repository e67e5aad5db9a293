"""Simulated judges that pick the best of several pictures: the curse where all is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import dawid_skene
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.panel.selection import (
    Gains,
    candidate_sets,
    gains_of,
    judge_scores,
    mean_of,
    ratio,
    slopes,
    true_scores,
)
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import AnswerTable

Curve = dict[int, tuple[Figure, Figure, Figure]]
"""Of how many candidates the best is picked → gain as the picking judge, the others and the truth
see it, over all judges as pickers."""


@dataclass(frozen=True, slots=True)
class PanelLike:
    """What the simulated judges have of those of a table."""

    judges: tuple[SimulatedJudge, ...]
    """With their error rates, of one family."""
    prevalence: float
    """Share of facts that hold."""
    facts: int
    """Facts of a picture."""
    source: str
    """Where the rates come from, in words."""


def panel_like(table: AnswerTable) -> PanelLike:
    """By the truth of ``table`` where it is known, else by Dawid–Skene."""
    holds, fails = table.truth == 1.0, table.truth == 0.0
    if holds.any() and fails.any():
        answered = ~np.isnan(table.votes)
        votes = np.where(answered, table.votes, 0.0)
        sensitivity = (votes[holds].sum(0) + 0.5) / (answered[holds].sum(0) + 1.0)
        specificity = ((answered - votes)[fails].sum(0) + 0.5) / (answered[fails].sum(0) + 1.0)
        prevalence = float(holds.sum() / (holds.sum() + fails.sum()))
        source = "measured on the facts of known truth"
    else:
        found = dawid_skene(table.votes)
        sensitivity, specificity = found.sensitivity, found.specificity
        prevalence = found.prevalence
        source = "estimated from the answers alone (Dawid–Skene)"
    judges = tuple(
        SimulatedJudge(
            id=judge,
            family="one",
            sensitivity=float(np.clip(np.nan_to_num(se, nan=0.5), 0.01, 0.99)),
            specificity=float(np.clip(np.nan_to_num(sp, nan=0.5), 0.01, 0.99)),
        )
        for judge, se, sp in zip(table.judge_ids, sensitivity, specificity, strict=True)
    )
    share = 0.5 if np.isnan(prevalence) else float(np.clip(prevalence, 0.05, 0.95))
    facts = max(1, round(len(table.facts) / max(1, len(np.unique(table.image_of)))))
    return PanelLike(judges, share, facts, source)


def simulated_picks(
    panel: PanelLike,
    rho: float,
    *,
    items: int,
    candidates: int,
    spread: float,
    seed: int,
    resamples: int,
) -> tuple[Curve, tuple[Figure, Figure]]:
    """Gains on the scale of the truth, and (others / own, truth / own) at the most candidates.

    ``rho``: correlation of the judges' errors; ``spread``: of the candidates' quality, as
    ``SimulationSpec.image_spread``.
    """
    spec = SimulationSpec(
        judges=tuple(judge.model_copy(update={"correlation": rho}) for judge in panel.judges),
        n_items=items,
        models=tuple(
            SimulatedModel(id=f"candidate {at + 1}", prevalence=panel.prevalence)
            for at in range(candidates)
        ),
        objects=panel.facts,
        attributes=0,
        relations=0,
        image_spread=spread,
        seed=seed,
    )
    table = simulate(spec)
    n = len(panel.judges)
    scores = judge_scores(table) / slopes(table, table.said)
    sets, _ = candidate_sets(table, scores)
    reporters = np.column_stack([scores, true_scores(table)])
    bootstrap = Bootstrap(table.n_items, seed, resamples)
    found: Curve = {}
    for number in range(1, candidates + 1):
        found[number] = curve_point(gains_of(table, sets, reporters, n, number), bootstrap)
    last = gains_of(table, sets, reporters, n, candidates)
    rows = np.repeat(last.items, n)
    own, others, true = last.own().ravel(), last.others().ravel(), last.gains[:, :, n].ravel()
    return found, (ratio(rows, others, own, bootstrap), ratio(rows, true, own, bootstrap))


def curve_point(gains: Gains, bootstrap: Bootstrap) -> tuple[Figure, Figure, Figure]:
    """(own, others, true) gain, over all judges as pickers; the truth is the first reporter after
    the judges."""
    items = np.repeat(gains.items, gains.judges)
    true = gains.gains[:, :, gains.judges].ravel()
    return (
        mean_of(items, gains.own().ravel(), bootstrap),
        mean_of(items, gains.others().ravel(), bootstrap),
        mean_of(items, true, bootstrap),
    )

"""What a cascade settles by its first judge alone, and whether it is as seldom wrong as promised.

``python -m benchmarks.guarantee [--quick]``. One judge answers all facts; its verdicts are accepted
beyond bounds that are chosen on labelled pictures so that accepted ones are wrong in at most 5 %
(``scenewright/agents/panel/guarantee.py``), and three other judges are asked what lies between. In
each of 200 resamples half of the pictures choose the bounds and the other half are judged by them:

- ``share``: resamples in which accepted verdicts are wrong in at most 5 %;
- ``coverage``: share of the facts whose verdict is accepted; ``risk``: share of the accepted that
  are wrong; both are means over resamples;
- ``calls_per_image`` of four judges, asked all facts of an image at once: the first judge is called
  for every image, the others for those with an unsure fact. ``answers_per_fact`` counts answers;
- ``accuracy``: share of right verdicts of the cascade, unsure facts by the mean of all four judges.

``.miniature``: the miniature's judges on paintings whose truth is exact (judge-b first; the plain
keys are the same). ``.simulation``: judges of known errors that go together, with facts that are
hard for all of them. Floors: ``fixed``: accepted outside of .1 to .9, by no calibration;
``ask_all``: everybody is asked everything; ``first_alone``: every verdict of the first judge is
accepted.

``first_ERROR.*``: the simulation with a first judge that errs in that share of the facts of every
kind, which shows from where on a guarantee saves calls.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._harness import benchmark
from benchmarks.panels import ask_all, name_of
from scenewright.agents.panel.aggregation import mean_probability
from scenewright.agents.panel.guarantee import CascadeGuarantee, LabelledVerdicts, guarantee_of
from scenewright.core.facts import FACT_KINDS
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    VoteRates,
    simulate,
)
from scenewright.runs.model_factory.profiles import judge_of

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
RISK = 0.05
JUDGES = ("b", "a", "weak", "eager")
"""The miniature's, the first one first."""
PAINTINGS, SIMULATED, RESAMPLES = 240, 400, 200
SEED = 7011
_RATES = VoteRates(sensitivity=0.9, specificity=0.92)
SIMULATION = SimulationSpec(
    judges=(
        SimulatedJudge(
            id="decision", family="small", sensitivity=0.96, specificity=0.96, correlation=0.3,
            kinds={"relation": _RATES},
        ),
        SimulatedJudge(
            id="chat-1", family="small", sensitivity=0.95, specificity=0.94, correlation=0.3
        ),
        SimulatedJudge(id="chat-2", family="large", sensitivity=0.97, specificity=0.95,
                       correlation=0.3, temperature=2.0),
        SimulatedJudge(id="chat-3", family="large", sensitivity=0.96, specificity=0.9,
                       correlation=0.3),
    ),
    models=(SimulatedModel(id="", prevalence=0.7),),
    n_items=SIMULATED,
    objects=4, attributes=3, relations=4, dependent=False,
    image_spread=0.1, difficulty=0.4, seed=SEED,
)  # fmt: skip


FIRST_ERRORS = (0.005, 0.01, 0.02, 0.04)
"""Errors of the first judge that are tried besides."""
SHOWN = ("share", "coverage", "calls_per_image", "accuracy", "first_alone.risk")
"""Figures of these."""


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Facts of known truth and what four judges say of them."""

    said: Array
    """Probability against the strongest rival, (n_facts, 4), the first judge's first."""
    holds: Mask
    """The truth, (n_facts,)."""
    kinds: NDArray[np.str_]
    """Kind of each fact."""
    pictures: NDArray[np.intp]
    """Number of each fact's picture."""

    @property
    def everybody(self) -> Array:
        """Mean of all judges, (n_facts,)."""
        return mean_probability(self.said)

    def judged(self, rows: Mask) -> LabelledVerdicts:
        """Return the first judge's verdicts on some facts."""
        lead = self.said[rows, 0]
        return LabelledVerdicts(
            self.kinds[rows], lead, lead > 0.5, self.holds[rows], self.pictures[rows]
        )


def accepted(answered: Answered, bounds: CascadeGuarantee | tuple[float, float]) -> Mask:
    """Return the facts whose verdict by the first judge stands."""
    found = np.zeros(len(answered.holds), bool)
    for kind in FACT_KINDS:
        low, high = bounds if isinstance(bounds, tuple) else bounds.bounds(kind)
        lead = answered.said[:, 0]
        with np.errstate(invalid="ignore"):
            found |= (answered.kinds == kind) & ((lead < low) | (lead > high))
    return found


def outcome(answered: Answered, rows: Mask, settled: Mask) -> dict[str, float]:
    """Return what came of asking the others about those of ``rows`` that are not ``settled``."""
    right = (answered.said[:, 0] > 0.5) == answered.holds
    both = np.where(settled, right, (answered.everybody > 0.5) == answered.holds)
    pictures = len(np.unique(answered.pictures[rows]))
    torn = len(np.unique(answered.pictures[rows & ~settled]))
    others = answered.said.shape[1] - 1
    kept = rows & settled
    return {
        "risk": float((~right[kept]).mean()) if kept.any() else 0.0,
        "coverage": float(settled[rows].mean()),
        "calls_per_image": 1.0 + others * torn / pictures,
        "answers_per_fact": 1.0 + others * float((~settled[rows]).mean()),
        "accuracy": float(both[rows].mean()),
    }


def figures_of(answered: Answered, resamples: int) -> dict[str, float]:
    """Return all figures of one set of answers."""
    n = int(answered.pictures.max()) + 1
    rng = np.random.default_rng(SEED)
    ways: dict[str, list[dict[str, float]]] = {"": [], "fixed.": [], "first_alone.": []}
    for _ in range(resamples):
        learnt = np.zeros(n, bool)
        learnt[rng.permutation(n)[: n // 2]] = True
        rows = ~learnt[answered.pictures]
        made = guarantee_of(
            answered.judged(~rows), first=("first",), aggregation="mean", quorum=1, risk=RISK
        )
        ways[""].append(outcome(answered, rows, accepted(answered, made)))
        ways["fixed."].append(outcome(answered, rows, accepted(answered, (0.1, 0.9))))
        ways["first_alone."].append(outcome(answered, rows, accepted(answered, (0.5, 0.5))))
    figures: dict[str, float] = {}
    for way, found in ways.items():
        figures[f"{way}share"] = float(np.mean([one["risk"] <= RISK for one in found]))
        for name in found[0]:
            figures[way + name] = float(np.mean([one[name] for one in found]))
    figures["ask_all.calls_per_image"] = float(answered.said.shape[1])
    right = (answered.everybody > 0.5) == answered.holds
    figures["ask_all.accuracy"] = float(right.mean())
    return figures


def miniature(paintings: int) -> Answered:
    """Return the miniature's judges on paintings that no training saw."""
    torch.set_num_threads(1)
    judges = [judge_of(name_of(judge)) for judge in JUDGES]
    asked = asyncio.run(ask_all(judges, paintings, SEED))
    number = np.empty(len(asked.facts), np.intp)
    for at, rows in enumerate(asked.groups()):
        number[rows] = at
    said = asked.values([judge.id for judge in judges])
    return Answered(said, asked.labels == 1.0, np.array(asked.kinds), number)


def simulated(spec: SimulationSpec) -> Answered:
    """Return judges of known errors."""
    table = simulate(spec)
    return Answered(table.said, table.truth == 1.0, table.kinds, table.image_of)


def with_first(error: float, spec: SimulationSpec) -> SimulationSpec:
    """Return ``spec`` with a first judge that errs in the share ``error`` of all kinds of facts."""
    rate = 1.0 - error
    first = spec.judges[0].model_copy(
        update={"sensitivity": rate, "specificity": rate, "kinds": {}}
    )
    return spec.model_copy(update={"judges": (first, *spec.judges[1:])})


def measure(paintings: int, images: int, resamples: int) -> dict[str, Any]:
    """Return all figures."""
    painted = figures_of(miniature(paintings), resamples)
    spec = SIMULATION.model_copy(update={"n_items": images})
    drawn = figures_of(simulated(spec), resamples)
    tried: dict[str, float] = {}
    for error in FIRST_ERRORS:
        found = figures_of(simulated(with_first(error, spec)), resamples)
        tried |= {f"first_{error:g}.{name}": found[name] for name in SHOWN}
    return {
        **painted,
        **{f"{name}.miniature": value for name, value in painted.items()},
        **{f"{name}.simulation": value for name, value in drawn.items()},
        **tried,
        "pictures.miniature": paintings,
        "pictures.simulation": images,
        "resamples": resamples,
    }


@benchmark("few paintings")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the miniature's judges and simulated ones."""
    sizes = (16, SIMULATED, 20) if options.quick else (PAINTINGS, SIMULATED, RESAMPLES)
    return sizes[0], measure(*sizes)


if __name__ == "__main__":
    main()

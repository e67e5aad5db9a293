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
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._harness import benchmark, prefixed
from benchmarks._panel_scenes import labelled_table
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
from scenewright.evals.studies.panel.table import AnswerTable, Mask

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


def accepted(table: AnswerTable, bounds: CascadeGuarantee | tuple[float, float]) -> Mask:
    """Return the facts whose verdict by the first judge stands."""
    found = np.zeros(len(table.facts), bool)
    lead = table.said[:, 0]
    for kind in FACT_KINDS:
        low, high = bounds if isinstance(bounds, tuple) else bounds.bounds(kind)
        with np.errstate(invalid="ignore"):
            found |= (table.kinds == kind) & ((lead < low) | (lead > high))
    return found


def outcome(table: AnswerTable, rows: Mask, settled: Mask) -> dict[str, float]:
    """Return what came of asking the others about those of ``rows`` that are not ``settled``."""
    first, everybody = (
        (likely > 0.5) == table.truth for likely in (table.said[:, 0], mean_probability(table.said))
    )
    both = np.where(settled, first, everybody)
    pictures, torn = (len(np.unique(table.image_of[at])) for at in (rows, rows & ~settled))
    others = len(table.judges) - 1
    kept = rows & settled
    return {
        "risk": float((~first[kept]).mean()) if kept.any() else 0.0,
        "coverage": float(settled[rows].mean()),
        "calls_per_image": 1.0 + others * torn / pictures,
        "answers_per_fact": 1.0 + others * float((~settled[rows]).mean()),
        "accuracy": float(both[rows].mean()),
    }


def figures_of(table: AnswerTable, resamples: int) -> dict[str, float]:
    """Return all figures of one set of answers, the first judge's first."""
    n = len(table.images)
    rng = np.random.default_rng(SEED)
    found: dict[str, list[dict[str, float]]] = {"": [], "fixed.": [], "first_alone.": []}
    for _ in range(resamples):
        learnt = np.zeros(n, bool)
        learnt[rng.permutation(n)[: n // 2]] = True
        rows = ~learnt[table.image_of]
        lead = table.said[~rows, 0]
        known = LabelledVerdicts(
            table.kinds[~rows], lead, lead > 0.5, table.truth[~rows] == 1.0, table.image_of[~rows]
        )
        made = guarantee_of(known, first=("first",), aggregation="mean", quorum=1, risk=RISK)
        for way, bounds in zip(found, (made, (0.1, 0.9), (0.5, 0.5)), strict=True):
            found[way].append(outcome(table, rows, accepted(table, bounds)))
    figures: dict[str, float] = {}
    for way, outcomes in found.items():
        frame = pd.DataFrame(outcomes)
        figures[f"{way}share"] = float((frame["risk"] <= RISK).mean())
        figures |= prefixed(way, frame.mean().to_dict())
    everybody = (mean_probability(table.said) > 0.5) == table.truth
    figures["ask_all.calls_per_image"] = float(len(table.judges))
    figures["ask_all.accuracy"] = float(everybody.mean())
    return figures


def with_first(error: float, spec: SimulationSpec) -> SimulationSpec:
    """Return ``spec`` with a first judge that errs in the share ``error`` of all kinds of facts."""
    rate = 1.0 - error
    first = spec.judges[0].model_copy(
        update={"sensitivity": rate, "specificity": rate, "kinds": {}}
    )
    return spec.model_copy(update={"judges": (first, *spec.judges[1:])})


def measure(paintings: int, images: int, resamples: int) -> dict[str, Any]:
    """Return all figures."""
    asked = asyncio.run(labelled_table(JUDGES, paintings, SEED))
    spec = SIMULATION.model_copy(update={"n_items": images})
    painted, drawn = (figures_of(table, resamples) for table in (asked, simulate(spec)))
    figures: dict[str, Any] = dict(painted)
    for name, found in (("miniature", painted), ("simulation", drawn)):
        figures |= {f"{key}.{name}": value for key, value in found.items()}
    for error in FIRST_ERRORS:
        found = figures_of(simulate(with_first(error, spec)), resamples)
        figures |= {f"first_{error:g}.{name}": found[name] for name in SHOWN}
    sizes = {"pictures.miniature": paintings, "pictures.simulation": images}
    return figures | sizes | {"resamples": resamples}


@benchmark(
    "few paintings",
    measures=("scenewright.agents.panel.guarantee",),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure the miniature's judges and simulated ones."""
    sizes = (16, SIMULATED, 20) if options.quick else (PAINTINGS, SIMULATED, RESAMPLES)
    return sizes[0], measure(*sizes)


if __name__ == "__main__":
    main()

"""Our Dawid–Skene against crowd-kit's on the same votes, step by step.

Both take steps of EM from the share of yes votes on. Two differences are set aside here: ours is
given its least smoothing, for crowd-kit's has no prior (it keeps rates at 1e-10 or more instead);
and crowd-kit is made to take a given number of steps, for it stops by a loss that counts the prior
of a fact once for each answer, which is not what EM raises and may fall early.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scenewright.agents.panel.aggregation import Array, dawid_skene

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def crowdkit() -> Any:
    """The peer: its import takes longer than the rest of this file."""
    return pytest.importorskip("crowdkit.aggregation")


def votes(seed: int, n_facts: int, n_judges: int, answered: float) -> tuple[Array, Array]:
    """Truth and hard votes (n_facts, n_judges) of judges of Se and Sp from 0.6 to 0.95; NaN where
    there is none."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n_facts) < rng.uniform(0.35, 0.75)
    se, sp = rng.uniform(0.6, 0.95, (2, n_judges))
    said = rng.random((n_facts, n_judges)) < np.where(truth[:, None], se, 1.0 - sp)
    there = rng.random((n_facts, n_judges)) < answered
    # Facts without any vote are not in crowd-kit's tables.
    there[~there.any(1), 0] = True
    return truth.astype(float), np.where(there, said.astype(float), np.nan)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", [1, 5, 40])
@pytest.mark.parametrize(
    ("seed", "n_facts", "n_judges", "answered"),
    [(1, 200, 5, 1.0), (2, 400, 6, 1.0), (3, 300, 7, 0.7), (4, 250, 9, 0.5)],
)
def test_posteriors_rates_and_labels_are_those_of_crowd_kit(
    crowdkit: Any, seed: int, n_facts: int, n_judges: int, answered: float, steps: int
) -> None:
    truth, table = votes(seed, n_facts, n_judges, answered)
    exact = {"tolerance": 0.0, "smoothing": 1e-9}
    ours = dawid_skene(table, iterations=steps, **exact)
    # crowd-kit ends with an M step, ours with an E step: its rates are those of our next step.
    rates = dawid_skene(table, iterations=steps + 1, **exact)

    tasks, workers = np.nonzero(~np.isnan(table))
    labels = table[tasks, workers].astype(int)
    frame = pandas.DataFrame({"task": tasks, "worker": workers, "label": labels})
    theirs = crowdkit.DawidSkene(n_iter=steps, tol=-np.inf).fit(frame)
    posterior = theirs.probas_.sort_index()[1].to_numpy()
    np.testing.assert_allclose(ours.probabilities, posterior, atol=1e-6)
    assert np.array_equal(ours.probabilities > 0.5, posterior > 0.5)
    assert rates.prevalence == pytest.approx(float(theirs.priors_[1]), abs=1e-6)
    for judge in range(n_judges):
        errors = theirs.errors_.loc[judge]
        assert rates.sensitivity[judge] == pytest.approx(errors.loc[1, 1], abs=1e-6)
        assert rates.specificity[judge] == pytest.approx(errors.loc[0, 0], abs=1e-6)
    # Both found the truth, and not a common mistake.
    assert ((ours.probabilities > 0.5) == truth).mean() > 0.75

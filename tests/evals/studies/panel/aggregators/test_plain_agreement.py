"""Plain weights by agreement, without a floor against collusion."""

from __future__ import annotations

import numpy as np

from scenewright.agents.panel.aggregation import expit
from scenewright.evals.studies.panel.aggregators.agreement import (
    factor_weights,
    squared_agreement,
)


def test_plain_weights_hand_the_panel_over_to_a_clique_of_four() -> None:
    rng = np.random.default_rng(0)
    truth, invention = rng.normal(size=(2, 2000, 1))
    own = rng.normal(size=(2000, 8))
    shares = np.array([0.7**2] * 4 + [0.7] * 4)
    common = np.hstack([truth] * 4 + [invention] * 4)
    answers = expit(1.5 * (np.sqrt(shares) * common + np.sqrt(1.0 - shares) * own))
    assert squared_agreement(answers)[4:].sum() > 0.9
    assert factor_weights(answers)[4:].sum() > 0.7

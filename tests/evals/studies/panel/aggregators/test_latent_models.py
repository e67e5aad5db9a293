"""Dawid and Skene's model and its relatives, against peers, closed forms and simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scenewright.agents.panel.aggregation import Array, dawid_skene
from scenewright.evals.studies.panel.aggregators.latent import (
    effective_weights,
    family_means,
    fit_glad,
    fit_latent,
    pooling_strength,
    question_strength,
)
from scenewright.evals.studies.panel.aggregators.registry import aggregator_of
from scenewright.evals.studies.panel.simulator import SimulatedJudge, SimulationSpec, simulate
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn

pandas = pytest.importorskip("pandas")


def voted(n: int, right: tuple[float, ...], seed: int = 0) -> tuple[Array, Array]:
    """Truth (n,) and votes (n, n_judges) of judges that are right so often."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.5).astype(float)
    correct = rng.random((n, len(right))) < np.array(right)
    return truth, np.where(correct, truth[:, None], 1.0 - truth[:, None])


def as_answers(votes: Array) -> Any:
    """Votes as crowd-kit has them."""
    rows = [
        {"task": task, "worker": worker, "label": int(votes[task, worker])}
        for task, worker in np.ndindex(*votes.shape)
    ]
    return pandas.DataFrame(rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_glad_agrees_with_crowd_kit() -> None:
    crowdkit = pytest.importorskip("crowdkit.aggregation")
    truth, votes = voted(200, (0.95, 0.85, 0.75, 0.65, 0.55))
    ours = fit_glad(votes, prevalence=0.5)
    peer = crowdkit.GLAD(n_iter=15, silent=True).fit(as_answers(votes))
    theirs = peer.probas_[1].sort_index().to_numpy()
    assert np.corrcoef(ours.probabilities, theirs)[0, 1] > 0.97
    same = (ours.probabilities > 0.5) == (theirs > 0.5)
    assert same.mean() > 0.98
    alphas = peer.alphas_.sort_index().to_numpy()
    np.testing.assert_array_equal(np.argsort(ours.ability), np.argsort(alphas))
    # The best judge alone is right in 95 %: not clearly worse (two standard errors).
    assert ((ours.probabilities > 0.5) == truth).mean() >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 200)


def test_without_extras_it_is_the_model_of_the_panel() -> None:
    _, votes = voted(400, (0.95, 0.85, 0.75, 0.7))
    ours = fit_latent(votes)
    panel = dawid_skene(votes)
    np.testing.assert_allclose(ours.probabilities, panel.probabilities, atol=1e-5)
    np.testing.assert_allclose(ours.sensitivity[0], panel.sensitivity, atol=1e-5)
    np.testing.assert_allclose(ours.specificity[0], panel.specificity, atol=1e-5)
    assert ours.prevalence == pytest.approx(panel.prevalence, abs=1e-5)


def test_an_adversary_has_negative_ability_and_is_turned_round() -> None:
    truth, votes = voted(400, (0.9, 0.85, 0.1), seed=3)
    found = fit_glad(votes, prevalence=0.5)
    assert found.ability[2] < 0.0 < found.ability[1] < found.ability[0]
    assert ((found.probabilities > 0.5) == truth).mean() > 0.9


def test_glad_finds_the_difficult_questions() -> None:
    rng = np.random.default_rng(1)
    easy = np.repeat(np.arange(60) % 2 == 0, 5)
    questions = np.repeat(np.arange(60), 5)
    truth = (rng.random(300) < 0.5).astype(float)
    right = rng.random((300, 5)) < np.where(easy, 0.95, 0.6)[:, None]
    found = fit_glad(np.where(right, truth[:, None], 1.0 - truth[:, None]), questions)
    assert found.ease[::2].mean() > 1.3 * found.ease[1::2].mean()


def test_rates_by_kind_are_found_where_kinds_differ() -> None:
    rng = np.random.default_rng(2)
    kinds = np.arange(3000) % 2
    truth = (rng.random(3000) < 0.5).astype(float)
    right = np.array([[0.95, 0.9, 0.85, 0.9], [0.6, 0.9, 0.85, 0.9]])[kinds]
    correct = rng.random(right.shape) < right
    votes = np.where(correct, truth[:, None], 1.0 - truth[:, None])
    found = fit_latent(votes, kinds=kinds)
    # Three standard errors of a share of 750 facts, and what is not known of their truth.
    np.testing.assert_allclose(found.sensitivity[:, 0], [0.95, 0.6], atol=0.07)
    np.testing.assert_allclose(found.specificity[:, 0], [0.95, 0.6], atol=0.07)


@given(
    st.floats(1.5, 200.0),
    arrays(float, (3, 4), elements=st.floats(0.05, 0.95)),
)
def test_pooling_strength_is_that_of_the_moments(n: float, rates: Array) -> None:
    counts = np.full((3, 4), n)
    overall = rates.mean(0)
    found = pooling_strength(rates * n, counts, overall)
    assert 1.0 <= found <= 1e4
    # Rates that do not differ at all are one rate.
    same = np.repeat(overall[None], 3, axis=0)
    assert pooling_strength(same * n, counts, overall) == 1e4
    # A class that no fact is taken for has nothing to tell kinds apart by.
    assert pooling_strength(0.0 * counts, 0.0 * counts, overall) == 1e4


def test_question_strength_recovers_a_beta_distribution() -> None:
    rng = np.random.default_rng(0)
    prevalence = rng.beta(3.0, 2.0, 4000)
    questions = np.repeat(np.arange(4000), 5)
    holds = (rng.random(20_000) < prevalence[questions]).astype(float)
    assert question_strength(holds, questions, 0.6) == pytest.approx(5.0, rel=0.15)
    assert question_strength(holds, np.arange(20_000), 0.6) == 1e4


def test_questions_that_often_hold_lift_a_doubtful_answer() -> None:
    rng = np.random.default_rng(4)
    questions = np.repeat(np.arange(100), 6)
    likely = np.where(np.arange(100) % 2, 0.9, 0.1)
    truth = (rng.random(600) < likely[questions]).astype(float)
    right = rng.random((600, 3)) < 0.8
    votes = np.where(right, truth[:, None], 1.0 - truth[:, None])
    plain = fit_latent(votes).probabilities
    helped = fit_latent(votes, questions=questions).probabilities
    assert ((helped - truth) ** 2).mean() < 0.8 * ((plain - truth) ** 2).mean()


def test_copies_share_one_weight() -> None:
    np.testing.assert_allclose(effective_weights(np.eye(3)), 1.0)
    np.testing.assert_allclose(
        effective_weights(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])),
        [0.5, 0.5, 1.0],
    )
    # Judges that err opposite to each other lose nothing.
    np.testing.assert_allclose(effective_weights(np.array([[1.0, -0.9], [-0.9, 1.0]])), 1.0)


def test_discounting_makes_a_panel_of_relatives_less_sure() -> None:
    spec = SimulationSpec(
        judges=tuple(
            SimulatedJudge(
                id=f"j{at}", sensitivity=0.8, specificity=0.8, votes_only=True,
                family="kin" if at < 2 else "", correlation=0.9 if at < 2 else 0.0,
            )
            for at in range(7)
        ),
        n_items=300,
    )  # fmt: skip
    table = simulate(spec)
    plain, careful = fit_latent(table.said), fit_latent(table.said, discount=True)
    np.testing.assert_allclose(plain.weights, 1.0)
    assert careful.weights[:2].max() < careful.weights[2:].min()

    def loss(likely: Array) -> float:
        return float(-np.log(np.where(table.truth == 1.0, likely, 1.0 - likely)).mean())

    assert loss(careful.probabilities) < loss(plain.probabilities)


def family_table() -> AnswerTable:
    """Two judges of one family and one of its own, to two facts."""
    return AnswerTable(
        "families",
        (JudgeColumn("a", "kin"), JudgeColumn("b"), JudgeColumn("c", "kin")),
        (ImageRow("1", "1"),),
        (FactRow("f", 0), FactRow("g", 0)),
        np.array([[1.0, 0.0, 0.5], [np.nan, 0.2, np.nan]]),
    )


def test_a_family_has_one_voice() -> None:
    table = family_table()
    np.testing.assert_allclose(family_means(table), [[0.75, 0.0], [np.nan, 0.2]])
    np.testing.assert_allclose(aggregator_of("mean_families").combine(table), [0.375, 0.2])


def test_without_families_it_is_the_plain_model() -> None:
    _, votes = voted(60, (0.9, 0.8, 0.7))
    table = AnswerTable(
        "alone",
        tuple(JudgeColumn(name) for name in "abc"),
        (ImageRow("1", "1"),),
        tuple(FactRow(f"f{at}", 0) for at in range(60)),
        votes,
    )
    np.testing.assert_allclose(
        aggregator_of("dawid_skene_families").combine(table),
        aggregator_of("dawid_skene").combine(table),
        atol=1e-5,
    )


def test_without_any_answer_nothing_is_known() -> None:
    nothing = np.full((4, 2), np.nan)
    assert np.isnan(fit_latent(nothing).probabilities).all()
    assert np.isnan(fit_glad(nothing).probabilities).all()

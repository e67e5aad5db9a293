"""Judges weighed by their agreement, and answers pooled by their form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.agents.panel.aggregation import Array, expit, pooled, vote_log_odds, weighted_means
from scenewright.agents.panel.agreement import (
    LEAST_FACTS,
    JudgeWeights,
    enough,
    fit_agreement,
    judge_weights,
    one_factor,
)
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.scores import score_intervals
from scenewright.core.facts import Answer, Fact, ScoreCard


def said(loadings: list[float], n: int = 2000, seed: int = 0) -> Array:
    """Answers of judges whose log-odds correlate with one truth by ``loadings``."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 1))
    own = rng.normal(size=(n, len(loadings)))
    of = np.array(loadings)
    return expit(1.5 * (of * truth + np.sqrt(1.0 - of**2) * own))


def clique(honest: Array, members: int, alike: float, seed: int = 1) -> Array:
    """``honest`` with further judges that say one invention, each with its own noise."""
    rng = np.random.default_rng(seed)
    lie, own = rng.normal(size=(len(honest), 1)), rng.normal(size=(len(honest), members))
    return np.hstack([honest, expit(1.5 * (np.sqrt(alike) * lie + np.sqrt(1.0 - alike) * own))])


def test_one_factor_finds_the_loadings_behind_correlations() -> None:
    loadings = np.array([0.9, 0.7, 0.5, 0.3])
    found = one_factor(np.outer(loadings, loadings) + np.diag(1.0 - loadings**2))
    np.testing.assert_allclose(found, loadings, atol=1e-4)


def test_like_judges_keep_equal_weights() -> None:
    found = fit_agreement(said([0.7] * 5))
    np.testing.assert_allclose(found.weights, 0.2)
    assert found.trust == 0.0


def test_a_far_better_judge_gets_most_of_the_weight() -> None:
    found = fit_agreement(said([0.95, 0.3, 0.3, 0.3, 0.3], 4000))
    assert found.weights[0] > 0.8
    assert found.explanations == 1


def test_judges_that_guess_weigh_next_to_nothing() -> None:
    found = fit_agreement(said([0.7, 0.7, 0.7, 0.0, 0.0, 0.0]))
    assert found.weights[:3].sum() > 0.95


def test_judges_that_say_the_opposite_weigh_nothing() -> None:
    found = fit_agreement(said([0.7, 0.7, 0.7, 0.7, -0.7]))
    assert found.weights[4] == 0.0


def test_copies_are_one_voice() -> None:
    three = said([0.7, 0.7, 0.5])
    found = fit_agreement(np.hstack([three, three[:, 2:], three[:, 2:]]))
    assert found.clusters == ((0,), (1,), (2, 3, 4))
    np.testing.assert_allclose(found.weights[2:], found.weights[2])
    assert found.weights[2:].sum() <= found.weights[0] + 1e-9


def test_two_voices_leave_one_vote_a_judge() -> None:
    """Two that agree may both be right as well as copies of each other."""
    two = said([0.9, 0.0])
    found = fit_agreement(np.hstack([two[:, :1], two]))
    np.testing.assert_allclose(found.weights, 1.0 / 3.0)


@pytest.mark.parametrize("members", [2, 3, 4])
def test_a_clique_gains_no_weight_by_its_agreement(members: int) -> None:
    panel = clique(said([0.7] * 4), members, 0.7)
    found = fit_agreement(panel)
    assert found.weights[4:].sum() <= members / (4 + members) + 1e-9


def test_a_judge_that_others_may_outvote_by_common_errors_is_not_weighed_down() -> None:
    rng = np.random.default_rng(3)
    n, hard = 3000, rng.normal(size=(3000, 1))
    truth = rng.normal(size=(n, 1))
    weak = 0.5 * truth + 0.6 * hard + 0.6 * rng.normal(size=(n, 5))
    panel = expit(np.hstack([truth + 0.1 * rng.normal(size=(n, 1)), weak]))
    assert fit_agreement(panel).weights[0] >= 1.0 / 6.0 - 1e-9


def test_a_judge_that_always_says_the_same_weighs_nothing() -> None:
    panel = np.hstack([said([0.7] * 3), np.ones((2000, 1))])
    assert fit_agreement(panel).weights[3] == 0.0


def test_few_answers_leave_equal_weights() -> None:
    few = said([0.95, 0.2, 0.2], LEAST_FACTS - 1)
    assert not enough(few)
    np.testing.assert_allclose(fit_agreement(few).weights, 1.0 / 3.0)
    assert judge_weights("abc", few, ["object"] * len(few)) is None
    assert not enough(said([0.9, 0.9], 1000))


def test_kinds_have_weights_of_their_own_where_judges_differ() -> None:
    one, two = said([0.95, 0.2, 0.2, 0.2], 4000), said([0.2, 0.2, 0.2, 0.95], 4000, 1)
    kinds = ["object"] * 4000 + ["relation"] * 4000
    weights = fit_agreement(np.vstack([one, two]), kinds).weights_of(["object", "relation"])
    assert weights[0].argmax() == 0
    assert weights[1].argmax() == 3


def test_missing_answers_are_left_out() -> None:
    panel = said([0.9, 0.5, 0.5, 0.5], 3000)
    panel[np.random.default_rng(0).random(panel.shape) < 0.3] = np.nan
    found = fit_agreement(panel)
    assert found.weights.argmax() == 0
    likely = found.probabilities(panel, [""] * len(panel))
    np.testing.assert_array_equal(np.isnan(likely), np.isnan(panel).all(1))


@settings(max_examples=25)
@given(st.integers(3, 7), st.integers(0, 1000))
def test_weights_follow_their_judges(judges: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    panel = said(rng.uniform(0.0, 0.95, judges).tolist(), 300, seed)
    order = rng.permutation(judges)
    found, moved = fit_agreement(panel).weights, fit_agreement(panel[:, order]).weights
    assert abs(found.sum() - 1.0) < 1e-9
    assert (found >= 0.0).all()
    np.testing.assert_allclose(moved, found[order], atol=1e-3)


PROBABILITIES = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3)


@given(PROBABILITIES, PROBABILITIES)
def test_a_choice_between_two_options_is_a_yes_no(first: list[float], other: list[float]) -> None:
    answers = np.array([first, other])
    weights = [0.2, 0.3, 0.5]
    both = pooled(np.stack([answers, 1.0 - answers], axis=2), "choice", weights)
    np.testing.assert_allclose(both[:, 0], pooled(answers, "yes_no", weights), atol=1e-9)
    np.testing.assert_allclose(both.sum(1), 1.0)


def test_the_pool_of_votes_is_their_share_to_within_a_hundredth() -> None:
    votes = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    np.testing.assert_allclose(pooled(votes, "yes_no"), votes.mean(1), atol=0.011)


def test_scores_are_pooled_by_ranks_so_that_no_scale_counts() -> None:
    scores = np.array([[1.0, 10.0], [2.0, 900.0], [3.0, 1000.0]])
    np.testing.assert_allclose(pooled(scores, "score"), [1 / 6, 0.5, 5 / 6])
    moved = scores * [7.0, 0.01] + 3.0
    np.testing.assert_allclose(pooled(moved, "score"), pooled(scores, "score"))


def test_nobody_is_nan_and_judges_without_weight_are_better_than_nobody() -> None:
    answers = np.array([[np.nan, np.nan], [np.nan, 0.9]])
    found = pooled(answers, "yes_no", [1.0, 0.0])
    assert np.isnan(found[0])
    assert abs(found[1] - 0.9) < 1e-9


@pytest.mark.parametrize(
    ("answers", "form", "weights", "told"),
    [
        ([[1.2]], "yes_no", None, "must lie in"),
        ([[0.2]], "maybe", None, "unknown form"),
        ([[0.2]], "choice", None, "n_options"),
        ([[0.2]], "yes_no", [-1.0], "negative"),
        ([[0.2]], "yes_no", [1.0, 1.0], "do not fit"),
    ],
)
def test_bad_answers_are_refused(answers: object, form: str, weights: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        pooled(answers, form, weights)  # type: ignore[arg-type]


YES_NO = Fact(
    id="dog", kind="object", statement="a dog", question="Is there a dog?", options=("yes", "no"),
    expected="yes", subject="dog",
)  # fmt: skip
CHOICE = Fact(
    id="on", kind="relation", statement="dog on mat", question="Where is it?",
    options=("on", "under", "beside"), expected="on", subject="dog", predicate="on", target="mat",
)  # fmt: skip


def answers(fact: Fact, values: dict[str, float]) -> dict[str, list[Answer]]:
    return {
        judge: [
            Answer(
                fact_id=fact.id,
                judge_id=judge,
                state="yes" if p > 0.5 else "no",
                probability=p,
                choice=fact.expected if p > 0.5 else fact.options[1],
            )
        ]
        for judge, p in values.items()
    }


def weights(*values: float) -> JudgeWeights:
    return JudgeWeights(judges=("a", "b", "c"), weights=values, n_facts=500, trust=1.0)


@pytest.mark.parametrize("fact", [YES_NO, CHOICE])
def test_a_panel_by_agreement_follows_the_judges_that_weigh_most(fact: Fact) -> None:
    given_answers = answers(fact, {"a": 0.9, "b": 0.05, "c": 0.05})
    plain = Panel("agreement").verdicts([fact], given_answers)[0]
    assert plain == Panel().verdicts([fact], given_answers)[0]
    assert plain.state == "no"
    by_a = Panel("agreement", weights=weights(0.9, 0.05, 0.05)).verdicts([fact], given_answers)[0]
    assert by_a.state == "yes"
    assert by_a.probability is not None
    assert by_a.probability > 0.7


def test_intervals_of_a_panel_by_agreement_are_by_its_weights() -> None:
    facts = [YES_NO, CHOICE]
    table = {
        judge: [
            row[0]
            for row in (answers(YES_NO, {judge: p})[judge], answers(CHOICE, {judge: p})[judge])
        ]
        for judge, p in {"a": 0.9, "b": 0.2, "c": 0.2}.items()
    }
    panel = Panel("agreement", weights=weights(1.0, 0.0, 0.0))
    verdicts = panel.verdicts(facts, table)
    found = score_intervals(facts, table, verdicts, panel)
    assert found.fact_recall is not None
    card = ScoreCard.of(facts, verdicts)
    assert found.fact_recall[0] <= 1.0 <= found.fact_recall[1] == card.fact_recall


def test_weights_by_agreement_survive_a_file() -> None:
    panel = said([0.9, 0.4, 0.4], 1000)
    found = judge_weights(("a", "b", "c"), panel, ["object"] * 1000)
    assert found is not None
    assert JudgeWeights.model_validate_json(found.model_dump_json()) == found
    mean = weighted_means(vote_log_odds(panel), found.of("abc", ["object"] * 1000))
    assert np.isfinite(mean).all()
    with pytest.raises(ValueError, match="one weight a judge"):
        weights(1.0, 1.0)

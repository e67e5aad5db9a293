"""Judges weighed by their agreement, and panels pooled by these weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.agents.panel.aggregation import Array, expit, mid_ranks, weighted_means
from scenewright.agents.panel.agreement import (
    LEAST_FACTS,
    JudgeWeights,
    agreement_weights,
    enough,
    judge_weights,
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


def test_weights_are_squared_correlations_with_the_weighted_rest() -> None:
    panel = said([0.9, 0.7, 0.5, 0.3])
    found = agreement_weights(panel, share=1.0)
    scaled = (panel - panel.mean(0)) / panel.std(0)
    agrees = [
        np.corrcoef(panel[:, at], np.delete(scaled, at, 1) @ np.delete(found, at))[0, 1]
        for at in range(4)
    ]
    np.testing.assert_allclose(found, np.square(agrees) / np.square(agrees).sum(), atol=1e-6)
    plain = agreement_weights(panel, power=1.0, share=1.0)
    assert found[0] > plain[0] > 0.25 > plain[3] > found[3]
    np.testing.assert_allclose(agreement_weights(panel), (found + 0.25) / 2.0)


def test_like_judges_have_like_weights() -> None:
    np.testing.assert_allclose(agreement_weights(said([0.7] * 5)), 0.2, atol=0.02)


def test_the_spread_of_a_judge_is_not_its_weight() -> None:
    panel = said([0.7] * 4)
    panel[:, 0] = 0.4 + 0.2 * panel[:, 0]
    np.testing.assert_allclose(agreement_weights(panel), 0.25, atol=0.02)


def test_judges_that_guess_weigh_half_of_an_equal_share_at_most() -> None:
    panel = said([0.7, 0.7, 0.7, 0.0, 0.0, 0.0])
    assert agreement_weights(panel, share=1.0)[:3].sum() > 0.95
    assert agreement_weights(panel)[:3].sum() > 0.7


def test_judges_that_say_the_opposite_or_always_the_same_weigh_nothing() -> None:
    panel = np.hstack([said([0.7, 0.7, 0.7, 0.7, -0.7]), np.ones((2000, 1))])
    np.testing.assert_array_equal(agreement_weights(panel)[4:], 0.0)


@pytest.mark.parametrize(("members", "taken"), [(2, False), (3, False), (4, True)])
def test_the_group_that_agrees_most_takes_the_panel(members: int, taken: bool) -> None:
    """The limit of weights by agreement: a clique may be that group."""
    weight = agreement_weights(clique(said([0.7] * 4), members, 0.7), share=1.0)[4:].sum()
    assert weight > 0.9 if taken else weight < 0.01


def test_copies_are_named_and_keep_their_weights() -> None:
    three = said([0.7, 0.7, 0.5])
    panel = np.hstack([three, three[:, 2:]])
    found = judge_weights("abcd", panel)
    assert found is not None
    assert found.copies == (("c", "d"),)
    assert found.weights[2] == pytest.approx(found.weights[3])
    np.testing.assert_allclose(found.weights, agreement_weights(panel))
    alone = judge_weights("abc", three)
    assert alone is not None
    assert alone.copies == ()


def test_what_kinds_of_facts_share_is_no_agreement() -> None:
    rng = np.random.default_rng(0)
    kinds = ["object", "relation"] * 1000
    panel = said([0.6, 0.6, 0.6, 0.0, 0.0])
    panel[:, 3:] = 0.8 * (np.array(kinds) == "object")[:, None] + 0.1 * rng.random((2000, 2))
    assert agreement_weights(panel, share=1.0)[3:].sum() > 0.5
    assert agreement_weights(panel, kinds, share=1.0)[3:].sum() < 0.05
    with pytest.raises(ValueError, match="give one a fact"):
        agreement_weights(panel, kinds[:5])


def test_few_answers_leave_equal_weights() -> None:
    few = said([0.95, 0.2, 0.2], LEAST_FACTS - 1)
    assert not enough(few)
    np.testing.assert_allclose(agreement_weights(few), 1.0 / 3.0)
    assert judge_weights("abc", few, ["object"] * len(few)) is None
    assert not enough(said([0.9, 0.9], 1000))
    np.testing.assert_allclose(agreement_weights(np.full((500, 3), 0.7)), 1.0 / 3.0)


def test_a_judge_with_few_answers_counts_as_an_average_one() -> None:
    panel = said([0.8, 0.6, 0.6, 0.6])
    panel[LEAST_FACTS - 1 :, 3] = np.nan
    found = agreement_weights(panel)
    assert found[1] < found[3] < found[0]


def test_missing_answers_are_left_out() -> None:
    panel = said([0.9, 0.5, 0.5, 0.5], 3000)
    panel[np.random.default_rng(0).random(panel.shape) < 0.3] = np.nan
    found = agreement_weights(panel)
    assert found.argmax() == 0
    likely = weighted_means(panel, found)
    np.testing.assert_array_equal(np.isnan(likely), np.isnan(panel).all(1))


@settings(max_examples=25)
@given(st.integers(3, 7), st.integers(0, 1000))
def test_weights_follow_their_judges(judges: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    panel = said(rng.uniform(0.0, 0.95, judges).tolist(), 300, seed)
    order = rng.permutation(judges)
    found, moved = agreement_weights(panel), agreement_weights(panel[:, order])
    assert abs(found.sum() - 1.0) < 1e-9
    assert (found >= 0.0).all()
    np.testing.assert_allclose(moved, found[order], atol=1e-3)


def test_ranks_know_no_scale() -> None:
    scores = np.array([[1.0, 10.0], [2.0, 900.0], [3.0, np.nan]])
    np.testing.assert_allclose(mid_ranks(scores), [[1 / 6, 0.25], [0.5, 0.75], [5 / 6, np.nan]])
    np.testing.assert_allclose(mid_ranks(scores * [7.0, 0.01] + 3.0), mid_ranks(scores))


def test_judges_without_weight_are_better_than_nobody() -> None:
    found = weighted_means(np.array([[np.nan, np.nan], [np.nan, 0.9]]), [1.0, 0.0])
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(0.9)


@pytest.mark.parametrize(("weights", "told"), [([-1.0], "negative"), ([1.0, 1.0], "do not fit")])
def test_bad_weights_are_refused(weights: list[float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        weighted_means(np.array([[0.2]]), weights)


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
    return JudgeWeights(judges=("a", "b", "c"), weights=values, n_facts=500)


@pytest.mark.parametrize("fact", [YES_NO, CHOICE])
def test_a_panel_by_agreement_follows_the_judges_that_weigh_most(fact: Fact) -> None:
    given_answers = answers(fact, {"a": 0.9, "b": 0.05, "c": 0.05})
    plain = Panel("agreement").verdicts([fact], given_answers)[0]
    assert plain == Panel().verdicts([fact], given_answers)[0]
    assert plain.state == "no"
    by_a = Panel("agreement", weights=weights(0.9, 0.05, 0.05)).verdicts([fact], given_answers)[0]
    assert by_a.state == "yes"
    # The weighted mean of probabilities.
    assert by_a.probability == pytest.approx(0.9 * 0.9 + 0.1 * 0.05)


def test_a_choice_is_pooled_option_by_option() -> None:
    def share(judge: str, option: str, p: float) -> list[Answer]:
        state = "yes" if option == "on" else "no"
        rest = dict.fromkeys(set(CHOICE.options) - {option}, (1.0 - p) / 2)
        return [
            Answer(
                fact_id="on", judge_id=judge, state=state, choice=option,
                distribution={option: p, **rest},
                probability=p if option == "on" else (1.0 - p) / 2,
            )
        ]  # fmt: skip

    table = {
        "a": share("a", "on", 0.8), "b": share("b", "under", 1.0), "c": share("c", "beside", 0.6)
    }  # fmt: skip
    found = Panel("agreement", weights=weights(0.5, 0.3, 0.2)).verdicts([CHOICE], table)[0]
    assert found.probability == pytest.approx(0.5 * 0.8 + 0.2 * 0.2)
    assert found.rival == "under"
    assert found.rival_probability == pytest.approx(0.5 * 0.1 + 0.3 + 0.2 * 0.2)


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
    np.testing.assert_allclose(found.of("bz"), [found.weights[1], sum(found.weights) / 3])
    with pytest.raises(ValueError, match="one weight a judge"):
        weights(1.0, 1.0)

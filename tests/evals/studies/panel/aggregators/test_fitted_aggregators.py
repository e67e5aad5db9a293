"""Aggregators that learn from truth or ratings, pools, and cross-validation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.aggregators.base import folds_of, mean_of_others, questions_of
from scenewright.evals.studies.panel.aggregators.fitted import rating_weights, stack_of
from scenewright.evals.studies.panel.aggregators.pooling import drawn_to_others
from scenewright.evals.studies.panel.aggregators.registry import (
    aggregator_of,
    estimated,
    out_of_fold,
)
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)


def spec(**changes: object) -> SimulationSpec:
    """Three judges, 100 items by two models, with raters."""
    base = SimulationSpec(
        judges=(
            SimulatedJudge(id="good", sensitivity=0.95, specificity=0.9),
            SimulatedJudge(id="eager", sensitivity=0.98, specificity=0.4),
            SimulatedJudge(id="poor", sensitivity=0.7, specificity=0.6),
        ),
        n_items=100,
        models=(SimulatedModel(id="one", prevalence=0.6), SimulatedModel(id="two")),
        raters=SimulatedRaters(number=3, noise=0.5),
    )
    return base.model_copy(update=changes)


def asked(said: Array, items: tuple[str, ...]) -> AnswerTable:
    """One fact ``f`` an image."""
    return AnswerTable(
        "small",
        tuple(JudgeColumn(str(at)) for at in range(said.shape[1])),
        tuple(ImageRow(str(at), item) for at, item in enumerate(items)),
        tuple(FactRow("f", at) for at in range(len(items))),
        said,
    )


def test_the_same_question_draws_by_hand() -> None:
    said = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, np.nan], [0.5, 0.5]])
    found = drawn_to_others(said, np.array([0, 0, 0, 1]))
    # (2·1 + ½)/3, (2·0 + 1)/3, (1·1 + ½)/2; the last has no others.
    np.testing.assert_allclose(found, [2.5 / 3, 1.0 / 3, 0.75, 0.5])


@given(
    arrays(float, (6, 2), elements=st.floats(0.0, 1.0)),
    st.floats(0.0, 5.0),
)
def test_drawing_stays_between_the_lowest_and_the_highest(said: Array, pull: float) -> None:
    questions = np.array([0, 0, 0, 1, 1, 2])
    found = drawn_to_others(said, questions, pull)
    own = said.mean(1)
    for number in range(3):
        mine = questions == number
        assert found[mine].min() >= own[mine].min() - 1e-12
        assert found[mine].max() <= own[mine].max() + 1e-12
    np.testing.assert_allclose(drawn_to_others(said, questions, 0.0), own)


def test_questions_are_one_within_an_item_only() -> None:
    table = asked(np.zeros((3, 1)), ("a", "a", "b"))
    assert questions_of(table).tolist() == [0, 0, 1]
    means, n = mean_of_others(np.array([1.0, np.nan, 0.5]), np.array([0, 0, 0]))
    np.testing.assert_allclose(means, [0.5, 0.75, 1.0])
    assert n.tolist() == [1.0, 2.0, 1.0]


def test_a_copy_gets_the_weight_of_its_original_to_share() -> None:
    table = simulate(spec())
    twice = table.with_judges([0, 1, 0], [JudgeColumn("a"), JudgeColumn("b"), JudgeColumn("c")])
    alone = stack_of(table.with_judges([0, 1]))
    shared = stack_of(twice)
    ours = [judge.weight for judge in shared.judges]
    assert ours[0] + ours[2] == pytest.approx(alone.judges[0].weight, rel=0.15)
    assert ours[0] == pytest.approx(ours[2])


def test_what_is_learnt_of_truth_beats_the_mean() -> None:
    table, learn = simulate(spec()), simulate(spec(seed=9))
    truth = table.truth
    found = aggregator_of("stacked").combine(table, learn)
    mean = aggregator_of("mean").combine(table)
    assert ((found - truth) ** 2).mean() < 0.7 * ((mean - truth) ** 2).mean()
    # Honest: of what it calls as likely as p, a share p holds (four bins of some hundred facts).
    for low in (0.0, 0.25, 0.5, 0.75):
        mine = (found >= low) & (found < low + 0.25)
        if mine.sum() >= 100:
            spread = np.sqrt(0.25 / mine.sum())
            assert abs(found[mine].mean() - truth[mine].mean()) < 4.0 * spread


def test_ratings_weigh_the_judge_who_sees_what_people_see() -> None:
    weights = rating_weights(simulate(spec()))
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] == max(weights)
    assert (weights >= 0.0).all()


def test_too_few_rated_items_are_refused() -> None:
    table = simulate(spec())
    few = table.of_images(table.item_of_image < 9)
    with pytest.raises(PanelStudyError, match="of 10 items or more"):
        aggregator_of("rated").combine(table, few)


def test_folds_keep_items_together() -> None:
    table = simulate(spec())
    folds = folds_of(table, 7)
    for item in range(table.n_items):
        assert len(set(folds[table.item_of_image == item].tolist())) == 1
    assert sorted(set(folds.tolist())) == list(range(7))
    sizes = np.bincount(folds)
    assert sizes.max() - sizes.min() <= 2
    with pytest.raises(PanelStudyError, match="2 or more"):
        folds_of(table, 1)


def test_an_item_never_teaches_itself() -> None:
    table = simulate(spec(n_items=30))
    before = out_of_fold("stacked", table, 5)
    mine = table.item_of == 3
    wrong = replace(table, truth=np.where(mine, 1.0 - table.truth, table.truth))
    after = out_of_fold("stacked", wrong, 5)
    np.testing.assert_array_equal(before[mine], after[mine])
    assert not np.array_equal(before[~mine], after[~mine])


def test_what_learns_from_answers_sees_all_of_them() -> None:
    table = simulate(spec(n_items=20))
    np.testing.assert_array_equal(
        out_of_fold("dawid_skene", table), aggregator_of("dawid_skene").combine(table)
    )


def test_one_item_is_not_enough_to_learn_from() -> None:
    table = simulate(spec(n_items=1))
    with pytest.raises(PanelStudyError, match="give a table to learn from"):
        out_of_fold("stacked", table)


def test_another_table_teaches_where_there_is_one() -> None:
    table, learn = simulate(spec()), simulate(spec(seed=9))
    np.testing.assert_array_equal(
        estimated("stacked", table, learn), aggregator_of("stacked").combine(table, learn)
    )
    unknown = replace(learn, truth=np.full(len(learn.facts), np.nan))
    np.testing.assert_array_equal(
        estimated("stacked", table, unknown), out_of_fold("stacked", table)
    )

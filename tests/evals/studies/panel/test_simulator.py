"""Simulated tables have what was put in: rates, correlations, structure, calibration, costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks._estimators import both_below, tetrachoric
from benchmarks._recovery import error_correlation
from scenewright.agents.panel.calibration import fit_temperature
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    VoteRates,
    confidences,
    expected_prevalence,
    simulate,
    simulations,
)

SIGMAS = 5.0
"""Standard errors that a share may be off: less than one in a million is by chance."""
rates = st.floats(0.05, 0.95)


def judge(name: str = "a", **more: object) -> SimulatedJudge:
    return SimulatedJudge.model_validate({"id": name, **more})


def close_to(found: float, share: float, n: int) -> bool:
    return bool(abs(found - share) <= SIGMAS * np.sqrt(share * (1.0 - share) / n) + 1e-12)


@settings(max_examples=25, deadline=None)
@given(
    sensitivity=rates,
    specificity=rates,
    prevalence=rates,
    correlation=st.floats(0.0, 0.95),
    difficulty=st.floats(0.0, 0.95),
    seed=st.integers(0, 2**32),
)
def test_rates_are_those_put_in_whatever_correlates_the_errors(
    sensitivity: float,
    specificity: float,
    prevalence: float,
    correlation: float,
    difficulty: float,
    seed: int,
) -> None:
    # One fact an image and question: what is shared is shared between judges, not between facts.
    spec = SimulationSpec(
        judges=(
            judge(
                sensitivity=sensitivity,
                specificity=specificity,
                correlation=correlation,
                family="f",
            ),
        ),
        models=(SimulatedModel(id="", prevalence=prevalence),),
        n_items=6000,
        objects=1,
        attributes=0,
        relations=0,
        difficulty=difficulty,
        seed=seed,
    )
    table = simulate(spec)
    votes = table.votes[:, 0]
    for holds, rate in ((1.0, sensitivity), (0.0, specificity)):
        rows = table.truth == holds
        assert close_to(float((votes[rows] == holds).mean()), rate, int(rows.sum()))
    assert close_to(float(table.truth.mean()), prevalence, len(table.truth))
    assert np.array_equal(table.votes, (table.said > 0.5).astype(float))


@settings(max_examples=settings().max_examples // 12, deadline=None)
@given(
    first=st.floats(0.0, 0.9),
    second=st.floats(0.0, 0.9),
    difficulty=st.floats(0.0, 0.8),
    touched=st.floats(0.0, 1.0),
    same=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_joint_errors_follow_the_bivariate_normal(
    first: float, second: float, difficulty: float, touched: float, same: bool, seed: int
) -> None:
    spec = SimulationSpec(
        judges=(
            judge("a", family="f", correlation=first, sensitivity=0.7),
            judge(
                "b",
                family="f" if same else "g",
                correlation=second,
                sensitivity=0.6,
                difficulty_sensitivity=touched,
            ),
        ),
        models=(SimulatedModel(id="", prevalence=0.99),),
        n_items=20_000,
        objects=1,
        attributes=0,
        relations=0,
        difficulty=difficulty,
        seed=seed,
    )
    table = simulate(spec)
    a = np.sqrt(difficulty)
    b = touched * a
    expected = a * b
    if same:
        expected += np.sqrt((1 - a**2) * (1 - b**2) * first * second)
    assert error_correlation(spec) == pytest.approx(np.array([[1, expected], [expected, 1]]))
    wrong = table.votes[table.truth == 1.0] == 0.0
    # Φ⁻¹(0.3) and Φ⁻¹(0.4)
    chance = float(both_below(-0.524400512708, -0.253347103136, min(expected, 0.9999)))
    assert close_to(float(wrong.all(1).mean()), chance, len(wrong))
    found = tetrachoric(
        *(np.array([float(x)]) for x in (*wrong.sum(0), wrong.all(1).sum(), len(wrong)))
    )
    # Its standard error is about 0.012 at these rates.
    assert float(found) == pytest.approx(min(expected, 0.99), abs=0.06)


def test_rates_of_a_kind_hold_for_facts_of_that_kind() -> None:
    spec = SimulationSpec(
        judges=(judge(kinds={"relation": {"sensitivity": 0.6, "specificity": 0.9}}),),
        n_items=3000,
    )
    table = simulate(spec)
    right = table.votes[:, 0] == table.truth
    for kind, se, sp in (("object", 0.85, 0.75), ("relation", 0.6, 0.9)):
        for holds, rate in ((1.0, se), (0.0, sp)):
            rows = (table.kinds == kind) & (table.truth == holds)
            assert close_to(float(right[rows].mean()), rate, int(rows.sum()))


@settings(max_examples=10, deadline=None)
@given(
    objects=st.integers(0, 4),
    attributes=st.integers(0, 4),
    relations=st.integers(1, 4),
    models=st.integers(1, 3),
    dependent=st.booleans(),
    seed=st.integers(0, 99),
)
def test_children_of_an_absent_parent_are_false(
    objects: int, attributes: int, relations: int, models: int, dependent: bool, seed: int
) -> None:
    spec = SimulationSpec(
        judges=(judge(),),
        models=tuple(SimulatedModel(id=f"m{at}", prevalence=0.5) for at in range(models)),
        n_items=20,
        objects=objects,
        attributes=attributes,
        relations=relations,
        dependent=dependent,
        seed=seed,
    )
    table = simulate(spec)
    assert len(table.facts) == 20 * models * (objects + attributes + relations)
    for fact, holds in zip(table.facts, table.truth, strict=True):
        assert not (holds and any(table.truth[parent] == 0.0 for parent in fact.parents))
        wanted = {"object": 0, "attribute": 1, "relation": 2}[fact.kind] if dependent else 0
        assert len(fact.parents) == min(wanted, objects)
        assert all(table.facts[parent].kind == "object" for parent in fact.parents)
    # Nothing is voided that is not void already.
    assert np.array_equal(table.voided(table.truth), table.truth)


def test_prevalence_by_kind_is_the_expected_one_with_what_images_share() -> None:
    spec = SimulationSpec(
        judges=(judge(),),
        models=(
            SimulatedModel(id="good", prevalence=0.9),
            SimulatedModel(id="bad", prevalence=0.5, kinds={"relation": 0.3}),
        ),
        n_items=12_000,
        item_spread=0.3,
        image_spread=0.2,
    )
    table = simulate(spec)
    expected = expected_prevalence(spec)
    for kind, share in expected.items():
        rows = table.kinds == kind
        # Items are what is independent.
        assert close_to(float(table.truth[rows].mean()), share, spec.n_items)
    assert expected["object"] == pytest.approx(0.7)
    independent = expected_prevalence(spec.model_copy(update={"item_spread": 0, "image_spread": 0}))
    assert independent["relation"] == pytest.approx((0.9**3 + 0.3 * 0.5**2) / 2)
    assert expected["relation"] > independent["relation"] + 0.05


def test_hard_facts_are_got_wrong_by_independent_judges_together() -> None:
    spec = SimulationSpec(
        judges=(judge("a"), judge("b"), judge("c", difficulty_sensitivity=0.0)),
        difficulty=0.5,
        n_items=3000,
    )
    table = simulate(spec)
    wrong = table.votes != table.truth[:, None]
    after = {at: wrong[wrong[:, 0], at].mean() - wrong[~wrong[:, 0], at].mean() for at in (1, 2)}
    assert after[1] > 0.25
    assert abs(after[2]) < 0.02


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_probabilities_are_honest_but_for_the_temperature(temperature: float) -> None:
    spec = SimulationSpec(
        judges=(judge(temperature=temperature, correlation=0.5, family="f"),),
        models=(SimulatedModel(id="x", prevalence=0.6), SimulatedModel(id="y", prevalence=0.9)),
        n_items=6000,
        difficulty=0.3,
    )
    table = simulate(spec)
    assert fit_temperature(table.said[:, 0], table.truth) == pytest.approx(temperature, rel=0.03)
    if temperature == 1.0:
        at = np.minimum((table.said[:, 0] * 10).astype(int), 9)
        for number in range(10):
            rows = at == number
            held = float(table.truth[rows].mean())
            assert held == pytest.approx(float(table.said[rows, 0].mean()), abs=0.04)


def test_a_vote_far_from_the_threshold_is_surer() -> None:
    table = simulate(SimulationSpec(judges=(judge("a"), judge("b")), difficulty=0.6, n_items=2000))
    right = table.votes == table.truth[:, None]
    sure = np.abs(table.said - 0.5)
    both = right.all(1)
    alone = right[:, 0] & ~right[:, 1]
    assert sure[both, 0].mean() > sure[alone, 0].mean() + 0.03


@given(
    sensitivity=st.floats(0.0, 1.0),
    specificity=st.floats(0.0, 1.0),
    prevalence=st.floats(0.01, 0.99),
)
def test_confidences_are_in_range_for_every_judge(
    sensitivity: float, specificity: float, prevalence: float
) -> None:
    ranks = np.linspace(0.0, 1.0, 11)
    own = VoteRates(sensitivity=sensitivity, specificity=specificity)
    for side in confidences(own, prevalence):
        for correct in (True, False):
            found = side.quantiles(correct, ranks)
            assert ((found > 0.0) & (found < 1.0)).all()
            assert (np.diff(found) >= 0.0).all()


@pytest.mark.parametrize(("sensitivity", "specificity"), [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_judges_at_the_limit(sensitivity: float, specificity: float) -> None:
    own = judge(sensitivity=sensitivity, specificity=specificity)
    table = simulate(SimulationSpec(judges=(own,), n_items=50))
    right = np.where(table.truth == 1.0, sensitivity, specificity)
    assert np.array_equal(table.votes[:, 0] == table.truth, right == 1.0)


def test_missing_answers_costs_and_ratings() -> None:
    spec = SimulationSpec(
        judges=(
            judge("a", unscored=0.2, seconds=2.0, usd=0.001, tokens=300.0),
            judge("b", votes_only=True),
        ),
        n_items=1000,
        raters=SimulatedRaters(number=4, noise=0.5),
    )
    table = simulate(spec)
    missing = np.isnan(table.said[:, 0])
    assert close_to(float(missing.mean()), 0.2, len(missing))
    assert table.asked.all()
    assert set(np.unique(table.said[:, 1])) == {0.0, 1.0}
    # An answer that cannot be used is paid for.
    assert (table.usd[missing, 0] > 0.0).all()
    for name, mean in (("seconds", 2.0), ("usd", 0.001), ("tokens", 300.0)):
        assert float(getattr(table, name)[:, 0].mean()) == pytest.approx(mean, rel=0.05)
    ratings = np.array([image.ratings for image in table.images])
    assert ratings.shape == (1000, 4)
    assert set(np.unique(ratings)) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    share = table.image_means(table.truth)
    assert np.corrcoef(ratings.mean(1), share)[0, 1] > 0.9


def test_the_same_spec_gives_the_same_table_and_more_judges_change_nothing() -> None:
    spec = SimulationSpec(judges=(judge("a", family="f", correlation=0.5), judge("b")), n_items=30)
    one, again = simulate(spec), simulate(spec)
    for name in ("said", "truth", "seconds"):
        assert np.array_equal(getattr(one, name), getattr(again, name))
    wider = simulate(spec.model_copy(update={"judges": (judge("c", family="f"), *spec.judges)}))
    assert np.array_equal(wider.said[:, 1:], one.said)
    assert np.array_equal(wider.truth, one.truth)
    other = simulate(spec.model_copy(update={"seed": 1}))
    assert not np.array_equal(other.truth, one.truth)
    first, second = simulations(spec, 2)
    assert np.array_equal(first.said, one.said)
    assert np.array_equal(second.said, other.said)


@pytest.mark.parametrize(
    "wrong",
    [
        {"judges": ()},
        {"judges": ({"id": "a"}, {"id": "a"})},
        {"judges": ({"id": "a", "correlation": 1.0},)},
        {"objects": 0, "attributes": 0, "relations": 0},
        {"item_spread": 0.6, "image_spread": 0.5},
        {"models": ({"id": "x", "kinds": {"object": 1.0}},)},
        {"unknown": 1},
    ],
)
def test_specs_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SimulationSpec.model_validate({"judges": ({"id": "a"},), **wrong})

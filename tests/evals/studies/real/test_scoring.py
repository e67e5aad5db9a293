"""S_att and S_rel against tables worked out by hand, and what must hold of them whatever is
answered."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.facts import State
from scenewright.evals.studies.real.schema import (
    AttributeSchema,
    RelationSchema,
    SchemaAttribute,
    SchemaRelation,
)
from scenewright.evals.studies.real.scoring import (
    attribute_score,
    questions_of,
    relation_score,
    score_of,
)

Y: State = "yes"
N: State = "no"
V: State = "void"
U: State = "unscored"
STATES = st.sampled_from([Y, N, U])
PAIRS = st.lists(st.tuples(STATES, STATES), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("existence", "pairs", "value", "visible", "matched", "unscored"),
    [
        # C = 3, R = 2: the paper's R / C, the invisible fourth part is no part of it
        (Y, [(Y, Y), (Y, Y), (Y, N), (N, V)], 2 / 3, 3, 2, 0),
        (None, [(Y, Y), (Y, N)], 1 / 2, 2, 1, 0),
        (Y, [(Y, Y)], 1.0, 1, 1, 0),
        # C = 0
        (Y, [(N, V), (N, V)], 0.0, 0, 0, 0),
        # no animal or plant: 0, whatever else was said
        (N, [(Y, Y), (U, U)], 0.0, 0, 0, 0),
        # unscored existence: unknown, and no 0
        (U, [(Y, Y)], None, 1, 1, 1),
        # a match that nobody could judge is left out of R / C
        (Y, [(Y, Y), (Y, U), (Y, N)], 1 / 2, 3, 1, 1),
        (Y, [(Y, U)], None, 1, 0, 1),
        # visibility that nobody could judge: with others known the rest counts, else nothing does
        (Y, [(U, Y), (Y, Y)], 1.0, 1, 1, 1),
        (Y, [(U, V), (N, V)], None, 0, 0, 1),
    ],
)
def test_attributes_by_hand(
    existence: State | None,
    pairs: list[tuple[State, State]],
    value: float | None,
    visible: int,
    matched: int,
    unscored: int,
) -> None:
    found = attribute_score(existence, pairs)
    assert found.value == (None if value is None else pytest.approx(value))
    assert (found.visible, found.matched, found.unscored) == (visible, matched, unscored)


@pytest.mark.parametrize(
    ("entities", "relations", "raw", "value"),
    [
        # N = 2, |R| = 1: all is there and real, 2·2 + 1
        ([(Y, Y), (Y, Y)], [Y], 5.0, 1.0),
        ([(Y, N), (Y, Y)], [N], 3.0, 3 / 5),
        ([(Y, N), (Y, N)], [N], 2.0, 2 / 5),
        # an entity is missing: 0, also if another one is unscored
        ([(Y, V), (N, V)], [V], 0.0, 0.0),
        ([(U, Y), (N, V)], [V], 0.0, 0.0),
        # whether one is missing is not known
        ([(Y, Y), (U, Y)], [Y], None, None),
        # other gaps leave the mean, and no sum is known
        ([(Y, U), (Y, Y)], [Y], None, 1.0),
        ([(Y, Y), (Y, Y)], [U, N], None, 4 / 5),
        # naturalness not asked: the maximum is N + |R|
        ([(Y, None), (Y, None)], [Y, N], 3.0, 3 / 4),
    ],
)
def test_relations_by_hand(
    entities: list[tuple[State, State | None]],
    relations: list[State],
    raw: float | None,
    value: float | None,
) -> None:
    found = relation_score(entities, relations)
    assert found.raw == raw
    assert found.value == (None if value is None else pytest.approx(value))


@given(st.sampled_from([None, Y, N, U]), PAIRS, st.randoms(use_true_random=False))
def test_attributes_lie_in_range_and_forget_the_order(
    existence: State | None, pairs: list[tuple[State, State]], rng: random.Random
) -> None:
    found = attribute_score(existence, pairs)
    assert found.value is None or 0.0 <= found.value <= 1.0
    assert found.matched <= found.visible <= len(pairs)
    turned = list(pairs)
    rng.shuffle(turned)
    assert attribute_score(existence, turned) == found
    if found.value is None:
        assert found.unscored


@given(PAIRS, st.data())
def test_a_match_more_never_lowers_the_score(
    pairs: list[tuple[State, State]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(pairs) - 1))
    worse, better = list(pairs), list(pairs)
    worse[at], better[at] = (pairs[at][0], N), (pairs[at][0], Y)
    low, high = attribute_score(Y, worse).value, attribute_score(Y, better).value
    assert (low is None) == (high is None)
    assert low is None or high is None or low <= high


@given(PAIRS, st.lists(STATES, min_size=1, max_size=6), st.data())
def test_relations_lie_in_range_rise_with_each_yes_and_forget_the_order(
    entities: list[tuple[State, State]], relations: list[State], data: st.DataObject
) -> None:
    found = relation_score(entities, relations)
    assert found.value is None or 0.0 <= found.value <= 1.0
    assert found.raw is None or 0.0 <= found.raw <= found.highest
    assert relation_score(entities[::-1], relations[::-1]) == found
    if any(seen == N for seen, _ in entities):
        assert found.value == found.raw == 0.0
    at = data.draw(st.integers(0, len(relations) - 1))
    low, high = list(relations), list(relations)
    low[at], high[at] = N, Y
    below, above = relation_score(entities, low), relation_score(entities, high)
    if below.raw is not None and above.raw is not None:
        assert below.raw <= above.raw


def test_weighted_attributes_by_hand() -> None:
    pairs = [(Y, Y), (Y, N), (N, V), (Y, U)]
    likely = [(0.9, 0.8), (0.6, 0.3), (0.4, 0.0), (0.7, 0.0)]
    found = attribute_score(Y, pairs, 0.95, likely)
    # The third part is not visible, the fourth match nobody could judge.
    assert found.value == pytest.approx(0.95 * (0.9 * 0.8 + 0.6 * 0.3) / (0.9 + 0.6))
    assert (found.hard, found.visible, found.matched, found.unscored) == (0.5, 3, 1, 1)
    assert attribute_score(N, pairs, 0.4, likely).value == 0.0
    assert attribute_score(U, pairs, 0.0, likely).value is None
    assert attribute_score(Y, [(N, V)], 0.9, [(0.3, 0.0)]).value == 0.0


CHANCES = st.floats(0.0, 1.0)


@given(
    st.sampled_from([None, Y, N, U]),
    st.lists(st.tuples(STATES, STATES, CHANCES, CHANCES), min_size=1, max_size=8),
    CHANCES,
)
def test_weights_stay_in_range_and_certain_answers_give_the_hard_score(
    existence: State | None, rows: list[tuple[State, State, float, float]], there: float
) -> None:
    pairs = [(seen, match) for seen, match, _, _ in rows]
    found = attribute_score(existence, pairs, there, [(a, b) for _, _, a, b in rows])
    hard = attribute_score(existence, pairs)
    assert found.hard == hard.hard == hard.value
    assert (found.value is None) == (hard.value is None)
    assert found.value is None or 0.0 <= found.value <= 1.0
    certain = [(float(seen == Y), float(match == Y)) for seen, match in pairs]
    assert attribute_score(existence, pairs, 1.0, certain).value == hard.value


def test_probabilities_tell_pictures_apart_that_counts_do_not() -> None:
    schema = AttributeSchema(
        name="owl", attributes=(SchemaAttribute(part="bill", description="hooked"),)
    )
    questions = questions_of(schema)
    states: dict[str, State] = {fact.id: Y for fact in questions.facts}
    sure = score_of(questions, states, dict.fromkeys(states, 0.99)).attributes
    unsure = score_of(questions, states, dict.fromkeys(states, 0.55)).attributes
    assert sure is not None
    assert unsure is not None
    assert sure.hard == unsure.hard == 1.0
    assert sure.value is not None
    assert unsure.value is not None
    assert sure.value == pytest.approx(0.99**2)
    assert unsure.value < sure.value


def test_what_is_wrong_is_named() -> None:
    attributes = AttributeSchema(
        name="albatross",
        attributes=(
            SchemaAttribute(part="bill", description="hooked"),
            SchemaAttribute(part="legs", description="pink"),
        ),
    )
    relations = RelationSchema(
        name="albatross",
        entities=("albatross", "rock"),
        relations=(SchemaRelation(subject="albatross", predicate="on", object="rock"),),
    )
    questions = questions_of(attributes, relations)
    states: dict[str, State] = {fact.id: Y for fact in questions.facts}
    states |= {"match:bill|hooked": N, "part:legs": N, "match:legs|pink": V}
    found = score_of(questions, states)
    assert found.invisible == ("legs",)
    assert found.wrong == ("bill is hooked",)
    assert found.attributes is not None
    assert found.attributes.value == 0.0
    assert found.relations is not None
    assert found.relations.value == 1.0

"""G, U, CCTA and AW-CCTA: a table worked out by hand, and what holds of any facts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.evals.studies.xtc.base import QUESTION_KINDS, FactScore
from scenewright.evals.studies.xtc.scores import (
    COMPARED,
    NodeCount,
    is_matched,
    quadrant_of,
    scores_of,
    xtc_scores,
)

FACTS = (
    # Fact, scene, kind, category, matched, u, v.
    FactScore(
        scene="a", question="1", kind="attribute", category="Color", matched=True, u=1.0, v=0.6,
        drawn="red", said="reddish",
    ),
    FactScore(
        scene="a", question="2", kind="relation", category="Spatial", matched=True, u=0.0, v=1.0,
        said="left of",
    ),
    FactScore(
        scene="a", question="3", kind="retrieval", category="", matched=True, u=1.0, v=0.2,
        drawn="dog", said="cat",
    ),
    FactScore(
        scene="b", question="1", kind="attribute", category="Color", matched=False, u=0.0, v=0.2,
        said="blue",
    ),
    FactScore(
        scene="b", question="2", kind="relation", category="Spatial", matched=True, u=0.8, v=None,
        drawn="on", reason="no answer",
    ),
    FactScore(
        scene="b", question="3", kind="attribute", category="Shape", matched=False, u=None, v=1.0,
        said="round", reason="the drawing failed",
    ),
)  # fmt: skip


def test_the_table_worked_out_by_hand() -> None:
    found = xtc_scores(FACTS, [NodeCount(scene="a", nodes=3, matched=2)], unasked=4)
    whole = found.overall
    # Without the retrieval: u = 1, 0, 0, .8; v of all questions = .6, 1, .2, .2, 1.
    assert whole.generation.value == pytest.approx(0.45)
    assert whole.understanding.value == pytest.approx(0.6)
    # Both: (1, .6), (0, 1), (0, .2): agreement .6, 0, .8; accuracy .8, .5, .1.
    assert whole.both == 3
    assert whole.ccta.value == pytest.approx(1.4 / 3)
    assert whole.aw_ccta.value == pytest.approx((0.48 + 0 + 0.08) / 3)
    assert whole.covariance.value == pytest.approx(0.56 / 3 - 1.4 / 3 * 1.4 / 3)
    assert whole.quadrants == {
        "aligned-correct": 1,
        "aligned-hallucination": 1,
        "generation-deficit": 1,
        "understanding-deficit": 0,
    }
    assert (whole.facts, whole.absent) == (6, 2)
    assert (whole.unscored_generation, whole.unscored_understanding) == (1, 1)
    assert found.unasked == 4
    assert found.reasons == {"no answer": 1, "the drawing failed": 1}
    assert found.nodes.value == pytest.approx(2 / 3)


def test_kinds_categories_and_matched_ones_are_told_apart() -> None:
    found = xtc_scores(FACTS)
    assert found.kinds["retrieval"].generation.value == 1.0
    assert found.kinds["retrieval"].ccta.value == pytest.approx(0.2)
    assert set(found.categories) == {"attribute: Color", "attribute: Shape", "relation: Spatial"}
    assert found.categories["attribute: Color"].generation.value == 0.5
    # The edge that is missing between matched objects is not matched; a side without u is neither.
    assert [is_matched(fact) for fact in FACTS] == [True, False, True, False, True, False]
    assert found.matched_kinds["relation"].generation.value == pytest.approx(0.8)
    assert found.matched_kinds["attribute"].understanding.value == pytest.approx(0.6)
    assert found.matched.facts + found.unmatched.facts == 5


def test_kinds_that_are_compared_can_be_chosen() -> None:
    found = xtc_scores(FACTS, compared=QUESTION_KINDS)
    assert found.overall.generation.value == pytest.approx(2.8 / 5)
    assert found.overall.both == 4
    with pytest.raises(ValueError, match="nothing is compared"):
        xtc_scores(FACTS, compared=())
    with pytest.raises(ValueError, match="the threshold is"):
        xtc_scores(FACTS, threshold=1.5)


def test_nothing_to_score_is_told_and_not_zero() -> None:
    found = xtc_scores([])
    assert found.overall.generation.value is None
    assert found.overall.ccta.reason == "nothing was scored"
    assert found.nodes.value is None


def test_one_scene_has_no_interval() -> None:
    found = scores_of(FACTS[:3])
    assert found.generation.value is not None
    assert found.generation.low is None
    assert scores_of(FACTS).generation.low is not None


@pytest.mark.parametrize(
    ("u", "v", "quadrant"),
    [
        (0.6, 0.6, "aligned-correct"),
        (0.4, 0.4, "aligned-hallucination"),
        (0.4, 0.6, "generation-deficit"),
        (1.0, 0.0, "understanding-deficit"),
    ],
)
def test_quadrants_begin_at_three_of_five(u: float, v: float, quadrant: str) -> None:
    assert quadrant_of(u, v) == quadrant


GRADES = st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
SIDES = st.one_of(st.none(), GRADES)


@st.composite
def facts(draw: st.DrawFn, whole: bool = False) -> list[FactScore]:
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 4),
                st.sampled_from(QUESTION_KINDS),
                st.booleans(),
                GRADES if whole else SIDES,
                GRADES if whole else SIDES,
            ),
            min_size=1,
            max_size=25,
        )
    )
    return [
        FactScore(
            scene=f"s{scene}", question=str(at), kind=kind, category="", matched=matched, u=u, v=v,
            drawn="x" if u else "", said="y", reason="" if None not in (u, v) else "why",
        )
        for at, (scene, kind, matched, u, v) in enumerate(rows)
    ]  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(facts())
def test_figures_are_those_of_a_line_of_numpy(some: list[FactScore]) -> None:
    found = scores_of(some)
    pairs = [(f.u, f.v) for f in some if f.u is not None and f.v is not None]
    assert found.both == len(pairs)
    assert sum(found.quadrants.values()) == len(pairs)
    if not pairs:
        assert found.ccta.value is None
        return
    u, v = np.array(pairs, float).T
    c, a = 1 - abs(v - u), (v + u) / 2
    assert found.ccta.value == pytest.approx(c.mean())
    assert found.aw_ccta.value == pytest.approx((c * a).mean())
    assert found.covariance.value == pytest.approx(np.cov(c, a, bias=True)[0, 1], abs=1e-9)
    assert found.aw_ccta.value is not None
    assert found.ccta.value is not None
    assert 0 <= found.aw_ccta.value <= found.ccta.value + 1e-12 <= 1 + 1e-9
    for estimate in (found.ccta, found.aw_ccta):
        if estimate.low is not None and estimate.high is not None:
            assert -1e-9 <= estimate.low <= estimate.high <= 1 + 1e-9


@settings(max_examples=30, deadline=None)
@given(facts())
def test_every_fact_is_counted_somewhere(some: list[FactScore]) -> None:
    found = xtc_scores(some)
    assert found.overall.facts == len(some) == sum(k.facts for k in found.kinds.values())
    scored = sum(f.u is not None and f.v is not None and f.kind in COMPARED for f in some)
    assert found.overall.both == scored
    lost = sum(f.u is None or f.v is None for f in some)
    assert sum(found.reasons.values()) == lost
    read = len(some) - found.overall.unscored_generation
    assert found.matched.facts + found.unmatched.facts == read


@settings(max_examples=20, deadline=None)
@given(facts(whole=True))
def test_both_sides_may_be_exchanged(some: list[FactScore]) -> None:
    turned = [fact.model_copy(update={"u": fact.v, "v": fact.u}) for fact in some]
    one, other = scores_of(some), scores_of(turned)
    assert one.ccta.value == pytest.approx(other.ccta.value)
    assert one.aw_ccta.value == pytest.approx(other.aw_ccta.value)
    assert one.generation.value == pytest.approx(other.understanding.value)


@settings(max_examples=20, deadline=None)
@given(facts(whole=True))
def test_who_says_what_it_draws_agrees_with_itself(some: list[FactScore]) -> None:
    found = scores_of([fact.model_copy(update={"v": fact.u}) for fact in some])
    assert found.ccta.value == pytest.approx(1.0)
    assert found.aw_ccta.value == pytest.approx(found.generation.value)
    assert found.covariance.value == pytest.approx(0.0, abs=1e-9)

"""Bounds of a cascade: the exact test, what the bounds promise, and abstaining."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from scenewright.agents.panel.guarantee import (
    LEVELS,
    NOTHING,
    WEIGHTS,
    CascadeGuarantee,
    LabelledVerdicts,
    binomial_tail,
    design_effect,
    fewest,
    guarantee_of,
    upper_bound,
)

KINDS = ("object", "attribute", "relation")


def drawn(rng: np.random.Generator, pictures: int, sure: float = 4.0, together: float = 0.0,
          honest: float = 1.0) -> LabelledVerdicts:  # fmt: skip
    """Ten facts a picture; log-odds of spread ``sure`` say how probable a yes is.

    ``together``: share of the pictures in which every fact is as wrong as any. ``honest``: what
    stated log-odds are multiplied by.
    """
    n = pictures * 10
    odds = rng.normal(0.0, sure, n)
    likely = 1.0 / (1.0 + np.exp(-odds))
    number = np.repeat(np.arange(pictures), 10)
    hard = (rng.random(pictures) < together)[number]
    holds = np.where(hard, rng.random(n) < 0.5, rng.random(n) < likely)
    lead = 1.0 / (1.0 + np.exp(-odds * honest))
    return LabelledVerdicts(np.array(KINDS)[np.arange(n) % 3], lead, lead > 0.5, holds, number)


def chosen(
    judged: LabelledVerdicts, risk: float = 0.05, confidence: float = 0.95
) -> CascadeGuarantee:
    return guarantee_of(judged, first=("cheap",), aggregation="mean", quorum=1, risk=risk,
                        confidence=confidence)  # fmt: skip


def risks(made: CascadeGuarantee, judged: LabelledVerdicts) -> list[float]:
    """Share of wrong verdicts among the accepted, of every kind that accepts any."""
    wrong = judged.says != judged.holds
    found = []
    for kind in KINDS:
        low, high = made.bounds(kind)  # type: ignore[arg-type]
        mine = judged.kinds == kind
        accepted = mine & ((judged.lead > high) | (judged.lead < low))
        if accepted.any():
            found.append(float(wrong[accepted].mean()))
    return found


@given(st.integers(0, 40), st.integers(1, 60), st.floats(0.01, 0.4))
def test_the_tail_is_the_binomials(wrong: int, n: int, risk: float) -> None:
    assert binomial_tail(wrong, n, risk) == pytest.approx(binom.cdf(wrong, n, risk), abs=1e-9)
    if wrong < n:
        assert binomial_tail(wrong, n, upper_bound(wrong, n, 0.05)) == pytest.approx(0.05)


def test_so_many_right_verdicts_are_the_fewest_that_show_anything() -> None:
    least = fewest(0.05, 0.05)
    assert binomial_tail(0, least, 0.05) <= 0.05 < binomial_tail(0, least - 1, 0.05)
    assert least == 59


def test_levels_run_from_strict_to_all_and_share_one_budget() -> None:
    assert all(one > other for one, other in pairwise(LEVELS))
    assert LEVELS[-1] == 0.5
    assert set(WEIGHTS) <= set(LEVELS)
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("honest", "pictures"), [(1.0, 120), (3.0, 120), (0.5, 60)])
def test_the_risk_is_kept_as_often_as_promised(honest: float, pictures: int) -> None:
    rng = np.random.default_rng(7)
    other = drawn(np.random.default_rng(8), 20_000, honest=honest)
    kept = []
    for _ in range(120):
        made = chosen(drawn(rng, pictures, honest=honest), confidence=0.8)
        kept.append(all(risk <= 0.05 + 0.004 for risk in risks(made, other)))
    # Three standard errors below what is promised.
    assert np.mean(kept) >= 0.8 - 3 * np.sqrt(0.16 / len(kept))


def test_facts_that_err_together_count_as_fewer() -> None:
    rng = np.random.default_rng(3)
    apart, together = drawn(rng, 200), drawn(rng, 200, together=0.1)
    effects = [design_effect(one.says != one.holds, one.pictures) for one in (apart, together)]
    assert effects[0] < 1.3 < effects[1]
    other = drawn(np.random.default_rng(4), 20_000, together=0.1)
    kept = [
        all(
            risk <= 0.10 + 0.005
            for risk in risks(chosen(drawn(rng, 150, together=0.1), 0.1), other)
        )
        for _ in range(60)
    ]
    assert np.mean(kept) >= 0.95 - 3 * np.sqrt(0.0475 / len(kept))


def test_without_doubt_all_is_accepted_and_with_too_little_nothing() -> None:
    rng = np.random.default_rng(5)
    sure = chosen(drawn(rng, 300, sure=40.0))
    assert sure.coverage > 0.97
    assert all(found.at_most <= 0.05 for found in sure.kinds)
    few = chosen(drawn(rng, 6, sure=40.0))
    assert few.coverage == 0.0
    assert {few.bounds(kind) for kind in KINDS} == {NOTHING}  # type: ignore[arg-type]


def test_kinds_with_too_few_facts_are_taken_together() -> None:
    rng = np.random.default_rng(6)
    judged = drawn(rng, 300, sure=40.0)
    kinds = np.where(np.arange(3000) % 60 == 0, "attribute", "object")
    kinds[np.arange(3000) % 60 == 15] = "relation"
    made = chosen(LabelledVerdicts(kinds, judged.lead, judged.says, judged.holds, judged.pictures))
    assert {found.kinds for found in made.kinds} == {("object",), ("attribute", "relation")}
    assert made.bounds("attribute") == made.bounds("relation")
    assert made.bounds("realism") == NOTHING


def test_what_was_not_scored_is_not_accepted() -> None:
    judged = drawn(np.random.default_rng(9), 200, sure=40.0)
    lead = np.where(np.arange(2000) % 2, judged.lead, np.nan)
    made = chosen(LabelledVerdicts(judged.kinds, lead, judged.says, judged.holds, judged.pictures))
    assert made.facts == 2000
    assert sum(found.n for found in made.kinds) == 1000
    assert made.coverage <= 0.5


@pytest.mark.parametrize("given", [{"risk": 0.0}, {"risk": 0.5}, {"confidence": 1.0}])
def test_numbers_out_of_range_are_an_error(given: dict[str, float]) -> None:
    judged = drawn(np.random.default_rng(1), 2)
    with pytest.raises(ValueError, match=r"risk .* and confidence"):
        chosen(judged, **given)
    empty = np.zeros(0)
    nobody = LabelledVerdicts(empty.astype(str), empty, empty > 0, empty > 0, empty.astype(int))
    with pytest.raises(ValueError, match="no labelled facts"):
        chosen(nobody)

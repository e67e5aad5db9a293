"""Sentences that answer a question: verdicts by the interval, the same words everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.statistics.answers import (
    FEWEST,
    Contrast,
    agreement_answer,
    best_answer,
    difference_answer,
    highest_answer,
    level_answer,
    selection_answer,
)
from scenewright.evals.statistics.estimates import Estimate, paired
from scenewright.evals.statistics.figures import Figure


def contrast(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    n: int = 60,
    **more: object,
) -> Contrast:
    found = Estimate(value=value, low=low, high=high, n=n)
    return Contrast(
        **{"after": "B", "before": "A", "difference": found, "measure": "SGScore", **more}
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "verdict", "sentence"),
    [
        (
            contrast(0.031, 0.012, 0.05),
            "better",
            "B is better than A in SGScore by 0.031 [0.012, 0.050] (95 %, 60 items).",
        ),
        (
            contrast(-0.031, -0.05, -0.012),
            "worse",
            "B is worse than A in SGScore by 0.031 [0.012, 0.050] (95 %, 60 items).",
        ),
        (
            contrast(-0.031, -0.05, -0.012, higher_is_better=False),
            "better",
            "B is better than A in SGScore by 0.031 [0.012, 0.050] (95 %, 60 items, lower is "
            "better).",
        ),
        (
            contrast(0.0, -0.01, 0.01),
            "no difference",
            "No difference between B and A in SGScore: 0.000 [−0.010, +0.010] (95 %, 60 items); "
            "one of 0.05 or more is ruled out.",
        ),
        (
            contrast(0.02, -0.08, 0.12),
            "too little data",
            "Too little data to tell B from A in SGScore: +0.020 [−0.080, +0.120] (95 %, 60 "
            "items); a difference of 0.05 would take about 240 items.",
        ),
        (
            contrast(0.5, 0.4, 0.6, n=FEWEST - 1),
            "too little data",
            "Too few items to tell B from A in SGScore: +0.500 [+0.400, +0.600] over 9 items; at "
            "least 10 are needed.",
        ),
        (
            contrast(0.03, 0.01, 0.05, significant=False, tests=12),
            "too little data",
            "Too little data to tell B from A in SGScore: +0.030 [+0.010, +0.050] (95 %, 60 items) "
            "is not significant after Holm's correction for 12 comparisons.",
        ),
        (
            contrast(None, n=0),
            "not measured",
            "Not measured: B against A, since no item was scored on both sides.",
        ),
    ],
)
def test_a_difference_in_words(found: Contrast, verdict: str, sentence: str) -> None:
    answer = difference_answer(found)
    assert (answer.verdict, answer.sentence) == (verdict, sentence)


def test_items_that_are_all_alike_rule_nothing_out() -> None:
    answer = difference_answer(contrast(0.0, 0.0, 0.0, n=40))
    assert answer.verdict == "no difference"
    assert answer.sentence == "No difference between B and A in SGScore on any of 40 items."


def test_an_end_that_is_shown_as_zero_decides_nothing() -> None:
    assert contrast(0.02, 0.0004, 0.045).verdict == "no difference"
    assert contrast(0.02, 0.0006, 0.045).verdict == "better"


@given(
    st.integers(0, 2**31),
    st.floats(-0.2, 0.2),
    st.integers(2, 80),
)
def test_a_wide_interval_is_never_called_no_difference(seed: int, shift: float, n: int) -> None:
    drawn = np.random.default_rng(seed).normal(shift, 0.3, n)
    result = paired(drawn, resamples=200)
    found = contrast(result.mean, result.low, result.high, n)
    assert result.low is not None
    assert result.high is not None
    if found.verdict == "no difference":
        assert max(-result.low, result.high) <= found.margin
    if found.verdict in ("better", "worse"):
        assert result.low > 0 or result.high < 0
        assert (found.verdict == "better") == (drawn.mean() > 0)
        assert found.turned.verdict != found.verdict


def pairs(**means: tuple[float, float]) -> list[Contrast]:
    """All pairs of arms with a mean and half the width of its interval."""
    names = list(means)
    found = []
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            gap = means[other][0] - means[one][0]
            half = max(means[one][1], means[other][1])
            found.append(contrast(gap, gap - half, gap + half, after=other, before=one))
    return found


def test_the_best_of_several_is_named() -> None:
    answer = best_answer(pairs(a=(0.5, 0.01), b=(0.7, 0.01), c=(0.6, 0.01)))
    assert answer.verdict == "better"
    assert answer.sentence == (
        "b is better than the other 2 arms in SGScore: by 0.100 [0.090, 0.110] than the next best, "
        "c (95 %, 60 items)."
    )


def test_what_the_best_cannot_be_told_from_is_named() -> None:
    answer = best_answer(pairs(a=(0.5, 0.01), b=(0.7, 0.01), c=(0.69, 0.01), d=(0.68, 0.2)))
    assert answer.verdict == "too little data"
    assert answer.sentence == (
        "No arm is clearly the best in SGScore: b comes first; it is better than a (+0.200 "
        "[+0.190, +0.210]); it does not differ from c (+0.010 [0.000, +0.020]); it cannot be told, "
        "with this little data, from d (+0.020 [−0.180, +0.220])."
    )


def test_against_a_baseline_each_is_told() -> None:
    three = pairs(a=(0.5, 0.01), b=(0.7, 0.01), c=(0.4, 0.01))[:2]
    answer = best_answer(three)
    assert answer.sentence == (
        "Against a in SGScore: better: b (+0.200 [+0.190, +0.210]); worse: c (−0.100 [−0.110, "
        "−0.090])."
    )
    with pytest.raises(ValueError, match="no contrast"):
        best_answer([])


def test_unpaired_figures_are_told_apart_by_their_intervals() -> None:
    high, low = Figure(value=0.9, low=0.88, high=0.92), Figure(value=0.6, low=0.5, high=0.7)
    clear = highest_answer({"x": low, "y": high}, "accuracy", noun="judge", n=50, unit="picture")
    assert clear.verdict == "better"
    assert clear.sentence.startswith(
        "y has the highest accuracy, 0.900 [0.880, 0.920] (95 %, 50 pic"
    )
    near = Figure(value=0.89, low=0.85, high=0.93)
    open_ = highest_answer({"x": near, "y": high}, "accuracy", noun="judge", n=50)
    assert open_.verdict == "too little data"
    assert "its interval meets that of x" in open_.sentence
    few = highest_answer({"x": low, "y": high}, "accuracy", noun="judge", n=4)
    assert few.sentence.startswith("Too few items to tell which judge has the highest accuracy")
    alone = highest_answer({"y": high}, "accuracy", noun="judge", n=50)
    assert alone == level_answer("y", high, "accuracy", n=50)
    assert alone.sentence == (
        "y reaches a mean accuracy of 0.900 [0.880, 0.920] (95 %, 50 items); there is nothing to "
        "compare it with."
    )


@pytest.mark.parametrize(
    ("figure", "n", "verdict", "sentence"),
    [
        (
            Figure(value=0.62, low=0.55, high=0.69),
            480,
            "agrees",
            "The panel substantially agrees with people (α 0.62 [0.55, 0.69], 480 facts).",
        ),
        (
            Figure(value=0.62, low=0.1, high=0.9),
            480,
            "agrees",
            "The panel agrees with people beyond chance, but there is too little data to tell how "
            "far (α 0.62 [0.10, 0.90], 480 facts).",
        ),
        (
            Figure(value=0.01, low=-0.05, high=0.06),
            480,
            "no agreement",
            "Nothing shows that the panel agrees with people beyond chance (α 0.01 [−0.05, 0.06], "
            "480 facts).",
        ),
        (
            Figure(value=0.1, low=-0.4, high=0.5),
            480,
            "too little data",
            "Too little data to tell whether the panel agrees with people beyond chance (α 0.10 "
            "[−0.40, 0.50], 480 facts).",
        ),
        (
            Figure(value=-0.3, low=-0.4, high=-0.2),
            480,
            "no agreement",
            "The panel agrees with people less than chance would (α −0.30 [−0.40, −0.20], 480 "
            "facts).",
        ),
        (
            Figure(value=1.0),
            4,
            "too little data",
            "Too few facts to tell whether the panel agrees with people: α 1.00, 4 facts; at "
            "least 10 are needed.",
        ),
        (
            Figure(value=None),
            0,
            "not measured",
            "Not measured: whether the panel agrees with people.",
        ),
    ],
)
def test_agreement_in_words(figure: Figure, n: int, verdict: str, sentence: str) -> None:
    answer = agreement_answer("the panel", "agrees with people", figure, "α", n=n, unit="fact")
    assert (answer.verdict, answer.sentence) == (verdict, sentence)


@pytest.mark.parametrize(
    ("counts", "kept", "ranked", "verdict", "sentence"),
    [
        (
            {"kept": 80, "beyond the best": 1100, "unscored": 20, "unreadable": 0},
            0.8123,
            0.6441,
            "measured",
            "80 of 1,200 pictures are kept, with a mean S_att of 0.812 against 0.644 of all that "
            "were ranked; of the rest, 1,100 beyond the best and 20 unscored.",
        ),
        (
            {"kept": 1, "unscored": 0},
            1.0,
            1.0,
            "measured",
            "1 of 1 picture is kept, with a mean S_att of 1.000 against 1.000 of all that were "
            "ranked.",
        ),
        (
            {"kept": 0, "below the least score": 3, "unscored": 1},
            None,
            0.25,
            "measured",
            "None of 4 pictures are kept: 3 below the least score and 1 unscored; the mean S_att "
            "of the ranked ones is 0.250.",
        ),
        (
            {"kept": 0, "unscored": 2},
            None,
            None,
            "not measured",
            "Not measured: none of 2 pictures has a value of S_att to rank by: 2 unscored.",
        ),
    ],
)
def test_selections_in_words(
    counts: dict[str, int],
    kept: float | None,
    ranked: float | None,
    verdict: str,
    sentence: str,
) -> None:
    answer = selection_answer(counts, "S_att", kept=kept, ranked=ranked)
    assert (answer.verdict, answer.sentence) == (verdict, sentence)

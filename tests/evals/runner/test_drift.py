"""The sequential test of a judge's answers, and the sentinel pictures."""

from __future__ import annotations

import numpy as np
import pytest

from scenewright.core.images import hash_of_image
from scenewright.core.ports.judge import out_of_vocabulary
from scenewright.evals.runner.sentinels import BOUND, PLACES, DriftTest, place_of, sentinel_pictures
from scenewright.miniature.world import JUDGE_VOCABULARY

QUESTIONS = 36


def told(test: DriftTest, odds: np.ndarray, passes: int = 1, start: int = 0) -> int:
    """Answers until an alarm, over ``passes`` passes of all questions with these log odds; 0: no
    alarm."""
    for at in range(passes * QUESTIONS):
        question = (start + at) % QUESTIONS
        test.see(question, np.array([place_of(float(1 / (1 + np.exp(-odds[question]))))]))
        if test.alarms[0]:
            return at + 1
    return 0


def predictive(test: DriftTest, question: int) -> np.ndarray:
    """Return (runs, places): the distribution of the next answer if nothing has changed."""
    runs = len(test.sums)
    each = [test._likely(question, np.full(runs, at))[0] for at in range(PLACES)]
    return np.stack([(test._weights * grid).sum((1, 2)) for grid in each], 1)


def test_places_are_rounded_log_odds() -> None:
    assert [place_of(p) for p in (0.0, 0.5, 1.0)] == [0, PLACES // 2, PLACES - 1]
    assert place_of(1 / (1 + np.exp(-1.23))) == round((1.2 + BOUND) / 0.1)


def test_the_predictive_sums_to_one_and_is_what_an_answer_is_weighed_by() -> None:
    rng = np.random.default_rng(3)
    test = DriftTest(4, runs=3)
    for at in range(40):
        found = predictive(test, at % 4)
        assert found.shape == (3, PLACES)
        assert found.min() > 0.0
        assert found.sum(1) == pytest.approx(np.ones(3))
        test.see(at % 4, rng.integers(0, PLACES, 3))


def test_answers_that_stay_are_expected_ever_more() -> None:
    test = DriftTest(2)
    likely = []
    for _ in range(6):
        likely.append(float(predictive(test, 0)[0, 70]))
        test.see(0, np.array([70]))
        test.see(1, np.array([20]))
    assert likely == sorted(likely)
    assert likely[-1] > 0.8


def test_constant_answers_raise_nothing_and_a_first_pass_says_nothing() -> None:
    odds = np.random.default_rng(1).normal(0, 2, QUESTIONS)
    test = DriftTest(QUESTIONS)
    assert told(test, odds) == 0
    assert test.evidence[0] < 2.0
    assert told(test, odds, passes=15) == 0
    assert test.evidence[0] == 0.0


@pytest.mark.parametrize("kind", ["probabilities", "bare"])
def test_another_model_is_noticed_soon(kind: str) -> None:
    rng = np.random.default_rng(2)
    one, other = rng.normal(0, 2, (2, QUESTIONS))
    if kind == "bare":
        one, other = 9 * np.sign(one), 9 * np.sign(other)
    test = DriftTest(QUESTIONS)
    assert told(test, one, passes=3) == 0
    assert 0 < told(test, other) <= 30


def test_a_judge_that_wavers_raises_nothing_and_runs_side_by_side_do_not_mix() -> None:
    rng = np.random.default_rng(4)
    odds = rng.normal(0, 1, QUESTIONS)
    wavering, constant = DriftTest(QUESTIONS, runs=50), DriftTest(QUESTIONS)
    for at in range(6 * QUESTIONS):
        question = at % QUESTIONS
        drawn = rng.random(50) < 1 / (1 + np.exp(-odds[question]))
        places = np.where(drawn, PLACES - 1, 0)
        places[7] = place_of(0.3)
        wavering.see(question, places)
        constant.see(question, places[7:8])
    assert wavering.alarms.sum() == 0
    assert wavering.sums[7] == pytest.approx(constant.sums[0])


def test_the_pictures_that_ship_can_be_asked() -> None:
    pictures = sentinel_pictures()
    facts = [fact for picture in pictures for fact in picture.facts]
    truth = [holds for picture in pictures for holds in picture.holds]
    assert len(pictures) == 6
    assert len({fact.id for fact in facts}) == QUESTIONS
    assert 6 < sum(truth) < 30
    assert not [fact.id for fact in facts if out_of_vocabulary("j", JUDGE_VOCABULARY, fact)]
    assert all(not fact.parents for fact in facts)


def test_every_copy_of_a_picture_is_another_picture() -> None:
    picture = sentinel_pictures()[0]
    copies = [picture.copy(number) for number in range(1100)]
    assert len({hash_of_image(copy) for copy in copies}) == len(copies)
    changed = [np.any(np.asarray(c) != np.asarray(picture.image), 2).sum() for c in copies]
    assert set(changed) <= {1, 2}

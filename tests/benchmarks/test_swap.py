"""The benchmark of exchanged models on answers that are made up."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.swap import (
    EACH,
    FORMS,
    NEVER,
    QUESTIONS,
    WITHIN,
    Pair,
    Sizes,
    delays_of,
    formed,
    simulate,
    simulated,
)
from scenewright.evals.runner.sentinels import PLACES, place_of


def pair(seed: int, same: bool = False) -> Pair:
    rng = np.random.default_rng(seed)
    one, other = rng.normal(0.0, 2.0, (2, QUESTIONS))
    odds = np.stack([one, one if same else other])[:, None] + rng.normal(0, 0.05, (2, 20, 1))
    return Pair(1.0 / (1.0 + np.exp(-odds)), rng.random(QUESTIONS) < 0.5)


def test_forms_of_answers() -> None:
    rng = np.random.default_rng(1)
    said = np.array([0.2, 0.52, 0.9, 1.0])
    assert formed("probabilities", said, rng).tolist() == [place_of(float(p)) for p in said]
    assert formed("votes", said, rng).tolist() == [0, *[PLACES - 1] * 3]
    stated = formed("stated", np.full(500, 0.5), rng)
    assert 3 < len(set(stated.tolist())) < 21
    drawn = formed("sampled", np.full(2000, 0.25), rng)
    assert set(drawn.tolist()) == {0, PLACES - 1}
    assert drawn.mean() / (PLACES - 1) == pytest.approx(0.25, abs=0.05)


def test_an_exchange_is_noticed_and_none_is_cried_where_there_is_none() -> None:
    moved = simulate([pair(1), pair(2)], "probabilities", 10, exchange=True)
    delays = delays_of(moved.alarm, moved)
    assert len(delays) == 40
    assert delays.min() >= EACH
    assert delays.max() <= 36
    assert set((delays % EACH).tolist()) == {0.0}
    # Rows are held apart from the last picture that fitted.
    assert np.median(moved.since - moved.swap) == 0
    still = simulate([pair(1)], "probabilities", 20, exchange=False)
    assert (still.alarm == NEVER).all()
    same = simulate([pair(3, same=True)], "noisy", 10, exchange=True)
    assert np.isinf(delays_of(same.alarm, same)).all()


def test_a_late_alarm_is_a_missed_one_and_an_early_one_no_delay() -> None:
    found = simulate([pair(1)], "votes", 2, exchange=True)
    alarm = found.swap + np.array([WITHIN + 1, WITHIN, -6, NEVER - 1000])
    assert delays_of(alarm, found).tolist() == [np.inf, WITHIN, np.inf]


def test_all_figures() -> None:
    figures = simulated([pair(1), pair(2)], Sizes(0, 0, 20, 5, 3, 0, 0))
    for front in ("", "floor.", "accuracy."):
        for form in ("", *(f".{form}" for form in FORMS)):
            assert f"{front}delay_facts.median{form}" in figures
            assert f"{front}false_alarms_per_1000{form}" in figures
    assert figures["delay_questions.median"] == pytest.approx(20 * figures["delay_facts.median"])
    # A judge that wavers turns now and then: the plain rule cries all the time.
    assert figures["floor.false_alarms_per_1000.sampled"] > 900
    assert figures["false_alarms_per_1000"] <= figures["floor.false_alarms_per_1000"]

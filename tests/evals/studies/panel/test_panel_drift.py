"""Judges that change on the way, and judges that are slow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenewright.evals.studies.panel.simulator import SimulatedJudge, SimulationSpec, simulate
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from scenewright.evals.studies.panel.unreliable_judges import (
    call_seconds,
    changed_answers,
    changed_judges,
    cut_off,
    modelled_seconds,
    watch,
)
from tests.evals.studies.panel.panel_tables import random_table


def good_judges(n_items: int = 150) -> AnswerTable:
    judges = tuple(SimulatedJudge(id=f"{at}", sensitivity=0.9, specificity=0.9) for at in range(3))
    return simulate(SimulationSpec(judges=judges, n_items=n_items))


def test_changed_fingerprints_are_seen_and_unknown_ones_are_not_guessed() -> None:
    table = random_table(0)
    first, second, third = table.judges
    before = replace(
        table,
        judges=(
            replace(first, fingerprint="a"), replace(second, fingerprint="b"), third,
        ),
    )  # fmt: skip
    after = replace(
        table,
        judges=(
            replace(first, fingerprint="a"),
            replace(second, fingerprint="c"),
            replace(third, fingerprint="d"),
        ),
    )
    assert changed_judges(before, after) == (second.id,)
    assert changed_judges(before, before) == ()


def test_updates_move_the_rates_as_they_say() -> None:
    n, shift = 200_000, 0.3
    rng = np.random.default_rng(0)
    holds = np.ones(n)
    said = (rng.random(n) < 0.9).astype(float)
    turned = changed_answers(said, "worse", shift, rng)
    assert turned[holds == 1].mean() == pytest.approx(0.9 - shift * 0.8, abs=0.005)
    eager = changed_answers(1 - said, "eager", shift, rng)
    assert eager.mean() == pytest.approx(0.1 + shift * 0.9, abs=0.005)
    kept = changed_answers(np.array([np.nan, 0.2]), "worse", 1.0, rng)
    assert np.isnan(kept[0])
    assert kept[1] == 0.8


def test_without_a_change_one_stream_in_twenty_is_an_alarm() -> None:
    seen = watch(good_judges(), 0, "worse", 0.0, streams=200)
    assert seen.caught == pytest.approx(0.05, abs=0.01)
    assert seen.agreement[0] == pytest.approx(seen.agreement[1])
    assert max(seen.found) <= 0.06
    assert seen.enough is None


def test_larger_changes_are_seen_sooner() -> None:
    table = good_judges()
    small, large = (watch(table, 1, "worse", shift, streams=60) for shift in (0.1, 0.4))
    assert large.caught == 1.0
    assert small.caught < 1.0 or np.median(small.delays) > 2 * np.median(large.delays)
    assert large.agreement[1] < small.agreement[1] < small.agreement[0]
    assert large.enough is not None
    assert small.enough is None or large.enough < small.enough
    assert list(large.found) == sorted(large.found)
    again = watch(table, 1, "worse", 0.4, streams=60)
    assert np.array_equal(again.delays, large.delays)


def test_a_watch_needs_company_and_images() -> None:
    table = good_judges(150)
    with pytest.raises(PanelStudyError, match="alone"):
        watch(table.with_judges([0]), 0, "worse", 0.1)
    with pytest.raises(PanelStudyError, match="needs 40"):
        watch(table.of_images(np.arange(30)), 0, "worse", 0.1)
    with pytest.raises(PanelStudyError, match="a shift of 2"):
        watch(table, 0, "worse", 2.0)


def test_a_limit_leaves_late_calls_unscored_and_saves_their_time() -> None:
    table = random_table(0, n_items=2, missing=0.0)
    seconds = np.array([[1.0, 5.0, 2.0]] * len(table.images))
    none, cut = cut_off(table, seconds, (np.inf, 3.0))
    assert none.lost == 0.0
    assert np.array_equal(none.table.said, table.said)
    assert (none.wall == 5.0).all()
    assert (cut.wall == 3.0).all()
    assert cut.lost == pytest.approx(1 / 3)
    assert np.isnan(cut.table.said[:, 1]).all()
    assert np.isnan(cut.table.votes[:, 1]).all()
    assert cut.table.asked[:, 1].all()
    assert np.array_equal(cut.table.said[:, [0, 2]], table.said[:, [0, 2]])


def test_seconds_of_a_call_are_those_of_its_facts() -> None:
    table = random_table(0, n_items=2, missing=0.0)
    assert call_seconds(replace(table, seconds=np.zeros_like(table.seconds))) is None
    timed = replace(table, seconds=np.full(table.said.shape, 0.5))
    found = call_seconds(timed)
    assert found is not None
    facts = np.bincount(table.image_of)
    assert found == pytest.approx(np.repeat(0.5 * facts[:, None], 3, axis=1))


def test_modelled_seconds_have_the_median_and_spread_that_are_asked_for() -> None:
    table = random_table(0, n_items=1500, missing=0.0)
    found = np.log(modelled_seconds(table, 3.0, 0.8))
    assert np.median(found) == pytest.approx(np.log(3.0), abs=0.05)
    assert found.std() == pytest.approx(0.8, abs=0.03)
    with pytest.raises(PanelStudyError, match="use positive ones"):
        modelled_seconds(table, 0.0, 0.8)

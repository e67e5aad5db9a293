"""The benchmark of the panel studies: which figures it tells, by which names."""

from __future__ import annotations

import pytest

from benchmarks._recovery import ESTIMATORS, Recovered
from benchmarks.panel_study import breakdowns, honest, panel, recovery_figures


def test_figures_are_named_by_what_is_estimated_and_how() -> None:
    rows = [
        Recovered(at, name, "a", 0.5, 0.5 + 0.1 * (-1) ** at, 0.45, 0.7, 0.0)
        for name in ("sensitivity.labelled", "sensitivity.dawid_skene", "correlation.families")
        for at in range(4)
    ]
    figures = recovery_figures(rows, tuple(ESTIMATORS), "correlated_30.")
    for name in ("sensitivity", "dawid_skene_sensitivity", "families_correlation"):
        assert figures[f"correlated_30.recovery_error.{name}"]["mean"] == pytest.approx(0.1)
        assert figures[f"correlated_30.bias.{name}"]["mean"] == pytest.approx(0.0)
        assert figures[f"correlated_30.coverage.{name}"]["mean"] == 1.0
    assert len(figures) == 9


def test_a_panel_has_two_families_with_the_correlation() -> None:
    made = panel(4, 0.3, 20)
    assert [judge.family for judge in made.judges] == list("aaabbb")
    assert {judge.correlation for judge in made.judges} == {0.3}
    assert panel(4, 0.3, 20) == made
    assert panel(5, 0.3, 20).judges != made.judges


def test_breakdowns_of_every_attack_are_shares() -> None:
    figures = breakdowns(*honest(0, 12), ("mean", "median"), repeats=1)
    assert set(figures) <= {
        f"{attack}.{name}"
        for attack in ("breakdown", "breakdown_yes", "breakdown_random")
        for name in ("mean", "median")
    }
    for name in ("mean", "median"):
        figure = figures[f"breakdown.{name}"]
        assert 0.0 < figure["low"] <= figure["mean"] <= figure["high"] <= 1.0
        # All against the truth leave nothing of it, and fewer than a half suffice.
        assert figure["mean"] <= 5 / 9

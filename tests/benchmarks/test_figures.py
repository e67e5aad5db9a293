"""The figures of the loop's benchmark, and how they are shown."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks._loop import MEASURES, Accuracy, Kept, Marks
from benchmarks._scenes import ALL_LEVELS
from benchmarks._templates import shown
from benchmarks.loop import COUNTS, NAMES, READINGS, RUNS, SceneRow, figures_of, markdown, verdicts
from scenewright.core.facts import FACT_KINDS, FactKind, Recall

LEVELS = ALL_LEVELS
ACCURATE = dict.fromkeys(FACT_KINDS, Accuracy(0.95, 0.9, 400, 200))
JUDGE = dict.fromkeys(LEVELS, ACCURATE)


def kept(yes: int, of: int = 10, images: int = 1) -> Kept:
    recall = Recall(yes=yes, no=of - yes)
    marks = Marks(objects=recall, attributes=recall, relations=recall, alpha=0.5)
    better = Recall(yes=of)
    chosen = Marks(objects=better, attributes=better, relations=better, alpha=0.5)
    return Kept(round=0, images=images, loop=chosen, report=marks)


def rows(n: int = 30) -> list[SceneRow]:
    """Composition finds two of ten facts more than triplets, the loop more in hard scenes.

    There feedback finds one more, the tournament two.
    """
    rng = random.Random(1)
    found = []
    for at in range(n):
        base, level = rng.randint(1, 6), LEVELS[at % len(LEVELS)]
        yes = dict.fromkeys(READINGS, base + 2) | {"triplets": base}
        if level == "hard":
            yes["feedback"] += 1
            yes["tournament"] += 2
        found.append(
            SceneRow(
                fingerprint="f",
                at=at,
                scene=str(at),
                level=level,
                kept={name: kept(n_yes, images=2) for name, n_yes in yes.items()},
                detected={name: kept(n_yes).report for name, n_yes in yes.items()},
                took={name: dict.fromkeys(COUNTS, 2.0) for name in READINGS},
                lost={
                    name: {"loop": None if at % 2 else 1.0, "report": None if at % 2 else 2.0}
                    for name in RUNS
                },
                seconds=1.0,
            )
        )
    return found


@pytest.fixture(scope="module", autouse=True)
def few_resamples() -> Iterator[None]:
    """Shorten the bootstrap: how wide an interval is concerns no test here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks._loop.RESAMPLES", 100)
        yield


@pytest.fixture(scope="module")
def corrected(few_resamples: None) -> dict[str, Any]:
    """Figures of thirty scenes, corrected for the judge."""
    return figures_of(rows(), JUDGE)


def test_every_measure_has_its_key_for_every_strategy_and_level_raw_and_corrected(
    corrected: dict[str, Any],
) -> None:
    for name in READINGS:
        for prefix in ("", *(f"{level}." for level in LEVELS)):
            for measure in MEASURES:
                # Judges are not as accurate on every level, so the whole is not corrected.
                for which in ("", "corrected.") if prefix else ("",):
                    figure = corrected[f"{which}{prefix}{measure}.{name}"]
                    assert figure["low"] <= figure["mean"] <= figure["high"]
            assert f"detected.{prefix}sgscore.{name}" in corrected
        for count in COUNTS:
            assert corrected[f"{count}.{name}"]["mean"] == 2.0
        assert corrected[f"loop.sgscore.{name}"]["mean"] == 1.0
    assert json.loads(json.dumps(corrected)) == corrected


def test_gains_are_paired_and_each_compares_what_it_says(corrected: dict[str, Any]) -> None:
    gain = corrected["gain.composition"]
    assert [gain[key] for key in ("mean", "low", "high")] == pytest.approx([0.2] * 3)
    assert corrected["gain.feedback"]["mean"] == pytest.approx(0.1 / 5)
    assert corrected["gain.tournament_vs_best_of_n"]["mean"] == pytest.approx(0.2 / 5)
    assert corrected["detected.gain.tournament_vs_best_of_n"]["mean"] == pytest.approx(0.2 / 5)
    assert corrected["hard.gain.feedback"]["mean"] == pytest.approx(0.1)
    assert corrected["simple.gain.feedback"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert corrected["hard.gain.feedback_vs_best_of_n"]["mean"] == pytest.approx(0.1)
    assert corrected["hard.gain.tournament_vs_feedback"]["mean"] == pytest.approx(0.1)
    assert corrected["gain.facts_composition"]["mean"] == pytest.approx(0.2)
    assert corrected["corrected.hard.gain.composition"]["mean"] == pytest.approx(0.2 / 0.85)


def test_facts_lost_are_of_the_scenes_that_needed_a_second_round(corrected: dict[str, Any]) -> None:
    assert corrected["regressions.tournament"]["mean"] == 1.0
    assert corrected["regressions_reported.tournament"]["mean"] == 2.0
    assert corrected["repaired.tournament"] == 0.5
    assert "regressions.composition" not in corrected


def test_the_whole_is_the_mean_of_its_equally_large_levels(corrected: dict[str, Any]) -> None:
    parts = [corrected[f"{level}.sgscore.feedback"]["mean"] for level in LEVELS]
    assert corrected["sgscore.feedback"]["mean"] == pytest.approx(sum(parts) / len(LEVELS))


def test_what_a_judge_cannot_tell_is_not_corrected() -> None:
    blind = JUDGE | {"hard": ACCURATE | {"attribute": Accuracy(0.55, 0.5)}}
    figures = figures_of(rows(), blind)
    assert "corrected.hard.sgscore.feedback" in figures
    assert "corrected.medium.facts.feedback" in figures
    assert not [key for key in figures if key.startswith(("corrected.hard.facts", "corrected.f"))]
    assert not [key for key in figures_of(rows(), {}) if key.startswith("corrected.")]
    assert not [key for key in figures_of(rows()) if key.startswith("corrected.")]


def test_no_rows_are_an_error_and_a_level_without_rows_has_no_figures() -> None:
    with pytest.raises(ValueError, match="no scenes"):
        figures_of([])
    one = figures_of(rows(1), JUDGE)
    assert "simple.sgscore.triplets" in one
    assert "hard.sgscore.triplets" not in one


@pytest.mark.parametrize(("n", "judge"), [(30, JUDGE), (30, None), (1, None)])
def test_the_section_has_a_line_for_every_strategy_and_whole_tables(
    n: int, judge: dict[str, dict[FactKind, Accuracy]] | None
) -> None:
    figures = figures_of(rows(n), judge)
    lines = markdown(figures, 30, "2025-01-31").splitlines()
    for words in NAMES.values():
        # A row of scores and one of what it took.
        assert sum(line.startswith(f"| {words} |") for line in lines) == 2
    first = lines[: lines.index("")]
    assert len({line.count("|") for line in first}) == 1
    assert shown(figures["sgscore.feedback"]) in "\n".join(lines)
    assert lines[-1].startswith("30 held-out scenes")


def test_negative_numbers_carry_a_minus_sign_and_missing_ones_a_dash() -> None:
    assert shown({"mean": -0.0124, "low": -0.5, "high": 0.25}) == "−0.012 [−0.500, 0.250]"
    assert shown(None) == "–"


@pytest.mark.parametrize(
    ("low", "high", "verb"),
    [(0.01, 0.03, "beats"), (-0.03, -0.01, "falls behind"), (-0.01, 0.02, "is not clearly")],
)
def test_the_section_says_what_the_intervals_allow(low: float, high: float, verb: str) -> None:
    gain = {"mean": (low + high) / 2, "low": low, "high": high}
    level = {"mean": 0.5, "low": 0.4, "high": 0.6}
    (line,) = verdicts(
        {"gain.feedback_vs_best_of_n": gain, "hard.gain.feedback_vs_best_of_n": level}
    )
    assert f"hard {shown(level)}" in line
    assert verb in line
    assert shown(gain) in line

"""The study of changed pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scenewright.core.facts import Fact
from scenewright.evals.studies.panel.parts.images import PART, ImagesOptions, changes_of
from scenewright.evals.studies.panel.perturbations import PERTURBATIONS
from scenewright.evals.studies.panel.study import PanelStudyResult, unmet_need
from scenewright.evals.studies.panel.table import PanelStudyError
from tests.evals.studies.panel.lookers import Looker, context_of, sees, shades, untouched

FACTS = shades(8)
WORDS = {PERTURBATIONS["words_present"].of(of.picture.load(), 3).tobytes() for of in FACTS}


def reads(image: Image.Image, fact: Fact) -> float:
    """Says yes to everything where the words claim it."""
    return 0.9 if image.tobytes() in WORDS else sees(fact)


def delicate(image: Image.Image, fact: Fact) -> float:
    """Says yes to everything as soon as anything was done to the picture."""
    return sees(fact) if untouched(image) else 0.9


def record(
    result: PanelStudyResult, voter: str, change: str, against: str = "plain"
) -> dict[str, float]:
    (found,) = [
        row for row in result.records["images_shifts"]
        if (row["voter"], row["change"], row["against"]) == (voter, change, against)
    ]  # fmt: skip
    return dict(found)


async def test_shifts_flips_and_the_attack_are_those_of_the_judges(tmp_path: Path) -> None:
    judges = [
        Looker("firm", lambda image, fact: sees(fact)),
        Looker("reads", reads),
        Looker("delicate", delicate),
    ]
    context = context_of(FACTS, judges, tmp_path)
    options = ImagesOptions(changes=("noise", "words_neutral", "words_present"))
    result = await PART.run(context, options)
    for change in ("noise", "words_present"):
        firm = record(result, "looker:firm", change)
        assert firm["absolute"] == firm["flips"] == firm["fooled"] == 0.0
    noise = record(result, "looker:delicate", "noise")
    # The dog's 0.1 becomes 0.9, the cat's 0.9 stays.
    assert noise["signed"] == pytest.approx(0.4)
    assert noise["gained_yes"] == 1.0
    assert noise["lost_yes"] == 0.0
    assert noise["accuracy"] == pytest.approx(-0.5)
    assert noise["fooled"] == 1.0
    # Both are fooled by the words, but only one of them reads.
    assert record(result, "looker:delicate", "words_present")["fooled"] == 1.0
    assert record(result, "looker:delicate", "words_present", "words_neutral")["false_yes"] == 0.0
    assert record(result, "looker:reads", "words_present", "words_neutral")["false_yes"] == 1.0
    mean = record(result, "mean", "noise")
    assert mean["absolute"] == pytest.approx(0.4 / 3)
    assert mean["flips"] == 0.0
    assert "judges these clearly follow: reads" in result.findings[0]
    assert "raises the share of false facts" in result.findings[0]
    assert result.figures["images.noise/3.looker:delicate.fooled"] == {
        "mean": 1.0, "low": 1.0, "high": 1.0,
    }  # fmt: skip


async def test_every_change_without_an_effect_has_no_direction(tmp_path: Path) -> None:
    judges = [Looker(name, lambda image, fact: sees(fact)) for name in "ab"]
    result = await PART.run(context_of(FACTS, judges, tmp_path), ImagesOptions(severities=(1, 4)))
    text = " ".join(result.findings)
    assert "raises" not in text
    assert "none of 2 judges clearly follows" in text
    assert "do not clearly differ" in text
    for chart in result.charts:
        assert chart.draw().axes
    assert {frame.name for frame in result.tables} == {
        "images_changes", "images_voters", "images_words",
    }  # fmt: skip
    assert "images_severity" in {chart.name for chart in result.charts}


async def test_unscored_answers_are_told_and_count_for_nothing(tmp_path: Path) -> None:
    def shy(image: Image.Image, fact: Fact) -> float | None:
        return sees(fact) if untouched(image) else None

    judges = [Looker("shy", shy), Looker("firm", lambda image, fact: sees(fact))]
    result = await PART.run(
        context_of(FACTS, judges, tmp_path), ImagesOptions(changes=("jpeg", "noise"))
    )
    assert record(result, "looker:shy", "noise")["unscored"] == 1.0
    assert record(result, "looker:shy", "noise")["signed"] is None
    assert record(result, "mean", "noise")["unscored"] == 0.0
    assert any("noise/3 50.0 %" in note and "it would not say" in note for note in result.notes)
    for chart in result.charts:
        chart.draw()


async def test_without_truth_the_score_is_told_and_no_accuracy(tmp_path: Path) -> None:
    judges = [Looker("reads", reads), Looker("firm", lambda image, fact: sees(fact))]
    context = context_of(FACTS, judges, tmp_path)
    unknown = replace(context, table=replace(context.table, truth=np.full(len(FACTS), np.nan)))
    result = await PART.run(unknown, ImagesOptions(changes=("words_present",)))
    assert record(result, "looker:reads", "words_present")["accuracy"] is None
    assert "raises the probability of facts" in result.findings[0]


def test_words_that_claim_bring_the_neutral_ones_with_them() -> None:
    found = changes_of(ImagesOptions(changes=("jpeg",), texts=("trust me",), severities=(5, 2, 2)))
    assert [change.form for change in found] == [
        "jpeg/2", "jpeg/5", "words_own_1/2", "words_own_1/5", "words_neutral/2", "words_neutral/5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (ImagesOptions(changes=("sepia",)), "unknown change 'sepia': use some of jpeg"),
        (ImagesOptions(severities=(0,)), "severity is 0"),
        (ImagesOptions(changes=()), "no changes are chosen"),
        (ImagesOptions(changes=(), texts=(" ",)), "write some words"),
    ],
)
def test_wrong_options_say_what_to_use(options: ImagesOptions, reason: str) -> None:
    with pytest.raises(PanelStudyError, match=reason):
        changes_of(options)


def test_an_unknown_aggregator_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown aggregator 'sum'"):
        ImagesOptions(changes=("jpeg",), aggregators=("sum",))


def test_it_needs_judges_to_ask(tmp_path: Path) -> None:
    context = context_of(FACTS, [Looker("a", reads)], tmp_path)
    assert "asked again" in unmet_need(PART, context.table, None)
    assert not unmet_need(PART, context.table, context.live)

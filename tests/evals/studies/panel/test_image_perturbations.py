"""Changes of pictures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.studies.panel.perturbations import (
    ANSWER,
    NEUTRAL,
    PERTURBATIONS,
    brightened,
    jpeg,
    noisy,
    overlaid,
    resized,
    watermarked,
    written,
)
from scenewright.evals.studies.panel.table import PanelStudyError

PAINTING = synthetic_facts(1, seed=3)[0].picture.load()
GREY = Image.new("RGB", (200, 100), (100, 100, 100))


def far(one: Image.Image, other: Image.Image) -> float:
    """Mean squared distance of pixels."""
    a, b = (np.asarray(image.convert("RGB"), float) for image in (one, other))
    return float(((a - b) ** 2).mean())


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_a_change_keeps_the_size_and_is_the_same_each_time(name: str) -> None:
    made = PERTURBATIONS[name]
    for image in (PAINTING, PAINTING.convert("L"), PAINTING.resize((61, 33))):
        changed = made.of(image, 3, seed=5)
        assert changed.mode == "RGB"
        assert changed.size == image.size
        assert changed.tobytes() == made.of(image, 3, seed=5).tobytes()
        assert far(image, changed) > 0.0


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_a_higher_severity_changes_more(name: str) -> None:
    found = [far(PAINTING, PERTURBATIONS[name].of(PAINTING, s)) for s in range(1, 6)]
    assert found == sorted(found)
    assert found[0] < found[-1]


@pytest.mark.parametrize("severity", [0, 6, -1])
def test_other_severities_are_refused(severity: int) -> None:
    with pytest.raises(PanelStudyError, match="use 1"):
        PERTURBATIONS["jpeg"].of(GREY, severity)


def test_the_plain_picture_is_left_as_it_was() -> None:
    before = PAINTING.tobytes()
    for made in PERTURBATIONS.values():
        made.of(PAINTING, 5)
    assert PAINTING.tobytes() == before


def test_brightness_multiplies_and_cuts_at_white() -> None:
    assert brightened(GREY, 0.5).getpixel((3, 3)) == (50, 50, 50)
    assert brightened(GREY, 3.0).getpixel((3, 3)) == (255, 255, 255)


def test_noise_has_its_spread_and_hangs_on_seed_and_picture() -> None:
    gaps = np.asarray(noisy(GREY, 0.1, 1), float) - 100.0
    # 60,000 draws of standard deviation 25.5: the mean's own is 0.1.
    assert abs(gaps.mean()) < 0.5
    assert gaps.std() == pytest.approx(25.5, rel=0.02)
    assert noisy(GREY, 0.1, 1).tobytes() != noisy(GREY, 0.1, 2).tobytes()
    other = GREY.copy()
    other.putpixel((0, 0), (0, 0, 0))
    moved = np.asarray(noisy(other, 0.1, 1), float)[1:] - np.asarray(noisy(GREY, 0.1, 1), float)[1:]
    assert np.abs(moved).max() > 1.0


def test_what_is_of_one_colour_survives_blur_and_resizing() -> None:
    for name in ("blur", "resize"):
        assert far(GREY, PERTURBATIONS[name].of(GREY, 5)) == 0.0
    assert resized(PAINTING, 1.0).tobytes() == PAINTING.convert("RGB").tobytes()
    assert far(PAINTING, jpeg(PAINTING, 95)) < 20.0 < far(PAINTING, jpeg(PAINTING, 5))


def test_words_stand_below_the_middle() -> None:
    changed = np.asarray(overlaid(GREY, "words", 0.5, 1.0), float) != 100
    assert np.flatnonzero(changed.any((1, 2))).min() > 50


def test_opacity_and_lines_tell_how_much_is_covered() -> None:
    faint, plain, twice = (
        overlaid(GREY, "words", 0.6, opacity, lines)
        for opacity, lines in ((0.3, 1), (1.0, 1), (1.0, 2))
    )
    assert far(GREY, faint) < far(GREY, plain) < far(GREY, twice)
    assert far(GREY, overlaid(GREY, "words", 0.6, 0.0)) == 0.0


def test_words_that_claim_cover_about_as_much_as_the_neutral_ones() -> None:
    ground = Image.new("RGB", (400, 400), (100, 100, 100))

    def covered(name: str) -> float:
        return float((np.asarray(PERTURBATIONS[name].of(ground, 3)) != 100).any(2).mean())

    for name in ("words_present", "words_answer"):
        assert covered(name) == pytest.approx(covered("words_neutral"), rel=0.35)
    assert len(ANSWER) * 2 <= len(NEUTRAL)


def test_the_mark_is_small_and_in_the_corner() -> None:
    changed = (np.asarray(watermarked(GREY, 0.2, 0.5)) != 100).any(2)
    assert 0 < changed.mean() < 0.03
    rows, columns = np.nonzero(changed)
    assert rows.min() > 70
    assert columns.min() > 170


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_words_are_refused(text: str) -> None:
    with pytest.raises(PanelStudyError, match="write some words"):
        written("mine", text)
    with pytest.raises(PanelStudyError, match="write some words"):
        overlaid(GREY, text, 0.5, 1.0)

"""Closed worlds as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.core.ports.vision import ExtractionError
from scenewright.miniature.world import COLORS, KINDS, PREDICATES, can_hold
from scenewright.tools.vision.extraction.world import load_world, miniature_world

GOOD = """
kinds = ["person", "ball"]
predicates = ["left of", "holding"]
[attributes]
color = ["red", "blue"]
[[possible]]
predicate = "holding"
subjects = ["person"]
"""


def test_the_miniature_has_the_painters_words() -> None:
    world = miniature_world()
    assert {*world.kinds} == {*KINDS}
    assert {*world.attributes["color"]} == {*COLORS}
    assert {*world.predicates} == {*PREDICATES} - {"near"}
    for subject in KINDS:
        for target in KINDS:
            for predicate in world.predicates:
                assert world.can_hold(subject, predicate, target) == can_hold(
                    subject, predicate, target
                )


def test_a_world_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD, encoding="utf-8")
    world = load_world(path)
    assert world.can_hold("person", "holding", "ball")
    assert not world.can_hold("ball", "holding", "person")
    assert world.can_hold("ball", "left of", "person")
    assert not world.can_hold("ball", "eating", "person")
    assert world.kinds == ("person", "ball")
    assert world.can_hold("ball", "left of", "ball")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kinds = [", "is not valid TOML"),
        ("kinds = []", "kinds"),
        ('kinds = ["a", "a"]', "listed twice"),
        ('kinds = ["a"]\ncolour = 1', "colour"),
        ('kinds = ["a"]\n[attributes]\ncolor = ["red"]', "fewer than two"),
        ('kinds = ["a"]\n[[possible]]\npredicate = "on"', "add them to predicates"),
    ],
)
def test_a_broken_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ExtractionError, match=told) as error:
        load_world(path)
    assert str(path) in str(error.value)
    with pytest.raises(ExtractionError, match="cannot be read"):
        load_world(tmp_path / "missing.toml")

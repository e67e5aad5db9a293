"""The predicates of Fair-PSG and their classes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenewright.core.vocabulary import EXCLUSIVE, FAIR_PSG, kind_of
from scenewright.miniature.world import PREDICATES as PAINTED

SEED = Path(__file__).resolve().parents[3] / "shared" / "seeds" / "xtc-bench.txt"


def test_there_are_56_each_in_one_class() -> None:
    assert len(FAIR_PSG) == len(set(FAIR_PSG)) == 56
    assert all(kind_of(word) for word in FAIR_PSG)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("above, in, on, next to, under, behind", "spatial"),
        ("standing on, sitting on, lying on, leaning against", "posture"),
        ("walking on, running on, riding, flying over, moving towards", "locomotion"),
        ("looking at, holding, talking to, playing with, following", "social"),
    ],
)
def test_the_papers_examples_are_in_its_classes(words: str, expected: str) -> None:
    assert {kind_of(word) for word in words.split(", ")} == {expected}


def test_the_words_of_the_miniature_have_a_class_and_others_none() -> None:
    assert all(kind_of(word) for word in PAINTED)
    assert kind_of("  Sitting   ON ") == "posture"
    assert kind_of("photosynthesizing") is None


def test_the_exclusive_predicates_are_the_authors() -> None:
    named = {"eating", "driving"}
    others = {"carrying", "holding", "wearing", "drinking", "riding"}
    assert named | others == EXCLUSIVE <= set(FAIR_PSG)


def test_they_are_those_of_the_papers_table() -> None:
    if not SEED.is_file():
        pytest.skip(f"{SEED} is not here: the paper's text travels beside the repository")
    line = next(x for x in SEED.read_text("utf-8").splitlines() if x.startswith("Predicate Acc"))
    named = re.findall(r"(?<=[\d—] )([a-z][a-z ]+?) (?=[\d—])", line)
    assert {*named} - {"mean"} == {*FAIR_PSG}

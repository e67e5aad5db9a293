"""Painted facts of known truth."""

from __future__ import annotations

from collections import Counter

import pytest

from scenewright.core.facts import FACT_KINDS
from scenewright.core.images import png_bytes
from scenewright.core.questions import NO_RELATION
from scenewright.evals.judge_reports.labelled_facts import ABSENT
from scenewright.evals.judge_reports.synthetic_facts import HOLDS, SHARES, WRONG, synthetic_facts

FACTS = synthetic_facts(12, seed=3)


def test_kinds_and_truths_are_balanced() -> None:
    counts = Counter((known.fact.kind, known.group) for known in FACTS)
    for kind in FACT_KINDS:
        for group, share in SHARES.items():
            assert 0.8 * 12 * share <= counts[kind, group] <= 12 * share
    assert {known.holds for known in FACTS if known.group == HOLDS} == {True}
    assert {known.holds for known in FACTS if known.group in (WRONG, ABSENT)} == {False}


def test_false_premises_are_about_things_that_no_true_fact_names() -> None:
    by_picture: dict[str, set[str]] = {}
    for known in FACTS:
        if known.holds:
            there = by_picture.setdefault(known.picture.name, set())
            there |= {known.fact.subject.split(".")[0], (known.fact.target or ".").split(".")[0]}
    for known in FACTS:
        ends = {known.fact.subject.split(".")[0], (known.fact.target or ".").split(".")[0]} - {""}
        if known.group == ABSENT:
            assert ends - by_picture[known.picture.name]


def test_every_fact_can_be_asked_by_itself() -> None:
    assert len({known.fact.id for known in FACTS}) == len(FACTS)
    assert not any(known.fact.parents for known in FACTS)
    relations = [known.fact for known in FACTS if known.fact.kind == "relation"]
    assert {fact.options[-1] for fact in relations} == {NO_RELATION}


def test_the_same_seed_gives_the_same_facts_and_pictures() -> None:
    again = synthetic_facts(12, seed=3)
    assert [known.fact for known in again] == [known.fact for known in FACTS]
    assert png_bytes(again[0].picture.load()) == png_bytes(FACTS[0].picture.load())
    # More paintings leave the first ones as they are.
    few = [known.fact for known in synthetic_facts(3, seed=3)]
    assert few == [known.fact for known in FACTS[: len(few)]]
    assert synthetic_facts(1, seed=4)[0].fact != FACTS[0].fact


def test_fewer_than_one_painting_is_refused() -> None:
    with pytest.raises(ValueError, match="use 1 or more"):
        synthetic_facts(0)

"""Balanced samples: exact counts, one draw per seed, nested, and refusal of what is too few."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Dataset, DatasetError, Item, SampleSpec
from scenewright.evals.datasets.registry import LEVELS, limited, rank, sampled
from tests.evals.eval_sets import ListedSet


def scene(objects: int, relations: int) -> SceneGraph:
    things = tuple(SceneObject(id=f"ball.{n}", name="ball") for n in range(objects))
    pairs = [(a.id, b.id) for a in things for b in things if a.id != b.id][:relations]
    return SceneGraph(
        objects=things,
        relations=tuple(Relation(source=a, predicate="near", target=b) for a, b in pairs),
    )


def items(relations: list[int], **more: Any) -> list[Item]:
    return [
        Item(id=f"i{n}", scene=scene(6, size), group=f"g{n % 2}", category=f"c{n % 3}", **more)
        for n, size in enumerate(relations)
    ]


MIXED = ListedSet(items([1, 5, 9, 2, 6, 10, 3, 7, 11, 1, 4, 8, 2, 5, 12]))


def ids(dataset: Dataset) -> list[str]:
    return [item.id for item in dataset]


@given(
    st.lists(st.integers(0, 12), max_size=40),
    st.dictionaries(st.sampled_from(LEVELS), st.integers(0, 6), min_size=1),
    st.integers(0, 3),
)
def test_a_sample_holds_exactly_what_was_asked_or_says_how_many_there_are(
    relations: list[int], counts: dict[str, int], seed: int
) -> None:
    whole = ListedSet(items(relations))
    held = Counter(item.level for item in whole)
    spec = SampleSpec(counts=counts, seed=seed)
    if not relations or any(held[level] < n for level, n in counts.items()):
        with pytest.raises(DatasetError, match=r"has too few items|cannot be sampled"):
            list(sampled(whole, spec))
    else:
        chosen = list(sampled(whole, spec))
        assert Counter(item.level for item in chosen) == Counter(counts)
        # In the order of the set, each once.
        assert [i.id for i in chosen] == [i.id for i in whole if i in chosen]
    if relations:
        taken = Counter(
            item.level for item in sampled(whole, spec.model_copy(update={"short": "take"}))
        )
        assert taken == Counter({k: min(n, held[k]) for k, n in counts.items()})


def test_the_draw_depends_on_the_seed_and_not_on_the_order_of_the_file() -> None:
    spec = SampleSpec(each=2, seed=1)
    turned = ListedSet(list(reversed(MIXED.items)))
    assert ids(sampled(MIXED, spec)) == ids(sampled(MIXED, spec))
    assert set(ids(sampled(turned, spec))) == set(ids(sampled(MIXED, spec)))
    draws = {tuple(ids(sampled(MIXED, SampleSpec(each=2, seed=s)))) for s in range(6)}
    assert len(draws) > 3


def test_a_smaller_sample_is_part_of_a_larger_one_and_classes_do_not_touch_each_other() -> None:
    few = set(ids(sampled(MIXED, SampleSpec(each=2))))
    many = set(ids(sampled(MIXED, SampleSpec(each=4))))
    assert few < many
    hard = set(ids(sampled(MIXED, SampleSpec(counts={"hard": 2}))))
    assert hard == {i for i in few if MIXED.items[int(i[1:])].level == "hard"}


def test_every_item_is_drawn_about_as_often_as_any_other() -> None:
    drawn: Counter[str] = Counter()
    for seed in range(300):
        drawn.update(ids(sampled(MIXED, SampleSpec(counts={"simple": 2}, seed=seed))))
    # Five simple items, two a draw: 120 expected each, standard deviation 8.5.
    assert len(drawn) == 5
    assert all(80 < n < 160 for n in drawn.values())


def test_gamma_counts_objects_too() -> None:
    whole = ListedSet(items([1, 1, 5]))
    # γ = 1: six objects each, which is medium.
    assert len(ids(sampled(whole, SampleSpec(counts={"medium": 3}, gamma=1.0)))) == 3


def test_groups_and_categories_are_classes_too() -> None:
    chosen = list(sampled(MIXED, SampleSpec(by="group", counts={"g1": 3})))
    assert [item.group for item in chosen] == ["g1"] * 3
    by_category = Counter(i.category for i in sampled(MIXED, SampleSpec(by="category", each=4)))
    assert by_category == Counter({"c0": 4, "c1": 4, "c2": 4})


def test_items_without_a_class_are_never_taken() -> None:
    whole = ListedSet([Item(id="text", prompt="a ball"), *items([1])])
    assert ids(sampled(whole, SampleSpec(each=1))) == ["i0"]
    with pytest.raises(DatasetError, match="no item of listed has a complexity"):
        list(sampled(ListedSet([Item(id="text", prompt="a ball")]), SampleSpec(each=1)))


def test_too_few_items_are_told_with_what_there_is() -> None:
    with pytest.raises(DatasetError, match=r"hard has 5, wanted 9.*hard 5, medium 5, simple 5"):
        list(sampled(MIXED, SampleSpec(counts={"hard": 9, "simple": 1})))
    with pytest.raises(DatasetError, match="g7 has 0, wanted 1"):
        list(sampled(MIXED, SampleSpec(by="group", counts={"g7": 1})))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (SampleSpec(by="size", each=1), "not by 'size'"),
        (SampleSpec(counts={"hrad": 1}), "no level 'hrad'"),
        (SampleSpec(counts={"hard": -1}), "-1 items"),
        (SampleSpec(counts={"hard": 1}, each=1), "not both"),
    ],
)
def test_a_sample_that_cannot_be_is_refused_before_reading(spec: SampleSpec, told: str) -> None:
    with pytest.raises(DatasetError, match=told):
        sampled(MIXED, spec)


def test_without_counts_the_set_stays_as_it_is() -> None:
    assert sampled(MIXED, SampleSpec()) is MIXED


def test_the_fingerprint_tells_what_is_taken() -> None:
    specs = [SampleSpec(each=1), SampleSpec(each=2), SampleSpec(each=1, seed=1)]
    prints = {sampled(MIXED, spec).fingerprint for spec in specs}
    prints |= {limited(MIXED, 1).fingerprint, limited(MIXED, 2).fingerprint, MIXED.fingerprint}
    assert len(prints) == 6
    a = SampleSpec(counts={"hard": 1, "simple": 2})
    b = SampleSpec(counts={"simple": 2, "hard": 1})
    assert sampled(MIXED, a).fingerprint == sampled(MIXED, b).fingerprint


def test_parts_are_sets_with_the_names_of_the_whole() -> None:
    part = limited(MIXED, 2)
    assert isinstance(part, Dataset)
    assert ids(part) == ["i0", "i1"]
    assert (part.name, part.source) == (MIXED.name, MIXED.source)


def test_ranks_differ_by_seed_and_id() -> None:
    assert len({rank(s, i) for s in range(20) for i in ("a", "b", "1", "11")}) == 80

"""Few examples that span the scale."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.ports.vision import RealismError
from scenewright.tools.vision.realism.examples import Example, Examples, spanning_examples
from tests.tools.vision.realism.rated import BOX, example


def at(shape: float, texture: float, category: str = "dog", name: str = "") -> Example:
    return Example(
        name or f"{category}-{shape}-{texture}", Path("a.png"), category, BOX, shape, texture
    )


def test_the_ends_come_first_then_the_corners_then_the_middle_by_hand() -> None:
    objects = [at(s, t) for s in (1, 2, 3, 4, 5) for t in (1, 2, 3, 4, 5)]
    chosen = spanning_examples(objects, "Dog").objects
    # (1, 5) and (5, 1) are equally far from both ends: the smaller id is first.
    assert [(o.shape, o.texture) for o in chosen] == [(1, 1), (5, 5), (1, 5), (5, 1), (3, 3)]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=30))
@settings(deadline=None)
def test_the_order_given_does_not_matter_and_the_extremes_are_in(
    grades: list[tuple[int, int]],
) -> None:
    objects = [at(s, t, name=f"{number:02}") for number, (s, t) in enumerate(grades)]
    chosen = spanning_examples(objects, "dog").objects
    shuffled = random.Random(0).sample(objects, len(objects))
    assert spanning_examples(shuffled, "dog").objects == chosen
    assert len({o.id for o in chosen}) == len(chosen) == min(5, len(objects))
    if len(objects) > 1:
        sums = [o.shape + o.texture for o in objects]
        assert {min(sums), max(sums)} <= {o.shape + o.texture for o in chosen}


def test_others_fill_up_a_category_that_has_too_few() -> None:
    objects = [at(1, 1, "cat"), at(5, 5, "cat"), at(5, 4, "dog"), at(5, 1, "hat")]
    found = spanning_examples(objects, "dog", 3)
    assert [o.category for o in found.objects] == ["dog", "cat", "hat"]
    assert found.note == "1 of 3 examples are of the category 'dog', 2 of others"
    everything = spanning_examples(objects, "dog", 9)
    assert len(everything.objects) == 4
    assert spanning_examples(objects, "boat", 2).note == (
        "0 of 2 examples are of the category 'boat', 2 of others"
    )
    assert spanning_examples([*objects, at(1, 1, "dog")], "dog", 2).note == ""


def test_nothing_to_choose_from_is_told() -> None:
    with pytest.raises(RealismError, match="no rated objects"):
        spanning_examples([], "dog")
    with pytest.raises(RealismError, match="use 1 or more"):
        spanning_examples([at(1, 1)], "dog", 0)
    with pytest.raises(RealismError, match="at least"):
        Examples(())


def test_the_digest_follows_ratings_and_pictures(tmp_path: Path) -> None:
    first = [example(tmp_path, "a", 1, 2), example(tmp_path, "b", 5, 5)]
    digest = Examples(tuple(first)).digest
    assert Examples(tuple(reversed(first))).digest == digest
    assert Examples(tuple(first), count=1).digest != digest
    assert Examples((first[0], example(tmp_path, "b", 4, 5))).digest != digest
    first[0].picture.write_bytes(first[1].picture.read_bytes())
    assert Examples(tuple(first)).digest != digest
    first[0].picture.unlink()
    with pytest.raises(RealismError, match=r"a\.png"):
        _ = Examples(tuple(first)).digest


def test_notes_are_of_the_categories_asked_for(tmp_path: Path) -> None:
    examples = Examples((example(tmp_path, "a", 1, 2),), count=1)
    assert examples.of("DOG").objects[0].joint == 1.5
    assert not examples.notes
    examples.of("cat")
    assert examples.notes == ("0 of 1 examples are of the category 'cat', 1 of others",)

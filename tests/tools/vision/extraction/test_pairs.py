"""What boxes allow between two things."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from scenewright.core.ports.vision import Detection, ReadAttribute, Thing
from scenewright.core.vocabulary import DIRECTIONS
from scenewright.tools.vision.detection.boxes import center_of
from scenewright.tools.vision.extraction.pairs import (
    by_rivals,
    clear_directions,
    contact_options,
    contacts,
    directions,
    distinguishing_phrases,
    nearest_pairs,
)

OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
_AT = st.integers(0, 100)
BOXES = st.builds(
    lambda x, y, w, h: (float(x), float(y), float(x + w), float(y + h)),
    *(_AT, _AT, st.integers(1, 30), st.integers(1, 30)),
)


def thing(id_: str, box: tuple[float, float, float, float], color: str = "") -> Thing:
    known = (ReadAttribute("color", color),) if color else ()
    return Thing(id_, Detection(id_.partition(".")[0], box), attributes=known)


@given(BOXES, BOXES)
def test_the_clear_direction_is_the_larger_difference_of_the_middles(
    first: tuple[float, float, float, float], second: tuple[float, float, float, float]
) -> None:
    a, b = thing("a.1", first), thing("b.1", second)
    (x, y), (to_x, to_y) = center_of(first), center_of(second)
    dx, dy = to_x - x, to_y - y
    assume(abs(dx) != abs(dy))
    if abs(dx) > abs(dy):
        right = "left of" if dx > 0 else "right of"
    else:
        right = "above" if dy > 0 else "below"
    offered = clear_directions(a, b)
    assert right in offered
    assert OPPOSITE[right] in offered
    assert len({*offered}) == 3
    # Neither of the other two can be right as well.
    other = next(one for one in DIRECTIONS if one not in offered)
    assert other in directions(a, b)
    assert clear_directions(a, b) == clear_directions(a, b)


@given(BOXES, BOXES, st.floats(0.0, 0.2))
def test_things_apart_have_no_contact(
    first: tuple[float, float, float, float],
    second: tuple[float, float, float, float],
    touch: float,
) -> None:
    a, b = thing("person.1", first), thing("hat.1", second)
    apart = max(
        max(first[0], second[0]) - min(first[2], second[2]),
        max(first[1], second[1]) - min(first[3], second[3]),
    )
    if apart > touch * 128:
        assert contacts(a, b, 128, touch) == ()
    assert not {"holding", "wearing", "riding"} & {*contacts(b, a, 128, touch)}
    for options in contact_options(a, b, contacts(a, b, 128, touch)):
        assert 2 <= len(options) <= 3
        assert len({*options}) == len(options)


def test_two_of_a_class_are_told_apart_by_what_is_known() -> None:
    red, blue = thing("dog.1", (0, 0, 9, 9), "red"), thing("dog.2", (20, 0, 29, 9), "blue")
    assert distinguishing_phrases(red, blue) == ("red dog", "blue dog")
    assert distinguishing_phrases(red, thing("dog.3", (0, 0, 9, 9), "red")) is None
    assert distinguishing_phrases(red, thing("dog.3", (0, 0, 9, 9))) is None
    assert distinguishing_phrases(red, thing("cat.1", (0, 0, 9, 9), "red")) == ("dog", "cat")
    assert nearest_pairs([red, blue]) == [(red, blue)]


def test_the_nearest_pairs_come_first_and_rivals_are_named() -> None:
    near, far = thing("ball.1", (10, 0, 20, 10)), thing("hat.1", (90, 0, 99, 10))
    dog, rival = thing("dog.1", (0, 0, 9, 9)), thing("dog.2", (50, 50, 60, 60))
    pairs = nearest_pairs([dog, far, near, rival])
    assert pairs[0] == (dog, near)
    assert nearest_pairs([dog, far, near], most=1) == [(dog, near)]
    groups = by_rivals([(dog, near), (near, far)], [dog, near, far, rival])
    assert groups == {frozenset({"dog.2"}): [0], frozenset(): [1]}

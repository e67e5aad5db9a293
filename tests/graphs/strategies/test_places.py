"""Where a tournament repairs, and what it can lose there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scenewright.core.layout import Region
from scenewright.graphs.strategies.base import Attempt, RoundContext
from scenewright.graphs.strategies.places import beside, overlap, places_of
from tests.graphs.strategies.situations import FACTS, fact, round_context

BALL, RED, CAT = "o:ball.1", "a:ball.1:color", "o:cat.1"
LEFT = fact("left of|table.1").id


def places(seen: RoundContext) -> list[set[str]]:
    return [set(place.objects) for place in places_of(seen, "tournament")]


def test_facts_that_share_objects_are_one_place_and_others_are_not(tmp_path: Path) -> None:
    assert places(round_context(tmp_path, [CAT, RED])) == [{"cat.1"}, {"ball.1"}]
    (place,) = places_of(round_context(tmp_path, [BALL]), "tournament")
    # Of a relation whose end is absent that end alone is drawn.
    assert place.objects == ("ball.1",)
    assert set(place.missing) == {BALL, RED, fact("on|table.1").id}


def test_both_ends_of_a_relation_may_move(tmp_path: Path) -> None:
    (place,) = places_of(round_context(tmp_path, [LEFT]), "tournament")
    assert set(place.objects) == {"dog.1", "table.1"}
    assert place.missing == (LEFT,)


def test_an_object_that_was_seen_elsewhere_leaves_nothing_behind(tmp_path: Path) -> None:
    seen = round_context(tmp_path, [RED])
    (plain,) = places_of(seen, "tournament")
    moved = replace(seen, seen={"ball.1": Region(0.8, 0.8, 1.0, 1.0)})
    (place,) = places_of(moved, "tournament")
    assert place.regions == (*plain.regions, (0.8, 0.8, 1.0, 1.0))
    same = replace(seen, seen={"ball.1": Region(*plain.regions[0])})
    assert places_of(same, "tournament")[0].regions == plain.regions


def test_a_place_watches_what_it_touches(tmp_path: Path) -> None:
    seen = round_context(tmp_path, [CAT])
    (place,) = places_of(seen, "tournament")
    held = {one.id for one in FACTS} - set(place.missing)
    assert set(place.watched) <= held
    # Where no place is known, everything may be lost.
    (everywhere,) = places_of(round_context(tmp_path, [CAT], planned={}), "tournament")
    assert everywhere.regions == ()
    assert set(everywhere.watched) == held


def attempt(round: int, fixed: bool) -> Attempt:
    target = frozenset({CAT, "r:cat.1|above|dog.1"})
    every = frozenset(one.id for one in FACTS)
    return Attempt(
        round=round,
        strategy="tournament",
        target=target | every,
        fixed=frozenset({CAT}) if fixed else frozenset(),
        broken=frozenset(),
        better=fixed,
    )


def test_a_place_that_was_tried_in_vain_grows_and_then_is_the_whole_picture(
    tmp_path: Path,
) -> None:
    seen = round_context(tmp_path, [CAT])
    sides = []
    for tries in range(3):
        tried = tuple(attempt(at, fixed=False) for at in range(1, tries + 1))
        (place,) = places_of(replace(seen, tried=tried), "tournament")
        assert place.tries == tries
        sides.append(sum(right - left for left, _, right, _ in place.regions))
    assert 0 < sides[0] < sides[1]
    assert sides[2] == 0
    (again,) = places_of(
        replace(seen, tried=(attempt(1, fixed=False), attempt(2, fixed=True))), "tournament"
    )
    assert again.tries == 0


def test_a_place_that_is_hopeless_does_not_keep_the_others(tmp_path: Path) -> None:
    tried = tuple(replace(attempt(at, fixed=False), fixed=frozenset({RED})) for at in range(1, 3))
    seen = round_context(tmp_path, [CAT, RED], tried=tried)
    assert places(seen) == [{"ball.1"}]


def test_an_absent_object_goes_beside_what_it_relates_to(tmp_path: Path) -> None:
    seen = round_context(tmp_path, [BALL], planned={}, seen={"table.1": Region(0.4, 0.5, 0.7, 0.8)})
    (place,) = places_of(seen, "tournament")
    # The ball is to be on the table.
    (region,) = place.regions
    assert region == pytest.approx((0.4, 0.2, 0.7, 0.5))


@pytest.mark.parametrize("predicate", ["left of", "right of", "above", "below", "on", "holding"])
def test_what_stands_beside_is_inside_the_picture(predicate: str) -> None:
    other = Region(0.4, 0.4, 0.6, 0.6)
    found = beside(predicate, other)
    assert found is not None
    assert 0 <= found.left < found.right <= 1
    assert 0 <= found.top < found.bottom <= 1
    assert (overlap(found, other) > 0) == (predicate == "holding")
    assert beside("left of", Region(0.05, 0.2, 0.9, 0.8)) is None

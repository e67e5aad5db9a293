"""What objects say of pictures and of each other, against hand-made tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.object_analysis import (
    by_picture,
    discrepancy,
    image_correlations,
    in_order,
    pairs_of,
    pictures_rated,
    raters,
)
from scenewright.evals.human_ratings.rated_objects import GivenRating, RatedObject
from scenewright.evals.statistics.figures import Figure


def thing(
    image: str,
    side: float,
    shape: float = 3,
    texture: float = 3,
    whole: float | None = None,
    **more: object,
) -> RatedObject:
    return RatedObject.model_validate(
        {
            "id": f"{image}-{side}", "image": image, "category": "dog", "box": (0, 0, side, side),
            "shape": shape, "texture": texture, "image_realism": whole, **more,
        }
    )  # fmt: skip


def rated_twice(number: int, first: tuple[int, int], second: tuple[int, int]) -> RatedObject:
    ratings = tuple(
        GivenRating(rater=name, shape=s, texture=t)
        for name, (s, t) in zip("ab", (first, second), strict=True)
    )
    return thing(f"{number}.png", 9, ratings=ratings)


def test_the_rows_of_table_two_take_their_objects() -> None:
    # The largest objects follow their pictures, the smallest ones go against them.
    objects = [
        one
        for at, whole in enumerate((1.0, 2.0, 3.0, 4.0, 5.0))
        for one in (
            thing(f"{at}", 30, 6 - whole, whole, whole),
            thing(f"{at}", 90, whole, whole, whole),
        )
    ]
    found = image_correlations(objects, resamples=50)
    assert found["largest"]["shape"].value == pytest.approx(1.0)
    assert found["smallest"]["shape"].value == pytest.approx(-1.0)
    assert found["all"]["shape"].value == pytest.approx(0.0)
    # The means of shape are 3 in every picture: nothing to rank.
    assert found["average"]["shape"].value is None
    assert found["average"]["texture"].value == pytest.approx(1.0)
    assert [found[row]["joint"].n for row in found] == [10, 5, 5, 5, 5]


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)), min_size=4, max_size=9
    )
)
@settings(max_examples=25, deadline=None)
def test_correlations_are_those_of_scipy(rows: list[tuple[int, int, int]]) -> None:
    objects = [thing(f"{at}", 10, s, t, w) for at, (s, t, w) in enumerate(rows)]
    found = image_correlations(objects, resamples=5)["all"]
    for aspect, values in (("shape", [r[0] for r in rows]), ("texture", [r[1] for r in rows])):
        wholes = [r[2] for r in rows]
        if len(set(values)) == 1 or len(set(wholes)) == 1:
            assert found[aspect].value is None  # type: ignore[index]
        else:
            wanted = spearmanr(values, wholes).statistic
            assert found[aspect].value == pytest.approx(wanted)  # type: ignore[index]


def test_objects_are_ordered_by_size_and_pictures_without_a_rating_left_out() -> None:
    objects = [thing("a", 5, whole=2), thing("a", 50, whole=2), thing("b", 9)]
    assert [o.box[2] for o in by_picture(objects)["a"]] == [50, 5]
    assert [(whole, len(members)) for whole, members in pictures_rated(objects)] == [(2.0, 2)]


def test_pictures_must_be_rated_and_with_one_voice() -> None:
    with pytest.raises(RealismError, match="no picture is rated as a whole"):
        image_correlations([thing("a", 5)])
    with pytest.raises(RealismError, match=r"a has the image realism 2\.0 and 3\.0"):
        image_correlations([thing("a", 5, whole=2), thing("a", 6, whole=3)])


def test_discrepancy_by_hand() -> None:
    pairs = [(1, 1), (2, 3), (5, 3.5), (5, 3), (1, 4), (5, 1)]
    objects = [
        thing(f"{at}", 9, s, t, source="x" if at % 2 else "y") for at, (s, t) in enumerate(pairs)
    ]
    found = discrepancy(objects, resamples=20)["all"]
    assert found.counts == (1, 2, 1, 2)
    assert found.high.value == pytest.approx(3 / 6)
    wanted = spearmanr(*zip(*pairs, strict=True)).statistic
    assert found.correlation.value == pytest.approx(wanted)
    apart = discrepancy(objects, by=lambda o: o.source, resamples=20)
    assert {name: one.counts for name, one in apart.items()} == {
        "x": (0, 1, 1, 1), "y": (1, 1, 0, 1)
    }  # fmt: skip
    assert discrepancy([]) == {}


def test_the_five_largest_stand_for_a_picture() -> None:
    # The smallest object goes against its picture and has no say.
    objects = [
        thing(f"{at}", side, score, score, whole)
        for at, whole in enumerate((1.0, 2.0, 3.0, 4.0, 5.0))
        for side, score in (*((50 + n, whole) for n in range(5)), (9, 6 - whole))
    ]
    found = image_correlations(objects, resamples=20)
    assert found["largest_five"]["joint"].value == pytest.approx(1.0)
    assert found["smallest"]["joint"].value == pytest.approx(-1.0)


def given_by(*told: tuple[str, int, str]) -> RatedObject:
    ratings = tuple(GivenRating(rater=n, shape=s, texture=3, when=w) for n, s, w in told)
    return thing(f"{told}", 9, ratings=ratings)


def test_the_first_two_raters_are_the_first_two_who_rated_and_not_the_first_two_names() -> None:
    """Ann is asked about the second object because Zoe and Bea differ; she comes first by name."""
    one = given_by(("Zoe", 5, "10:00"), ("Bea", 5, "10:01"))
    two = given_by(("Ann", 2, "10:09"), ("Bea", 1, "10:03"), ("Zoe", 4, "10:02"))
    objects = [one, two, given_by(("Bea", 2, "10:04"), ("Zoe", 2, "10:05"))]
    assert [rating.rater for rating in in_order(two)] == ["Zoe", "Bea", "Ann"]
    assert [(at, a.rater, b.rater) for at, a, b in pairs_of(objects)] == [
        (0, "Bea", "Zoe"), (1, "Bea", "Zoe"), (2, "Bea", "Zoe"),
    ]  # fmt: skip
    found = raters(objects)
    # Bea 5 1 2, Zoe 5 4 2: two of three the same, by chance 2 of 9.
    assert found.same["shape"].value == pytest.approx(2 / 3)
    assert found.kappa["shape"].value == pytest.approx((2 / 3 - 2 / 9) / (1 - 2 / 9))
    assert found.distance["shape"].value == pytest.approx(1.0)
    assert found.reviewed.value == pytest.approx(1 / 3)
    assert found.third == 1


def test_without_times_the_order_is_that_of_the_file() -> None:
    item = given_by(("Zoe", 1, ""), ("Bea", 4, ""), ("Ann", 2, ""))
    assert [(a.rater, b.rater) for _, a, b in pairs_of([item])] == [("Bea", "Zoe")]
    half = given_by(("Zoe", 1, "10:05"), ("Bea", 4, ""), ("Ann", 2, "10:01"))
    assert [rating.rater for rating in in_order(half)] == ["Zoe", "Bea", "Ann"]


@given(st.lists(st.tuples(*[st.integers(1, 5)] * 4, st.integers(0, 5)), min_size=2, max_size=12))
@settings(max_examples=25, deadline=None)
def test_every_interval_stays_in_the_range_of_its_figure(rows: list[tuple[int, ...]]) -> None:
    objects = [
        thing(
            f"{picture}", 9 + at, (a + c) / 2, (b + d) / 2, None,
            ratings=(
                GivenRating(rater="a", shape=a, texture=b),
                GivenRating(rater="b", shape=c, texture=d),
            ),
        )
        for at, (a, b, c, d, picture) in enumerate(rows)
    ]  # fmt: skip
    found = raters(objects)
    group = discrepancy(objects, resamples=20)["all"]
    within: list[tuple[Figure, float, float]] = [
        *((figure, 0, 1) for figure in (found.reviewed, group.high, *found.same.values())),
        *((figure, -1, 1) for figure in (group.correlation, *found.kappa.values())),
        *((figure, 0, 4) for figure in found.distance.values()),
        *((figure, 1, 5) for figure in (group.ocr, *group.mean.values())),
    ]
    for figure, low, high in within:
        for value in (figure.low, figure.value, figure.high):
            assert value is None or low <= value <= high


def test_agreement_of_two_raters_by_hand() -> None:
    objects = [
        rated_twice(0, (1, 3), (1, 3)),
        rated_twice(1, (1, 3), (2, 3)),
        rated_twice(2, (2, 5), (5, 4)),
        rated_twice(3, (5, 1), (1, 4)),
        thing("none", 3),
    ]
    found = raters(objects)
    assert found.objects == 4
    # Shapes 1 1 2 5 and 1 2 5 1: the same 1 of 4, by chance (2·2 + 1·1 + 1·1) / 16.
    assert found.kappa["shape"].value == pytest.approx((1 / 4 - 6 / 16) / (1 - 6 / 16))
    # Differences of 3 or more: shape of the third (3), both of the fourth.
    assert found.reviewed.value == pytest.approx(2 / 4)
    assert found.weighted["shape"].value is not None
    with pytest.raises(RealismError, match="two raters"):
        raters(objects[-1:])

"""What predicates mean the same, follow from each other, clash, and are exchanged by people."""

from __future__ import annotations

import itertools
import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.vocabulary import (
    PREDICATES,
    canonical,
    canonical_key,
    converse,
    converse_wordings,
    entailed,
    entails,
    excludes,
    first_known,
    holds_with,
    inverse,
    is_symmetric,
    opposite,
    same_key,
    synonymous,
)

DATA = tomllib.loads((files("scenewright.core") / "vocabulary.toml").read_text(encoding="utf-8"))
ROWS = [*DATA["predicate"], *DATA["short"]["predicates"]]
WORDINGS = [form for row in ROWS for form in (row["name"], *row.get("means", ()))]


@pytest.mark.parametrize("field", ["entails", "opposite", "excludes"])
def test_the_data_points_only_at_predicates_that_it_describes(field: str) -> None:
    unknown = {
        (row["name"], other)
        for row in ROWS
        for other in ([row[field]] if isinstance(row.get(field), str) else row.get(field, []))
        if other not in PREDICATES
    }
    assert unknown - {("towards", "away from")} == set()


@pytest.mark.parametrize(
    "wordings",
    [
        ("wear", "wears", "wearing", "is wearing", "dressed in", "WEARS"),
        ("left of", "to the left of", "on the left of", "is to the left of", "on_the_left_side_of"),
        ("in", "inside", "within", "inside of"),
        ("hold", "holds", "held", "is holding"),
        ("on", "on top of", "on the top of", "atop"),
        ("next to", "beside", "by", "adjacent to"),
        ("has", "have", "having"),
    ],
)
def test_wordings_of_one_meaning_have_one_canonical_form(wordings: tuple[str, ...]) -> None:
    assert len({canonical(wording) for wording in wordings}) == 1


def test_directions_and_words_that_look_like_verbs_are_not_mixed_up() -> None:
    assert canonical("left of") != canonical("right of")
    # "left" is a form of "leave", "set" of "set", "like" of "like".
    assert canonical("left to") == "left of"
    assert not synonymous("on", "under")
    assert not synonymous("holding", "wearing")


@given(st.sampled_from(WORDINGS))
def test_a_canonical_form_is_its_own(wording: str) -> None:
    assert canonical(canonical(wording)) == canonical(wording)


@given(st.sampled_from(PREDICATES), st.sampled_from(PREDICATES))
def test_exclusion_is_mutual_and_never_of_what_follows(one: str, other: str) -> None:
    assert excludes(one, other) == excludes(other, one)
    assert not excludes(one, one)
    if entails(one, other):
        assert not excludes(one, other)
        assert holds_with(one, other)


@given(st.sampled_from(PREDICATES))
def test_the_opposite_is_excluded_and_entailment_is_closed(name: str) -> None:
    other = opposite(name)
    if other is not None and other in PREDICATES:
        assert excludes(name, other)
        assert not holds_with(name, other)
    for one in entailed(name):
        assert entailed(one) - {name} <= entailed(name)


@pytest.mark.parametrize("name", PREDICATES)
def test_every_predicate_has_an_inverse_and_entailment_is_closed_under_it(name: str) -> None:
    assert inverse(inverse(name)) == name
    for other in entailed(name):
        assert entails(inverse(name), inverse(other))
        assert not excludes(inverse(name), inverse(other))
    back = converse(name)
    if back is not None:
        assert entails(inverse(name), back)


def test_every_direction_has_its_opposite_in_every_wording_of_our_own_prompts() -> None:
    words = tomllib.loads(
        (files("scenewright.evals.datasets.psg_prompts") / "words.toml").read_text(encoding="utf-8")
    )
    for wording in words["spatial"]["contrastive"]:
        assert opposite(wording) is not None, wording
    assert opposite("on the left of") == "right of"
    assert opposite("on the top of") == "under"
    assert opposite("on the bottom of") == "above"


@pytest.mark.parametrize(
    ("predicate", "other"),
    [
        ("left of", "right of"),
        ("behind", "in front of"),
        ("above", "below"),
        ("holding", "held by"),
        ("ridden by", "riding"),
        ("near", "near"),
        ("standing behind", "in front of"),
        ("of", "having"),
        ("on", "under"),
    ],
)
def test_converses(predicate: str, other: str) -> None:
    assert converse(predicate) == other


def test_no_converse_where_nothing_follows() -> None:
    # What stands under a table need not carry it, and nobody holds who is looked at.
    assert converse("under") == "above"
    assert converse("at") is None
    assert is_symmetric("next to")
    assert not is_symmetric("on")


@pytest.mark.parametrize(
    ("asked", "others"),
    [
        ("playing", ("holding",)),
        ("wear", ("wearing", "has", "with", "dressed in")),
        ("hold", ("holding", "carrying", "gripping", "holding up")),
        ("ride", ("riding", "on", "sitting on")),
        ("on", ("on top of", "in", "sitting on", "above")),
        ("left of", ("to the left of", "near", "next to")),
    ],
)
def test_what_may_hold_as_well_is_no_wrong_option(asked: str, others: tuple[str, ...]) -> None:
    assert [other for other in others if not holds_with(asked, other)] == []


@pytest.mark.parametrize(
    ("asked", "others"),
    [
        ("on", ("under", "behind", "holding")),
        ("next to", ("riding", "wearing", "inside", "on")),
        ("left of", ("right of", "on", "holding")),
        ("kicking", ("throwing", "catching", "holding")),
        ("standing on", ("standing behind", "lying on", "under")),
        ("behind", ("in front of", "holding", "on")),
    ],
)
def test_what_is_false_where_the_asked_holds_may_be_offered(
    asked: str, others: tuple[str, ...]
) -> None:
    assert [other for other in others if holds_with(asked, other)] == []


def test_a_planner_that_knows_few_words_gets_the_nearest() -> None:
    known = ("on", "near", "left of", "holding", "under", "inside")
    assert first_known("sits on", known) == "on"
    assert first_known("beside", known) == "near"
    assert first_known("carrying", known) == "holding"
    assert first_known("in", known) == "inside"
    assert first_known("admiring", known) is None


def test_keys_are_the_same_only_if_no_content_word_differs() -> None:
    assert same_key("Colour", "primary_color")
    assert canonical_key("material type") == "material"
    for one, other in itertools.combinations(
        ("upper clothing color", "lower clothing color", "color", "hair color"), 2
    ):
        assert not same_key(one, other)


def test_a_relation_and_what_it_is_called_from_its_other_end_are_one_in_every_wording() -> None:
    found = converse_wordings()
    for one, other in (
        ("left of", "right of"),
        ("on the left of", "on the right of"),
        ("behind", "in front of"),
        ("above", "below"),
        ("beside", "beside"),
        ("near", "near"),
    ):
        assert (found[one], found[other]) == (other, one)
    assert "under" not in found
    assert "on" not in found
    assert all(found[other] == one for one, other in found.items())

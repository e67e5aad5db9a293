"""Votes of several models: what is one relation, who counts, and what is kept of disagreement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.annotation.config import CONVERSES, Splits
from scenewright.evals.annotation.consensus import part_of, place_of
from scenewright.evals.annotation.panel_queries import Triple, claims_of, plain

NAMES = st.sampled_from(["dog.1", "cat.1", "ball.1", "man.1"])
WORDS = st.sampled_from(["left of", "right of", "on", "On", "on  top of", "near", "holding"])
TRIPLES = st.tuples(NAMES, WORDS, NAMES).filter(lambda t: t[0] != t[2])
REPLIES = st.dictionaries(st.sampled_from("abcde"), st.lists(TRIPLES, max_size=8), min_size=1)


def test_two_of_three_say_it_from_different_ends() -> None:
    claims = claims_of(
        {
            "a": [("dog.1", "left of", "cat.1")],
            "b": [("cat.1", "Right  of", "dog.1")],
            "c": [("dog.1", "chasing", "cat.1"), ("dog.1", "left of", "cat.1")],
            "d": [],
        },
        converses=CONVERSES,
    )
    first, second = claims
    assert first.triple == ("dog.1", "left of", "cat.1")
    assert first.voters == ("a", "b", "c")
    assert first.said[1] == "cat.1 Right  of dog.1"
    assert first.share == 0.75
    assert (second.triple[1], second.voters, second.of) == ("chasing", ("c",), 4)


def test_synonyms_are_merged_before_votes_are_counted() -> None:
    replies = {"a": [("cup.1", "on top of", "table.1")], "b": [("cup.1", "on", "table.1")]}
    assert len(claims_of(replies)) == 2
    [claim] = claims_of(replies, {"on top of": "on"})
    assert (claim.triple, claim.share) == (("cup.1", "on", "table.1"), 1.0)
    assert claim.said == ("cup.1 on top of table.1", "cup.1 on table.1")


@given(REPLIES)
def test_every_voter_counts_once_a_relation(replies: dict[str, list[Triple]]) -> None:
    claims = claims_of(replies, {"on top of": "on"}, CONVERSES)
    assert len({claim.triple for claim in claims}) == len(claims)
    for claim in claims:
        assert len(set(claim.voters)) == len(claim.voters) == len(claim.said)
        assert 0 < claim.share <= 1
        assert claim.of == len(replies)
    named = {(s, {"on top of": "on"}.get(plain(p), plain(p)), t)
             for triples in replies.values() for s, p, t in triples}  # fmt: skip
    shown = {claim.triple for claim in claims}
    turned = {(t, CONVERSES[p], s) for s, p, t in shown if p in CONVERSES}
    assert shown <= named <= shown | turned


@given(REPLIES)
def test_the_order_of_a_reply_changes_no_count(replies: dict[str, list[Triple]]) -> None:
    turned_round = {name: triples[::-1] for name, triples in replies.items()}

    def counts(given: dict[str, list[Triple]]) -> list[float]:
        return sorted(claim.share for claim in claims_of(given, None, CONVERSES))

    assert counts(replies) == counts(turned_round)


@given(st.text(min_size=1, max_size=20), st.integers(0, 5))
def test_a_photo_goes_to_the_same_part_whatever_is_around_it(photo: str, seed: int) -> None:
    place = place_of(photo, seed)
    assert 0 <= place < 1
    assert place == place_of(photo, seed)
    assert part_of(place, Splits(train=1, val=0, test=0)) == "train"
    assert part_of(place, Splits(train=0, val=0, test=0.3)) == "test"


def test_parts_have_their_shares() -> None:
    splits = Splits(train=0.6, val=0.3, test=0.1)
    parts = [part_of(place_of(f"photo {n}", 0), splits) for n in range(5000)]
    for part, share in (("train", 0.6), ("val", 0.3), ("test", 0.1)):
        assert parts.count(part) / 5000 == pytest.approx(share, abs=0.03)
    assert [part_of(p, splits) for p in (0.0, 0.59, 0.61, 0.89, 0.91, 0.999)] == [
        "train", "train", "val", "val", "test", "test",
    ]  # fmt: skip


def test_without_a_share_a_drawn_test_part_gets_nothing() -> None:
    splits = Splits(train=0.5, val=0.5, test=1.0, test_counts={"simple": 3})
    assert {part_of(n / 100, splits) for n in range(100)} == {"train", "val"}

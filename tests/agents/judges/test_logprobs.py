"""Probabilities of answers from the probabilities of tokens, wherever those begin and end."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.reading import answer_places, label_masses
from scenewright.providers.clients.base import Token

YES_NO = ("yes", "no")
LETTERS = ("A", "B", "C", "D")
TRICKY = st.sampled_from(["", '"a":"no"', "yes", "A", "\\", "a\nb", "собака 🐕", '{"answers":['])


@st.composite
def replies(draw: st.DrawFn) -> tuple[list[tuple[tuple[str, ...], str]], str]:
    """What is answered (labels, label) and the JSON text, keys in any order, spaced or not."""
    said, entries = [], []
    for number in range(draw(st.integers(1, 4))):
        labels = draw(st.sampled_from([YES_NO, LETTERS]))
        label = draw(st.sampled_from(labels))
        said.append((labels, label))
        spelled = draw(st.sampled_from([label, label.lower(), label.capitalize(), f" {label}"]))
        pairs = [
            ("n", number + 1),
            ("a", spelled),
            ("p", 0.5),
            ("more", draw(TRICKY)),
        ]
        entries.append(dict(draw(st.permutations(pairs))))
    text = json.dumps(
        {"answers": entries, "why": ["a", "yes"]},
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1])),
    )
    return said, text


@given(replies(), st.data())
def test_any_tokens_of_the_same_text_tell_the_same(
    reply: tuple[list[tuple[tuple[str, ...], str]], str], data: st.DataObject
) -> None:
    said, text = reply
    raw = text.encode()
    places = answer_places(raw)
    assert len(places) == len(said)
    first = [start + raw[start:end].index(raw[start:end].strip()) for start, end in places]
    cuts = data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=len(raw)))
    tokens = []
    for start, end in pairwise([0, *sorted(cuts), len(raw)]):
        top = [(raw[start:end], math.log(0.6))]
        # The first value of which the token holds the first letter is what the others differ in.
        at = next((n for n, place in enumerate(first) if start <= place < end), None)
        if at is not None:
            labels, label = said[at]
            for other in labels:
                if other != label:
                    top.append((raw[start : first[at]] + other[:1].encode(), math.log(0.1)))
        tokens.append(Token(raw[start:end], math.log(0.6), tuple(top)))
    ends = [sum(len(t.data) for t in tokens[: n + 1]) for n in range(len(tokens))]
    for at, (labels, label) in enumerate(said):
        holder = next(n for n, end in enumerate(ends) if first[at] < end)
        if (
            sum(place < ends[holder] for place in first)
            - sum(place < ends[holder] - len(tokens[holder].data) for place in first)
            > 1
        ):
            # Two answers in one token: only the first of them has alternatives of its own.
            continue
        masses = label_masses(tokens, places[at], labels)
        assert masses is not None
        others = 0.1 * (len(labels) - 1)
        assert masses[labels.index(label)] == pytest.approx(0.6 / (0.6 + others))
        assert sum(masses.values()) == pytest.approx(1.0)


def token(data: str, chance: float = 1.0, **others: float) -> Token:
    top = tuple((other.encode(), math.log(value)) for other, value in others.items())
    return Token(data.encode(), math.log(chance), top)


def masses_of(value: list[Token], labels: tuple[str, ...]) -> dict[int, float] | None:
    tokens = [token('{"answers":[{"a":"'), *value, token('"}]}')]
    (place,) = answer_places(b"".join(one.data for one in tokens))
    return label_masses(tokens, place, labels)


def test_spellings_of_one_label_are_added_up() -> None:
    found = masses_of([token("yes", 0.5, Yes=0.2, y=0.1, no=0.1, never=0.1)], YES_NO)
    assert found == {0: pytest.approx(0.8 / 0.9), 1: pytest.approx(0.1 / 0.9)}


def test_an_answer_by_the_options_text_is_not_read_as_a_letter() -> None:
    assert masses_of([token("a", 0.9, B=0.1), token("bove")], LETTERS) is None
    assert masses_of([token("above", 0.9, B=0.1)], LETTERS) is None


def test_a_letter_may_be_followed_by_its_text() -> None:
    found = masses_of([token("B", 0.75, A=0.25), token(") on")], LETTERS)
    assert found == {1: pytest.approx(0.75), 0: pytest.approx(0.25)}


def test_no_chance_of_any_label_is_no_probability() -> None:
    none = Token(b"yes", -math.inf)
    assert masses_of([none], YES_NO) is None
    assert masses_of([Token(b"yes", math.nan)], YES_NO) is None
    assert masses_of([token("maybe", 0.9, yes=0.1)], YES_NO) is None
    assert masses_of([], YES_NO) is None


def test_only_answers_in_the_list_count() -> None:
    text = b'{"a":"yes","answers":[{"x":{"a":"no"},"a":"A"}],"b":[{"a":"B"}]}'
    assert [text[start:end] for start, end in answer_places(text)] == [b"A"]

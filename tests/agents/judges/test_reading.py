"""What is made of a judge's reply, fact by fact."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.reading import (
    NO_OPTION,
    NO_TOKENS,
    OTHER_TOKENS,
    FactReading,
    option_of,
    read_parts,
)
from scenewright.agents.judges.sheet import TOOL, sheet_of
from scenewright.core.facts import Fact
from scenewright.providers.clients.base import Completion, CompletionRequest, OutputSchema, Token
from scenewright.providers.clients.reading import RawCall, RawCompletion, completion_of
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage

DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
SIDE = Fact(
    id="r:dog|on|ball",
    kind="relation",
    subject="dog",
    target="ball",
    predicate="on",
    statement="dog on ball",
    question="Where is the dog?",
    options=("left of", "on", "on  top of", "no visible relationship"),
    expected="on",
)
SHEET = sheet_of([DOG, SIDE, DOG])
USAGE = Usage(10, 5, 1)


def answer(number: Any, said: Any, probability: Any = 0.9, **more: Any) -> dict[str, Any]:
    return {"n": number, "a": said, "p": probability, **more}


FINE = [answer(1, "yes"), answer(2, "B"), answer(3, "no")]


def reply(
    content: Any, *, cut: bool = False, logprobs: bool = False, tokens: tuple[Token, ...] = ()
) -> Completion:
    """A reply with the arguments of a tool call, or with a text."""
    raw = RawCompletion(usage=USAGE, cut=cut, tokens=list(tokens), watching=False)
    if isinstance(content, str):
        raw.parts.append(content)
    else:
        raw.calls[0] = RawCall("c", TOOL, arguments=content)
    asked = CompletionRequest((), OutputSchema(TOOL, SHEET.schema))
    return completion_of(raw, asked, logprobs=logprobs)


def read(*answers: object, **more: Any) -> list[FactReading]:
    return read_parts(reply({"answers": list(answers)}, **more), SHEET)


def alone(entry: object) -> FactReading:
    """What is made of ``entry`` about the first fact; the others must not suffer from it."""
    first, *others = read(entry, *FINE[1:])
    assert [part.choice for part in others] == ["on", "no"]
    return first


def test_arguments_and_their_text_read_the_same() -> None:
    parts = read(*FINE)
    text = json.dumps({"answers": FINE})
    assert read_parts(reply(text), SHEET) == parts
    assert [part.choice for part in parts] == ["yes", "on", "no"]
    assert [part.probability for part in parts] == pytest.approx([0.9, 0.9, 0.1])
    assert {part.method for part in parts} == {"verbalized"}


def test_order_does_not_matter() -> None:
    assert read(*reversed(FINE)) == read(*FINE)


def test_what_is_left_is_spread_over_the_other_options() -> None:
    _, part, _ = read(FINE[0], answer(2, "A", 0.7), FINE[2])
    assert part.choice == "left of"
    assert part.probability == pytest.approx(0.3 / 3)


@given(st.sampled_from(["A", "B", "C", "D"]), st.floats(0.25, 1.0))
def test_a_probability_stays_one(letter: str, right: float) -> None:
    _, part, _ = read(FINE[0], answer(2, letter, right), FINE[2])
    assert part.probability is not None
    assert 0 <= part.probability <= 1
    assert part.probability == pytest.approx(right if letter == "B" else (1 - right) / 3)


def test_a_probability_that_contradicts_its_answer_is_left_out() -> None:
    part = alone(answer(1, "yes", 0.49))
    assert (part.choice, part.probability, part.method) == ("yes", None, "binary")
    assert alone(answer(1, "yes", 0.5)).method == "verbalized"
    assert alone({"n": 1, "a": "yes"}).method == "binary"


@pytest.mark.parametrize(
    "probability", [1.01, -0.1, math.nan, math.inf, "0.9", True, [], 10**400, 97]
)
def test_a_probability_that_is_none_leaves_its_fact_unscored(probability: object) -> None:
    part = alone(answer(1, "yes", probability))
    assert part.choice is None
    assert part.probability is None
    assert "probability" in part.reason


@pytest.mark.parametrize("said", ["maybe", "", "A", None, True, 1, ["yes"], "yes, clearly", "yes."])
def test_an_answer_outside_the_options_leaves_its_fact_unscored(said: object) -> None:
    part = alone(answer(1, said))
    assert part.choice is None
    assert "not one of the options" in part.reason


@pytest.mark.parametrize("entry", [None, "yes", 3, [], {}, {"n": 1}, answer("1", "yes")])
def test_an_entry_that_is_no_answer_leaves_its_fact_unscored(entry: object) -> None:
    assert alone(entry).choice is None


@pytest.mark.parametrize("number", [0, 4, -1, 10**30, True, None, 1.5, math.nan])
def test_unknown_numbers_answer_nothing(number: object) -> None:
    assert "does not answer it" in alone(answer(number, "yes")).reason
    assert read(*FINE, answer(number, "no")) == read(*FINE)


def test_a_number_written_with_a_point_is_a_number() -> None:
    assert alone(answer(1.0, "yes")).choice == "yes"


def test_answers_given_twice() -> None:
    assert read(*FINE, answer(1, "YES", 0.6)) == read(*FINE)
    for other in (answer(1, "no"), answer(1, "maybe")):
        first, *others = read(*FINE, other)
        assert first.choice is None
        assert "2 times, differently" in first.reason
        assert others == read(*FINE)[1:]


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        ("Yes", "yes"),
        (" NO\n", "no"),
        ("y", None),
        ("y e s", None),
    ],
)
def test_words_of_yes_and_no(said: str, choice: str | None) -> None:
    assert option_of(said, DOG) == choice


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        ("B", "on"),
        (" b ", "on"),
        ("B) on", "on"),
        ("b. ON", "on"),
        ("B:", "on"),
        ("on", "on"),
        ("On Top  of", "on  top of"),
        ("C) on top of", "on  top of"),
        ("B) left of", None),
        ("E", None),
        ("E) on", None),
        ("on top", None),
        ("B on", None),
        ("AB", None),
        ("", None),
    ],
)
def test_words_of_an_option(said: str, choice: str | None) -> None:
    assert option_of(said, SIDE) == choice


def test_an_option_that_reads_like_another_is_named_by_its_letter_only() -> None:
    twins = SIDE.model_copy(update={"options": ("On", "on", "b"), "expected": "on"})
    assert option_of("on", twins) is None
    assert option_of("A", twins) == "On"
    assert option_of("b", twins) == "on"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty reply"),
        ("yes", "no JSON"),
        ('{"answers":[{"n":1,"ans', "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no JSON"),
        ('"answers"', "no JSON"),
        ("{}", "no list of answers"),
        ({"answers": "yes"}, "no list of answers"),
        ({"answers": []}, "no usable answer"),
        ({"answers": [answer(1, "maybe")]}, "no usable answer: answered 'maybe'"),
    ],
)
def test_a_reply_of_no_use_is_worth_another_try(content: Any, reason: str) -> None:
    with pytest.raises(UnusableReply, match=reason) as caught:
        read_parts(reply(content), SHEET)
    assert caught.value.retry
    assert caught.value.usage == USAGE
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("content", ['{"answers":[{"num', {"answers": []}, {}])
def test_a_reply_cut_off_says_so(content: Any) -> None:
    with pytest.raises(UnusableReply, match="cut off after 5 tokens"):
        read_parts(reply(content, cut=True), SHEET)
    assert "cut off before it" in read(FINE[0], cut=True)[2].reason


def test_a_reason_of_many_lines_becomes_one() -> None:
    said = ["1: red\nand\tround", "2) sits", " 3 - no", "1: later", "4: none", "unnumbered", 7]
    parts = read_parts(reply({"answers": FINE, "why": said}), SHEET)
    assert [part.rationale for part in parts] == ["red and round", "sits", "no"]
    assert alone(answer(1, "yes")).rationale == ""


@pytest.mark.parametrize("why", [None, "1: red", {"1": "red"}, 3, [None, ["1: red"], ""]])
def test_reasons_of_no_use_cost_no_answer(why: object) -> None:
    parts = read_parts(reply({"answers": FINE, "why": why}), SHEET)
    assert parts == read(*FINE)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["answers", "n", "a", "p", "why"]), inner)
        ),
        max_leaves=20,
    )
)
def test_no_reply_breaks_the_reader(content: Any) -> None:
    for given_as in (json.dumps(content), {"answers": content}):
        try:
            parts = read_parts(reply(given_as), SHEET)
        except UnusableReply:
            continue
        assert len(parts) == 3
        assert all((part.choice is None) == bool(part.reason) for part in parts)


def test_the_text_is_found_in_tokens_that_say_more() -> None:
    pieces = [
        ('{"answers": [{"n": 1, "a": "', {}),
        ("yes", {"yes": 0.8, "no": 0.2}),
        ('", "p": 0.9}]}', {}),
    ]
    text = "".join(piece for piece, _ in pieces)
    said = tuple(
        Token(
            piece.encode(),
            math.log(chances.get(piece, 1.0)),
            tuple((other.encode(), math.log(chance)) for other, chance in chances.items()),
        )
        for piece, chances in pieces
    )
    # A draft of the same text stands in the thoughts; the reply is what comes last.
    draft = (Token(f"<think>{text}</think>".encode(), 0.0),)
    fence = (Token(b"\n", 0.0), Token(b"```", 0.0), Token(b"json\n", 0.0))
    sheet = sheet_of([DOG])
    for content, tokens in (
        (text, said),
        (text, (*fence, *said, Token(b"\n```", 0.0))),
        (text, (*draft, *fence, *said)),
        (f"```json\n{text}\n```", (*fence, *said, Token(b"\n```", 0.0))),
        (f"<think>Hm.</think>\n{text}", (*draft, Token(b"\n", 0.0), *said)),
    ):
        (part,) = read_parts(reply(content, tokens=tokens, logprobs=True), sheet)
        assert (part.method, part.note) == ("logprob", "")
        assert part.probability == pytest.approx(0.8)


def test_token_probabilities_that_cannot_be_used_are_told() -> None:
    text = json.dumps({"answers": FINE})
    for tokens, note in (
        ((), NO_TOKENS),
        ((Token(b"something else", 0.0),), OTHER_TOKENS),
        ((Token(text.encode(), 0.0),), NO_OPTION),
    ):
        parts = read_parts(reply(text, tokens=tokens, logprobs=True), SHEET)
        assert {part.note for part in parts} == {note}
        assert {part.method for part in parts} == {"verbalized"}
    # Who was not asked for them owes no reason.
    assert {part.note for part in read_parts(reply(text), SHEET)} == {""}


def test_a_fence_around_the_text_is_taken_off() -> None:
    parts = read(*FINE)
    text = json.dumps({"answers": FINE})
    for content in (f"```json\n{text}\n```", f"\n```\n{text}```\n", f"<think>{{</think>{text}"):
        assert read_parts(reply(content), SHEET) == parts


def test_tokens_of_another_text_are_left_alone() -> None:
    text = json.dumps({"answers": FINE})
    said = Token(text.encode(), 0.0)
    for tokens in ((Token(b"x", 0.0),), (said, said), (Token(b"\xff", 0.0),)):
        parts = read_parts(reply(text, tokens=tokens), SHEET)
        assert {part.method for part in parts} == {"verbalized"}
    twice = text.replace('"a": "yes"', '"a": "no", "a": "yes"')
    parts = read_parts(reply(twice, tokens=(Token(twice.encode(), 0.0),)), SHEET)
    assert {part.method for part in parts} == {"verbalized"}

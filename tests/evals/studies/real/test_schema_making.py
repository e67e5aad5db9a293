"""Schemas out of texts and annotations: only what is said, kept replies, named faults."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.annotation.panel_queries import TextModel
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.studies.real.schema import SchemaAttribute, SchemaError
from scenewright.evals.studies.real.schema_making import (
    PIECE,
    ClassText,
    Made,
    attribute_of,
    cub_schemas,
    make_schemas,
    pieces,
    read_attributes,
)
from tests.agents.replying import ReplyingChat

TEXT = "The owl is large. Its bill is “hooked and\nyellow”; the legs are red."


def attribute(part: str, description: str, quote: str) -> dict[str, str]:
    return {"part": part, "description": description, "quote": quote}


GOOD = attribute("bill", "hooked", "bill is hooked and yellow")
MADE_UP = attribute("crest", "blue", "a blue crest")


def made_of(
    folder: Path, replies: Sequence[Any], *texts: ClassText, retry: bool = False
) -> tuple[list[Made], ReplyingChat]:
    chat = ReplyingChat(replies=list(replies))
    with Ledger(folder / "l.db") as ledger:
        model = TextModel("replying", chat)
        found = asyncio.run(make_schemas(ledger, model, texts, retry=retry))
    return found, chat


def test_only_what_the_text_says_is_taken(tmp_path: Path) -> None:
    reply = {"attributes": [GOOD, MADE_UP, GOOD]}
    (made,), chat = made_of(tmp_path, [reply], ClassText("owl", TEXT))
    assert made.schema is not None
    assert made.schema.attributes == (SchemaAttribute(part="bill", description="hooked"),)
    # The model was told once which quote is not there, and stuck to it.
    assert len(chat.sent) == 2
    assert "'a blue crest' is not in the text" in chat.said()
    assert len(made.dropped) == 1
    assert made.schema.made_by == "replying"


def test_replies_are_kept_and_failures_asked_again_on_wish(tmp_path: Path) -> None:
    owl = ClassText("owl", TEXT)
    (made,), _ = made_of(tmp_path, ["no idea"], owl)
    assert made.schema is None
    assert made.reason
    (made,), chat = made_of(tmp_path, [{"attributes": [GOOD]}], owl)
    assert made.schema is None
    assert chat.sent == []
    (made,), chat = made_of(tmp_path, [{"attributes": [GOOD]}], owl, retry=True)
    assert made.schema is not None
    (again,), chat = made_of(tmp_path, [RuntimeError("not called")], owl)
    assert again.schema == made.schema
    assert chat.sent == []


def test_a_text_of_nothing_visible_has_no_schema(tmp_path: Path) -> None:
    (made,), _ = made_of(tmp_path, [{"attributes": []}], ClassText("owl", TEXT))
    assert (made.schema, made.reason) == (None, "the text says nothing of visible parts")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (attribute("", "red", "red"), "missing"),
        (attribute("legs", " ".join("x" * 13), "red"), "more than 12 words"),
        (attribute("legs", "red", ""), "quote"),
    ],
)
def test_unusable_attributes_are_named(row: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_attributes({"attributes": [row]}, TEXT, last=False)
    assert read_attributes({"attributes": [row]}, TEXT, last=True)["attributes"] == []


@given(st.text("ab .\n", max_size=300), st.integers(5, 60))
def test_pieces_hold_the_whole_text(text: str, most: int) -> None:
    found = pieces(text, most)
    assert all(0 < len(piece) <= most for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_long_texts_go_in_several_calls(tmp_path: Path) -> None:
    text = TEXT + "\n\n" + "It sings. " * (PIECE // 8)
    (made,), chat = made_of(tmp_path, [{"attributes": []}], ClassText("owl", text))
    assert len(chat.sent) == len(pieces(text)) == 2
    assert made.schema is None


@pytest.mark.parametrize(
    ("name", "part", "description"),
    [
        ("has_bill_shape::curved_(up_or_down)", "bill", "curved (up or down) in shape"),
        ("has_upper_tail_color::grey", "upper tail", "grey"),
        ("has_primary_color::blue", "plumage", "blue"),
        ("has_size::small_(5_-_9_in)", "bird", "small (5 - 9 in) in size"),
        ("has_tail_shape::forked_tail", "tail", "forked in shape"),
        ("has_wing_shape::rounded-wings", "wing", "rounded in shape"),
        ("has_head_pattern::masked", "head", "masked in pattern"),
    ],
)
def test_names_of_attributes(name: str, part: str, description: str) -> None:
    assert attribute_of(name) == SchemaAttribute(part=part, description=description)


def cub(folder: Path, labels: list[str]) -> Path:
    (folder / "attributes").mkdir()
    (folder / "classes.txt").write_text("1 001.Black_footed_Albatross\n2 002.Wren\n")
    (folder / "attributes.txt").write_text(
        "1 has_bill_shape::hooked\n2 has_bill_color::red\n3 has_eye_color::black\n"
    )
    (folder / "image_class_labels.txt").write_text("1 1\n2 1\n3 1\n4 2\n")
    file = folder / "attributes" / "image_attribute_labels.txt"
    file.write_text("".join(f"{line}\n" for line in labels))
    return folder


def test_common_annotations_of_a_class(tmp_path: Path) -> None:
    # Hooked on two of three; red on one of three; black marked by guesses alone.
    labels = ["1 1 1 4 2.5", "2 1 1 3 1", "3 1 0 4 1", "1 2 1 4 1", "2 2 0 4 1", "3 2 0 4 1",
              "1 3 1 2 1", "2 3 1 1 1", "4 1 0 4 1"]  # fmt: skip
    made = cub_schemas(cub(tmp_path, labels))
    (schema,) = made.schemas
    assert schema.name == "Black footed Albatross"
    assert [a.statement for a in schema.attributes] == ["bill: hooked in shape"]
    assert made.without == ["Wren"]
    assert (made.lines, made.n_bad) == (9, 0)
    loose = cub_schemas(tmp_path, share=0.3, certainty=1).schemas[0]
    assert [a.part for a in loose.attributes] == ["bill", "bill", "eye"]


def test_bad_lines_are_named_and_many_end_it(tmp_path: Path) -> None:
    good = ["1 1 1 4 1"] * 400
    folder = cub(tmp_path, [*good, "1 1 1 4 0 1", "9 1 1 4 1", "1 1 x 4 1"])
    made = cub_schemas(folder)
    assert made.bad == [
        "image_attribute_labels.txt, line 401: 6 fields in place of 5",
        "image_attribute_labels.txt, line 402: image 9 has no class",
        "image_attribute_labels.txt, line 403: is_present is 'x' in place of 0 or 1",
    ]
    (folder / "attributes" / "image_attribute_labels.txt").write_text("hello\n" * 9)
    with pytest.raises(SchemaError, match="9 of 9 lines"):
        cub_schemas(folder)
    with pytest.raises(SchemaError, match=r"classes\.txt is missing"):
        cub_schemas(tmp_path / "attributes")

"""Looking closer: boxes, crops, what a language model is shown and told."""

from __future__ import annotations

import base64
import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from scenewright.core.facts import Fact, ScoreCard, Verdict
from scenewright.tools.director import (
    PREVIEW_SIDE,
    SMALLEST,
    Look,
    ToolError,
    ToolReply,
    card_in_short,
    content_of,
    preview,
    preview_of,
    region_of_box,
    view_of,
    wrong_arguments,
)


def quarters(width: int = 64, height: int = 32) -> Image.Image:
    """Red, green, blue and white quarters."""
    image = Image.new("RGB", (width, height), "white")
    half, mid = width // 2, height // 2
    image.paste((255, 0, 0), (0, 0, half, mid))
    image.paste((0, 255, 0), (half, 0, width, mid))
    image.paste((0, 0, 255), (0, mid, half, height))
    return image


def colours(image: Image.Image) -> set[object]:
    found = image.getcolors(2**16)
    assert found is not None
    return {colour for _, colour in found}


def test_a_crop_shows_its_part_alone_enlarged() -> None:
    view = view_of(quarters(), Look(box=[0.5, 0.0, 1.0, 0.5]))
    assert (view.size, colours(view)) == ((64, 32), {(0, 255, 0)})
    small = preview_of(quarters(), Look(box=[0.0, 0.5, 0.25, 1.0]))
    assert (small.size, colours(small)) == ((256, 256), {(0, 0, 255)})


def test_a_box_is_drawn_on_the_whole_picture() -> None:
    view = view_of(quarters(), Look(box=[0.25, 0.25, 0.75, 0.75], show="box"))
    assert view.size == (64, 32)
    assert view.getpixel((16, 8)) == view.getpixel((47, 23)) == (255, 0, 255)
    assert view.getpixel((15, 8)) == (255, 0, 0)
    assert view.getpixel((18, 10)) == (255, 0, 0)


def test_without_a_box_the_picture_is_shown_as_it_is() -> None:
    assert view_of(quarters(), Look()).tobytes() == quarters().tobytes()
    assert preview_of(quarters(), Look()).size == (64, 32)
    assert preview_of(quarters(1024, 512), Look()).size == (256, 128)
    assert preview(quarters(300, 3000)).size == (26, 256)


share = st.floats(0, 1)


@given(left=share, top=share, right=share, bottom=share)
def test_any_sound_box_shows_something_and_any_other_is_an_error(
    left: float, top: float, right: float, bottom: float
) -> None:
    look = Look(box=[left, top, right, bottom])
    image = quarters(19, 7)
    if right - left < SMALLEST or bottom - top < SMALLEST:
        with pytest.raises(ToolError, match="left before right"):
            view_of(image, look)
        return
    view = preview_of(image, look)
    assert max(view.size) == PREVIEW_SIDE
    assert min(view.size) >= 1


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ([0.1, 0.2, 0.3], "four numbers"),
        ([0.1, 0.2, 0.3, 1.2], "each from 0 to 1"),
        ([-0.1, 0.2, 0.3, 0.4], "each from 0 to 1"),
        ([0.1, math.nan, 0.3, 0.4], "each from 0 to 1"),
        ([0.5, 0.1, 0.4, 0.4], "left before right"),
        ([0.5, 0.1, 0.51, 0.4], "left before right"),
    ],
)
def test_a_box_that_is_none_is_told_with_what_one_is(box: list[float], words: str) -> None:
    with pytest.raises(ToolError, match=words) as error:
        region_of_box(box)
    assert "[left, top, right, bottom]" in str(error.value)


def test_a_question_is_a_fact_of_its_own() -> None:
    one = Look(question="What colour?", options=["red", "blue"]).fact()
    assert (one.question, one.options, one.is_binary) == ("What colour?", ("red", "blue"), False)
    assert one.id != Look(question="What colour?", options=["blue", "red"]).fact().id
    assert Look(question="Is it day?").fact().is_binary


@pytest.mark.parametrize(
    "given", [{"options": ["yes", "yes"]}, {"options": ["yes"]}, {"options": ["", "no"]}]
)
def test_options_must_tell_answers_apart(given: dict[str, list[str]]) -> None:
    with pytest.raises(ValidationError):
        Look.model_validate({"question": "Is it day?", **given})


def test_wrong_arguments_are_told_without_their_values() -> None:
    with pytest.raises(ValidationError) as error:
        Look.model_validate({"box": "secret", "zoom": "secret"})
    told = wrong_arguments("look", error.value)
    assert "look was not done" in told
    assert "box: must be a list" in told
    assert "zoom: unknown key" in told
    assert "secret" not in told
    assert "\n" not in told


def test_a_reply_is_json_and_a_small_jpeg() -> None:
    reply = ToolReply({"image": "r0", "says": "größer\nline"}, preview(quarters(600, 300)))
    content = content_of(reply.text, reply.picture)
    assert isinstance(content, list)
    text, picture = content
    assert isinstance(text, dict)
    assert isinstance(picture, dict)
    assert "\n" not in text["text"]
    assert json.loads(text["text"])["says"] == "größer\nline"
    with Image.open(io.BytesIO(base64.b64decode(picture["base64"]))) as image:
        assert (image.format, image.size, picture["mime_type"]) == (
            "JPEG",
            (256, 128),
            "image/jpeg",
        )
    assert content_of("text", None) == "text"


def test_the_schema_tells_a_model_what_each_argument_is() -> None:
    schema = Look.model_json_schema()
    assert all(given.get("description") for given in schema["properties"].values())
    share = {"type": "number", "minimum": 0, "maximum": 1}
    assert schema["properties"]["box"]["items"] == share
    assert "$defs" not in schema


def test_a_card_in_short_names_what_is_missing() -> None:
    facts = [
        Fact(id=f"o:{name}.1", kind="object", subject=f"{name}.1", statement=name, question="?")
        for name in ("dog", "cat", "cow", "owl")
    ]
    verdicts = [
        Verdict(fact_id="o:dog.1", state="yes", probability=0.9, n_scored=1),
        Verdict(fact_id="o:cat.1", state="no", probability=0.1234, n_scored=1),
        Verdict(fact_id="o:cow.1", state="void", reason="no parent"),
        Verdict(fact_id="o:owl.1", state="unscored", reason="mute"),
    ]
    card = ScoreCard.of(facts, verdicts, 0.5)
    told = card_in_short(card, facts)
    assert told["confirmed"] == ["o:dog.1"]
    assert told["missing"] == [
        {"fact": "o:cat.1", "says": "cat", "probability": 0.123},
        {"fact": "o:cow.1", "says": "cow", "void": True},
    ]
    assert told["unscored"] == ["o:owl.1"]
    assert card_in_short(card, facts, {"o:owl.1"})["missing"] == []

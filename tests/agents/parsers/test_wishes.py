"""What captions say of the whole picture: found wherever it stands, and never an object."""

from __future__ import annotations

import pytest

from scenewright.agents.parsers.rules import parse_caption


def wishes(caption: str) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in parse_caption(caption).intent.globals]


def names(caption: str) -> list[str]:
    return [item.name for item in parse_caption(caption).objects]


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("an oil painting of a cat", [("medium", "oil painting")]),
        ("a military diagram of a tank", [("medium", "military diagram")]),
        ("a cat, digital art", [("style", "digital art")]),
        ("a field, watercolor on rough paper", [("medium", "watercolor on rough paper")]),
        ("two knights fighting, oil on canvas", [("medium", "oil on canvas")]),
        ("a cosy cabin, warm color palette", [("style", "warm color palette")]),
        ("a cat on a sofa. marble statue", [("medium", "marble statue")]),
        ("a cat in the style of Van Gogh", [("artist", "in the style of Van Gogh")]),
        ("a cat, by Greg Rutkowski and Alphonse Mucha",
         [("artist", "by Greg Rutkowski and Alphonse Mucha")]),
        ("a cat seen from above", [("view", "seen from above")]),
        ("low angle shot of a tower", [("view", "low angle shot")]),
        ("a bee on a flower with a blurred background", [("view", "with a blurred background")]),
        ("a cat, cinematic lighting", [("light", "cinematic lighting")]),
        ("a cat in soft light", [("light", "in soft light")]),
        ("golden hour, a cat on a wall", [("time", "golden hour")]),
        ("a house at sunset", [("time", "at sunset")]),
        ("a street at night with a sign", [("time", "at night")]),
        ("a dog in the rain", [("weather", "in the rain")]),
        ("a ship on a stormy night", [("weather", "on a stormy night")]),
        ("a foggy morning in London", [("weather", "a foggy morning")]),
        ("a wolf in a moody atmosphere", [("mood", "in a moody atmosphere")]),
        ("a wolf, moody, 8k", [("mood", "moody"), ("quality", "8k")]),
        ("a wolf, trending on artstation", [("quality", "trending on artstation")]),
        ("a wolf --ar 16:9", [("aspect", "--ar 16:9")]),
        ("a wolf, 16:9", [("aspect", "16:9")]),
    ],
)  # fmt: skip
def test_each_kind_is_found_where_it_stands(caption: str, expected: list[tuple[str, str]]) -> None:
    assert [(kind, text.strip()) for kind, text in wishes(caption)] == expected
    assert len(names(caption)) <= 2
    assert not parse_caption(caption).intent.unread


@pytest.mark.parametrize(
    ("caption", "objects"),
    [
        ("a painting of a cat on a wall next to a photograph", ["cat", "wall", "photograph"]),
        ("a dog under a grey sky", ["dog", "sky"]),
        ("a dog in the snow", ["dog", "snow"]),
        ("an ink stain on paper", ["ink stain", "paper"]),
        ("a boy, a pen on a board", ["boy", "pen", "board"]),
        ("a man with a paintbrush and a sketch", ["man", "paintbrush", "sketch"]),
        ("a lamp beside a black and white cat", ["lamp", "cat"]),
    ],
)
def test_what_is_in_the_picture_is_no_wish(caption: str, objects: list[str]) -> None:
    assert names(caption) == objects


def test_a_caption_in_quotation_marks_is_read_without_them() -> None:
    assert names("“a painting of a dark room with a table, matte painting”") == ["room", "table"]

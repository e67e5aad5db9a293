"""Published rules for the tokens of an image, against the providers' own examples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.pictures import (
    RULES,
    answer_tokens,
    character_tokens,
    image_tokens,
    text_tokens,
)

sides = st.integers(1, 4096)


@pytest.mark.parametrize(
    ("rule", "width", "height", "tokens"),
    [
        # OpenAI, "Images and vision".
        ("tiles-85-170", 1024, 1024, 765),
        ("tiles-85-170", 2048, 4096, 1105),
        ("tiles-85-170", 512, 512, 255),
        ("tiles-2833-5667", 512, 512, 8500),
        ("tiles-2833-5667", 1024, 1024, 25501),
        ("patches-1.62", 1024, 1024, 1659),
        ("patches-1.62", 1800, 2400, 2353),
        ("patches-1.72", 32, 33, 4),
        # Anthropic, "Vision": about 1.15 megapixels is the most.
        ("area-750", 200, 200, 54),
        ("area-750", 1000, 1000, 1334),
        ("area-750", 1092, 1092, 1590),
        ("area-750", 4000, 4000, 1600),
        ("area-750", 3136, 300, 314),
        # Google, "Understand and count tokens".
        ("tiles-258", 384, 384, 258),
        ("tiles-258", 385, 10, 258),
        ("tiles-258", 1536, 768, 516),
        ("tiles-258", 1537, 769, 1548),
    ],
)
def test_the_rules_give_what_is_published(rule: str, width: int, height: int, tokens: int) -> None:
    assert image_tokens(rule, width, height) == tokens


@given(st.sampled_from(sorted(RULES)), sides, sides)
def test_an_image_costs_the_same_turned_and_never_nothing(rule: str, a: int, b: int) -> None:
    assert image_tokens(rule, a, b) == image_tokens(rule, b, a) >= 1


@given(st.sampled_from(["patches-1.62", "patches-1.72", "patches-2.46"]), sides, sides)
def test_patches_are_capped(rule: str, a: int, b: int) -> None:
    assert image_tokens(rule, a, b) <= 1536 * float(rule.removeprefix("patches-")) + 1


def test_an_unknown_rule_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="tiles-258"):
        image_tokens("guess", 1, 1)


@given(st.text(max_size=50))
def test_four_characters_are_a_token(text: str) -> None:
    assert text_tokens(text) == (len(text) + 3) // 4


def test_text_and_answers_are_estimated_by_their_length() -> None:
    assert answer_tokens(10) == 220
    assert character_tokens(401) == 101

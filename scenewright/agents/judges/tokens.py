"""Tokens that an image and a text take, by the rules that the providers publish.

For limits of tokens a minute, which must be kept before the provider has counted, and for
estimates of cost. What a call really took is what its reply says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

CHARACTERS_A_TOKEN = 4
"""Of text, by the estimate that providers name."""
TOKENS_A_FACT = 20
"""Output tokens that one answer of the sheet is expected to take, its share of reasons included."""
TOKENS_A_REPLY = 20
"""Output tokens around the answers."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """OpenAI, gpt-4o and its kin: ``base + tile · n`` over n squares of 512 pixels.

    The image is first shrunk to fit 2048 × 2048, then until its shorter side is 768 at most.
    Source: OpenAI, "Images and vision", calculating costs (1024 × 1024 takes 765 by 85 + 170).
    """

    base: int
    """Tokens of any image."""
    tile: int
    """Tokens of each square."""

    def __call__(self, width: int, height: int) -> int:
        """Tokens of ``width`` × ``height`` pixels."""
        scale = min(1.0, 2048 / max(width, height))
        scale = min(scale, 768 / min(width, height))
        return self.base + self.tile * _cells(width * scale, 512) * _cells(height * scale, 512)


@dataclass(frozen=True, slots=True)
class Patches:
    """OpenAI, small and reasoning models: patches of 32 pixels times a factor.

    An image of more patches than ``most`` is shrunk until it is covered by whole patches.
    Source: OpenAI, "Images and vision", calculating costs (1800 × 2400 takes 1452 patches).
    """

    factor: float
    """Tokens a patch."""
    most: int = 1536
    """Most patches that are counted."""

    def __call__(self, width: int, height: int) -> int:
        """Tokens of ``width`` × ``height`` pixels."""
        patches = _cells(width, 32) * _cells(height, 32)
        if patches > self.most:
            scale = math.sqrt(32 * 32 * self.most / (width * height))
            across, down = width * scale / 32, height * scale / 32
            if min(across, down) >= 1:
                scale *= min(math.floor(across) / across, math.floor(down) / down)
            patches = _cells(width * scale, 32) * _cells(height * scale, 32)
        return math.ceil(min(patches, self.most) * self.factor)


@dataclass(frozen=True, slots=True)
class Area:
    """Anthropic: ``width · height / 750`` after the image is shrunk to fit ``side``.

    Source: Anthropic, "Vision", image costs: what is over 1568 pixels on its longer side or
    over about 1600 tokens is scaled down first.
    """

    side: int = 1568
    """Longest side in pixels."""
    pixels: int = 750
    """Pixels a token."""
    most: int = 1600
    """Most tokens that an image takes."""

    def __call__(self, width: int, height: int) -> int:
        """Tokens of ``width`` × ``height`` pixels."""
        scale = min(1.0, self.side / max(width, height))
        return max(1, min(self.most, math.ceil(width * scale * height * scale / self.pixels)))


@dataclass(frozen=True, slots=True)
class SquareTiles:
    """Gemini: one tile for an image of at most ``small`` on both sides, else squares of ``side``.

    Source: Google, "Understand and count tokens", multimodal tokens.
    """

    tile: int = 258
    """Tokens of a tile."""
    small: int = 384
    """Longest side in pixels of an image that takes one tile."""
    side: int = 768
    """Side of a tile in pixels."""

    def __call__(self, width: int, height: int) -> int:
        """Tokens of ``width`` × ``height`` pixels."""
        if max(width, height) <= self.small:
            return self.tile
        return self.tile * _cells(width, self.side) * _cells(height, self.side)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Gemini 3 and later: as many tokens as the request's ``media_resolution`` says.

    Source: Google, "Media resolution" (280, 560 and 1120 tokens an image); read from a summary,
    so that the usage of a reply decides where it differs.
    """

    tokens: int
    """Tokens of any image."""

    def __call__(self, width: int, height: int) -> int:
        """Tokens of ``width`` × ``height`` pixels."""
        return self.tokens


Rule = Tiles | Patches | Area | SquareTiles | Fixed

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "tiles-85-170": Tiles(85, 170),
        "tiles-70-140": Tiles(70, 140),
        "tiles-75-150": Tiles(75, 150),
        "tiles-2833-5667": Tiles(2833, 5667),
        "patches-1.62": Patches(1.62),
        "patches-1.72": Patches(1.72),
        "patches-2.46": Patches(2.46),
        "area-750": Area(),
        "tiles-258": SquareTiles(),
        "media-280": Fixed(280),
        "media-560": Fixed(560),
        "media-1120": Fixed(1120),
    }
)
"""The rules by name, as ``models.toml`` and the lab use them."""


def image_tokens(rule: str, width: int, height: int) -> int:
    """Tokens of an image of ``width`` × ``height`` pixels (1 or more) by the rule of that name.

    Raises ``ValueError`` for a name that is not in :data:`RULES`.
    """
    if rule not in RULES:
        raise ValueError(f"no rule {rule!r} for the tokens of an image: use one of {list(RULES)}")
    return RULES[rule](width, height)


def character_tokens(characters: int) -> int:
    """The estimate ``chars/4``: a quarter of so many characters, rounded up.

    Providers name it as a rule of thumb for English; it needs no tokenizer of theirs.
    """
    return math.ceil(characters / CHARACTERS_A_TOKEN)


def text_tokens(text: str) -> int:
    """:func:`character_tokens` of ``text``."""
    return character_tokens(len(text))


def answer_tokens(facts: int) -> int:
    """Output tokens expected for that many facts."""
    return TOKENS_A_FACT * facts + TOKENS_A_REPLY


def _cells(length: float, side: int) -> int:
    # A length that scaling puts a hair above a whole number of cells takes no cell more.
    return max(1, math.ceil(round(length / side, 6)))

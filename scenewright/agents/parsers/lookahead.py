"""Lookahead in a sentence: the words that a clause looks at before it reads on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.tagging import Token

LONGEST_LIST = 60
"""Items that are looked at for the end of a list."""


def is_token(items: Sequence[Item], at: int, tag: str, words: Collection[str] | None) -> bool:
    """Return whether one of ``words`` with this tag is at ``at``; None for any word."""
    item = items[at] if at < len(items) else None
    return isinstance(item, Token) and item.tag == tag and (words is None or item.lower in words)


def is_list(items: Sequence[Item], at: int) -> bool:
    """Return whether the noun phrase at ``at`` is one of a list that "and" closes."""
    for item in items[at + 1 : at + LONGEST_LIST]:
        if isinstance(item, Token):
            if item.tag == "and":
                return True
            if item.tag != "comma":
                return False
    return False


def has_its(items: Sequence[Item], at: int) -> bool:
    """Return whether what follows is on a thing: "a book with a prism on its cover"."""
    for step, item in enumerate(items[at + 2 :], at + 2):
        if isinstance(item, Token):
            if item.tag not in ("preposition", "participle", "adverb"):
                return False
        elif item.pronoun == "it" or (item.owner is not None and item.owner.pronoun == "its"):
            return is_token(items, step - 1, "preposition", None)
    return False


def tag_after(items: Sequence[Item], at: int) -> str:
    """Return the tag of what follows ``at``, adverbs aside; ``noun`` for a noun phrase."""
    for item in items[at + 1 :]:
        if isinstance(item, Mention):
            return "noun"
        if item.tag != "adverb":
            return item.tag
    return "end"


def is_told(items: Sequence[Item], at: int) -> bool:
    """Return whether the noun phrase at ``at`` has a verb of its own: "and a man with hair is"."""
    for item in items[at + 1 : at + LONGEST_LIST]:
        if isinstance(item, Token):
            if item.tag in ("be", "have", "verb", "auxiliary"):
                return True
            if item.tag in ("and", "comma", "relative", "clause"):
                return False
    return False

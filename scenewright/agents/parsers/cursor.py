"""A place in the items of a sentence: what follows it, before a clause reads on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.tagging import Token, peek

_LONGEST_LIST = 60
"""Items that are looked at for the end of a list."""


class Cursor:
    """Place in a sentence of tokens and noun phrases."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.at = 0

    def peek(self, steps: int = 1) -> Item:
        """Return the item so many steps after the place."""
        return peek(self.items, self.at + steps)

    def is_word(self, steps: int, tag: str, words: Collection[str] | None = None) -> bool:
        """Return whether one of ``words`` with this tag is there; None for any word."""
        one = self.peek(steps)
        return isinstance(one, Token) and one.tag == tag and (words is None or one.lower in words)

    def tag_after(self, steps: int = 0) -> str:
        """Return the tag of what follows, adverbs aside; ``noun`` for a noun phrase."""
        at = self.at + steps + 1
        while at < len(self.items) and self.items[at].tag == "adverb":
            at += 1
        tag = peek(self.items, at).tag
        return "noun" if tag == "phrase" else tag

    def is_list(self) -> bool:
        """Return whether the noun phrase here is one of a list that "and" closes."""
        ahead = (item.tag for item in self.items[self.at + 1 : self.at + _LONGEST_LIST])
        return next((tag == "and" for tag in ahead if tag not in ("comma", "phrase")), False)

    def has_verb(self) -> bool:
        """Return whether the noun phrase here has its own verb: "and a man with hair is"."""
        for item in self.items[self.at + 1 : self.at + _LONGEST_LIST]:
            if item.tag in ("be", "have", "verb", "auxiliary"):
                return True
            if item.tag in ("and", "comma", "relative", "clause"):
                return False
        return False

    def is_on_it(self) -> bool:
        """Return whether what follows is on a thing: "a book with a prism on its cover"."""
        for at, item in enumerate(self.items[self.at + 2 :], self.at + 2):
            if not isinstance(item, Mention):
                if item.tag not in ("preposition", "participle", "adverb"):
                    return False
            elif item.pronoun == "it" or (item.owner is not None and item.owner.pronoun == "its"):
                return self.items[at - 1].tag == "preposition"
        return False

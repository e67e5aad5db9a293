"""A sentence of a caption as it was read, and other ways to say it.

The reader settles on one tag of each word and on one bearer of each phrase. The modules of doubts
hold what it settled on against the sentence: where another reading can be said, it is a choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.tagging import SCENERY, peek, rough
from scenewright.core.intent import Choice, Doubt, DoubtKind
from scenewright.core.scene import SceneGraph

DETERMINING = frozenset({"article", "determiner", "possessive", "number"})
_OPENING = DETERMINING | {"preposition", "be", "have", "auxiliary", "and", "adjective", "ing"}


@dataclass
class ReadSentence:
    """A sentence of a caption, its words and phrases, and the scene of the caption."""

    text: str
    """The caption."""
    words: Sequence[str]
    items: Sequence[Item]
    scene: SceneGraph

    def __post_init__(self) -> None:
        self.names = {item.id: item.name for item in self.scene.objects}

    def peek(self, at: int) -> Item:
        """Return the item at ``at``; an end outside of the sentence."""
        return peek(self.items, at)

    def doubt(
        self, kind: DoubtKind, start: int, end: int, question: str, *choices: tuple[str, str]
    ) -> Doubt:
        """Return a doubt of a passage with its choices, each a label and a sentence."""
        return Doubt(
            kind=kind,
            start=start,
            end=end,
            text=self.text[start:end],
            question=question,
            choices=tuple(Choice(label=label, sentence=said.strip()) for label, said in choices),
        )

    def with_(self, start: int, end: int, said: str) -> str:
        """Return the caption with ``said`` in this place."""
        return f"{self.text[:start]}{said}{self.text[end:]}"

    def split_off(self, start: int, end: int, said: str) -> str:
        """Return the caption without this place, and with ``said`` as its own sentence."""
        left = f"{self.text[:start].rstrip()}{self.text[end:]}".strip()
        return f"{left}{'' if left.endswith(('.', '!', '?')) else '.'} {said}"

    def said_of_each(
        self, start: int, end: int, deed: str, said: str, things: Iterable[Mention]
    ) -> list[tuple[str, str]]:
        """Return choices of which thing "is" or "has" what this place says."""
        found = []
        for one in things:
            called = self.called(one)
            does = {"has": "have", "is": "are"}[deed] if one.least > 1 else deed
            sentence = self.split_off(start, end, f"The {called} {does} {said}.")
            found.append((f"the {called}", sentence))
        return found

    def called(self, mention: Mention) -> str:
        """Return the words of a noun phrase without its determiner."""
        said = self.text[slice(*mention.place)].split()
        while len(said) > 1 and rough(said[0].lower()) in DETERMINING:
            said.pop(0)
        return " ".join(said)

    def before(self, at: int) -> Mention | None:
        """Return the thing named before the one at ``at``, with at most two words between."""
        for item in reversed(self.items[max(0, at - 3) : at]):
            if isinstance(item, Mention):
                return item if is_thing(item) else None
            if item.tag in ("clause", "relative"):
                return None
        return None

    def joined(self, at: int) -> bool:
        """Return whether "and" stands before the item at ``at``."""
        return self.peek(at - 1).tag == "and"

    def end_of_clause(self, at: int) -> int:
        """Return where the clause of the item at ``at`` ends in the caption."""
        end = self.items[at].place[1]
        for item in self.items[at + 1 :]:
            if item.tag in ("and", "comma", "clause", "relative"):
                break
            end = max(end, item.place[1])
        return end

    def related(self, source: str, target: str) -> bool:
        """Return whether the scene relates two things of these labels."""
        ends = ((self.names[r.source], self.names[r.target]) for r in self.scene.relations)
        return (source, target) in ends


def unsure(
    text: str, start: int, end: int, question: str = "are these words read as they are meant?"
) -> Doubt:
    """Return the doubt of a passage that was perhaps not read as it is meant."""
    choices = [Choice(label="as it stands", sentence=text.strip())]
    without = re.sub(r"\s*([.,;:])", r"\1", f"{text[:start].rstrip()} {text[end:].lstrip()}")
    without = without.strip(" .,;:")
    # "A", "with" and their like do not stand without what follows them.
    open_ended = any(rough(word.lower()) in _OPENING for word in text[:start].split()[-1:])
    if any(letter.isalpha() for letter in without) and not open_ended:
        choices.append(Choice(label="without these words", sentence=without))
    return Doubt(
        kind="reading",
        start=start,
        end=end,
        text=text[start:end],
        question=question,
        choices=tuple(choices) if len(choices) > 1 else (),
    )


def is_thing(mention: Mention) -> bool:
    """Return whether a mention names a thing that is no scenery."""
    named = bool(mention.name) and not mention.pronoun and not mention.ignored
    return named and mention.head not in SCENERY

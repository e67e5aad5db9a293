"""Intent of a person beside the graph of a scene: their sentence, wishes, counts and doubts.

A scene graph holds objects, attributes and relations. The rest of a sentence is kept here: its
words as they stand, what is said of the whole picture (:class:`Global`), what must not be there
(:class:`Exclusion`), whether a number is exact (:class:`Count`), texts to be written, what was not
read (:class:`Passage`) and what could be meant otherwise (:class:`Doubt`). Empty for a scene that
was given as a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from scenewright.core.validation import FrozenModel

GlobalKind = Literal[
    "medium", "style", "artist", "view", "light", "time", "weather", "mood", "quality", "aspect"
]
"""Kinds of what is said of the whole picture; ``aspect`` is its format, such as "16:9"."""
CountKind = Literal["exact", "least", "open"]
"""``three dogs`` is exact, ``at least three dogs`` and ``several dogs`` say the least number,
``dogs`` is open: more than one."""
DoubtKind = Literal["word", "count", "attachment", "reading"]
"""An unknown word, a number that could be meant otherwise, a phrase that could belong elsewhere,
or a clause of which the rules are not sure."""
_QUOTED = 3
"""Passages that a message quotes at most."""


class Passage(FrozenModel):
    """A passage of a caption, and why the scene does not hold it."""

    start: int
    """Place of its first character, from 0."""
    end: int
    """Place after its last character."""
    text: str
    """The passage as it stands in the caption."""
    reason: str
    """Why it was not read, as a clause: "not English"."""

    def __str__(self) -> str:
        return f"{self.text!r} (characters {self.start} to {self.end}: {self.reason})"


class Global(FrozenModel):
    """One thing that is said of the whole picture: a wish, judged where a judge can."""

    kind: GlobalKind
    text: str
    """Its words, as they stand in the sentence: "oil painting", "at night"."""


class Exclusion(FrozenModel):
    """A thing that must not be in the picture."""

    name: str
    """Class label, in the singular: "person"."""
    text: str
    """The words of the sentence: "no people"."""
    of: str | None = None
    """Id of the object that is to be without it ("a man without a hat"); None: of the picture."""


class Count(FrozenModel):
    """Meaning of the number of some objects of a class."""

    objects: tuple[str, ...]
    """Their ids."""
    kind: CountKind
    number: int | None = None
    """The number that was said; None for an open one. It may be greater than the objects."""


class Choice(FrozenModel):
    """One way to resolve a doubt."""

    label: str
    """Its words for people: "two of each"."""
    sentence: str
    """The whole sentence, worded so that it can only be read that way."""


class Doubt(FrozenModel):
    """A passage that could be read in another way."""

    kind: DoubtKind
    start: int
    end: int
    text: str
    """The passage as it stands in the sentence; ``start`` and ``end`` as in :class:`Passage`."""
    question: str
    """Question to a person: "two dogs in all, or two of each?"."""
    choices: tuple[Choice, ...] = ()
    """The first is the reading that was taken."""

    def __str__(self) -> str:
        read = f" (read as: {self.choices[0].label})" if self.choices else ""
        return f"{self.text!r}: {self.question}{read}"


class Intent(FrozenModel):
    """Words of a person beside the graph; empty for a scene that was given as a graph."""

    sentence: str = ""
    """The sentence, verbatim, with the space around it: passages and doubts count in it."""
    language: str = Field(default="", exclude_if=lambda said: not said)
    """Code of its language (ISO 639-1); empty if it is English."""
    english: str = Field(default="", exclude_if=lambda said: not said)
    """Its translation, where it is in another language: the texts of :attr:`globals` and
    :attr:`exclusions` are passages of this one."""
    read_as: str = ""
    """Digest of the graph that was read from it: after an edit the sentence no longer says it."""
    globals: tuple[Global, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    counts: tuple[Count, ...] = ()
    texts: tuple[str, ...] = ()
    """Texts to be written that no object bears."""
    unread: tuple[Passage, ...] = Field(default=())
    """Passages that nothing here or in the graph holds; they are in the prompt, and not checked."""
    doubts: tuple[Doubt, ...] = ()

    def __bool__(self) -> bool:
        return self != _EMPTY

    @property
    def warnings(self) -> tuple[str, ...]:
        """The unread passages in one line, and each doubt in one; empty if all is sure."""
        unread = (f"not checked: {listed(self.unread, most=6)}",) if self.unread else ()
        return (*unread, *(f"not sure: {doubt}" for doubt in self.doubts))

    @property
    def counted(self) -> Iterator[str]:
        """Ids of the objects whose number was said."""
        return (one for count in self.counts for one in count.objects)

    def of(self, object_ids: Iterable[str]) -> Intent:
        """Return what still holds of a part of the scene that keeps ``object_ids``."""
        kept = frozenset(object_ids)
        counts = (
            count.model_copy(update={"objects": left})
            for count in self.counts
            if (left := tuple(one for one in count.objects if one in kept))
        )
        return self.model_copy(
            update={
                "exclusions": tuple(x for x in self.exclusions if x.of is None or x.of in kept),
                "counts": tuple(counts),
            }
        )


_EMPTY = Intent()


def listed(passages: Sequence[Passage], most: int = _QUOTED) -> str:
    """Return the passages for a message, the first ``most`` of them."""
    said = "; ".join(str(passage) for passage in passages[:most])
    more = len(passages) - most
    return f"{said} and {more} more" if more > 0 else said

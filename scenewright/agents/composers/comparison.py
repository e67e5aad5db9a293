"""Compare a prompt with the person's sentence: what it lost, and what it added.

Whoever wrote the prompt (the sentence itself, a grammar or a language model), each content word and
number of the sentence is in it or told as lost, and each content word or number that the sentence
does not have is told as added. Words are compared by their stems, so that "dogs" is "dog" and "is
wearing" is "wearing".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scenewright.agents.composers.reading import MULTIPLE
from scenewright.agents.composers.sentences import sentences
from scenewright.agents.parsers.tagging import NUMBERS, OWN_PRONOUNS, WRITINGS, rough, words
from scenewright.agents.parsers.unread import SMALL_TAGS, traces, traces_of
from scenewright.core.inflection import stems
from scenewright.core.intent import Passage
from scenewright.core.scene import SceneGraph
from scenewright.core.wishes import exclusion_phrase

LOST = "not in the prompt"
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
_AMOUNTS = frozenset(
    ["several", "many", "few", "multiple", "various", "different", "more", "most", "plenty"]
)
"""Determiners that say how many there are, or that they are not alike."""
_SILENT = frozenset(
    {"image", "picture", "scene", "there", "made", "which", "who", "of", "with", "to", "on", "one",
     "as", "than", "in", "at", "by", "from", "for", "also", "too", "just", "see", "seen", "visible",
     "color", "colour", "colors", "colours"}
)  # fmt: skip
"""Words that say only that there is a picture, or that join others."""
_ORDINALS = words("numbers", "ordinals")
"""Words that a prompt adds to tell things of one class apart."""
_PEOPLE = frozenset({"people", "persons", "human", "humans"})
"""Words for which a reading says "person"."""
_DENIALS = words("negation", "words") | {"instead"}
_WRITTEN = WRITINGS | {"say", "read", "write", "spell", "label"}
"""Words that only say that there is a text."""
_DENIED = re.compile(r"\bno\s+$", re.IGNORECASE)
_DIGITS = {word: str(number) for word, number in NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class PromptChanges:
    """The difference between a sentence and a prompt."""

    lost: tuple[Passage, ...] = ()
    """Passages of the sentence that the prompt does not say."""
    added: tuple[str, ...] = ()
    """Words of the prompt that the sentence does not say, in its order."""

    @property
    def text(self) -> str:
        """Lost and added words in one line; empty if there are none."""
        parts = []
        if self.lost:
            parts.append(f"not drawn: {', '.join(one.text for one in self.lost)}")
        if self.added:
            parts.append(f"added: {', '.join(self.added)}")
        return "; ".join(parts)


def changes_of(scene: SceneGraph, prompt: str, negative: str = "") -> PromptChanges:
    """Return what ``prompt`` lost of the sentence of ``scene`` and added to it.

    After an edit of the graph, what the edit took out of the sentence is not lost, and what it
    brought in is not added. A sentence in another language is compared in that language or in
    English, whichever the prompt is in.
    """
    if not scene.edited:
        found = compared(scene.sentence, prompt, negative)
        if scene.english == scene.sentence:
            return found
        english = compared(scene.english, prompt, negative)
        if len(found.lost) + len(found.added) <= len(english.lost) + len(english.added):
            return found
        # Words of the translation have no place of their own in the sentence.
        whole = {"start": 0, "end": len(scene.sentence)}
        return replace(english, lost=tuple(one.model_copy(update=whole) for one in english.lost))
    intent = scene.intent
    counts = tuple(one for one in intent.counts if one.number in (None, len(one.objects)))
    numbers = Counter(item.name for item in scene.objects).values()
    beside = [*map(str, numbers), *(passage.text for passage in intent.unread)]
    if any(count.kind != "exact" for count in counts):
        beside += _AMOUNTS
    held = traces(scene) | traces_of(intent.model_copy(update={"counts": counts}))
    return compared(
        intent.english or intent.sentence, prompt, negative, held | _stems(" ".join(beside))
    )


def compared(
    sentence: str, prompt: str, negative: str = "", held: frozenset[str] | None = None
) -> PromptChanges:
    """Return what ``prompt`` lost of ``sentence`` and added to it.

    A word in the ``negative`` prompt is not lost, nor is the "without" before it. Nothing without a
    sentence. ``held``: stems of what is still to be drawn, and of what was never said; None: all
    of the sentence.
    """
    if not sentence:
        return PromptChanges()
    said = _stems(sentence) | (held or frozenset())
    kept = _stems(prompt) | _stems(negative)
    lost: list[Passage] = []
    for match in _content(sentence):
        if _in(match[0], kept) or (negative and match[0].lower() in _DENIALS):
            continue
        if held is not None and not _in(match[0], held):
            continue
        between = sentence[lost[-1].end : match.start()] if lost else "."
        start = match.start()
        if re.fullmatch(r"\s+", between):
            start = lost.pop().start
        denied = _DENIED.search(sentence, 0, start)
        start = denied.start() if denied is not None else start
        text = sentence[start : match.end()]
        lost.append(Passage(start=start, end=match.end(), text=text, reason=LOST))
    new = (match[0] for match in _content(prompt) if not _in(match[0], said | _WRITTEN))
    added = (word for word in new if word.lower() not in _ORDINALS)
    return PromptChanges(tuple(lost), tuple(dict.fromkeys(added)))


def without_excluded(prompt: str, scene: SceneGraph, avoids: bool) -> str:
    """Return ``prompt`` without what must not be there, where a negative prompt says that.

    ``avoids``: whether the image model takes one. What an object is to be without ("a man without a
    hat") stays: a negative prompt is about the whole picture.
    """
    if not avoids:
        return prompt
    for one in scene.intent.exclusions:
        if one.of is None:
            for text in (one.text, exclusion_phrase(one)):
                prompt = re.sub(rf"(?:,\s*)?{re.escape(text)}", "", prompt)
    return " ".join(prompt.split()) or sentences(scene)


def _content(text: str) -> Iterator[re.Match[str]]:
    """Yield the words that say something to draw."""
    for match in _WORD.finditer(text):
        low = match[0].lower()
        said = low in _AMOUNTS or low == "how" or rough(low) not in SMALL_TAGS
        if said and low not in OWN_PRONOUNS and low not in _SILENT:
            yield match


def _stems(text: str) -> frozenset[str]:
    return frozenset().union(*(_stems_of(match[0]) for match in _WORD.finditer(text)))


def _in(word: str, known: frozenset[str]) -> bool:
    """Return whether ``word`` or all parts of a compound are among the stems ``known``."""
    return all(_stems_of(part) & known for part in re.split(r"[-.]", word) if part)


def _stems_of(word: str) -> frozenset[str]:
    low = word.lower().replace("’", "'").removesuffix("'s")
    parts = [part for part in re.split(r"[-'.]", low) if part]
    if low in _PEOPLE:
        return frozenset({low, "person"})
    known = {_DIGITS.get(one, one) for one in (low, *(parts if len(parts) > 1 else ()))}
    if low in MULTIPLE:
        known.add(str(MULTIPLE[low]))
    found = frozenset().union(known, *map(stems, known))
    return found | {"text"} if found & _WRITTEN else found

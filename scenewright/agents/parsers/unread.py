"""Parts of a caption that no scene graph can hold: denials, other languages, unread words.

A scene graph states what is to be seen. "A dog that is not red" is never read as a red dog: what is
denied is told with its place, as are words of another language and words that left no trace in the
scene. Places are characters of the caption as it was given, counted from 0, the
end not included, so that ``caption[start:end]`` is the passage.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from scenewright.agents.parsers import tagging as lexicon
from scenewright.agents.parsers.splitting import FRAME_NOUNS, Word
from scenewright.agents.parsers.tagging import Token, is_animate, phrases, rough, words
from scenewright.core.inflection import singular, stems
from scenewright.core.intent import Intent, Passage
from scenewright.core.scene import SceneError, SceneGraph


class CaptionError(SceneError):
    """A caption that names nothing to draw, or is in another language.

    Its message says what a caption looks like and quotes the passages.
    """

    def __init__(self, message: str, passages: Sequence[Passage] = ()) -> None:
        super().__init__(message)
        self.passages = tuple(passages)
        """The passages at fault; empty where it is the whole caption."""


class CaptionWarning(UserWarning):
    """Words of a caption were not read into the scene, or may mean something else; says which."""


def warn_of(scene: SceneGraph) -> None:
    """Warn of what of its sentence ``scene`` does not hold, and of what may be read wrong."""
    for told in scene.warnings:
        warnings.warn(told, CaptionWarning, stacklevel=3)


NEGATED = "a negation"
FOREIGN = "not English"
UNKNOWN = "not understood"
NAME = "read as part of one name"
ABSENT = "names nothing that must not be there"
OPTION = "an option of a drawing program"

# Negation

_NOT = words("negation", "words")
_NOT_PHRASES = frozenset(phrases("negation", "phrases"))
_MORE_THAN_NOT = frozenset(phrases("negation", "not_negated"))
_ENDS_NEGATED = words("negation", "ends")
_LONGEST_NEGATED = 5
_PICTURE = FRAME_NOUNS | {"background", "foreground"}


def negations(text: str, sentence: Sequence[str]) -> Iterator[Passage]:
    """Yield the passages of a sentence of ``text`` that negate something, outside quotations.

    >>> text = "a room with no cat and a dog that is not red"
    >>> [found.text for words, _ in sentences(text) for found in negations(text, words)]
    ['no cat', 'not red']
    """
    for start, end in _negated(sentence):
        if not _of_picture(sentence, start):
            yield _passage(text, sentence[start:end], NEGATED)


def said_of_picture(sentence: Sequence[str]) -> list[str]:
    """Return the words of a sentence that deny something of the picture, not of a thing in it."""
    found: list[str] = []
    for start, end in _negated(sentence):
        if size := _of_picture(sentence, start):
            found += sentence[start - size : end]
    return found


def _negated(sentence: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where the negated passages of a sentence begin and end."""
    lower = [word.lower().replace("’", "'") for word in sentence]
    at = 0
    while at < len(lower):
        size, skipped = _negates(lower, at)
        if not size:
            at += skipped
            continue
        end = at + size
        while end < len(lower) and end - at < _LONGEST_NEGATED:
            if lower[end] in _ENDS_NEGATED or _negates(lower, end)[0]:
                break
            end += 1
        yield at, end
        at = end


def _of_picture(sentence: Sequence[str], at: int) -> int:
    """Return how many words before a negation at ``at`` say that it is said of the picture."""
    before = [word.lower() for word in sentence[max(0, at - 3) : at]]
    if len(before) > 1 and before[-1] in lexicon.BE and before[-2] in _PICTURE:
        return 3 if len(before) == 3 and before[0] in lexicon.ARTICLES else 2
    return 0


def _negates(lower: Sequence[str], at: int) -> tuple[int, int]:
    """Return how many words a negation at ``at`` has, and how many are read on without one.

    "No parking sign" negates nothing.
    """
    for size in range(min(4, len(lower) - at), 1, -1):
        phrase = tuple(lower[at : at + size])
        if phrase in _NOT_PHRASES:
            return size, 0
        if phrase in _MORE_THAN_NOT or phrase in lexicon.COMPOUNDS:
            return 0, size
    return int(lower[at] in _NOT or lower[at].endswith("n't")), 1


# Other languages

_FOREIGN = words("languages", "function_words")
_FOREIGN_FIRST = words("languages", "articles")
SMALL_TAGS = frozenset(
    {"article", "determiner", "possessive", "pronoun", "and", "relative", "clause", "be", "have",
     "auxiliary", "there"}
)  # fmt: skip
"""Tags of words that say nothing to draw."""
_ENGLISH = SMALL_TAGS | {"preposition"}


def foreign_words(sentence: Sequence[str]) -> list[str]:
    """Return the words of a sentence that are not English: other scripts, other languages.

    A word in letters other than Latin is none. Latin ones are told by the small words of other
    languages: a run of words with two of them and no small word of English. Capitalised words
    around them are a name ("Vincent van der Gogh").
    """
    found: list[str] = []
    for separates, group in groupby(sentence, _separates):
        run = [*group]
        whole = len(run) == len(sentence)
        other = sum(word.lower() in _FOREIGN for word in run)
        named = all(word[:1].isupper() or word.lower() in _FOREIGN for word in run) and not whole
        first = len(run) > 1 and run[0].lower() in _FOREIGN_FIRST
        if not separates and not named and (other > 1 or (first and whole)):
            found.extend(run)
    return [one for one in sentence if not is_latin(one) or any(one is other for other in found)]


def _separates(word: str) -> bool:
    """Return whether a word is a small one of English, or a comma."""
    lower = word.lower()
    return word == "," or (lower not in _FOREIGN and rough(lower) in _ENGLISH)


@lru_cache(maxsize=16384)
def is_latin(word: str) -> bool:
    """Return whether the letters of ``word`` are Latin."""
    letters = [char for char in word if char.isalpha()]
    return all(
        unicodedata.name(char, "LATIN").startswith(("LATIN", "MODIFIER")) for char in letters
    )


# Words without a trace

_TELLING = frozenset({"noun", "either", "weak", "adjective", "verb", "ing", "participle", "adverb"})
_SILENT = (
    words("languages", "silent")
    | words("adjectives", "counting")
    | (set(lexicon.GROUPS) - words("groups", "arranged"))
    | (FRAME_NOUNS & lexicon.IGNORED)
)


def traces(scene: SceneGraph) -> frozenset[str]:
    """Return the words of a scene, each also as its stem."""
    said: list[str] = [relation.predicate for relation in scene.relations]
    for item in scene.objects:
        said += [item.name, *item.attributes.values()]
    return stems_of(said)


def traces_of(intent: Intent) -> frozenset[str]:
    """Return the words of what is said beside the graph, each also as its stem."""
    said = [*intent.texts, *(one.text for one in intent.globals)]
    said += [one.text for one in intent.exclusions]
    said += [str(count.number) for count in intent.counts]
    return stems_of(said)


def stems_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of ``texts``, each also as its stem."""
    lower = [text.lower() for text in texts]
    found = {word for text in lower for word in text.split()}
    found |= {one.removesuffix("'s").strip("'") for text in lower for one in _WORDS.findall(text)}
    return frozenset(found.union(*map(stems, found)))


_WORDS = re.compile(r"[\w'’-]+")


def without_trace(
    sentence: Sequence[str], said: frozenset[str], quotes: dict[str, str]
) -> list[str]:
    """Return the words of a sentence that a scene of the words ``said`` does not hold.

    Small words, words for how many and how, and words that name nothing to see are left out.
    """
    return [word for word in sentence if not _is_held(word, said, quotes)]


def _is_held(word: str, said: frozenset[str], quotes: dict[str, str]) -> bool:
    if not isinstance(word, Word) or word == ",":
        return True
    if word in quotes:
        return all(part in said for part in quotes[word].lower().split())
    lower = word.lower().replace("’", "'").removesuffix("'s").rstrip("'")
    if not lower or lower in _SILENT or singular(lower) in _SILENT:
        return True
    if rough(lower) == "number":
        return lower in said or str(lexicon.NUMBERS.get(lower, lower.replace(",", ""))) in said
    if rough(lower) not in _TELLING or (rough(lower) == "adverb" and not lower.endswith("ly")):
        return True
    return bool(stems(lower) & said)


def crowded_names(tokens: Sequence[Token]) -> list[str]:
    """Return the words that a name has after a plural of persons or animals.

    "Women clothing store" may be a store, or what women do: a plural is rarely part of a name.
    """
    found: list[str] = []
    for named, run in groupby(tokens, lambda token: token.tag == "noun"):
        nouns = [*run] if named else []
        # "Mens shoes", "dogs ears".
        head = singular(nouns[-1].lower) if nouns else ""
        if head in lexicon.PARTS or head in lexicon.CLOTHES:
            continue
        for at, noun in enumerate(nouns[:-1]):
            plural = singular(noun.lower) != noun.lower and is_animate(noun.lower)
            if plural and noun.lower not in lexicon.PLURAL_MODIFIERS:
                found += [one.text for one in nouns[at + 1 :]]
                break
    return found


def passages_of(
    text: str, sentence: Sequence[str], some: Sequence[str], reason: str
) -> Iterator[Passage]:
    """Yield the words ``some`` of a sentence as passages, neighbours together."""
    for told, run in groupby(sentence, lambda word: any(word is one for one in some)):
        if told:
            yield _passage(text, [*run], reason)


def _passage(text: str, run: Sequence[str], reason: str) -> Passage:
    placed = [word for word in run if isinstance(word, Word)]
    start, end = placed[0].start, placed[-1].end
    return Passage(start=start, end=end, text=text[start:end], reason=reason)


def in_order(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Return the passages in the order of the caption."""
    return tuple(sorted(passages, key=lambda passage: (passage.start, passage.end)))

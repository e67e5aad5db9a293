"""Wording of the things of a scene's sentence: articles, owners, and where adjectives stand.

A graph keeps labels and values only. Where the scene has a sentence, questions and composed prompts
word a thing as the sentence does; where it has none, or after an edit, by the rules of
:mod:`.english`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

from scenewright.core.english import LISTS, PREPOSITIONS, Described, described
from scenewright.core.inflection import IRREGULAR_VERBS, is_plural, plural, singular, verb_base
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical_key

_INSIDE_NAMES = LISTS.words("nouns", "inside_names")
_PROPER_ENDINGS = ("an", "ish", "ese", "ic", "ek", "ch")
"""Endings of adjectives of places and times: "Egyptian", "Gothic", "French"."""
_ARTICLES = frozenset({"a", "an", "the"})
_POSSESSIVES = frozenset({"his", "her", "its", "their"})
_BE = frozenset({"is", "are", "was", "were"})
_STOPS = _ARTICLES | _POSSESSIVES | _BE | PREPOSITIONS | frozenset(".;:!?()")
"""Words and signs before which no adjective of the next noun stands."""
_LONGEST_FRONT = 8
_PARTICLES = frozenset({"up", "down", "out", "off", "over", "away", "back", "around"})
"""Words that belong to the verb before them where no noun follows."""
_WORD = re.compile(r"['’]s\b|[\w-]+|[^\w\s]")


class Names:
    """The labels of a scene, worded as its sentence has them."""

    def __init__(self, scene: SceneGraph) -> None:
        self._sentence = scene.intent.sentence
        # A parser keeps capitals only inside names; a graph may have them everywhere.
        self._small = bool(self._sentence) or any(item.name[:1].islower() for item in scene.objects)
        self._scene = scene

    def is_proper(self, name: str) -> bool:
        """Return whether a label is a proper name: ``Mona Lisa``, ``Statue of Liberty``."""
        if sum(item.name == name for item in self._scene.objects) > 1:
            return False
        words = name.split()
        capital = [word[:1].isupper() for word in words]
        if not capital[0] or not capital[-1] or name.isupper():
            return False
        if not all(up or word in _INSIDE_NAMES for up, word in zip(capital, words, strict=True)):
            return False
        if self._sentence:
            return self.article_of(name) != "a"
        return self._small or len(words) > 1

    def article_of(self, name: str, values: Iterable[str] = ()) -> Literal["a", "the", ""] | None:
        """Return the article of a label's first mention in the sentence.

        Empty where it has none though others have; None where the sentence does not tell.
        ``values`` are adjectives that may stand between.
        """
        last = self._before(name, values)
        if last is None:
            return None
        if last in _ARTICLES:
            return "the" if last == "the" else "a"
        opened = last in PREPOSITIONS or verb_base(last) is not None
        alone = name.casefold() == self._sentence.casefold()
        # "Looking at sheep": a form for one and many needs no article in a note either.
        herd = plural(name) == name and not is_plural(name)
        return "" if alone or (opened and (herd or self._has_articles)) else None

    def possessive_of(self, name: str, values: Iterable[str] = ()) -> str:
        """Return the possessive before a label's first mention: ``his``; empty without one."""
        last = self._before(name, values)
        return last if last in _POSSESSIVES else ""

    def _before(self, name: str, values: Iterable[str]) -> str | None:
        """Return the word before a label's first mention and its adjectives; None if unknown."""
        if name.casefold() == self._sentence.casefold():
            return ""
        between = {word for value in values for word in value.casefold().split()} - _STOPS
        starts = [start for start, _, n in self._mentions if n == name]
        # Of several of a class that with these values.
        own = (start for start in starts if between & set(self._front(start)))
        at = next(own, starts[0] if starts else None)
        if at is None:
            return None
        while at and (self._words[at - 1] in between or self._words[at - 1] == "very"):
            at -= 1
        return self._words[at - 1] if at else None

    @cached_property
    def _words(self) -> list[str]:
        return _WORD.findall(self._sentence.casefold())

    @cached_property
    def _mentions(self) -> list[tuple[int, int, str]]:
        """Start, end and label of each mention; words of a longer label mention no shorter one."""
        labels = dict.fromkeys(item.name for item in self._scene.objects) if self._sentence else ()
        taken: set[int] = set()
        found: list[tuple[int, int, str]] = []
        for name in sorted(labels, key=lambda name: -len(name.split())):
            wanted = [singular(word) for word in _WORD.findall(name.casefold())]
            for start in range(len(self._words) - len(wanted) + 1):
                place = range(start, start + len(wanted))
                here = [singular(self._words[at]) for at in place]
                if here == wanted and taken.isdisjoint(place):
                    taken.update(place)
                    found.append((start, place.stop, name))
        return sorted(found)

    def place_of(self, name: str) -> int | None:
        """Return the number of words before a label's first mention; None if there is none."""
        return next((start for start, _, n in self._mentions if n == name), None)

    def spans(self, name: str) -> list[tuple[int, int]]:
        """Return the places of a label's mentions, from the first character to after the last."""
        words = [match.span() for match in _WORD.finditer(self._sentence)]
        found = ((start, end) for start, end, n in self._mentions if n == name)
        return [(words[start][0], words[end - 1][1]) for start, end in found]

    @cached_property
    def _has_articles(self) -> bool:
        """Whether the sentence gives an article to any object: a note does not."""
        said = (self._before(o.name, o.attributes.values()) for o in self._scene.objects)
        return any(one in _ARTICLES for one in said)

    def as_written(self, item: SceneObject) -> SceneObject:
        """Return the object with its values as the sentence has them: "Egyptian", "of bees"."""
        if not self._sentence or not item.attributes:
            return item
        words = re.findall(r"[A-Za-z]+", self._sentence)
        capital = {word for word in words[1:] if word[0].isupper() and word[1:].islower()}
        # Where most words have capitals they say nothing.
        capital = capital if 2 * len(capital) < len(words) else set()
        said = {word.casefold(): word for word in capital if word.endswith(_PROPER_ENDINGS)}
        low = {word.casefold() for word in words}
        values = {}
        for key, value in item.attributes.items():
            made = canonical_key(key) == "material" and plural(value).casefold() in low
            kept = plural(value) if made and value not in low else value
            values[key] = " ".join(said.get(word, word) for word in kept.split(" "))
        return item.model_copy(update={"attributes": Attributes(values)})

    def described(self, item: SceneObject) -> Described:
        """Return the attributes in English, before the noun or after it as the sentence has them.

        "A smiling man" stays that, and what is "parked" or "made of water" stands after its noun.
        """
        written = self.as_written(item)
        said = described(written)
        fronts = [self._front(start) for start, _, name in self._mentions if name == item.name]
        if not fronts:
            return said
        made = {v for k, v in written.attributes.items() if canonical_key(k) == "material"}
        before = [part for value in said.before for part in _parts_in(value, fronts)]
        states, behind = list(said.states), list(said.behind)
        for value in [*before]:
            if any(_within(value, front) for front in fronts):
                continue
            if value in made and _within(f"of {value}", self._words):
                before.remove(value)
                behind.append(f"made of {value}")
            elif is_deed(value) and _within(value, self._words):
                before.remove(value)
                states.append(value)
        for value in said.states:
            if " " not in value and any(_within(value, front) for front in fronts):
                states.remove(value)
                before.append(value)
        told = [*item.attributes.values()]
        told += [one.predicate for one in self._scene.relations if one.source == item.id]
        known = {word for one in told for word in one.split()}
        states = [self._with_particle(state, known) for state in states]
        for front in fronts:
            if all(_within(value, front) for value in before):
                before.sort(key=lambda value, front=front: _within(value, front))  # type: ignore[misc]
                before = _listed_in(before, front)
                break
        return Described(tuple(before), tuple(states), tuple(behind), said.texts)

    def _with_particle(self, state: str, known: Collection[str]) -> str:
        """Return a deed with the small word that the sentence has behind it: "lined up".

        ``known`` are the words that the graph says of its bearer anyway.
        """
        at = _within(state, self._words)
        after = [*self._words[at : at + 2], "."] if at and is_deed(state) else [""]
        ends = len(after) > 1 and (after[1] in _STOPS | {",", "and"}) and after[1] not in _ARTICLES
        fits = ends and after[0] in _PARTICLES and after[0] not in known
        return f"{state} {after[0]}" if fits else state

    def _front(self, at: int) -> list[str]:
        """Return the words before a noun in which its adjectives are."""
        front: list[str] = []
        while at and len(front) < _LONGEST_FRONT and self._words[at - 1] not in _STOPS:
            at -= 1
            front.insert(0, self._words[at])
        return front

    def joined(self, *joints: str) -> Iterator[tuple[str, str]]:
        """Yield labels that the sentence joins by a word: a plate of hot food, a cat's head."""
        values = (value for item in self._scene.objects for value in item.attributes.values())
        between = _ARTICLES | _POSSESSIVES | {word for value in values for word in value.split()}
        ends = {end: name for _, end, name in self._mentions}
        starts = {start: name for start, _, name in self._mentions}
        for at, word in enumerate(self._words):
            if word not in joints or at not in ends:
                continue
            then = at + 1
            while then < len(self._words) and then not in starts and self._words[then] in between:
                then += 1
            if then in starts and starts[then] != ends[at]:
                yield ends[at], starts[then]


def _within(value: str, words: Sequence[str]) -> int:
    """Return the place of a value in words, from 1; 0 if it is not in them."""
    wanted = _WORD.findall(value.casefold())
    starts = range(len(words) - len(wanted) + 1)
    return next((at + 1 for at in starts if list(words[at : at + len(wanted)]) == wanted), 0)


def _parts_in(value: str, fronts: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the adjectives of a value one by one where the sentence has no "and" between them."""
    if any(_within(value, front) for front in fronts):
        return (value,)
    parts = re.split(r", | and ", value)
    return parts if any(_within(one, front) for one in parts for front in fronts) else (value,)


def _listed_in(values: list[str], front: Sequence[str]) -> list[str]:
    """Join three adjectives and more that the sentence lists: "happy, sad and angry faces"."""
    for start in range(len(values) - 2):
        one = f"{', '.join(values[start:-1])} and {values[-1]}"
        if _within(one, front):
            return [*values[:start], one]
    return values


def is_deed(value: str) -> bool:
    """Return whether a value is a participle, as "parked", "worn" or "lined up"."""
    value, _, particle = value.partition(" ")
    if particle and particle not in _PARTICLES:
        return False
    base = verb_base(value)
    past = value.endswith("ed") or value in IRREGULAR_VERBS
    return value.endswith("ing") or (past and base is not None and base != value)

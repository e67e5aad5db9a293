"""Caption parser by rules: offline, deterministic, no model.

:func:`parse_caption` reads plain English descriptions: words are tagged (:mod:`.tagging`), phrases
of style are removed ("an oil painting of", "highly detailed, trending on artstation", "by NAME",
"in the style of"), noun phrases become mentions (:mod:`.mentions`), clauses become attributes and
relations (:mod:`.clauses`).
"""

from __future__ import annotations

import os
import re
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from scenewright.agents.parsers.clauses import Clause
from scenewright.agents.parsers.mentions import MOST_INSTANCES, Thing, Things, items
from scenewright.agents.parsers.tagging import (
    LEAD_ADJECTIVES,
    LEADS,
    MAKERS,
    SITES,
    STYLE,
    TAILS,
    rough,
    sentences,
    tag,
    without_frames,
)
from scenewright.agents.parsers.unread import (
    FOREIGN,
    NAME,
    NEGATED,
    UNKNOWN,
    CaptionError,
    CaptionWarning,
    Passage,
    check_negation,
    crowded_names,
    foreign_words,
    in_order,
    listed,
    negative_options,
    passages_of,
    said_of_picture,
    traces,
    without_trace,
)
from scenewright.core.formats import FormatError, detect_format, loads_scene, text_of_source
from scenewright.core.formats.base import numbered
from scenewright.core.inflection import singular
from scenewright.core.scene import (
    MAX_NAME_LENGTH,
    MAX_OBJECTS,
    MAX_RELATIONS,
    Relation,
    SceneGraph,
    SceneObject,
)

__all__ = [
    "MAX_CHARACTERS",
    "CaptionError",
    "CaptionWarning",
    "Passage",
    "Reading",
    "parse_caption",
    "read_caption",
    "read_source",
    "read_text",
    "scene_of",
    "without_style",
]

_MAKERS = frozenset({"by", "art", "artwork", "style", "inspired"})

_YEARS = re.compile(r"[0-9]+(?:st|nd|rd|th|s)?")


def without_style(words: Sequence[str]) -> list[str]:
    """Return ``words`` of a sentence without phrases of style; commas between the rest stay."""
    kept: list[str] = []
    names = False
    for at, fragment in enumerate(_fragments(words)):
        if names and all(rough(word.lower()) in ("noun", "and") for word in fragment):
            continue
        rest = _without_tail(_without_maker(_without_lead(fragment)))
        names = names or (len(fragment) > len(rest) and "by" in map(str.lower, fragment))
        if not rest or _is_style(rest, first=at == 0):
            continue
        if kept:
            kept.append(",")
        kept.extend(rest)
    return kept


def _fragments(words: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for word in words:
        if word == ",":
            found.append([])
        else:
            found[-1].append(word)
    return [fragment for fragment in found if fragment]


def _without_lead(words: list[str]) -> list[str]:
    """Return the words without "a photo of" at their beginning."""
    named = False
    for at, word in enumerate(words):
        lower = word.lower()
        if lower in LEADS or singular(lower) in LEADS:
            named = True
        elif named and lower in ("of", "showing", "shows", "depicting", "from", "featuring"):
            return words[at + 1 :]
        elif lower not in LEAD_ADJECTIVES and not _YEARS.fullmatch(lower):
            break
    return words


def _without_maker(words: list[str]) -> list[str]:
    """Return the words without "by NAME" or "in the style of NAME" at their end."""
    lower = [word.lower() for word in words]
    for at, word in enumerate(lower):
        if word == "by" and at + 1 < len(words):
            named = words[at + 1][:1].isupper() and rough(lower[at + 1]) == "noun"
            if named and (at == 0 or rough(lower[at - 1]) not in ("participle", "ing", "be")):
                return words[:at]
            if at == 0 or lower[at - 1] in STYLE:
                return words[:at]
            if lower[at - 1] in MAKERS and rough(lower[at + 1]) == "noun":
                return words[: at - 1]
        if lower[at : at + 4] == ["in", "the", "style", "of"] or lower[at : at + 2] == [
            "style",
            "of",
        ]:
            return words[:at]
        if lower[at : at + 3] == ["in", "style", "of"]:
            return words[:at]
    return words


def _without_tail(words: list[str]) -> list[str]:
    """Return the words without "digital art" or "trending on artstation" at their end."""
    lower = [word.lower() for word in words]
    for at in range(1, len(words)):
        opens = rough(lower[at - 1]) in ("article", "preposition", "possessive", "number", "have")
        if not opens and any(tuple(lower[at : at + len(tail)]) == tail for tail in TAILS):
            return words[:at]
    return words


def _is_style(words: Sequence[str], first: bool) -> bool:
    lower = [word.lower() for word in words]
    if not first and lower[0] in SITES:
        return True
    if any(rough(word) in ("article", "possessive", "be", "ing") for word in lower):
        return False
    style = [word in STYLE or singular(word) in STYLE for word in lower]
    small = [
        rough(word) in ("adverb", "preposition", "and", "number", "adjective") for word in lower
    ]
    if all(s or m for s, m in zip(style, small, strict=True)) and any(style):
        return True
    if first:
        return False
    return style[-1] or lower[0] in _MAKERS or any(word in SITES for word in lower)


MAX_CHARACTERS = 5_000


@dataclass(frozen=True, slots=True)
class Reading:
    """A caption as it was read."""

    scene: SceneGraph
    """The scene graph."""
    unread: tuple[Passage, ...] = ()
    """Passages that the scene does not hold, in their order."""
    sentence: str = ""
    """The text, where it is written as a sentence; empty of one in another format."""

    @property
    def warning(self) -> str:
        """The passages in one sentence; empty if all was read."""
        return f"not read: {listed(self.unread, most=6)}" if self.unread else ""


def parse_caption(text: str) -> SceneGraph:
    """Return the scene that an English caption describes.

    Objects are instances: "three dogs" are ``dog.1`` to ``dog.3``, a plural without a number
    two, "several" and "a group of" three, and no number more than
    :data:`~scenewright.agents.parsers.mentions.MOST_INSTANCES`. Attribute keys are ``color``,
    ``size``, ``material``, ``shape``, ``texture``, ``age``, ``gender``, ``state``, ``type``,
    ``place`` (where in the picture) and ``text`` (what is written on it). A relation of several
    holds for each of them. Phrases of style are left out.

    >>> [str(r) for r in parse_caption("a man wearing a red hat and holding an umbrella").relations]
    ['man.1 wearing hat.1', 'man.1 holding umbrella.1']

    Warns (:class:`~scenewright.agents.parsers.unread.CaptionWarning`) of words that the scene does
    not hold; :func:`read_caption` returns them. Raises ``CaptionError`` if the caption names no
    object, is too long, says what is not there, or is in another language.
    """
    return warned(read_caption(text))


def scene_of(source: str | os.PathLike[str]) -> SceneGraph:
    """Return the scene of :func:`read_source`; warns and raises as :func:`parse_caption`."""
    return warned(read_source(source))


def warned(found: Reading) -> SceneGraph:
    """Return the scene of ``found``, with a ``CaptionWarning`` of what it lacks."""
    if found.unread:
        warnings.warn(found.warning, CaptionWarning, stacklevel=3)
    return found.scene


def read_caption(text: str) -> Reading:
    """Return the scene of :func:`parse_caption` and the passages of ``text`` that it lacks.

    Raises ``CaptionError`` likewise.
    """
    if len(text) > MAX_CHARACTERS:
        raise CaptionError(
            f"the caption has {len(text)} characters, the limit is {MAX_CHARACTERS}: "
            "describe one picture"
        )
    check_negation(text)
    things = Things()
    plains: list[list[str]] = []
    foreign: list[Passage] = []
    denied: list[Passage] = []
    crowded: list[Passage] = []
    quotes: dict[str, str] = {}
    for words, quotes in sentences(text):
        other, vague = foreign_words(words), said_of_picture(words)
        foreign += passages_of(text, words, other, FOREIGN)
        denied += passages_of(text, words, vague, NEGATED)
        left_out = set(map(id, [*other, *vague]))
        known = [word for word in words if id(word) not in left_out]
        plain = without_style(without_frames(known))
        plains.append(plain)
        tokens = tag(plain, quotes)
        crowded += passages_of(text, plain, crowded_names(tokens), NAME)
        Clause(things).read(items(tokens))
    scene = _scene(things)
    if not scene.objects:
        if foreign:
            raise CaptionError(
                f"the caption is not in English: {listed(foreign)}. Write it in English, or let "
                "a language model read it",
                foreign,
            )
        raise CaptionError(
            "the caption names no object: describe what is to be seen, for example "
            "'a red ball on a wooden table'"
        )
    said = traces(scene)
    lost = [
        passage
        for plain in plains
        for passage in passages_of(text, plain, without_trace(plain, said, quotes), UNKNOWN)
    ]
    unread = in_order([*foreign, *denied, *crowded, *lost, *negative_options(text)])
    return Reading(scene, unread, text.strip())


_PUNCTUATION = re.compile(r"[.,:!?](?:\s|$)")
_OF_CLAUSES = frozenset({"article", "be", "have", "possessive"})
"""Words that no name of an object has, as :func:`~scenewright.agents.parsers.tagging.rough` tells
them."""
_TRIPLET_MARKS = re.compile(r"[|\[\]]|\w[.#][0-9]+\b|^\s*(?:#|---)", re.MULTILINE)
"""Signs that only triplet lines have: bars, attributes in brackets, numbers of instances."""


def read_text(text: str, index: int | None = None, where: str = "") -> Reading:
    """Return the scene of a text in any format, or of an English sentence.

    The text is read as triplet lines where it is some, else as a caption (:func:`read_caption`).
    ``index`` picks one scene of several, ``where`` is the place for errors. Raises ``FormatError``
    with the place and the remedy, and ``CaptionError`` for a sentence that names no object, says
    what is not there, or is in another language.
    """
    plain = text.strip() and not _TRIPLET_MARKS.search(text)
    plain = plain and detect_format(text, where) == "triplets"
    try:
        scene = loads_scene(text, index=index, where=where)
    except FormatError:
        if not plain:
            raise
    else:
        if not plain or not any(_is_clause(item.name) for item in scene.objects):
            return Reading(scene, sentence=text.strip() if plain else "")
    return read_caption(text)


def _is_clause(name: str) -> bool:
    """Return whether ``name`` is no name of an object: "photo of a dog", "table. It is red"."""
    return bool(_PUNCTUATION.search(name)) or any(
        rough(word) in _OF_CLAUSES for word in name.lower().split()
    )


def read_source(source: str | os.PathLike[str], index: int | None = None) -> Reading:
    """Return the scene of a file, or of a text as :func:`read_text`.

    A string is a file as :func:`~scenewright.core.formats.text_of_source` tells.
    """
    text, where = text_of_source(source)
    return read_text(text, index, where)


def _scene(things: Things) -> SceneGraph:
    kept: list[Thing] = []
    room = MAX_OBJECTS
    for thing in things.all:
        name = _clean(thing.name)
        if name and room:
            thing.name = name
            thing.least = min(thing.least, MOST_INSTANCES, room)
            room -= thing.least
            kept.append(thing)
    ids = iter(numbered(thing.name for thing in kept for _ in range(thing.least)))
    instances = {id(thing): [next(ids) for _ in range(thing.least)] for thing in kept}
    relations: dict[Relation, None] = {}
    for source, predicate, target in things.relations.values():
        said = _clean(predicate)
        for one, other in _pairs(instances.get(id(source), []), instances.get(id(target), [])):
            if said and len(relations) < MAX_RELATIONS:
                relations[Relation(source=one, predicate=said, target=other)] = None
    return SceneGraph(
        objects=tuple(
            SceneObject(id=name, name=thing.name, attributes=attributes)
            for thing in kept
            for attributes in [_attributes(thing)]
            for name in instances[id(thing)]
        ),
        relations=tuple(relations),
    )


def _attributes(thing: Thing) -> dict[str, str]:
    joined = {key: _clean(" and ".join(values)) for key, values in thing.attributes.items()}
    return {key: value for key, value in joined.items() if value}


def _pairs(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each with each if one side is single, else in turn, so that all take part."""
    if not sources or not targets:
        return []
    count = max(len(sources), len(targets))
    return [(sources[at % len(sources)], targets[at % len(targets)]) for at in range(count)]


def _clean(text: str) -> str:
    """Return ``text`` as a valid name of a scene; empty if nothing is left."""
    composed = unicodedata.normalize("NFC", text)
    printable = "".join(char for char in composed if char.isprintable())
    return " ".join(printable.split())[:MAX_NAME_LENGTH].strip()

"""Caption parser by rules: offline, deterministic, no model.

:func:`parse_caption` reads plain English descriptions: words are tagged (:mod:`.tagging`), phrases
of style are removed ("an oil painting of", "highly detailed, trending on artstation", "by NAME",
"in the style of"), noun phrases become mentions (:mod:`.mentions`), clauses become attributes and
relations (:mod:`.clauses`).
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scenewright.agents.parsers.clauses import Clause
from scenewright.agents.parsers.doubts import doubts_of
from scenewright.agents.parsers.exclusions import blanked, denied_in, excluded_by_options
from scenewright.agents.parsers.mentions import MOST_INSTANCES, Item
from scenewright.agents.parsers.phrases import items
from scenewright.agents.parsers.settling import tag
from scenewright.agents.parsers.splitting import (
    Word,
    options,
    sentences,
    without_frames,
)
from scenewright.agents.parsers.tagging import WRITINGS, rough
from scenewright.agents.parsers.things import Thing, Things
from scenewright.agents.parsers.unread import (
    FOREIGN,
    NAME,
    NEGATED,
    OPTION,
    UNKNOWN,
    CaptionError,
    crowded_names,
    foreign_words,
    in_order,
    passages_of,
    said_of_picture,
    traces,
    traces_of,
    without_trace,
)
from scenewright.agents.parsers.wishes import (
    LEADS,
    is_aspect,
    settings_of,
    wishes_of,
    without_request,
    without_style,
)
from scenewright.core.formats import FormatError, detect_format, loads_scene, text_of_source
from scenewright.core.formats.base import numbered
from scenewright.core.intent import Count, Global, Intent, Passage, listed
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
    "as_graph",
    "parse_caption",
    "read_source",
    "read_text",
]

_NO = re.compile(r"(?:--|—)no\s", re.IGNORECASE)
MAX_CHARACTERS = 5_000


def parse_caption(text: str) -> SceneGraph:
    """Return the scene that an English caption describes, with what it says beside the graph.

    Objects are instances: "three dogs" are ``dog.1`` to ``dog.3``, a plural without a number
    two, "several" and "a group of" three, and no number more than
    :data:`~scenewright.agents.parsers.mentions.MOST_INSTANCES`; ``intent.counts`` says which
    numbers were said. Attribute keys are ``color``, ``size``, ``material``, ``shape``,
    ``texture``, ``age``, ``gender``, ``state``, ``type``, ``place`` (where in the picture) and
    ``text`` (what is written on it). A relation of several holds for each of them. Phrases of
    style, light, time and weather, and what must not be there, are in ``intent``.

    >>> [str(r) for r in parse_caption("a man wearing a red hat and holding an umbrella").relations]
    ['man.1 wearing hat.1', 'man.1 holding umbrella.1']
    >>> said = parse_caption("an oil painting of a cat at night, no people").intent
    >>> [one.text for one in (*said.globals, *said.exclusions)]
    ['oil painting', 'at night', 'no people']

    Words that nothing of this holds are in ``intent.unread``. Raises ``CaptionError`` if the
    caption names no object, is too long, or is in another language.
    """
    if len(text) > MAX_CHARACTERS:
        raise CaptionError(
            f"the caption has {len(text)} characters, the limit is {MAX_CHARACTERS}: "
            "describe one picture"
        )
    beside = _Beside(text)
    things = Things()
    crowded: list[Passage] = []
    read: list[tuple[list[str], list[Item]]] = []
    for sentence in beside.sentences:
        tokens = tag(sentence.words, sentence.quotes)
        read.append((sentence.words, items(tokens)))
        crowded += passages_of(text, sentence.words, crowded_names(tokens), NAME)
        things.listing = sentence.lists
        Clause(things, read[-1][1]).read()
    if not things.all:
        _fall_back(things, beside)
    scene, counts = _scene(things)
    if not scene.objects:
        if beside.foreign:
            raise CaptionError(
                f"the caption is not in English: {listed(beside.foreign)}. Write it in English, "
                "or let a language model read it: --with llm and a profile with a chat model, for "
                "example --profile openai",
                beside.foreign,
            )
        denials = [one for one in beside.unread if one.reason == NEGATED]
        raise CaptionError(
            "the caption names no object: describe what is to be seen, for example "
            "'a red ball on a wooden table'",
            [*denials, *beside.exclusions],
        )
    intent = beside.intent(scene).model_copy(
        update={"counts": counts, "texts": tuple(things.texts)}
    )
    unread = in_order([*intent.unread, *crowded, *beside.left(scene, intent, things.understood)])
    doubts = doubts_of(text, scene, read, unread)
    return scene.said_as(intent.model_copy(update={"unread": unread, "doubts": doubts}))


_SHORT = 3


def _fall_back(things: Things, beside: _Beside) -> None:
    """Take what a caption without an object names: its text, or the one thing of a short one."""
    if things.texts:
        things.all.append(Thing("text", attributes={"text": things.texts}))
        things.texts = []
        return
    styled = beside.styled
    words = (word for word in beside.words if word != "," and rough(word.lower()) != "article")
    # A quotation stands as a mark that cannot be printed.
    names = [word for word in words if word.lower() not in styled and word.isprintable()]
    kinds = {rough(word.lower()) for word in names}
    named = kinds <= {"noun", "either", "weak", "adjective", "number"}
    if 0 < len(names) <= _SHORT and named and not all(word.lower() in LEADS for word in names):
        things.all.append(Thing(" ".join(map(str, names))))


def intent_of(text: str, scene: SceneGraph, said: Intent) -> Intent:
    """Return what ``text`` says beside ``scene``, which another parser read from it.

    ``said``: what that parser read beside. ``unread`` are denials, and words that left no trace in
    the scene, in ``said`` or in what is returned.
    """
    beside = _Beside(text)
    found = beside.intent(scene)
    unread = in_order([*found.unread, *beside.left(scene, found, traces_of(said))])
    return found.model_copy(update={"unread": unread})


def is_foreign(text: str) -> bool:
    """Return whether all words of ``text`` are in another language than English."""
    beside = _Beside(text)
    return bool(beside.foreign) and not beside.words


class _Beside:
    """Parts of a caption beside its objects, and the words that are left to read."""

    def __init__(self, text: str) -> None:
        self._text = text = _unquoted(text)
        denied = denied_in(text)
        self._excluded = list(denied.excluded)
        programs = list(options(text))
        more, vague_options = excluded_by_options(text, programs)
        self._excluded += more
        closed = [(one.start, one.end) for one in programs]
        closed += [(one.start, one.end) for one in self._excluded]
        settings = [one for one in settings_of(text) if not any(s <= one[0] < e for s, e in closed)]
        left = blanked(
            text, [*denied.places, *((start, end) for start, end, _ in settings)], denied.gaps
        )
        self._wishes = [(at, Global(kind=kind, text=text[at:end])) for at, end, kind in settings]
        self.sentences: list[Sentence] = []
        """The sentences that tell of its objects."""
        self.foreign: list[Passage] = []
        """Passages in another language."""
        self.words: list[str] = []
        """All words but those of settings, denials and other languages."""
        self.unread = [*denied.others, *vague_options]
        """Passages that no scene can hold."""
        for option in programs:
            if is_aspect(option):
                self._wishes.append((option.start, Global(kind="aspect", text=str(option))))
            elif not _NO.match(option):
                self.unread += passages_of(text, [option], [option], OPTION)
        end = 0
        for at, (words, quotes) in enumerate(sentences(left)):
            other, vague = foreign_words(words), said_of_picture(words)
            self.foreign += passages_of(text, words, other, FOREIGN)
            self.unread += passages_of(text, words, vague, NEGATED)
            left_out = set(map(id, [*other, *vague]))
            known = [word for word in words if id(word) not in left_out]
            known = without_frames(known if self.words else without_request(known))
            self.words += known
            plain = without_style(known, at == 0)
            self._wishes += wishes_of(text, known, plain)
            begin = next((word.start for word in words if isinstance(word, Word)), end)
            self.sentences.append(Sentence(plain, quotes, lists=":" in left[end:begin]))
            end = max((word.end for word in words if isinstance(word, Word)), default=end)
        self.unread += self.foreign

    @property
    def styled(self) -> frozenset[str]:
        """The words of what is said of the whole picture."""
        return frozenset(w for _, one in self._wishes for w in one.text.lower().split())

    @property
    def exclusions(self) -> Iterator[Passage]:
        """Yield the passages that exclude something."""
        for one in self._excluded:
            said = self._text[one.start : one.end]
            yield Passage(start=one.start, end=one.end, text=said, reason=NEGATED)

    def left(
        self, scene: SceneGraph, intent: Intent, understood: Collection[str]
    ) -> Iterator[Passage]:
        """Yield the words that left no trace in ``scene`` or ``intent`` and were not understood."""
        said = traces(scene) | traces_of(intent) | frozenset(understood)
        if intent.texts or any("text" in item.attributes for item in scene.objects):
            said |= WRITINGS
        for sentence in self.sentences:
            lost = without_trace(sentence.words, said, sentence.quotes)
            yield from passages_of(self._text, sentence.words, lost, UNKNOWN)

    def intent(self, scene: SceneGraph) -> Intent:
        """Return what is said beside ``scene``, without its numbers."""
        wishes = (one for _, one in sorted(self._wishes, key=lambda wish: wish[0]))
        return Intent(
            sentence=self._text,
            globals=tuple(dict.fromkeys(wishes)),
            exclusions=tuple(one.exclusion(self._text, scene.objects) for one in self._excluded),
            unread=in_order(self.unread),
        )


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence that tell of objects."""

    words: list[str]
    quotes: dict[str, str]
    lists: bool = False
    """Whether it follows a colon: "three boats: a red boat and two green ones"."""


def _unquoted(text: str) -> str:
    """Return ``text`` without the quotation marks that are around all of it."""
    plain = text.strip()
    whole = len(plain) > 2 and plain[0] in '"“' and plain[-1] in '"”'
    if whole and not set(plain[1:-1]) & set('"“”'):
        at = text.index(plain)
        return f"{text[:at]} {plain[1:-1]} {text[at + len(plain) :]}"
    return text


_PUNCTUATION = re.compile(r"[.,:!?](?:\s|$)")
_OF_CLAUSES = frozenset({"article", "be", "have", "possessive"})
"""Words that no name of an object has, as :func:`~scenewright.agents.parsers.tagging.rough` tells
them."""
_TRIPLET_MARKS = re.compile(r"[|\[\]]|\w[.#][0-9]+\b|^\s*(?:#|---)", re.MULTILINE)
"""Signs that only triplet lines have: bars, attributes in brackets, numbers of instances."""


def read_text(text: str, index: int | None = None, where: str = "") -> SceneGraph:
    """Return the scene of a text in any format, or of an English sentence.

    A text that is no graph (:func:`as_graph`) is a caption (:func:`parse_caption`). ``index`` picks
    one scene of several, ``where`` is the place for errors. Raises ``FormatError`` with the place
    and the remedy, and ``CaptionError`` for a sentence that names no object or is in another
    language.
    """
    graph = as_graph(text, index, where)
    return parse_caption(text) if graph is None else graph


def as_graph(
    text: str, index: int | None = None, where: str = "", *, one_line: bool = True
) -> SceneGraph | None:
    """Return the scene of a text in a format of graphs; None if it is a sentence.

    Triplet lines are told from a sentence by their words: a single one without a mark ("ball on
    table") is a sentence, and a graph where it cannot be read as that. ``one_line``: whether it
    may be a graph, and no sentence that a language model reads better. Other arguments and
    ``FormatError`` as for :func:`read_text`.
    """
    plain = text.strip() and not _TRIPLET_MARKS.search(text)
    plain = plain and detect_format(text, where) == "triplets"
    try:
        scene = loads_scene(text, index=index, where=where)
    except FormatError:
        if not plain:
            raise
    else:
        if not plain:
            return scene
        listed_so = ";" in text or "\n" in text.strip()
        # "A cat at night" is a cat with a wish, and no cat that is at a night.
        # "Photo of a dog" and "table. It is red" are no names of objects.
        clause = any(
            _PUNCTUATION.search(item.name)
            or any(rough(word) in _OF_CLAUSES for word in item.name.lower().split())
            for item in scene.objects
        )
        said = Intent(sentence=text)
        if not clause and listed_so:
            # A list of triplets is the run's title; its prompt is composed.
            return scene.model_copy(update={"intent": said})
        if not clause and one_line and not _is_sentence(text):
            return scene.said_as(said)
    return None


def _is_sentence(text: str) -> bool:
    """Return whether a line can be read as a sentence, or is one in another language."""
    try:
        parse_caption(text)
    except CaptionError:
        return bool(_Beside(text).foreign)
    return True


def read_source(source: str | os.PathLike[str], index: int | None = None) -> SceneGraph:
    """Return the scene of a file, or of a text as :func:`read_text`.

    A string is a file as :func:`~scenewright.core.formats.text_of_source` tells.
    """
    text, where = text_of_source(source)
    return read_text(text, index, where)


def _scene(things: Things) -> tuple[SceneGraph, tuple[Count, ...]]:
    """Return the graph of ``things``, and how their numbers are meant."""
    kept: list[Thing] = []
    room = MAX_OBJECTS
    for thing in things.all:
        name = _clean(thing.name)
        if name and room:
            thing.name = name
            thing.least = min(thing.least, MOST_INSTANCES, room)
            room -= thing.least
            kept.append(thing)
    every = [one for thing in kept for one in _instances(thing)]
    ids = iter(numbered(name for name, _ in every))
    instances = {id(thing): [next(ids) for _ in range(thing.least)] for thing in kept}
    for thing in kept:
        for at, member in thing.members.items():
            instances[id(member)] = instances[id(thing)][at : at + 1]
    relations: dict[Relation, None] = {}
    for source, predicate, target in things.relations.values():
        said = _clean(predicate)
        for one, other in _pairs(instances.get(id(source), []), instances.get(id(target), [])):
            if said and one != other and len(relations) < MAX_RELATIONS:
                relations[Relation(source=one, predicate=said, target=other)] = None
    ordered = [one for thing in kept for one in instances[id(thing)]]
    scene = SceneGraph(
        objects=tuple(
            SceneObject(id=id_, name=name, attributes=attributes)
            for id_, (name, attributes) in zip(ordered, every, strict=True)
        ),
        relations=tuple(relations),
    )
    counts = (
        Count(
            objects=tuple(instances[id(thing)]),
            kind=thing.count or "open",
            number=thing.number if thing.count != "open" else None,
        )
        for thing in kept
        if thing.least > 1 or thing.number is not None
    )
    return scene, tuple(counts)


def _instances(thing: Thing) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name and the attributes of each of a thing; what is said of all holds of each."""
    for at in range(thing.least):
        attributes = {key: list(values) for key, values in thing.attributes.items()}
        member = thing.members.get(at)
        for key, values in member.attributes.items() if member is not None else ():
            attributes[key] = [*dict.fromkeys((*attributes.get(key, ()), *values))]
        name = _clean(member.name) if member is not None else ""
        yield name or thing.name, _attributes(attributes)


def _attributes(said: Mapping[str, Sequence[str]]) -> dict[str, str]:
    joined = {key: _clean(" and ".join(values)) for key, values in said.items()}
    return {key: value for key, value in joined.items() if value}


def _pairs(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each with each if one side is single, else in turn, so that all take part."""
    if not sources or not targets:
        return []
    if sources == targets:
        return [*itertools.permutations(sources, 2)]
    count = max(len(sources), len(targets))
    return [(sources[at % len(sources)], targets[at % len(targets)]) for at in range(count)]


def _clean(text: str) -> str:
    """Return ``text`` as a valid name of a scene; empty if nothing is left."""
    composed = unicodedata.normalize("NFC", text)
    printable = "".join(char for char in composed if char.isprintable())
    return " ".join(printable.split())[:MAX_NAME_LENGTH].strip()

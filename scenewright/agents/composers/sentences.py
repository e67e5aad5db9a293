"""Composer of plain sentences: every object once with its attributes, and every relation.

Used where no language model composes. It adds no place or setting, keeps related things together,
counts equal instances ("two dogs") and distinguishes others ("a red dog", "another dog", "the first
dog").

Where the scene was read from a sentence, the sentence itself can be the prompt (``verbatim``), and
after an edit of the graph the sentence with what was changed. Each change is tried in the
wordings that English has for it, and a wording counts if the rules read it as the edited graph.
What was said of the whole picture goes with the first sentence: a picture before it ("an oil
painting of a cat"), the rest behind it ("at night").

Where the image model reads only so many tokens, function words are left out, and then what does not
fit: relations first, then attributes, then objects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from scenewright.agents.composers.english import grouped
from scenewright.agents.composers.writing import Writer
from scenewright.agents.parsers.rules import CaptionError, parse_caption
from scenewright.agents.parsers.tagging import PREPOSITIONS, rough
from scenewright.core.english import article, described, is_mass, predicative
from scenewright.core.ports.composer import PromptBudget, ReportingComposer, Wording
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.core.wishes import as_said, exclusion_phrase, goes_on, picture_phrase
from scenewright.core.wording import Names

_VERSION = 4
_SHORT = 7
"""Most words of a noun phrase after which "at night" needs no comma."""


def sentences(scene: SceneGraph, brief: bool = False) -> str:
    """Return ``scene`` in sentences; ``brief`` omits articles, "is" and "there is".

    What is said of the whole picture goes with the first sentence, which is then a noun phrase: a
    picture before it ("an oil painting of …"), the rest after it.
    """
    intent = scene.intent
    texts = [one.text.casefold() for one in intent.globals]
    wishes = [
        one
        for one in intent.globals
        if not any(one.text.casefold() in text != one.text.casefold() for text in texts)
    ]
    shown = (one for kind in ("medium", "style", "view", "artist") for one in wishes
             if one.kind == kind and picture_phrase(one))  # fmt: skip
    leading = next(shown, None)
    lead = picture_phrase(leading) if leading is not None else ""
    rest = [f'with the text "{text}"' for text in intent.texts]
    rest += [as_said(one) for one in wishes if one is not leading and one.text[:2] != "--"]
    rest += [exclusion_phrase(one) for one in intent.exclusions if one.of is None]
    written = [one for one in Writer(grouped(scene), brief, bool(lead or rest)).write() if one]
    if lead:
        lead = lead.removeprefix("an ").removeprefix("a ") if brief else lead
        written[0] = f"{lead} of {written[0]}"
    for at, one in enumerate(dict.fromkeys(rest)):
        short = at == 0 and len(written[0].split()) <= _SHORT and goes_on(one)
        written[0] = f"{written[0]}{'' if short else ','} {one}"
    told = [f"{text[:1].upper()}{text[1:]}." for text in written]
    # Options of drawing programs end a prompt.
    return " ".join([*told, *(one.text for one in wishes if one.text[:2] == "--")])


def sentences_within(
    scene: SceneGraph, room: PromptBudget
) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """Return sentences of ``scene`` that fit ``room``, and what they omit (``Wording.unsaid``).

    Plain sentences if they are short enough, else brief ones, else brief ones of what has room:
    objects in the scene's order, then attributes, then relations. One object is always named.
    """
    for brief in (False, True):
        text = sentences(scene, brief)
        if room.holds(text):
            return text, ()
    told: set[tuple[str, ...]] = set()
    unsaid: list[tuple[str, ...]] = []
    text = ""
    # The most important facts first.
    parts: list[tuple[str, ...]] = [(item.id,) for item in scene.objects]
    parts += ((item.id, key) for item in scene.objects for key in item.attributes)
    parts += ((one.source, one.predicate, one.target) for one in scene.relations)
    for part in parts:
        ends = {part[0], part[-1]} if len(part) > 2 else {part[0]}
        known = len(part) == 1 or all((end,) in told for end in ends)
        longer = sentences(_part_of(scene, told | {part}), brief=True) if known else ""
        if known and (not text or room.holds(longer)):
            told.add(part)
            text = longer
        else:
            unsaid.append(part)
    return text, tuple(unsaid)


def _part_of(scene: SceneGraph, told: Set[tuple[str, ...]]) -> SceneGraph:
    objects: list[SceneObject] = []
    for item in scene.objects:
        if (item.id,) in told:
            kept = {key: value for key, value in item.attributes.items() if (item.id, key) in told}
            objects.append(item.model_copy(update={"attributes": Attributes(kept)}))
    return SceneGraph(
        objects=tuple(objects),
        relations=tuple(
            one for one in scene.relations if (one.source, one.predicate, one.target) in told
        ),
        intent=scene.intent.of(item.id for item in objects),
    )


@dataclass(frozen=True)
class SentenceComposer(ReportingComposer):
    """Composer by a grammar; needs no language model and adds no places."""

    room: PromptBudget | None = None
    """Part of a prompt that the image model reads; None: all."""
    verbatim: bool = False
    """Whether the sentence that a scene was read from is its prompt, where it fits."""
    languages: tuple[str, ...] = ("en",)
    """Languages in which that sentence stays as it is; of others its translation into English is
    the prompt."""

    @property
    def id(self) -> str:
        """``sentence`` or ``sentences``."""
        return "sentence" if self.verbatim else "sentences"

    @property
    def fingerprint(self) -> str:
        """Grammar version, and the budget if there is one."""
        within = "" if self.room is None else f" within {self.room.budget}"
        spoken = "" if self.languages == ("en",) else f" in {' '.join(self.languages)}"
        return f"{self.id}@{_VERSION}{within}{spoken}"

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """Return a prompt with every fact of ``scene`` that fits, and those that do not.

        The seed and the whole scene have no effect.
        """
        said = scene.sentence_for(self.languages).strip() if self.verbatim else ""
        if said and (self.room is None or self.room.holds(said)):
            return Wording(said, self.id)
        edited = self.verbatim and not (said or scene.intent.english) and within in (None, scene)
        kept = edited_sentence(scene) if edited else ""
        if kept and (self.room is None or self.room.holds(kept)):
            return Wording(kept, self.id)
        if self.room is None:
            return Wording(sentences(scene), "sentences")
        text, unsaid = sentences_within(scene, self.room)
        return Wording(text, "sentences", unsaid=unsaid)


_MOST_CHANGES = 12
"""Most changes of an edit that keeps the sentence: a larger one says another picture."""
_NEEDS_MORE = frozenset({"article", "possessive", "preposition", "and", "relative", "be", "have"})
"""Kinds of words that end no sentence."""
_ARTICLE = re.compile(r"\b(an?)(\s+)(?=(\S+))", re.IGNORECASE)


@lru_cache(maxsize=64)
def edited_sentence(scene: SceneGraph) -> str:
    """Return the sentence of ``scene`` with what an edit changed; empty where it cannot be kept."""
    now = _read(scene.intent.sentence.strip())
    if now is None or now.graph.digest != scene.intent.read_as:
        return ""
    changes = [*_changes(now, scene)]
    left = {one for one in now.relations if one.source in scene and one.target in scene}
    if len(changes) > _MOST_CHANGES or not left <= set(scene.relations):
        return ""
    for change in changes:
        reads = map(_read, _wordings(now, change))
        read = next((one for one in reads if one is not None and _same(one, change)), None)
        if read is None:
            return ""
        # The new sentence with the ids of the scene.
        now = change.model_copy(update={"intent": read.intent})
    return now.intent.sentence if _same(now, scene) else ""


def _read(text: str) -> SceneGraph | None:
    try:
        return parse_caption(text)
    except CaptionError:
        return None


def _same(one: SceneGraph, other: SceneGraph) -> bool:
    """Return whether two scenes say the same of the same things, and of the picture."""

    def told(scene: SceneGraph) -> tuple[object, ...]:
        items = {item.id: (item.name, item.attributes) for item in scene.objects}
        related = ((items[r.source], r.predicate, items[r.target]) for r in scene.relations)
        intent = scene.intent
        counts = Counter((one.kind, one.number, len(one.objects)) for one in intent.counts)
        absent = Counter((one.name, one.of is None) for one in intent.exclusions)
        beside = (intent.globals, intent.texts, counts, absent)
        return Counter(items.values()), Counter(related), beside

    return told(one) == told(other)


def _changes(before: SceneGraph, after: SceneGraph) -> Iterator[SceneGraph]:
    """Yield the scene after each change of one thing, from ``before`` on."""
    now = {item.id: item for item in before.objects}
    wanted = {item.id: item for item in after.objects}
    relations = before.relations

    def scene() -> SceneGraph:
        kept = tuple(r for r in relations if r.source in now and r.target in now)
        intent = after.intent.of(now)
        return SceneGraph(objects=tuple(now.values()), relations=kept, intent=intent)

    for id_ in [one for one in now if one not in wanted]:
        del now[id_]
        yield scene()
    for id_, item in [*now.items()]:
        for key in dict.fromkeys([*item.attributes, *wanted[id_].attributes]):
            value = wanted[id_].attributes.get(key)
            if now[id_].attributes.get(key) != value:
                values = {k: v for k, v in now[id_].attributes.items() if k != key}
                values |= {key: value} if value is not None else {}
                now[id_] = now[id_].model_copy(update={"attributes": Attributes(values)})
                yield scene()
        if now[id_].name != wanted[id_].name:
            now[id_] = wanted[id_]
            yield scene()
    if set(wanted) - set(now) or set(after.relations) - set(relations):
        now, relations = wanted, after.relations
        yield scene()


def _wordings(now: SceneGraph, then: SceneGraph) -> Iterator[str]:
    """Yield sentences that may say ``then``, from that of ``now``."""
    sentence = now.intent.sentence
    names = Names(now)
    known = {item.id: item for item in now.objects}
    wanted = {item.id: item for item in then.objects}
    gone = [item for item in now.objects if item.id not in wanted]
    if gone:
        for start, end in names.spans(gone[0].name):
            yield from _without(sentence, start, end)
        return
    for item in (one for one in now.objects if one != wanted[one.id]):
        other = wanted[item.id]
        for start, end in names.spans(item.name):
            if item.name == other.name:
                yield from _valued(sentence, start, end, item, other)
            elif is_mass(item.name) == is_mass(other.name):
                yield _put(sentence, start, end, other.name)
        return
    body, dashes, options = sentence.partition(" --")
    if told := _changes_in_words(now, then, known):
        yield f"{_ended(body)} {told}{dashes}{options}"


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _valued(
    sentence: str, start: int, end: int, item: SceneObject, other: SceneObject
) -> Iterator[str]:
    """Yield sentences in which the thing mentioned there has the other's values."""
    keys = dict.fromkeys([*item.attributes, *other.attributes])
    key = next(key for key in keys if item.attributes.get(key) != other.attributes.get(key))
    old, new = item.attributes.get(key), other.attributes.get(key)
    if old is not None:
        places = [m.span() for m in re.finditer(rf"\b{re.escape(old)}\b", sentence, re.IGNORECASE)]
        for first, last in sorted(places, key=lambda place: abs(place[0] - start)):
            yield _put(sentence, first, last, new or "")
        return
    assert new is not None
    one = SceneObject(id="x", name=item.name, attributes=Attributes({key: new}))
    if described(one).before:
        yield _put(sentence, start, start, f"{new} ")
    yield _put(sentence, end, end, f" {predicative(key, new)}")
    yield f"{_ended(sentence)} The {item.name} is {predicative(key, new)}."


def _without(sentence: str, start: int, end: int) -> Iterator[str]:
    """Yield sentences without the phrase that ends there: " with a hat", " and a green hat"."""
    if not re.match(r"\s*(?:[,.;:]|and\b|$)", sentence[end:]):
        return
    words = [match for match in re.finditer(r"\S+", sentence[:start])]
    for word, before in zip(words[:0:-1], words[-2::-1], strict=True):
        opens = rough(word[0].lower()) in ("preposition", "and", "relative") or before[0][-1] == ","
        inside = (before[0].lower(), word[0].lower()) in PREPOSITIONS
        if opens and not inside and rough(before[0].lower()) not in _NEEDS_MORE:
            yield _put(sentence, word.start(), end, "")


def _put(sentence: str, start: int, end: int, text: str) -> str:
    """Return the sentence with ``text`` in that place, and the articles that then fit."""
    words = " ".join(f"{sentence[:start]}{text}{sentence[end:]}".split())
    words = re.sub(r"\s+([,.;:!?])", r"\1", words).strip(" ,")

    def fitting(match: re.Match[str]) -> str:
        near = start - 8 <= match.start() <= start + len(text) + 8
        said = article(match[3]) if near else match[1].lower()
        return f"{said.capitalize() if match[1][0].isupper() else said}{match[2]}"

    return _ARTICLE.sub(fitting, words)


def _changes_in_words(now: SceneGraph, then: SceneGraph, known: dict[str, SceneObject]) -> str:
    """Return sentences for what ``then`` has more than ``now``."""
    relations = [one for one in then.relations if one not in now.relations]
    ends = {end for one in relations for end in (one.source, one.target)}
    objects = [one for one in then.objects if one.id in ends or one.id not in known]
    part = SceneGraph(
        objects=tuple(objects),
        relations=tuple(relations),
        intent=then.intent.of(one.id for one in objects).model_copy(
            update={"globals": (), "exclusions": (), "texts": ()}
        ),
    )
    groups = grouped(part)
    old = [group for group in groups if not known.keys().isdisjoint(group.ids)]
    if not all(known.keys() >= set(group.ids) for group in old):
        return ""
    told: Sequence[str] = Writer(groups, brief=False, known=old).write()
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in told if text)

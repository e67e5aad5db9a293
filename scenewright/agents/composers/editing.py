"""Keep a person's sentence through edits of its graph: re-word, drop or append what changed.

Each change is tried in the wordings that English has for it, and a wording counts if the rules read
it as the edited graph. Where none does, a prompt is composed anew (:mod:`.sentences`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from scenewright.agents.composers.english import grouped
from scenewright.agents.composers.writing import Writer
from scenewright.agents.parsers.rules import CaptionError, parse_caption
from scenewright.agents.parsers.tagging import PREPOSITIONS, rough
from scenewright.core.english import article, described, is_mass, predicative
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.core.wording import Names

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

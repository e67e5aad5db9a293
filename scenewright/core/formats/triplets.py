"""Read and write triplet lines: ``red ball on table; dog left of table``.

:mod:`.phrases` has the grammar. The same phrase means the same object:

- a bare label with one earlier instance of its class means that instance; with several
  it is an error that says to write ``red ball`` or ``ball.1``;
- a label with adjectives means the instance with exactly these attributes, else the only
  one that has them among others, else a new object;
- ``another dog`` is always new, ``a second dog`` the second one, ``dog.2`` (or
  ``dog#2``) the one of that number, created when first named;
- ``two dogs`` are two objects, and a relation of them holds for each.

Several scenes in one file are separated by a line of ``---``.

Written lines read back to an isomorphic graph: each label and statement is tried on the reader
first, and quoted, numbered or separated where plain words would be read differently. What was said
beside the graph has no form here: a warning tells what is not written.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scenewright.core.formats.base import FormatError, FormatWarning, build, fail, quote
from scenewright.core.formats.phrases import (
    ADJECTIVES,
    Mention,
    Statement,
    predicates_in,
    statements,
)
from scenewright.core.scene import MAX_OBJECTS, MAX_RELATIONS, Attributes, SceneGraph


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _read(text: str, known: bool) -> Statement | None:
    """Return the one statement of ``text``, without its place; none if it is not one."""
    try:
        found = list(statements(text, known=lambda name: known))
    except FormatError:
        return None
    if len(found) != 1:
        return None
    return Statement("", found[0].subject, found[0].predicate, found[0].target)


def _label(name: str, alone: bool, namesakes: bool) -> str:
    """Return ``name``, quoted if it would not be read as itself."""
    plain = (
        not namesakes
        and not predicates_in(["x", *name.split()])
        and _read(name, known=not alone) == Statement("", Mention(name=name))
    )
    return name if plain else _quote(name)


def _words(attributes: Attributes) -> str | None:
    """Return the attributes as adjectives, or none if the reader would not know them."""
    if all(ADJECTIVES.get(value) == key for key, value in attributes.items()):
        order = ("size", "color", "material")
        return " ".join(attributes[key] for key in order if key in attributes)
    return None


def _part(text: str) -> str:
    """Return an attribute key or value as written in brackets."""
    return text if text.replace(" ", "").isalnum() and text.isascii() else _quote(text)


def _labels(scene: SceneGraph) -> dict[str, tuple[str, str]]:
    """Return id → (first mention, later mentions).

    All instances of a class are named by words, or all by numbers.
    """
    folded = Counter(name.casefold() for name in {item.name for item in scene.objects})
    related = {end for r in scene.relations for end in (r.source, r.target)}
    plain: dict[str, str] = {}
    phrases: dict[str, str] = {}
    numbered: set[str] = set()
    for item in scene.objects:
        alone = item.id not in related
        label = plain[item.id] = _label(item.name, alone, folded[item.name.casefold()] > 1)
        words = _words(item.attributes)
        rivals = [o for o in scene.objects if o.name == item.name and o.id != item.id]
        phrase = phrases[item.id] = f"{words} {label}" if words else label
        meant = Mention(name=item.name, exact=label != item.name, attributes=dict(item.attributes))
        if (
            words is None
            or (rivals and not words)
            or any(item.attributes.items() <= rival.attributes.items() for rival in rivals)
            or _read(phrase, known=not alone) != Statement("", meant)
        ):
            numbered.add(item.name)
    count: Counter[str] = Counter()
    labels: dict[str, tuple[str, str]] = {}
    for item in scene.objects:
        if item.name not in numbered:
            labels[item.id] = (phrases[item.id], phrases[item.id])
            continue
        count[item.name] += 1
        later = f"{plain[item.id]}.{count[item.name]}"
        words = _words(item.attributes)
        pairs = ", ".join(f"{_part(k)}={_part(v)}" for k, v in item.attributes.items())
        first = f"{later} [{pairs}]" if words is None else f"{words} {later}".lstrip()
        labels[item.id] = (first, later)
    return labels


def write_scene(scene: SceneGraph) -> str:
    """Return one statement a line: the relations in order, then the objects without one."""
    labels = _labels(scene)
    named: set[str] = set()
    lines: list[str] = []

    def mention(object_id: str) -> str:
        first, later = labels[object_id]
        text = later if object_id in named else first
        named.add(object_id)
        return text

    for relation in scene.relations:
        first, second = mention(relation.source), mention(relation.target)
        safe = f"{first} | {_quote(relation.predicate)} | {second}"
        meant = _read(safe, known=True)
        # In plain words if they are read as meant.
        tried = (f"{first}{mark}{relation.predicate}{mark}{second}" for mark in (" ", " | "))
        lines.append(next((text for text in tried if _read(text, known=True) == meant), safe))
    lines.extend(mention(item.id) for item in scene.objects if item.id not in named)
    return "".join(f"{line}\n" for line in lines)


_RULE = re.compile(r"^[ \t]*---+[ \t]*\r?$", re.MULTILINE)


@dataclass(eq=False, slots=True)
class _Instance:
    """One object while a text is read."""

    name: str
    number: int
    attributes: dict[str, str]

    @property
    def id(self) -> str:
        return f"{self.name}.{self.number}"

    def has(self, attributes: dict[str, str]) -> bool:
        return attributes.items() <= self.attributes.items()


class _Reader:
    """Resolves mentions to objects, in the order of the text."""

    def __init__(self) -> None:
        self.objects: list[_Instance] = []

    def known(self, name: str) -> bool:
        return bool(self._class(Mention(name=name)))

    def _class(self, mention: Mention) -> list[_Instance]:
        if mention.exact:
            return [o for o in self.objects if o.name == mention.name]
        wanted = mention.name.casefold()
        return [o for o in self.objects if o.name.casefold() == wanted]

    def _make(self, mention: Mention, where: str, number: int | None = None) -> _Instance:
        if len(self.objects) >= MAX_OBJECTS:
            raise fail(where, f"more than {MAX_OBJECTS} objects: split the scene")
        same = self._class(mention)
        name = same[0].name if same else mention.name
        if number is None:
            used = {o.number for o in same}
            number = next(n for n in range(1, len(used) + 2) if n not in used)
        made = _Instance(name, number, dict(mention.attributes))
        self.objects.append(made)
        return made

    def resolve(self, mention: Mention, where: str) -> list[_Instance]:
        """Return the objects that ``mention`` means, new ones made on the way."""
        same = self._class(mention)
        if mention.number is not None:
            found = next((o for o in same if o.number == mention.number), None)
            if found is None:
                return [self._make(mention, where, mention.number)]
            for key, value in mention.attributes.items():
                if found.attributes.setdefault(key, value) != value:
                    raise fail(
                        where,
                        f"{found.id} has {key} {found.attributes[key]!r} already, not {value!r}: "
                        "name another instance",
                    )
            return [found]
        if mention.another or (mention.ordinal or 0) - 1 == len(same):
            return [self._make(mention, where)]
        if mention.ordinal is not None:
            if len(same) < mention.ordinal:
                problem = f"only {len(same)} of {quote(mention.name)} named before"
                raise fail(where, f"{problem}: name those first")
            found = same[mention.ordinal - 1]
            if not found.has(mention.attributes):
                problem = f"{found.id} was not said to be {mention.attributes}"
                raise fail(where, f"{problem}: say {found.id}")
            return [found]
        fitting = [o for o in same if o.has(mention.attributes)]
        if mention.count > 1:
            if not fitting:
                return [self._make(mention, where) for _ in range(mention.count)]
            if len(fitting) == mention.count:
                return fitting
            raise fail(
                where,
                f"{mention.count} of {quote(mention.name)}, but {len(fitting)} named before: "
                f"name them one by one, for example {fitting[0].id}",
            )
        equal = [o for o in fitting if o.attributes == mention.attributes]
        chosen = equal if mention.attributes and equal else fitting
        if len(chosen) > 1:
            ways = [" ".join([*o.attributes.values(), o.name]) for o in chosen if o.attributes]
            names = [quote(way) for way in [*ways[:2], *(o.id for o in chosen[:3])]]
            raise fail(
                where,
                f"{len(chosen)} objects fit {quote(chosen[0].name)}: say which, for example "
                f"{' or '.join(names)}; a new one is 'another {chosen[0].name}'",
            )
        return chosen or [self._make(mention, where)]


def read_scene(text: str, where: str = "") -> SceneGraph:
    """Return the scene of one text; repeated statements say nothing new and are dropped."""
    reader = _Reader()
    relations: list[tuple[str, str, str, str]] = []
    for said in statements(text, where, reader.known):
        sources = reader.resolve(said.subject, said.where)
        if said.predicate is None or said.target is None:
            continue
        targets = reader.resolve(said.target, said.where)
        for source in sources:
            for target in targets:
                if source is target:
                    raise fail(
                        said.where,
                        f"{source.id} is related to itself: name two objects, for example "
                        f"'{source.name} {said.predicate} another {source.name}'",
                    )
                relations.append((source.id, said.predicate, target.id, said.where))
        if len(relations) > 4 * MAX_RELATIONS:
            raise fail(said.where, f"more than {MAX_RELATIONS} relations: split the scene")
    objects = [(o.id, o.name, o.attributes) for o in reader.objects]
    return build(objects, relations, where)


def read(text: str, where: str) -> list[SceneGraph]:
    """Return all scenes of a text, separated by lines of ``---``."""
    parts = [(m.start(), m.end()) for m in _RULE.finditer(text)]
    if not parts:
        return [read_scene(text, where)]
    edges = [0, *(end for _, end in parts)]
    ends = [*(start for start, _ in parts), len(text)]
    begin = f"{where}, " if where else ""
    pieces = [text[start:end] for start, end in zip(edges, ends, strict=True)]
    return [
        read_scene(piece, f"{begin}scene {number}")
        for number, piece in enumerate((p for p in pieces if p.strip()), 1)
    ]


_BESIDE = ("exclusions", "globals", "counts", "texts")
"""Fields of an intent that a written text would lose in silence."""


def write(scenes: Sequence[SceneGraph]) -> str:
    """Return text that reads back to isomorphic scenes.

    One ``FormatWarning`` names what was said beside the graphs and is not in it.
    """
    lost = [name for name in _BESIDE if any(getattr(scene.intent, name) for scene in scenes)]
    if lost:
        warnings.warn(
            f"triplet lines hold the graph alone, without its {', '.join(lost)}: write json or "
            "another JSON format to keep them",
            FormatWarning,
            stacklevel=2,
        )
    return "---\n".join(write_scene(scene) for scene in scenes)

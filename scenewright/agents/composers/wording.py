"""The text of a scene graph by rules, as PSG-Bench's prompts are worded: alike objects are counted,
and every object, attribute and relation is in it. Words lie in ``wording.toml``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scenewright.core.plurals import plural
from scenewright.core.questions import article
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.core.word_lists import read_data

WORDING_VERSION = 1
"""Raised when the rules word a scene otherwise."""
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DATA = read_data("scenewright.agents.composers", "wording.toml")
BARE = frozenset(_DATA["bare"])
"""Nouns that are said without "a"."""
SAID: dict[str, list[str]] = _DATA["said"]
"""Challenge of PSG-Bench → what a text may say for it beside the scene graph."""
_ORDER = ("size", "age", "state", "shape", "color", "pattern", "material")
_OPENINGS = ("", "a photo of ", "a picture of ")


@dataclass(frozen=True, slots=True)
class _Group:
    """Objects that are alike and are said together."""

    name: str
    values: tuple[str, ...]
    ids: tuple[str, ...]

    def phrase(self) -> str:
        """``three small dogs``, ``an old wooden chair``, ``sand``."""
        described = " ".join([*self.values, self.name])
        if len(self.ids) > 1:
            count = len(self.ids)
            number = NUMBERS[count] if count < len(NUMBERS) else str(count)
            return f"{number} {plural(described)}"
        if self.name in BARE:
            return described
        return f"{article(described)} {described}"

    def again(self) -> str:
        """``the chair``, once it was said."""
        return f"the {plural(self.name) if len(self.ids) > 1 else self.name}"

    @property
    def verb(self) -> str:
        """``is`` or ``are``."""
        many = self.name.endswith("s") and self.name in BARE
        return "are" if len(self.ids) > 1 or many else "is"


def word(scene: SceneGraph, said: str = "", turn: int = 0) -> str:
    """``scene`` in words, then ``said``; ``turn`` picks one of the openings.

    Objects that are alike are counted; what has no relation is listed in the first sentence, and
    each relation between two groups is a sentence of its own. Raises ``ValueError`` for a scene
    without objects.
    """
    if not scene.objects:
        raise ValueError("the scene has no objects: there is nothing to say")
    groups = _groups(scene)
    of = {id_: group for group in groups for id_ in group.ids}
    links = list(dict.fromkeys((of[r.source], r.predicate, of[r.target]) for r in scene.relations))
    joined = {group for source, _, target in links for group in (source, target)}
    sentences: list[str] = []
    alone = [group.phrase() for group in groups if group not in joined]
    tail = f" {said}" if said else ""
    if alone:
        opening = _OPENINGS[turn % len(_OPENINGS)]
        sentences.append(f"{opening}{_listed(alone)}{tail}")
        tail = ""
    named: set[_Group] = set()
    for source, predicate, target in links:
        first = source.again() if source in named else source.phrase()
        named.add(source)
        second = target.again() if target in named else target.phrase()
        named.add(target)
        sentences.append(f"{first} {source.verb} {predicate} {second}{tail}")
        tail = ""
    return " ".join(f"{one[0].upper()}{one[1:]}." for one in sentences)


def _groups(scene: SceneGraph) -> list[_Group]:
    """Alike: of one class, with equal attributes, and with equal relations to other classes."""
    names = {item.id: item.name for item in scene.objects}
    found: dict[tuple[object, ...], list[SceneObject]] = {}
    for item in scene.objects:
        role = frozenset(
            (r.source == item.id, r.predicate, r.target if r.source == item.id else r.source)
            for r in scene.relations
            if item.id in (r.source, r.target) and names[r.source] != names[r.target]
        )
        inner = any(
            names[r.source] == names[r.target] and item.id in (r.source, r.target)
            for r in scene.relations
        )
        key = (item.name, item.attributes, role, item.id if inner else "")
        found.setdefault(key, []).append(item)
    return [
        _Group(some[0].name, _values(some[0]), tuple(item.id for item in some))
        for some in found.values()
    ]


def _values(item: SceneObject) -> tuple[str, ...]:
    """Attribute values in the order in which English puts them."""
    rank = {key: at for at, key in enumerate(_ORDER)}
    keys = sorted(item.attributes, key=lambda key: (rank.get(key, len(rank)), key))
    return tuple(item.attributes[key] for key in keys)


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

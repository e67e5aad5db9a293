"""Scene graphs as triplet lines that read back to an isomorphic graph.

Every label and statement is tried on the reader first: where the plain wording would be
read otherwise, the label is quoted, the instance numbered or the separators written.
"""

from __future__ import annotations

import json
from collections import Counter

from scenewright.core.formats.base import FormatError
from scenewright.core.formats.phrases import Mention, Statement, predicates_in, statements
from scenewright.core.formats.vocabulary import ADJECTIVES
from scenewright.core.scene import Attributes, SceneGraph, SceneObject


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _read(text: str, known: bool) -> Statement | None:
    """The one statement of ``text``, without its place; none if it is not one."""
    try:
        found = list(statements(text, known=lambda name: known))
    except FormatError:
        return None
    if len(found) != 1:
        return None
    return Statement("", found[0].subject, found[0].predicate, found[0].target)


def _label(name: str, alone: bool, namesakes: bool) -> str:
    """``name``, quoted if it would not be read as itself."""
    plain = (
        not namesakes
        and not predicates_in(["x", *name.split()])
        and _read(name, known=not alone) == Statement("", Mention(name=name))
    )
    return name if plain else _quote(name)


def _words(attributes: Attributes) -> str | None:
    """The attributes as adjectives, or none if the reader would not know them."""
    if all(ADJECTIVES.get(value) == key for key, value in attributes.items()):
        order = ("size", "color", "material")
        return " ".join(attributes[key] for key in order if key in attributes)
    return None


def _part(text: str) -> str:
    """An attribute key or value as it stands in brackets."""
    return text if text.replace(" ", "").isalnum() and text.isascii() else _quote(text)


def _phrase(item: SceneObject, label: str, alone: bool, scene: SceneGraph) -> str | None:
    """Words that name ``item`` wherever it is mentioned; none if it needs a number."""
    words = _words(item.attributes)
    rivals = [o for o in scene.objects if o.name == item.name and o.id != item.id]
    if words is None or (rivals and not words):
        return None
    if any(item.attributes.items() <= rival.attributes.items() for rival in rivals):
        return None
    phrase = f"{words} {label}" if words else label
    mention = Mention(name=item.name, exact=label != item.name, attributes=dict(item.attributes))
    return phrase if _read(phrase, known=not alone) == Statement("", mention) else None


def _labels(scene: SceneGraph) -> dict[str, tuple[str, str]]:
    """Id → (first mention, later mentions). A class goes by words or by numbers as a whole."""
    folded = Counter(name.casefold() for name in {item.name for item in scene.objects})
    related = {end for r in scene.relations for end in (r.source, r.target)}
    plain: dict[str, str] = {}
    phrases: dict[str, str] = {}
    numbered: set[str] = set()
    for item in scene.objects:
        alone = item.id not in related
        plain[item.id] = _label(item.name, alone, folded[item.name.casefold()] > 1)
        phrase = _phrase(item, plain[item.id], alone, scene)
        if phrase is None:
            numbered.add(item.name)
        else:
            phrases[item.id] = phrase
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


def _sentence(first: str, predicate: str, second: str) -> str:
    """The statement, in plain words if they are read as meant."""
    piped = f"{first} | {predicate} | {second}"
    meant = _read(f"{first} | {_quote(predicate)} | {second}", known=True)
    plain = f"{first} {predicate} {second}"
    if _read(plain, known=True) == meant:
        return plain
    return (
        piped if _read(piped, known=True) == meant else f"{first} | {_quote(predicate)} | {second}"
    )


def write_scene(scene: SceneGraph) -> str:
    """One statement a line: the relations in order, then the objects without one."""
    labels = _labels(scene)
    named: set[str] = set()
    lines: list[str] = []

    def mention(object_id: str) -> str:
        first, later = labels[object_id]
        text = later if object_id in named else first
        named.add(object_id)
        return text

    for relation in scene.relations:
        source = mention(relation.source)
        lines.append(_sentence(source, relation.predicate, mention(relation.target)))
    lines.extend(mention(item.id) for item in scene.objects if item.id not in named)
    return "".join(f"{line}\n" for line in lines)

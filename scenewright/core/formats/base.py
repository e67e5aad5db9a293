"""What the formats share: errors, checks that name their place, and the building of a graph.

Places are written like ``scenes.json: [3].relationships[2].source``.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from scenewright.core.scene import Attributes, Relation, SceneError, SceneGraph, SceneObject

MAX_BYTES = 20 * 1024 * 1024
_NUMBERED = re.compile(r"(?P<name>.+)\.(?P<number>[0-9]+)", re.DOTALL)


class FormatError(SceneError):
    """A scene file or text that cannot be read or written: says where and how to fix it."""


class FormatWarning(UserWarning):
    """Something of a foreign file cannot be kept: says where and what was left out."""


@dataclass(frozen=True, slots=True)
class Format:
    """One file format, both ways."""

    name: str
    """What ``format=`` takes."""
    about: str
    """One line for people."""
    read: Callable[[str, str], list[SceneGraph]]
    """``read(text, where)``: all graphs of a file; ``where`` begins every error."""
    write: Callable[[Sequence[SceneGraph]], str]
    """The text of a file that holds these graphs."""


def fail(where: str, problem: str) -> FormatError:
    """The error for ``problem`` at ``where``."""
    return FormatError(f"{where}: {problem}" if where else problem)


def prefix(where: str) -> str:
    """``where`` as the beginning of a longer place: ``scenes.json: `` or ``[3].``."""
    if not where:
        return ""
    return f"{where}." if where.endswith("]") else f"{where}: "


def shown(value: object, limit: int = 60) -> str:
    """``value`` for a message, cut to ``limit`` characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def as_object(value: Any, where: str, example: str) -> dict[str, Any]:
    """``value`` if it is a JSON object; ``FormatError`` with ``example`` otherwise."""
    if not isinstance(value, dict):
        raise fail(where, f"expected an object such as {example}, found {shown(value)}")
    return value


def as_list(value: Any, where: str, example: str) -> list[Any]:
    """``value`` if it is a JSON list; ``FormatError`` with ``example`` otherwise."""
    if not isinstance(value, list):
        raise fail(where, f"expected a list such as {example}, found {shown(value)}")
    return value


def as_text(value: Any, where: str, example: str) -> str:
    """``value`` if it is text that is not blank; ``FormatError`` with ``example`` otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise fail(where, f"expected text such as {example}, found {shown(value)}")
    return value


def field(entry: Mapping[str, Any], key: str, where: str, example: str) -> Any:
    """``entry[key]``; ``FormatError`` that names the missing key otherwise."""
    if key not in entry:
        raise fail(where, f'"{key}" is missing: add it, for example {example}')
    return entry[key]


def as_attributes(value: Any, where: str) -> dict[str, str]:
    """A JSON object of text to text: the attributes of one object."""
    entry = as_object(value, where, '{"color": "red"}')
    return {key: as_text(text, f"{where}.{key}", '"red"') for key, text in entry.items()}


def split_id(text: str) -> tuple[str, int | None]:
    """``"sports ball.1"`` → ``("sports ball", 1)``; the number is none if there is none."""
    match = _NUMBERED.fullmatch(text)
    return (match["name"], int(match["number"])) if match else (text, None)


def numbered(names: Iterable[str]) -> list[str]:
    """Ids ``name.1``, ``name.2``, … counted within each name: different for any list of names."""
    count: Counter[str] = Counter()
    ids: list[str] = []
    for name in names:
        count[name] += 1
        ids.append(f"{name}.{count[name]}")
    return ids


def numbered_ids(scene: SceneGraph) -> dict[str, str]:
    """Id → id of the form ``name.N``. Ids that have this form stay unless a namesake's do not."""
    proper: dict[str, bool] = {}
    for item in scene.objects:
        name, number = split_id(item.id)
        fits = number is not None and name == item.name
        proper[item.name] = proper.get(item.name, True) and fits
    fresh = numbered(item.name for item in scene.objects)
    return {
        item.id: item.id if proper[item.name] else new
        for item, new in zip(scene.objects, fresh, strict=True)
    }


def _under(place: str, key: str, where: str) -> str:
    return prefix(place) + key if place == where else f"{place}.{key}"


def explain(error: ValidationError, where: str) -> FormatError:
    """The first finding of a failed validation as a ``FormatError`` that names its place."""
    first = error.errors(include_url=False)[0]
    place = where
    for part in first["loc"]:
        place = f"{place}[{part}]" if isinstance(part, int) else _under(place, part, where)
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        problem = "is not known here: remove it or correct its spelling"
    elif first["type"] == "missing":
        problem = "is missing: add it"
    elif not first["type"].startswith("value_error"):
        problem += f", found {shown(first['input'])}: correct it"
    return fail(place, problem)


def build(
    objects: Sequence[tuple[str, str, Mapping[str, str]]],
    relations: Sequence[tuple[str, str, str, str]],
    where: str,
    self_relations: str = "error",
) -> SceneGraph:
    """The graph of ``objects`` (id, name, attributes) and ``relations`` (source, predicate,
    target, place).

    A relation that repeats an earlier one exactly is dropped: it says nothing new. A
    relation of an object with itself cannot be drawn or checked; with
    ``self_relations="drop"`` (real annotations hold such slips) it is left out with a
    ``FormatWarning``. Anything else that a scene graph cannot hold is a ``FormatError``.
    """
    kept: dict[Relation, None] = {}
    for source, predicate, target, place in relations:
        if source == target and self_relations == "drop":
            warnings.warn(
                f"{place}: {source!r} {predicate!r} itself was left out: "
                "a relation needs two different objects",
                FormatWarning,
                stacklevel=2,
            )
            continue
        if source == target:
            raise fail(place, f"{source!r} is related to itself: name two different objects")
        try:
            kept.setdefault(Relation(source=source, predicate=predicate, target=target))
        except ValidationError as error:
            raise explain(error, place) from None
    items: list[SceneObject] = []
    for id_, name, attributes in objects:
        try:
            items.append(SceneObject(id=id_, name=name, attributes=Attributes(attributes)))
        except (SceneError, ValidationError) as error:
            place = f"{where}, object {shown(id_)}" if where else f"object {shown(id_)}"
            if isinstance(error, ValidationError):
                raise explain(error, place) from None
            raise fail(place, str(error)) from None
    try:
        scene = SceneGraph(objects=tuple(items), relations=tuple(kept))
    except ValidationError as error:
        raise explain(error, where) from None
    return checked(scene, where)


def checked(scene: SceneGraph, where: str) -> SceneGraph:
    """``scene`` if it holds an object; an empty scene cannot be drawn and is a ``FormatError``."""
    if not scene.objects:
        raise fail(where, 'the scene is empty: name at least one object, for example "dog"')
    return scene

"""Open Images' rows of relationships as a scene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scenewright.core.formats.base import FormatError, build, numbered
from scenewright.core.formats.phrases import key_of
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import DatasetError

NO_RELATIONS = "images without relations"
WITH_ITSELF = "relations of an object with itself"
UNKNOWN = "relations with a label that has no name"
IS = "is"
MADE_OF = "(made of)"

_Row = Sequence[Any]
_Key = tuple[str, tuple[float, ...]]


def scene_of_rows(
    rows: Sequence[_Row],
    classes: Mapping[str, str],
    attributes: Mapping[str, str],
    predicates: Mapping[str, str],
    place: str,
    left_out: Counter[str],
) -> SceneGraph | None:
    """The scene of ``rows`` (label, relation, label, eight sides of two boxes); none without any.

    Two rows speak of one object if label and box are the same.
    """
    objects: dict[_Key, dict[str, str]] = {}
    relations: list[tuple[_Key, str, _Key]] = []
    for one, words, other, *sides in rows:
        source = _key(one, sides[:4])
        target = _key(other, sides[4:])
        if one not in classes or (other not in classes and other not in attributes):
            left_out[UNKNOWN] += 1
        elif other in attributes and (words == IS or other not in classes):
            _add(objects.setdefault(source, {}), attributes[other])
        elif source == target:
            left_out[WITH_ITSELF] += 1
        else:
            objects.setdefault(source, {})
            objects.setdefault(target, {})
            text = predicates.get(words, words).replace("_", " ")
            relations.append((source, text, target))
    if not objects:
        return None
    named = numbered(classes[label] for label, _ in objects)
    ids = dict(zip(objects, named, strict=True))
    try:
        return build(
            [(ids[key], classes[key[0]], said) for key, said in objects.items()],
            [(ids[a], text, ids[b], place) for a, text, b in relations],
            place,
        )
    except FormatError as error:
        raise DatasetError(str(error)) from error


def _key(label: str, sides: Sequence[float]) -> _Key:
    return label, tuple(round(side, 6) for side in sides)


def _add(said: dict[str, str], word: str) -> None:
    """An attribute more; a second one of a key is ``key 2``."""
    material = word.startswith(MADE_OF)
    value = word.removeprefix(MADE_OF).strip()
    key = "material" if material else key_of(value) or "attribute"
    if not value or value in said.values():
        return
    free, number = key, 2
    while free in said:
        free, number = f"{key} {number}", number + 1
    said[free] = value

"""Files of scene graphs as data sets and parsers publish them, as entries of formats read here.

GQA (``{"2386621": {"objects": {"681267": {"name": …, "relations": […]}}}}``), PSG (``data`` with
``annotations`` and classes by number), Visual Genome's ``relationships.json`` and the output of
sng_parser become entries of ``scene_graphs.json`` (:mod:`.visual_genome`); boxes, masks and synsets
are not part of a scene graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Entry = dict[str, Any]

_MERGED = re.compile(r"(-(other|merged|stuff))+$")
"""Ends of COCO's panoptic classes."""


def translated(data: Any) -> Any:
    """Return ``data`` as entries of Visual Genome if it is of one of these kinds, else itself.

    What is damaged in an entry of a known kind is left for the format's reader to name.
    """
    first = data[0] if isinstance(data, list) and data else data
    try:
        return next((turn(data) for knows, turn in _KINDS if knows(first)), data)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return data


def _object(number: Any, name: str, attributes: Any = ()) -> Entry:
    return {"object_id": number, "names": [name], "attributes": list(attributes)}


def _entry(objects: list[Entry], relations: list[tuple[Any, Any, Any]]) -> Entry:
    return {
        "objects": objects,
        "relationships": [
            {"subject_id": s, "predicate": p, "object_id": o} for s, p, o in relations
        ],
    }


def _is_gqa(data: Any) -> bool:
    one = next(iter(data.values()), None) if isinstance(data, Mapping) else None
    return isinstance(one, Mapping) and isinstance(one.get("objects"), Mapping)


def _gqa(data: Mapping[str, Any]) -> list[Entry]:
    found = []
    for image in data.values():
        things = image["objects"]
        objects = [_object(i, one["name"], one.get("attributes", ())) for i, one in things.items()]
        relations = [
            (i, told["name"], told["object"])
            for i, one in things.items()
            for told in one.get("relations", ())
        ]
        found.append(_entry(objects, relations))
    return found


def _is_psg(data: Any) -> bool:
    return isinstance(data, Mapping) and {"data", "thing_classes", "predicate_classes"} <= set(data)


def _psg(data: Mapping[str, Any]) -> list[Entry]:
    named = [*data["thing_classes"], *data.get("stuff_classes", ())]
    classes = [_MERGED.sub("", name).replace("-", " ") for name in named]
    predicates = data["predicate_classes"]
    found = []
    for image in data["data"]:
        kinds = [one["category_id"] for one in image["annotations"]]
        objects = [_object(number, classes[kind]) for number, kind in enumerate(kinds)]
        relations = [(s, predicates[p], o) for s, o, p in image["relations"]]
        found.append(_entry(objects, relations))
    return found


def _is_relationships(data: Any) -> bool:
    rows = data.get("relationships") if isinstance(data, Mapping) else None
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, Mapping) and isinstance(first.get("subject"), Mapping)


def _relationships(data: Any) -> list[Entry]:
    found = []
    for image in data if isinstance(data, list) else [data]:
        ends = [row[end] for row in image["relationships"] for end in ("subject", "object")]
        names: dict[Any, str] = {}
        for one in ends:
            name = one.get("name") or next(iter(one.get("names", ())), "")
            names[one["object_id"]] = names.get(one["object_id"]) or name
        objects = [_object(number, name) for number, name in names.items()]
        relations = [
            (row["subject"]["object_id"], row["predicate"], row["object"]["object_id"])
            for row in image["relationships"]
        ]
        found.append(_entry(objects, relations))
    return found


def _is_sng(data: Any) -> bool:
    entities = data.get("entities") if isinstance(data, Mapping) else None
    return isinstance(entities, list) and all("head" in one for one in entities)


def _sng(data: Any) -> list[Entry]:
    found = []
    for sentence in data if isinstance(data, list) else [data]:
        objects = [
            _object(
                number,
                one.get("lemma_head", one["head"]),
                [m.get("lemma_span", m["span"]) for m in one["modifiers"] if m["dep"] == "amod"],
            )
            for number, one in enumerate(sentence["entities"])
        ]
        relations = [(r["subject"], r["relation"], r["object"]) for r in sentence["relations"]]
        found.append(_entry(objects, relations))
    return found


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], list[Entry]]], ...] = (
    (_is_psg, _psg),
    (_is_sng, _sng),
    (_is_relationships, _relationships),
    (_is_gqa, _gqa),
)

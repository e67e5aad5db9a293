"""GenEval (Ghosh et al., NeurIPS 2023): objects, counts, colours and positions that are demanded.

Read as released: ``evaluation_metadata.jsonl``, one prompt a line. ``include`` lists classes with a
count, perhaps a colour, perhaps a position relative to an earlier entry; they become the scene, one
object an instance. ``exclude`` lists classes of which there must not be so many: the published
evaluation counts exactly. A scene graph cannot say "no more", so such an item has facts of its own:
those of its scene and, last, ``Are there fewer than 3 clocks in the image?`` The demands as
released are kept in the item's ``meta``, for the metric ``geneval``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.core.facts import Fact
from scenewright.core.formats.base import FormatError, build, numbered
from scenewright.core.inflection import plural
from scenewright.core.questions import facts_of, object_fact_id
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.reading import json_lines, one_of, published_file, text_of
from scenewright.evals.datasets.stream import StreamedSet, make_item

VERSION = 2
NAME = "geneval"
FILE = "evaluation_metadata.jsonl"
GROUPS: dict[str, str] = {
    "single_object": "single object",
    "two_object": "two objects",
    "counting": "counting",
    "colors": "colours",
    "position": "position",
    "color_attr": "attribute binding",
}
"""Tag → group of the item, as the paper's tables name the tasks."""
DEMANDS = "demands"
"""Key of an item's ``meta``: ``include`` and ``exclude`` as released, as JSON."""
_MOST = 100


def load(path: Path | None, *, exclude: str = "fact") -> StreamedSet:
    """The prompts of the release; ``path`` is the file or its folder.

    ``exclude``: ``fact`` asks what must not be there, ``meta`` only notes it in the item's
    ``meta``. Ids are the numbers of the published pictures' folders (``00000`` …). Raises
    ``DatasetError`` for a file of another form, here or on iteration.
    """
    one_of("exclude", exclude, ("fact", "meta"))
    file = published_file(path, FILE, NAME)
    return StreamedSet(
        partial(_entries, file, exclude),
        name=NAME,
        version=VERSION,
        options={"exclude": exclude},
        files=lambda: [(file.name, file)],
        unique=True,
    )


def _entries(file: Path, exclude: str, left_out: Counter[str]) -> Iterator[Item]:
    for at, (place, entry) in enumerate(json_lines(file)):
        tag = text_of(entry, "tag", place)
        ids, scene = _scene(_demands(entry, "include", place), place)
        banned = [(_class(d, place), _count(d, place)) for d in _demands(entry, "exclude", place)]
        facts: tuple[Fact, ...] = ()
        if banned and exclude == "fact":
            last = {_class(d, place): i[-1] for d, i in zip(entry["include"], ids, strict=True)}
            facts = (*facts_of(scene), *(_fewer(name, n, last) for name, n in banned))
        said = "; ".join(f"{name} from {n}" for name, n in banned)
        yield make_item(
            place,
            id=f"{at:05d}",
            prompt=text_of(entry, "prompt", place),
            scene=scene,
            facts=facts,
            group=GROUPS.get(tag, tag),
            meta={"tag": tag, DEMANDS: _as_released(entry)} | ({"exclude": said} if said else {}),
        )


def _demands(entry: dict[str, Any], key: str, place: str) -> list[dict[str, Any]]:
    given = entry.get(key, [])
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise DatasetError(f"{place}: {key!r} must be a list of objects with a class and a count")
    return given


def _as_released(entry: dict[str, Any]) -> str:
    """The demands of an entry that was checked, as JSON."""
    given = {key: entry[key] for key in ("include", "exclude") if entry.get(key)}
    return json.dumps(given, sort_keys=True)


def _class(demand: dict[str, Any], place: str) -> str:
    return text_of(demand, "class", place)


def _count(demand: dict[str, Any], place: str) -> int:
    count = demand.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= _MOST:
        raise DatasetError(f"{place}: count is {count!r}: it must be a number from 1 to {_MOST}")
    return count


def _scene(demands: list[dict[str, Any]], place: str) -> tuple[list[list[str]], SceneGraph]:
    """Ids of the instances of each demand, and the scene."""
    counts = [_count(demand, place) for demand in demands]
    names = [_class(demand, place) for demand in demands]
    fresh = iter(numbered(n for n, count in zip(names, counts, strict=True) for _ in range(count)))
    ids = [[next(fresh) for _ in range(count)] for count in counts]
    objects: list[tuple[str, str, dict[str, str]]] = []
    relations: list[tuple[str, str, str, str]] = []
    for demand, name, own in zip(demands, names, ids, strict=True):
        color = text_of(demand, "color", place, needed=False)
        objects += [(each, name, {"color": color} if color else {}) for each in own]
        if demand.get("position") is not None:
            predicate, to = _position(demand["position"], len(ids), place)
            relations += [(one, predicate, other, place) for one in own for other in ids[to]]
    try:
        return ids, build(objects, relations, place)
    except FormatError as error:
        raise DatasetError(str(error)) from error


def _position(value: Any, entries: int, place: str) -> tuple[str, int]:
    match value:
        case [str() as predicate, int() as to] if predicate.strip() and 0 <= to < entries:
            return predicate.strip(), to
    raise DatasetError(
        f"{place}: position is {value!r}: it must be a relation and the number of an entry of "
        'include, such as ["left of", 0]'
    )


def _fewer(name: str, number: int, last: dict[str, str]) -> Fact:
    """The fact that there are fewer than ``number`` things of a class."""
    many = plural(name)
    return Fact(
        id=f"x:{name}:{number}",
        kind="object",
        subject=last.get(name, name),
        parents=(object_fact_id(last[name]),) if name in last else (),
        statement=f"fewer than {number} {many}",
        question=f"Are there fewer than {number} {many} in the image?",
    )

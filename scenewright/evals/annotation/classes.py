"""Classes of scenes in two levels, by a language model that reads boxes and relations.

Prompt and classes are those of Scene-Bench, appendix A. What a model does not classify, or puts
into a class that is none, has no class, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scenewright.agents.parsers.classes import SCENE_CATEGORIES
from scenewright.evals.annotation.texts import ask_text
from scenewright.evals.annotation.voters import TextModel
from scenewright.evals.annotation.workers import StartupFailureLimit, side_by_side
from scenewright.evals.annotation.writing import entry_of
from scenewright.evals.store.ledger import GraphRow, Ledger

PROMPT = "classify_diversity"


def _key(text: object) -> str:
    return "".join(c for c in str(text).casefold() if c.isalnum())


_GROUPS = {_key(group): group for group in SCENE_CATEGORIES}
_CLASSES = {
    (group, _key(one)): one for group, members in SCENE_CATEGORIES.items() for one in members
}


def class_of(first: object, second: object) -> tuple[str, str]:
    """The two levels as they are named here; raises ``ValueError`` for what is none of them."""
    group = _GROUPS.get(_key(first))
    if group is None:
        raise ValueError(f"level 1 is {first!r}: choose {' or '.join(SCENE_CATEGORIES)}")
    category = _CLASSES.get((group, _key(second)))
    if category is None:
        known = ", ".join(SCENE_CATEGORIES[group])
        raise ValueError(f"level 2 is {second!r}: of {group} choose one of {known}")
    return group, category


async def classify(
    ledger: Ledger,
    model: TextModel,
    batch: int,
    concurrency: int,
    *,
    retry: bool = False,
    on_batch: Any = lambda count: None,
) -> None:
    """Give every graph with a part its class, ``batch`` scenes in a call."""
    patience = StartupFailureLimit()

    async def work(rows: Sequence[GraphRow]) -> None:
        ids = [row.photo.id for row in rows]
        reply = await ask_text(
            ledger,
            model,
            "classes",
            PROMPT,
            lambda given, last: read_classes(given, last, ids),
            retry=retry,
            image_info=json.dumps([info_of(row) for row in rows], ensure_ascii=False),
        )
        if reply.state == "failed":
            patience.failed(model.name, reply.reason)
            found: Mapping[str, Any] = {}
        else:
            patience.worked(model.name)
            found = reply.data
        lost = f"the call failed: {reply.reason}" if reply.state == "failed" else "not classified"
        ledger.update_graphs(
            "class",
            {row.photo.position: tuple(found.get(row.photo.id, ("", "", lost))) for row in rows},
        )
        on_batch(len(rows))

    await side_by_side(batches(ledger.graphs(parts_only=True), batch), work, concurrency)


def batches(rows: Iterable[GraphRow], size: int) -> Iterator[list[GraphRow]]:
    """``rows`` in lists of ``size``, the last one shorter."""
    some: list[GraphRow] = []
    for row in rows:
        some.append(row)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def info_of(row: GraphRow) -> dict[str, Any]:
    """What the prompt shows of an image: id, file, boxes, relations."""
    entry = entry_of(row)
    relations = [
        {key: relation[key] for key in ("source", "target", "relation")}
        for relation in entry["relationships"]
    ]
    return {
        "image_id": row.photo.id,
        "file_name": entry["file_name"],
        "objects": entry["objects"],
        "relationships": relations,
    }


def read_classes(
    given: Mapping[str, Any], last: bool, ids: Sequence[str]
) -> dict[str, tuple[str, str, str]]:
    """Image id → (level 1, level 2, why there is none).

    Raises ``ValueError`` for anything but one fitting class an image, unless it is the ``last``
    chance.
    """
    rows = given.get("images")
    if not isinstance(rows, list):
        raise ValueError("images is missing or no list")
    found: dict[str, tuple[str, str, str]] = {}
    problems: list[str] = []
    for at, row in enumerate(rows):
        where = f"images[{at}]"
        id_ = str(row.get("image_id")) if isinstance(row, Mapping) else ""
        if id_ not in ids:
            problems.append(f"{where}: there is no image {id_!r} in the list")
            continue
        if id_ in found and not found[id_][2]:
            problems.append(f"{where}: {id_!r} is classified twice")
            continue
        try:
            found[id_] = (*class_of(row.get("level 1"), row.get("level 2")), "")
        except ValueError as error:
            found[id_] = ("", "", str(error))
            problems.append(f"{where}: {error}")
    lacking = [id_ for id_ in ids if id_ not in found]
    if lacking:
        problems.append(f"missing: {', '.join(lacking[:8])}")
    if problems and not last:
        raise ValueError("; ".join(problems[:8]))
    return found

"""Composition in stages: the graph in lines, each object refined alone, then the whole.

Source: XTC-Bench, Sec. 3.2.4. An object that is worded apart from the others cannot take on
their attributes. Where there is a picture of an object by itself, the model may look at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from PIL import Image

from scenewright.agents.chat.language_replies import as_data, json_object, reply_text
from scenewright.agents.composers.check import lost_facts, unfit
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.core.questions import article, noun_phrase
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.prompts import load_prompt

OBJECT_PROMPT = "compose_object"
SEEN_PROMPT = "compose_object_seen"
WHOLE_PROMPT = "compose_whole"
_MAX_LENGTH = 240
"""Longest description of an object, in characters."""


@dataclass(frozen=True, slots=True)
class DescribedObject:
    """One object, described, and the relations in which it is the subject."""

    object: str
    """Its description: ``a red ball``."""
    relations: tuple[str, ...]
    """``on the blue table``, in the scene's order."""


def linearize(
    scene: SceneGraph, described: dict[str, str] | None = None
) -> tuple[DescribedObject, ...]:
    """Every fact of ``scene`` in a line an object, and nothing else.

    ``described``: object id → description, in place of attribute values before the label.
    """
    items = {item.id: item for item in scene.objects}
    plain = {item.id: noun_phrase(item) for item in scene.objects}
    lines = []
    for item in scene.objects:
        begin = (described or {}).get(item.id) or f"{article(plain[item.id])} {plain[item.id]}"
        joined = tuple(
            f"{relation.predicate} the {noun_phrase(items[relation.target])}"
            for relation in scene.relations
            if relation.source == item.id
        )
        lines.append(DescribedObject(begin, joined))
    return tuple(lines)


def lines_as_data(lines: tuple[DescribedObject, ...]) -> str:
    """The lines as JSON for a prompt."""
    return as_data([{"object": line.object, "relations": list(line.relations)} for line in lines])


@dataclass(frozen=True, slots=True)
class Views:
    """Pictures of objects by themselves."""

    pictures: Mapping[str, Image.Image]
    """Object id → its detail crop; objects without one are described by their attributes alone."""
    preparation: ImagePreparation
    """What is done to a picture before it is sent."""


async def refine_objects(
    chat: BaseChatModel, rules: SystemMessage, scene: SceneGraph, views: Views | None = None
) -> dict[str, str]:
    """Object id → description by the model: one call for each object that looks different.

    Of an object that has a view the model sees it, in a call of its own. A description that loses
    the label or an attribute is not used; the object is then described by its attribute values and
    label. Raises what the model's calls raise, and ``ImageError`` for a view that cannot be sent.
    """
    pictures = views.pictures if views is not None else {}
    kind_of = {item.id: _look(item, item.id in pictures) for item in scene.objects}
    kinds = {kind_of[item.id]: item for item in different_objects(scene, pictures)}
    tasks: dict[str, asyncio.Task[str]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            for key, item in kinds.items():
                tasks[key] = group.create_task(_refined(chat, rules, item, views))
    except ExceptionGroup as errors:
        # The first failure speaks for all: they come from one account.
        raise _first(errors) from None
    return {object_id: tasks[key].result() for object_id, key in kind_of.items()}


def different_objects(scene: SceneGraph, pictures: Collection[str] = ()) -> tuple[SceneObject, ...]:
    """The objects that look different by label and attributes; those whose ids are in
    ``pictures`` are each their own."""
    kinds: dict[str, SceneObject] = {}
    for item in scene.objects:
        kinds.setdefault(_look(item, item.id in pictures), item)
    return tuple(kinds.values())


def object_request(item: SceneObject) -> str:
    """What the model is asked of an object without a view."""
    data: dict[str, Any] = {"label": item.name, "attributes": dict(item.attributes)}
    return load_prompt(OBJECT_PROMPT).render(object=as_data(data))


def _look(item: SceneObject, seen: bool) -> str:
    return as_data([item.name, dict(item.attributes), [item.id] if seen else []])


async def _asked(item: SceneObject, views: Views | None) -> HumanMessage:
    if views is None or item.id not in views.pictures:
        return HumanMessage(object_request(item))
    data: dict[str, Any] = {"label": item.name, "attributes": dict(item.attributes)}
    picture = await prepare(views.pictures[item.id], views.preparation)
    text = load_prompt(SEEN_PROMPT).render(object=as_data(data))
    return HumanMessage(content=[picture.block, {"type": "text", "text": text}])


async def _refined(
    chat: BaseChatModel, rules: SystemMessage, item: SceneObject, views: Views | None
) -> str:
    reply = reply_text(await chat.ainvoke([rules, await _asked(item, views)]))
    found = (json_object(reply) or {}).get("description")
    phrase = noun_phrase(item)
    plain = f"{article(phrase)} {phrase}"
    if not isinstance(found, str) or not 0 < len(found.strip()) <= _MAX_LENGTH:
        return plain
    words = " ".join(found.split()).rstrip(".")
    alone = SceneGraph(objects=(item,))
    return plain if unfit(alone, words) or lost_facts(alone, words) else words


def _first(errors: BaseExceptionGroup[Exception]) -> BaseException:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

"""Items as samples of inspect_ai, and back: what a sample's picture is asked to show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from inspect_ai.dataset import Sample
from pydantic import ValidationError

from scenewright.core.formats import FormatError, loads_scene
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.measuring import facts_to_ask, text_of

ITEM, SCENE = "item", "scene"
"""Keys of a sample's metadata: a whole item as JSON, and a scene alone."""
SceneFrom = Literal["metadata", "target", "input"]
"""Where a sample says what its picture is to show: ``metadata`` (an item or a scene; without both
the input is the item's text), ``target`` (a scene in any text form that ``scenewright`` reads) or
``input`` (an English caption, read by rules)."""


def samples_of(items: Iterable[Item], config: EvalConfig) -> Iterator[Sample]:
    """One sample an item: the text of it as input, the statements of its facts as target.

    The metadata hold the ``item`` as JSON, and ``level``, ``group``, ``category`` and
    ``complexity`` (none without a scene) for metrics of parts of the set. Raises ``EvalError``
    for two items of one id, and what the set raises.
    """
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise EvalError(f"the set holds the item {item.id!r} twice: give each its own id")
        seen.add(item.id)
        yield Sample(
            id=item.id,
            input=text_of(item),
            target=[fact.statement for fact in facts_to_ask(item, config)],
            metadata={
                ITEM: item.model_dump(mode="json", exclude_defaults=True),
                "level": item.level,
                "group": item.group,
                "category": item.category,
                "complexity": None if item.scene is None else item.scene.complexity(),
            },
        )


def item_of(
    id: str, text: str, target: str, metadata: Mapping[str, Any], scene_from: SceneFrom
) -> Item:
    """The item that a sample with this ``id``, input ``text``, ``target`` and ``metadata`` asks.

    Raises ``EvalError``, which names the sample's field, for what cannot be read.
    """
    try:
        if scene_from == "target":
            return Item(id=id, prompt=text, scene=loads_scene(target))
        if scene_from == "input":
            return Item(id=id, prompt=text, scene=_said(text))
        if metadata.get(ITEM) is not None:
            return Item.model_validate(metadata[ITEM])
        if metadata.get(SCENE) is not None:
            return Item(id=id, prompt=text, scene=_given(metadata[SCENE]))
        return Item(id=id, prompt=text)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in (ITEM, *problem["loc"]))
        said = problem["msg"].removeprefix("Value error, ")
        raise EvalError(f"the sample {id!r} cannot be read: {where}: {said}") from error
    except (FormatError, SceneError) as error:
        where = f"metadata[{SCENE!r}]" if scene_from == "metadata" else scene_from
        raise EvalError(f"the sample {id!r} has no scene in its {where}: {error}") from error


def _given(scene: Any) -> SceneGraph:
    return loads_scene(scene if isinstance(scene, str) else json.dumps(scene))


def _said(text: str) -> SceneGraph:
    from scenewright.agents.parsers.rules import parse_caption

    return parse_caption(text)

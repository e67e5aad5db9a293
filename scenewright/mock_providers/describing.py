"""Pictures to scene graphs by the lab's models, as the tools of Algorithm 1 want them.

With boxes the answer holds relations (:mod:`scenewright.mock_providers.box_relations`); without
them the models are asked for every word that they know.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from langchain_core.messages import HumanMessage

from scenewright.core.ports.judge import JudgeError
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.mock_providers.box_relations import boxed_in, relations_of
from scenewright.mock_providers.models import INSTANTS
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.scripts import ScriptedReply
from scenewright.mock_providers.turns import Turns
from scenewright.mock_providers.wire import ModelRequest
from scenewright.prompts import load_prompt
from scenewright.runs.model_factory.profiles import judge_of
from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser
from scenewright.tools.vision.extraction.world import miniature_world

_WORDS = miniature_world().vocabulary
KINDS, PREDICATES = _WORDS.kinds, _WORDS.predicates
"""Class labels that the lab's models know, and predicates that they are asked for in a picture
without boxes."""
COLORS = _WORDS.attributes["color"]
"""Values of ``color`` that they know."""
GRAPH_TOOL = load_prompt("parse_image").tool
RELATIONS_TOOL = load_prompt("parse_image_boxes").tool
_SIZE = re.compile(r"width and height[^(]*\((\d+), (\d+)\)")


def is_describing(asked: ModelRequest) -> bool:
    """Whether a request wants a scene graph of its picture."""
    return asked.form == "tool" and asked.tool in (RELATIONS_TOOL, GRAPH_TOOL)


async def describe(name: str, picture: Picture, turns: Turns, asked: ModelRequest) -> ScriptedReply:
    """The call of the tool with what the model ``name`` sees; raises ``Problem`` if it fails."""
    if asked.tool == GRAPH_TOOL:
        scene = await _whole(name, picture)
        return ScriptedReply(calls=((GRAPH_TOOL, _graph(scene)),))
    objects = []
    for message in turns.messages:
        text = str(message.text)
        if isinstance(message, HumanMessage) and (objects := boxed_in(text)):
            # Boxes are those of the original, which may have been scaled before it was sent.
            size = _SIZE.search(text)
            scale = picture.size[0] / int(size[1]) if size and int(size[1]) else 1.0
            objects = [thing.scaled(scale) for thing in objects]
            break
    triples = await relations_of(name, picture, objects)
    listed = [{"source": s, "target": t, "relation": p} for s, p, t in triples]
    return ScriptedReply(calls=((RELATIONS_TOOL, {"relationships": listed}),))


async def _whole(name: str, picture: Picture) -> SceneGraph:
    if name in INSTANTS:
        raise Problem.invalid("instant names no objects: give their boxes, or ask a judge", "model")
    try:
        judge = await asyncio.to_thread(judge_of, f"local:miniature/{name}")
        image = await asyncio.to_thread(picture.decoded)
        return await JudgedPictureParser([judge], _WORDS).parse(image)
    except (JudgeError, SceneError) as error:
        raise Problem("server", 500, str(error)) from error


def _graph(scene: SceneGraph) -> dict[str, Any]:
    return {
        "objects": [
            {
                "id": item.id,
                "name": item.name,
                "attributes": [{"key": k, "value": v} for k, v in item.attributes.items()],
            }
            for item in scene.objects
        ],
        "relationships": [
            {"source": r.source, "target": r.target, "relation": r.predicate}
            for r in scene.relations
        ],
    }

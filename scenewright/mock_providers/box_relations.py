"""Scene graphs of pictures by asking a model of the mock server about each pair of boxes.

The miniature judges answer questions and write no graphs, so they are asked as pictures are read by
judges (:mod:`scenewright.tools.vision.extraction`): pair by pair where boxes are given, else for
every word that they know.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import HumanMessage

from scenewright.core.formats.base import split_id
from scenewright.core.ports.judge import JudgeError
from scenewright.core.ports.vision import Detection, ExtractionError, PairScores, Thing
from scenewright.core.questions import NO_RELATION
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.mock_providers.models import INSTANTS, instant
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.sheets import Question
from scenewright.mock_providers.wire import ModelRequest, ScriptedReply, Turns
from scenewright.prompts import load_prompt
from scenewright.runs.model_factory.profiles import build_judge
from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser
from scenewright.tools.vision.extraction.judged_readers import JudgedRelations
from scenewright.tools.vision.extraction.pairs import PlacedObject, nearest_pairs
from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel
from scenewright.tools.vision.extraction.world import miniature_world

Triple = tuple[str, str, str]
"""(source id, predicate, target id)."""

_BOXED = re.compile(r'"((?:[^"\\]|\\.)+:\[[-+\d., ]+\])"')


def boxed_in(text: str) -> list[PlacedObject]:
    """Return the objects that ``text`` lists, each id once.

    ``text`` lists JSON strings ``"name.1:[xmin, ymin, xmax, ymax]"``.
    """
    found: dict[str, PlacedObject] = {}
    for match in _BOXED.finditer(text):
        try:
            entry: str = json.loads(f'"{match[1]}"')
            id_, _, numbers = entry.rpartition(":")
            values = json.loads(numbers)
        except ValueError:
            continue
        if len(values) == 4 and id_:
            box = (float(values[0]), float(values[1]), float(values[2]), float(values[3]))
            found.setdefault(id_, PlacedObject(id_, split_id(id_)[0], box))
    return list(found.values())


async def relations_of(
    name: str, picture: Picture, objects: Sequence[PlacedObject]
) -> list[Triple]:
    """Return the relations that the model ``name`` finds between ``objects``, at most one a pair.

    Raises ``Problem`` if the model fails.
    """
    if name in INSTANTS:
        return _hashed(name, picture, objects)
    things = [Thing(one.id, Detection(one.name, one.box)) for one in objects]
    try:
        judge = await asyncio.to_thread(build_judge, f"local:miniature/{name}")
        image = await asyncio.to_thread(picture.decoded)
        scorer = JudgedRelations(ExtractionPanel([judge]), _WORLD)
        scores = await scorer.score(image, things)
    except (JudgeError, ExtractionError) as error:
        raise Problem.server(error) from error
    claims = [
        (score, (pair.source, predicate, pair.target))
        for pair in scores
        if isinstance(pair, PairScores)
        for predicate, score in pair.predicates.items()
        if score > pair.none
    ]
    # The surest of a pair comes last.
    return list(
        {frozenset((one, other)): (one, p, other) for _, (one, p, other) in sorted(claims)}.values()
    )


def _hashed(name: str, picture: Picture, objects: Sequence[PlacedObject]) -> list[Triple]:
    """Return a predicate, or none, for each near pair from a hash of picture and names."""
    options = dict(zip("ABCDEFGH", (*PREDICATES[:6], NO_RELATION), strict=False))
    found = []
    for one, other in nearest_pairs(objects):
        said = instant(picture.digest, Question(1, f"{name}: {one.id} and {other.id}", options))
        if (predicate := options[said.answer]) != NO_RELATION:
            found.append((one.id, predicate, other.id))
    return found


_WORLD = miniature_world()
KINDS, PREDICATES = _WORLD.kinds, _WORLD.predicates
"""Class labels that the mock's models know, and predicates that they are asked for in a picture
without boxes."""
COLORS = _WORLD.attributes["color"]
"""Values of ``color`` that they know."""
GRAPH_TOOL = load_prompt("parse_image").tool
RELATIONS_TOOL = load_prompt("parse_image_boxes").tool
_SIZE = re.compile(r"width and height[^(]*\((\d+), (\d+)\)")


def is_describing(asked: ModelRequest) -> bool:
    """Whether a request wants a scene graph of its picture."""
    return asked.form == "tool" and asked.tool in (RELATIONS_TOOL, GRAPH_TOOL)


async def describe(name: str, picture: Picture, turns: Turns, asked: ModelRequest) -> ScriptedReply:
    """Return the call of the tool with what the model ``name`` sees.

    Raises ``Problem`` if it fails.
    """
    if asked.tool == GRAPH_TOOL:
        scene = await _whole(name, picture)
        return ScriptedReply(calls=((GRAPH_TOOL, graph_data(scene)),))
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
        judge = await asyncio.to_thread(build_judge, f"local:miniature/{name}")
        image = await asyncio.to_thread(picture.decoded)
        return await JudgedPictureParser([judge], _WORLD).parse(image)
    except (JudgeError, SceneError) as error:
        raise Problem.server(error) from error


def graph_data(scene: SceneGraph) -> dict[str, Any]:
    """Return a scene graph as the arguments of :data:`GRAPH_TOOL`."""
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

"""Scene graphs of pictures by asking a model of the mock server about each pair of boxes.

The miniature judges answer questions and write no graphs, so they are asked pair by pair with the
questions of :mod:`scenewright.core.questions`. Boxes decide which pairs are worth a question
(:mod:`scenewright.tools.vision.extraction.pairs`); without boxes the models are asked for every
word that they know, as the tools of Algorithm 1 require.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.core.facts import Fact
from scenewright.core.formats.base import split_id
from scenewright.core.ports.judge import JudgeError
from scenewright.core.questions import NO_RELATION
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.core.vocabulary import DIRECTIONS
from scenewright.mock_providers.models import INSTANTS, instant
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.scripts import ScriptedReply
from scenewright.mock_providers.sheets import Question
from scenewright.mock_providers.wire import ModelRequest, Turns
from scenewright.prompts import load_prompt
from scenewright.runs.model_factory.profiles import judge_of
from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser
from scenewright.tools.vision.extraction.pairs import (
    Boxed,
    by_rivals,
    contact_options,
    contacts,
    directions,
    nearest_pairs,
)
from scenewright.tools.vision.extraction.views import without
from scenewright.tools.vision.extraction.world import miniature_world

Triple = tuple[str, str, str]
"""(source id, predicate, target id)."""

_BOXED = re.compile(r'"((?:[^"\\]|\\.)+:\[[-+\d., ]+\])"')


@dataclass(frozen=True, slots=True)
class _Look:
    """One question about a pair."""

    source: Boxed
    target: Boxed
    options: tuple[str, ...]
    """Without the last one, that there is no relation."""

    @property
    def question(self) -> Question:
        text = (
            f"What is the relationship between the {self.source.name} and the "
            f"{self.target.name} in the image?"
        )
        return Question(1, text, dict(zip("ABCDEFGH", (*self.options, NO_RELATION), strict=False)))

    def fact(self, number: int, expected: str) -> Fact:
        question = self.question
        return Fact(
            id=f"lab:{number}",
            kind="object",
            subject="lab",
            statement=question.text,
            question=question.text,
            options=tuple(question.options.values()),
            expected=expected,
        )


def boxed_in(text: str) -> list[Boxed]:
    """Return the objects that ``text`` lists, each id once.

    ``text`` lists JSON strings ``"name.1:[xmin, ymin, xmax, ymax]"``.
    """
    found: dict[str, Boxed] = {}
    for match in _BOXED.finditer(text):
        try:
            entry: str = json.loads(f'"{match[1]}"')
            id_, _, numbers = entry.rpartition(":")
            values = json.loads(numbers)
        except ValueError:
            continue
        if len(values) == 4 and id_:
            box = (float(values[0]), float(values[1]), float(values[2]), float(values[3]))
            found.setdefault(id_, Boxed(id_, split_id(id_)[0], box))
    return list(found.values())


async def relations_of(name: str, picture: Picture, objects: Sequence[Boxed]) -> list[Triple]:
    """Return the relations that the model ``name`` finds between ``objects``, at most one a pair.

    Pairs of one class are left out, for a question cannot distinguish them; other things of the
    classes in question are painted over. The direction of a relation is the model's own choice.
    Raises ``Problem`` if the model fails.
    """
    image = await asyncio.to_thread(picture.decoded)
    side = max(image.size)
    pairs = [(a, b) if _first(name, a.id, b.id) else (b, a) for a, b in nearest_pairs(objects)]
    touching: list[_Look] = []
    apart: list[_Look] = []
    for a, b in pairs:
        for source, target in ((a, b), (b, a)):
            # Three options, as the judges were taught: a direction says that it is no contact.
            for options in contact_options(source, target, contacts(source, target, side)):
                touching.append(_Look(source, target, options))
        apart.append(_Look(a, b, directions(a, b)))
    looks = [*touching, *apart]
    said = await _choices(name, picture, image, looks, [x.options[0] for x in looks], objects)
    chosen = dict(zip(looks, said, strict=True))
    claims: dict[frozenset[str], list[tuple[_Look, str]]] = {}
    for look in touching:
        if (choice := chosen[look][0]) not in (NO_RELATION, *DIRECTIONS):
            claims.setdefault(frozenset((look.source.id, look.target.id)), []).append(
                (look, choice)
            )
    # Of several contacts of one pair the likeliest stands: only then are their chances asked.
    rivals = [claim for claim in claims.values() if len(claim) > 1]
    again = [one for claim in rivals for one in claim]
    chances = await _choices(
        name, picture, image, [one[0] for one in again], [one[1] for one in again], objects
    )
    sure = {id(one): chance for one, (_, chance) in zip(again, chances, strict=True)}
    found: list[Triple] = []
    for look in apart:
        claim = claims.get(frozenset((look.source.id, look.target.id)))
        if claim:
            best, choice = max(claim, key=lambda one: sure.get(id(one), 1.0))
            found.append((best.source.id, choice, best.target.id))
        elif (choice := chosen[look][0]) != NO_RELATION:
            found.append((look.source.id, choice, look.target.id))
    return found


async def _choices(
    name: str,
    picture: Picture,
    image: Image.Image,
    looks: Sequence[_Look],
    expected: Sequence[str],
    objects: Sequence[Boxed],
) -> list[tuple[str, float]]:
    """Return the model's choice, and the probability of the expected one."""
    if name in INSTANTS:
        picks = [instant(picture.digest, look.question) for look in looks]
        return [(pick.question.options[pick.answer], pick.probability) for pick in picks]
    # Questions that hide the same things see the same picture, and share one encoding of it.
    ends = [(look.source, look.target) for look in looks]
    groups = by_rivals(range(len(looks)), ends, objects)
    found: dict[int, tuple[str, float]] = {}
    failed = 0
    try:
        judge = await asyncio.to_thread(judge_of, f"local:miniature/{name}")
        for hidden, members in groups.items():
            facts = [looks[at].fact(at, expected[at]) for at in members]
            seen = image
            if hidden:
                kept = [looks[at] for at in members]
                seen = without(
                    image,
                    [thing.box for thing in objects if thing.id in hidden],
                    [end.box for look in kept for end in (look.source, look.target)],
                )
            for at, answer in zip(members, await judge.answer(seen, facts), strict=True):
                # A question outside of what the model learned is one that it sees nothing in.
                found[at] = answer.choice or NO_RELATION, answer.probability or 0.0
                failed += answer.choice is None
    except JudgeError as error:
        raise Problem("server", 500, str(error)) from error
    if looks and failed == len(looks):
        raise Problem("server", 500, "the model answered no question about the picture")
    return [found[at] for at in range(len(looks))]


def _first(name: str, a: str, b: str) -> bool:
    return hashlib.sha256(f"{name}\0{a}\0{b}".encode()).digest()[0] % 2 == 0


_WORDS = miniature_world().vocabulary
KINDS, PREDICATES = _WORDS.kinds, _WORDS.predicates
"""Class labels that the mock's models know, and predicates that they are asked for in a picture
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
    """Return the call of the tool with what the model ``name`` sees.

    Raises ``Problem`` if it fails.
    """
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

"""Replies to the package's own tools: of a text by small rules, of pictures by a judge's answers.

A tool that looks at pictures is filled by its schema. A number is a judge's probability of a yes
to the field's name, an enumerated value what it chooses; a list has a row for each entry that the
prompt shows. Tools that read a text alone have each a rule that makes a valid reply of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import HumanMessage

from scenewright.agents.composers.rules import SAID, word
from scenewright.agents.parsers.classes import CHALLENGES, classify, diversity
from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.formats import loads_scene
from scenewright.core.formats.base import split_id
from scenewright.core.formats.megasg import read
from scenewright.core.formats.published_questions import read_tuple
from scenewright.core.layout import canonical_predicate
from scenewright.core.ports.judge import JudgeError
from scenewright.core.ports.vision import Detection, ExtractionError, PairScores, Thing
from scenewright.core.questions import NO_RELATION, QuestionForm
from scenewright.core.scene import Relation, SceneError, SceneGraph, SceneObject
from scenewright.mock_providers.models import INSTANTS, instant, is_script, judge
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.scripts import ANNOTATOR, next_line
from scenewright.mock_providers.sheets import YES_NO, Judged, Question
from scenewright.mock_providers.wire import (
    ModelRequest,
    ScriptedReply,
    Turns,
    entries,
    listed,
    variables_of,
)
from scenewright.prompts import load_prompt
from scenewright.runs.model_factory.profiles import build_judge
from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser
from scenewright.tools.vision.extraction.judged_readers import JudgedRelations
from scenewright.tools.vision.extraction.pairs import nearest_pairs
from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel
from scenewright.tools.vision.extraction.world import miniature_world
from scenewright.tools.vision.realism.vlm import PROMPTS

Triple = tuple[str, str, str]
"""(source id, predicate, target id)."""

_BOXED = re.compile(r'"((?:[^"\\]|\\.)+:\[[-+\d., ]+\])"')


def boxed_in(text: str) -> list[Thing]:
    """Return the objects that ``text`` lists, each id once.

    ``text`` lists JSON strings ``"name.1:[xmin, ymin, xmax, ymax]"``.
    """
    found: dict[str, Thing] = {}
    for match in _BOXED.finditer(text):
        try:
            entry: str = json.loads(f'"{match[1]}"')
            id_, _, numbers = entry.rpartition(":")
            values = json.loads(numbers)
        except ValueError:
            continue
        if len(values) == 4 and id_:
            box = (float(values[0]), float(values[1]), float(values[2]), float(values[3]))
            found.setdefault(id_, Thing(id_, Detection(split_id(id_)[0], box)))
    return list(found.values())


async def relations_of(name: str, picture: Picture, objects: Sequence[Thing]) -> list[Triple]:
    """Return the relations that the model ``name`` finds between ``objects``, at most one a pair.

    Raises ``Problem`` if the model fails.
    """
    if name in INSTANTS:
        return _hashed(name, picture, objects)
    try:
        judge = await asyncio.to_thread(build_judge, f"local:miniature/{name}")
        image = await asyncio.to_thread(picture.decoded)
        scorer = JudgedRelations(ExtractionPanel([judge]), _WORLD)
        scores = await scorer.score(image, objects)
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


def _hashed(name: str, picture: Picture, objects: Sequence[Thing]) -> list[Triple]:
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
            for at, one in enumerate(objects):
                left, top, right, bottom = (side * scale for side in one.detection.box)
                scaled = replace(one.detection, box=(left, top, right, bottom))
                objects[at] = replace(one, detection=scaled)
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


Ask = Callable[[str, Mapping[str, str]], Awaitable[Judged]]
"""Asks a question with options."""
UNKNOWN = "unknown"
_ASKED = QuestionForm(predicates="miniature")
"""The mock's judges are the miniature's."""
_HIGHEST_SCORE = 5
_QUALITIES = ("red", "small", "wooden", "large", "blue", "old", "white", "shiny", "striped")
_HAS = re.compile(r"\b(?:has|have|with)\s+(?:an?\s+)?(?P<description>[a-z-]+)\s+(?P<part>[a-z]+)\b")


Rule = Callable[[Mapping[str, str]], dict[str, Any]]
"""Makes the arguments of a tool from the variables of its prompt."""
_RULES: dict[str, Rule] = {}
"""Prompt → what answers its tool."""


def answers_prompt(prompt: str) -> Callable[[Rule], Rule]:
    """Register the decorated rule as the one that answers ``prompt``."""
    return lambda rule: _RULES.setdefault(prompt, rule)


def _rows(
    given: Mapping[str, str],
    name: str,
    reply: Callable[[Mapping[str, Any]], dict[str, Any]],
    key: str = "number",
) -> list[dict[str, Any]]:
    """Return a reply to each row of a list in the prompt, with the row's number."""
    rows = entries(given[name])
    return [{key: row[key], **reply(row)} for row in rows if isinstance(row.get(key), int)]


def _text(given: Mapping[str, str]) -> str:
    return " ".join(listed(given["text"]))


@answers_prompt("parse_caption")
def parse_sentence(given: Mapping[str, str]) -> dict[str, Any]:
    """Return what the rules read in a sentence, beside its graph, too."""
    try:
        scene = parse_caption(json.loads(f'"{given["input_sentence"]}"'))
    except (SceneError, ValueError) as error:
        raise Problem.invalid(f"the sentence cannot be read: {error}") from error
    intent = scene.intent
    return {
        **graph_data(scene),
        "language": "en",
        "english": "",
        "globals": [one.model_dump() for one in intent.globals],
        "exclusions": [{**one.model_dump(), "of": one.of or ""} for one in intent.exclusions],
        "counts": [{**one.model_dump(), "number": one.number or 0} for one in intent.counts],
        "texts": list(intent.texts),
        "unread": [one.text for one in intent.unread],
        "doubts": [
            one.model_dump(include={"kind", "text", "question", "choices"})
            for one in intent.doubts
            if len(one.choices) > 1
        ],
    }


@answers_prompt("merge_synonyms")
def merge_predicates(given: Mapping[str, str]) -> dict[str, Any]:
    """Return predicates of one meaning by the planner's table."""
    means = {word: canonical_predicate(word) for word in listed(given["predicates"])}
    merged = [
        {"predicate": word, "means": meant}
        for word, meant in means.items()
        if meant != word and meant in means
    ]
    return {"synonyms": merged}


@answers_prompt("classify_diversity")
def classify_scenes(given: Mapping[str, str]) -> dict[str, Any]:
    """Return classes of scenes by the rules of :mod:`scenewright.agents.parsers.classes`."""
    found = []
    for entry in entries(next(iter(given.values()))):
        try:
            graph = {k: v for k, v in entry.items() if k in ("objects", "relationships")}
            first, second = diversity(read(graph, ""))
        except SceneError:
            first, second = "Non-People-Centric", "Objects"
        named = {key: str(entry.get(key, "")) for key in ("image_id", "file_name")}
        found.append({**named, "level 1": first, "level 2": second})
    return {"images": found}


@answers_prompt("augment_attributes")
def augment_categories(given: Mapping[str, str]) -> dict[str, Any]:
    """Return three instances of each category, each with a quality."""

    def words(category: str) -> list[str]:
        start = hashlib.sha256(category.encode()).digest()[0]
        return [f"{_QUALITIES[(start + step) % len(_QUALITIES)]} {category}" for step in range(3)]

    names = listed(given["categories"])
    return {"instances": [{"category": name, "instances": words(name)} for name in names]}


@answers_prompt("score_answers")
def score_answers(given: Mapping[str, str]) -> dict[str, Any]:
    """Give full marks for the same words, else a part of them for shared ones."""

    def score(row: Mapping[str, Any]) -> dict[str, Any]:
        pair = (str(row.get(name, "")) for name in ("gt_answer", "pred_answer"))
        one, other = (set(text.casefold().split()) for text in pair)
        return {"score": int(_HIGHEST_SCORE * len(one & other) / max(1, len(one | other)))}

    return {"scores": _rows(given, "pairs", score)}


@answers_prompt("synthesize_prompt")
def write_prompt(given: Mapping[str, str]) -> dict[str, Any]:
    """Return all facts of the scene graph in words, and what the challenge asks for."""
    try:
        scene = loads_scene(given["template"])
        challenge = next((name for name in CHALLENGES if name in given["challenge"]), "NONE")
        return {"prompt": word(scene, SAID.get(challenge, [""])[0])}
    except (SceneError, ValueError) as error:
        raise Problem.invalid(f"the scene graph of the prompt cannot be read: {error}") from error


@answers_prompt("classify_challenges")
def classify_prompts(given: Mapping[str, str]) -> dict[str, Any]:
    """Return category and challenge of each prompt by the rules of the parsers."""

    def challenge(row: Mapping[str, Any]) -> dict[str, Any]:
        found = classify(str(row.get("prompt", "")))
        return {"category": found.category, "challenge": found.challenge}

    return {"classes": _rows(given, "prompts", challenge)}


@answers_prompt("real_schema")
def list_parts(given: Mapping[str, str]) -> dict[str, Any]:
    """Return parts that a text has, as in "has a long bill"."""
    found = _HAS.finditer(_text(given))
    return {"attributes": [{**match.groupdict(), "quote": match[0]} for match in found]}


def _things(given: Mapping[str, str]) -> list[str]:
    try:
        return list(dict.fromkeys(item.name for item in parse_caption(_text(given)).objects))
    except SceneError:
        return []


@answers_prompt("tifa_questions")
def ask_for_objects(given: Mapping[str, str]) -> dict[str, Any]:
    """Return a question for each object of the text."""
    asked = {"type": "object", "choices": ["yes", "no"], "answer": "yes"}
    return {
        "questions": [
            {"element": name, "question": f"Is there a {name}?", **asked} for name in _things(given)
        ]
    }


def _chosen(given: Mapping[str, str], field: str) -> dict[str, Any]:
    """Return the first of each question's choices that the text holds."""
    text = _text(given).casefold()

    def choice(row: Mapping[str, Any]) -> dict[str, Any]:
        choices = row.get("choices") or ["yes", "no"]
        held = next((one for one in choices if str(one).casefold() in text), UNKNOWN)
        return {field: "yes" if "yes" in choices else held}

    return {"answers": _rows(given, "questions", choice)}


@answers_prompt("tifa_filter")
def choose_answers(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the choice of each question."""
    return _chosen(given, "choice")


@answers_prompt("tifa_open")
def answer_questions(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer to each question."""
    return _chosen(given, "answer")


@answers_prompt("dsg_tuples")
def list_tuples(given: Mapping[str, str]) -> dict[str, Any]:
    """Return a tuple for each object of the text."""
    whole = {"category": "entity", "kind": "whole"}
    named = enumerate(_things(given), start=1)
    return {"tuples": [{"id": at, **whole, "arguments": [name]} for at, name in named]}


@answers_prompt("dsg_dependencies")
def list_dependencies(given: Mapping[str, str]) -> dict[str, Any]:
    """Return no parents for each tuple."""
    return {"dependencies": _rows(given, "tuples", lambda _: {"parents": []}, "id")}


@answers_prompt("dsg_questions")
def ask_for_tuples(given: Mapping[str, str]) -> dict[str, Any]:
    """Return a question for each tuple."""

    def question(row: Mapping[str, Any]) -> dict[str, Any]:
        found = read_tuple(str(row.get("tuple", "")))
        if found is None:
            raise Problem.invalid(f"the tuple {dict(row)} cannot be read")
        return {"question": f"Is there a {found.parts[0]}?"}

    return {"questions": _rows(given, "tuples", question, "id")}


TEXT_TOOLS: Mapping[str, str] = {load_prompt(prompt).tool: prompt for prompt in _RULES}
"""Tool → its prompt."""
_LOOKING = (
    *("extract_attributes", "verify_relation", "answer_questions"),
    *("rate_consistency", "rate_quality", *PROMPTS.values()),
)
PICTURE_TOOLS = frozenset(
    (GRAPH_TOOL, RELATIONS_TOOL, *(load_prompt(prompt).tool for prompt in _LOOKING))
)


def is_annotating(asked: ModelRequest) -> bool:
    """Whether a request wants a tool that reads a text alone."""
    return asked.form == "tool" and asked.tool in TEXT_TOOLS and not asked.images


def is_seeing(asked: ModelRequest) -> bool:
    """Whether a request wants one of the tools that are filled by a look at pictures."""
    return asked.form == "tool" and asked.tool in PICTURE_TOOLS


def annotate(turns: Turns) -> ScriptedReply | None:
    """Return the call of the text tool that is offered; none if there is none.

    Raises ``Problem`` for a text that is not its prompt.
    """
    offered = (str(function["name"]) for function in turns.tools.functions)
    tool = next((name for name in offered if name in TEXT_TOOLS), None)
    if tool is None:
        return None
    prompt = TEXT_TOOLS[tool]
    return ScriptedReply(calls=((tool, _RULES[prompt](variables_of(prompt, turns))),))


async def line_of(name: str, pictures: Sequence[Picture], asked: ModelRequest) -> ScriptedReply:
    """Return what the model ``name`` says or calls, where it fills in no sheet."""
    turns = asked.turns
    if name == ANNOTATOR and turns.tools.choice != "none":
        return annotate(turns) or await next_line(name, turns)
    if is_script(name):
        return await next_line(name, turns)
    if is_describing(asked):
        return await describe(name, pictures[-1], turns, asked)
    return await see(name, pictures, turns, asked)


async def see(
    name: str, pictures: Sequence[Picture], turns: Turns, asked: ModelRequest
) -> ScriptedReply:
    """Return the call of the tool with what the model ``name`` sees.

    Raises ``Problem`` if it fails, or for a text that is not the tool's prompt.
    """
    given: Mapping[str, str] | Problem = Problem.invalid(f"no prompt asks for {asked.tool}")
    for prompt in _LOOKING:
        if load_prompt(prompt).tool == asked.tool:
            try:
                given = variables_of(prompt, turns, last=True)
                break
            except Problem as problem:
                given = problem
    if isinstance(given, Problem):
        raise given
    (schema,) = (f["parameters"] for f in turns.tools.functions if f["name"] == asked.tool)

    async def ask(text: str, options: Mapping[str, str]) -> Judged:
        (found,) = await judge(name, pictures[-1], [Question(1, text, options)])
        return found

    return ScriptedReply(calls=((asked.tool, await _seen(schema, "", given, ask)),))


async def _seen(schema: Mapping[str, Any], field: str, given: Mapping[str, str], ask: Ask) -> Any:
    """Return a value of ``schema`` by what is asked; ``field``: the name it stands under."""
    if "predicate" in given and "enum" in schema:
        # A choice among all relations that the judges know.
        ends = tuple(SceneObject(id=at, name=_plain(given[at])) for at in ("subject", "object"))
        wanted = canonical_predicate(" ".join(listed(given["predicate"])).casefold())
        relation = Relation(source="subject", predicate=wanted, target="object")
        facts = _ASKED.facts(SceneGraph(objects=ends, relations=(relation,)))
        (fact,) = (fact for fact in facts if fact.kind == "relation")
        picked = await ask(fact.question, {one: one for one in fact.options})
        return "Yes" if picked.answer == wanted else "No"
    match schema.get("type"):
        case "object":
            return {
                key: await _seen(schema["properties"][key], key, given, ask)
                for key in schema["required"]
            }
        case "array" if "key_set" in given:
            keys = listed(given["key_set"])
            return [{"key": key, "value": await _value(key, given["label"], ask)} for key in keys]
        case "array":
            rows = _rows(given, "questions", lambda row: {"answer": str(row.get("question", ""))})
            for row in rows:
                # A question for a colour gets one; others are taken for yes/no questions.
                words = row["answer"].rstrip("?. ").split()
                row["answer"] = (
                    await _value("color", words[-1], ask)
                    if "color" in words
                    else (await ask(row["answer"], YES_NO)).answer
                )
            return rows
        case "integer" | "number" as kind:
            words = " ".join(listed(given.get("text") or given.get("category") or ""))
            said = await ask(f"Does the picture have realistic {field} of {words}?", YES_NO)
            share = dict(said.chances)["yes"]
            value = schema["minimum"] + share * (schema["maximum"] - schema["minimum"])
            return int(value + 0.5) if kind == "integer" else round(value, 2)
    return "none"


async def _value(key: str, label: str, ask: Ask) -> str:
    """Return the likeliest colour of a thing; the judges see no other attribute."""
    if "color" not in key.casefold():
        return UNKNOWN
    said = {color: await ask(f"Is the {_plain(label)} {color}?", YES_NO) for color in COLORS}
    best = max(COLORS, key=lambda color: dict(said[color].chances)["yes"])
    return best if said[best].answer == "yes" else UNKNOWN


def _plain(text: str) -> str:
    """Return a name as it is said: without the quotes of JSON and the number of an id."""
    return split_id(" ".join(listed(text)).rstrip("."))[0]

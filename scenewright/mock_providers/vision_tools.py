"""Tools of prompts that look at a picture: attributes, one relation, open answers, marks, realism.

The miniature judges say yes or no, or choose. Asked value by value and predicate by predicate, they
answer ``record_attributes``, ``record_verification`` and ``record_answers``; red and blue boxes on
the picture mark what a question is about.

They never learned realism: marks of 0 to 10 and ratings of objects are numbers that depend on
picture and question alone, the same each time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageStat
from scipy import ndimage

from scenewright.agents.parsers.tagging import is_animate
from scenewright.core.facts import Fact
from scenewright.core.formats.base import split_id
from scenewright.core.inflection import singular
from scenewright.core.layout import canonical_predicate
from scenewright.core.ports.judge import JudgeError
from scenewright.core.ports.vision import HIGHEST, LOWEST, Box, on_scale
from scenewright.core.questions import NO_RELATION, QuestionForm
from scenewright.core.scene import Attributes, Relation, SceneError, SceneGraph, SceneObject
from scenewright.core.vocabulary import DIRECTIONS, kind_of
from scenewright.mock_providers.box_relations import COLORS, KINDS, PREDICATES
from scenewright.mock_providers.models import INSTANTS, instant, judge
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.scripts import ScriptedReply
from scenewright.mock_providers.sheets import YES_NO, Question
from scenewright.mock_providers.turns import entries, listed, variables_of
from scenewright.mock_providers.wire import ModelRequest, Turns
from scenewright.prompts import load_prompt
from scenewright.runs.model_factory.profiles import judge_of
from scenewright.tools.vision.realism.judged import object_facts
from scenewright.tools.vision.realism.vlm import PROMPTS

_PURE = 190
_LEAST_PIECE = 4


@dataclass(frozen=True, slots=True)
class Marked:
    """A picture with two boxes."""

    image: Image.Image
    """Without the lines of the boxes: what was under them is as what is beside them."""
    red: Box
    """The subject's place, lines included."""
    blue: Box
    """The object's."""


def read_marks(image: Image.Image) -> Marked:
    """Return the red (255, 0, 0) and the blue (0, 0, 255) box on an RGB ``image``.

    JPEG may have dimmed the colours. Raises ``Problem`` where one is missing.
    """
    pixels = np.asarray(image).astype(np.int16)
    boxes: list[Box] = []
    drawn = np.zeros(pixels.shape[:2], dtype=bool)
    for channel, name in ((0, "red"), (2, "blue")):
        others = np.delete(pixels, channel, axis=2).max(axis=2)
        pure = pixels[:, :, channel] - others > _PURE
        found = _outline(pure)
        if found is None:
            raise Problem.invalid(f"the picture has no {name} box: draw its lines in pure {name}")
        boxes.append(found)
        drawn |= pure
    # Beside a line its colour has bled into the picture.
    lines = ndimage.binary_dilation(drawn, iterations=1)
    nearest = ndimage.distance_transform_edt(lines, return_distances=False, return_indices=True)
    whole = pixels[tuple(nearest)].astype(np.uint8)
    return Marked(Image.fromarray(whole), boxes[0], boxes[1])


def _outline(pure: NDArray[np.bool_]) -> Box | None:
    """Return the bounds of all pixels of the colour, specks left out.

    The lines of two boxes that cross leave one of them in pieces.
    """
    labels, count = ndimage.label(pure, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    kept = pure & (sizes[labels] >= _LEAST_PIECE)
    down, across = np.nonzero(kept.any(axis=1))[0], np.nonzero(kept.any(axis=0))[0]
    if not len(down):
        return None
    return float(across[0]), float(down[0]), float(across[-1] + 1), float(down[-1] + 1)


PROMPT_OF = {load_prompt(name).tool: name for name in ("rate_consistency", "rate_quality")}
"""Tool → its prompt."""
MARK_TOOLS = tuple(PROMPT_OF)
_QUESTIONS = {
    "consistency": 'Does this figure show "{text}"?',
    "naturalness": "Does the picture have a realistic shape and structure?",
    "artifacts": "Does the picture have a realistic texture, color and shade?",
}


async def graded(tool: str, name: str, picture: Picture, turns: Turns) -> dict[str, Any]:
    """Return the arguments of ``tool``, one of :data:`MARK_TOOLS`.

    Ten times the probability of a yes, rounded.

    Raises ``Problem`` for other words than those of its prompt, or if the model fails.
    """
    prompt = load_prompt(PROMPT_OF[tool])
    given = variables_of(prompt.id, turns)
    text = " ".join(listed(given["text"])) if "text" in given else ""
    highest = {
        key: form["maximum"]
        for key, form in (prompt.output or {})["properties"].items()
        if form["type"] == "integer"
    }
    questions = [
        Question(number, _QUESTIONS[key].replace("{text}", text), YES_NO)
        for number, key in enumerate(highest, start=1)
    ]
    said = await judge(name, picture, questions, True)
    chances = [dict(one.chances).get("yes", 0.0) for one in said]
    why = "; ".join(f"{key}: yes with {p:.2f}" for key, p in zip(highest, chances, strict=True))
    return {
        "reasoning": why,
        **{
            key: int(most * p + 0.5)
            for (key, most), p in zip(highest.items(), chances, strict=True)
        },
    }


RATING_TOOL = load_prompt(PROMPTS["base"]).tool
_KEYS = {"shape": "shape", "texture": "texture", "joint": "overall"}


async def object_rating(name: str, picture: Picture, turns: Turns) -> dict[str, Any]:
    """Return the tool's arguments for the object asked about last, shown in ``picture``.

    Whole numbers for the Likert question, decimals and a word on faults for the freer one. Raises
    ``Problem`` for a text that is not one of these prompts, or if the model fails.
    """
    wording, given = _asked_object(turns)
    category = " ".join(listed(given["category"]))
    try:
        facts = object_facts(category)
    except SceneError as error:
        raise Problem.invalid(f"the object: {error}") from error
    questions = [
        Question(number, fact.question, YES_NO) for number, fact in enumerate(facts, start=1)
    ]
    scores = {
        _KEYS[str(fact.key)]: on_scale(dict(said.chances).get("yes", 0.0))
        for fact, said in zip(facts, await judge(name, picture, questions, True), strict=True)
    }
    if wording == "base":
        return {key: int(score + 0.5) for key, score in scores.items()}
    middle = (LOWEST + HIGHEST) / 2
    wrong = [key for key, score in scores.items() if score < middle and key != "overall"]
    faults = f"The {' and the '.join(wrong)} looks wrong." if wrong else "none"
    return {"faults": faults, **{key: round(score, 2) for key, score in scores.items()}}


def _asked_object(turns: Turns) -> tuple[str, Mapping[str, str]]:
    """Return the wording and the variables of the last question; earlier ones are examples."""
    for wording, prompt in PROMPTS.items():
        try:
            return wording, variables_of(prompt, turns, last=True)
        except Problem:
            continue
    raise Problem.invalid(
        f"no user message is one of the prompts {', '.join(PROMPTS.values())}: the mock knows no "
        "other words"
    )


ATTRIBUTES_PROMPT = "extract_attributes"
ATTRIBUTES_TOOL = load_prompt(ATTRIBUTES_PROMPT).tool
VERIFICATION_PROMPT = "verify_relation"
VERIFICATION_TOOL = load_prompt(VERIFICATION_PROMPT).tool
ANSWERS_PROMPT = "answer_questions"
ANSWERS_TOOL = load_prompt(ANSWERS_PROMPT).tool
TOOLS = (
    *(ATTRIBUTES_TOOL, VERIFICATION_TOOL, ANSWERS_TOOL, RATING_TOOL),
    *MARK_TOOLS,
)
UNKNOWN = "unknown"
"""Value of a key that cannot be seen."""
CANNOT_TELL = "I cannot tell"
"""Answer to a question of no known form."""
_SURE = 0.5
_ASKED = QuestionForm(predicates="miniature")
"""The mock server's judges are the miniature's."""
_SIDE = 128
_THING = 36
_SAME = 16
_COLOR_KEY = re.compile(r"colou?r", re.IGNORECASE)
_COLOR_OF = re.compile(r"colou?r (?:is|of|does) (?P<thing>[^?]+)", re.IGNORECASE)
_BETWEEN = re.compile(
    r"relation(?:ship)? (?:between|of) (?P<source>.+?) (?:and|to|with) (?P<target>[^?]+)"
    r"|position of (?P<placed>.+?) relative to (?P<mark>[^?]+)"
    r"|what (?:is|are) (?P<doer>.+?) doing with (?P<used>[^?]+)",
    re.IGNORECASE,
)
_OBJECT_THAT = re.compile(r"\b(?:which|what) (?:object|thing)s?\b(?P<said>[^?]+)", re.IGNORECASE)
_DONE_WITH = tuple(p for p in PREDICATES if kind_of(p) != "spatial")


def is_seeing(asked: ModelRequest) -> bool:
    """Whether a request wants one of the tools that :func:`see` answers."""
    return asked.form == "tool" and asked.tool in TOOLS


async def see(
    name: str, pictures: Sequence[Picture], turns: Turns, asked: ModelRequest
) -> ScriptedReply:
    """Return the call of the tool with what the model ``name`` sees.

    Raises ``Problem`` if it fails.
    """
    if asked.tool == ATTRIBUTES_TOOL:
        said = await _attributes(name, pictures[0], variables_of(ATTRIBUTES_PROMPT, turns))
    elif asked.tool == VERIFICATION_TOOL:
        said = await _verified(name, pictures[0], variables_of(VERIFICATION_PROMPT, turns))
    elif asked.tool == RATING_TOOL:
        said = await object_rating(name, pictures[-1], turns)
    elif asked.tool in MARK_TOOLS:
        said = await graded(asked.tool, name, pictures[0], turns)
    else:
        given = variables_of(ANSWERS_PROMPT, turns)
        said = await _answers(name, pictures[0], entries(given["questions"]))
    return ScriptedReply(calls=((asked.tool, said),))


async def _attributes(name: str, crop: Picture, given: dict[str, str]) -> dict[str, Any]:
    """Colours by the detail crop alone; the models know no other attribute."""
    keys, label = listed(given["key_set"]), " ".join(listed(given["label"])).rstrip(".")
    colored = [key for key in keys if _COLOR_KEY.search(key)]
    kind = _kind(label)
    value, why = UNKNOWN, f"I know no {label}."
    if colored and (kind is not None or name in INSTANTS):
        seen = None if name in INSTANTS else _set_back(await asyncio.to_thread(crop.decoded))
        color, chance = await _color(name, crop, seen, kind or label)
        value = color if chance > _SURE else UNKNOWN
        why = f"The {label} is most likely {color} ({chance:.2f})."
    rest = [key for key in keys if key not in colored]
    why += f" I cannot see {', '.join(rest)}." if rest else ""
    return {
        "reasoning": why,
        "attributes": [{"key": k, "value": value if k in colored else UNKNOWN} for k in keys],
    }


def _set_back(crop: Image.Image) -> Image.Image:
    """Return a crop as a thing of the usual size in a plain picture, which the models know.

    The plain colour is that of the crop's rim, once a plain border is cut off.
    """
    plain = Image.new("RGB", crop.size, crop.getpixel((0, 0)))
    inner = ImageChops.difference(crop, plain).convert("L").point(lambda v: 255 * (v > _SAME))
    crop = crop.crop(inner.getbbox() or (0, 0, *crop.size))
    scale = _THING / max(crop.size)
    width, height = (max(1, round(side * scale)) for side in crop.size)
    shown = crop.resize((width, height))
    rim = Image.new("L", shown.size, 255)
    rim.paste(0, (2, 2, max(2, shown.width - 2), max(2, shown.height - 2)))
    colour = tuple(int(value) for value in ImageStat.Stat(shown, rim).median)
    found = Image.new("RGB", (_SIDE, _SIDE), colour)
    found.paste(shown, ((_SIDE - shown.width) // 2, (_SIDE - shown.height) // 2))
    return found


async def _verified(name: str, picture: Picture, given: dict[str, str]) -> dict[str, Any]:
    """Return the verification of one relation.

    Two ends of one kind, which no question can distinguish, are compared by their boxes: directions
    alone.
    """
    subject, object_ = (_kind(_plain(given[end])) for end in ("subject", "object"))
    predicate = canonical_predicate(" ".join(listed(given["predicate"])).casefold())
    holds = False
    marks = read_marks(await asyncio.to_thread(picture.decoded))
    if name in INSTANTS or None not in (subject, object_):
        ends = (subject or _plain(given["subject"]), object_ or _plain(given["object"]))
        if predicate not in (*PREDICATES, "near") and name not in INSTANTS:
            holds = False
        elif ends[0] == ends[1]:
            holds = predicate == _direction(marks.red, marks.blue)
        else:
            fact = _relation_fact(*ends, predicate)
            ((choice, _),) = await _asked(name, picture, marks.image, [fact])
            holds = choice == predicate
    return {"answer": "Yes" if holds else "No"}


async def _answers(
    name: str, picture: Picture, questions: Sequence[Any]
) -> dict[str, list[dict[str, Any]]]:
    answered = []
    for entry in questions:
        number = entry.get("number")
        if not isinstance(number, int):
            continue
        text = str(entry.get("question", ""))
        answered.append({"number": number, "answer": await _answer(name, picture, text)})
    return {"answers": answered}


async def _answer(name: str, picture: Picture, question: str) -> str:
    text = " ".join(question.split())
    if match := _BETWEEN.search(text):
        source, target = (part for part in match.groups() if part is not None)
        possible: Sequence[str] = PREDICATES
        if match["doer"]:
            possible = _DONE_WITH
        elif match["placed"]:
            possible = tuple(p for p in PREDICATES if p not in _DONE_WITH)
        return await _relation(name, picture, (source, target), possible)
    if match := _COLOR_OF.search(text):
        kind = _kind(match["thing"])
        return CANNOT_TELL if kind is None else (await _color(name, picture, None, kind))[0]
    if match := _OBJECT_THAT.search(text):
        colors = _colors(match["said"])
        if len(colors) == 1:
            return await _thing(name, picture, colors[0])
    return CANNOT_TELL


async def _color(
    name: str, picture: Picture, image: Image.Image | None, kind: str
) -> tuple[str, float]:
    """Return the likeliest colour of the thing, and how likely it is."""
    facts = [_facts(_alone(kind, color), "attribute")[0] for color in COLORS]
    chances = [chance for _, chance in await _asked(name, picture, image, facts)]
    best = max(range(len(COLORS)), key=chances.__getitem__)
    return COLORS[best], chances[best]


async def _thing(name: str, picture: Picture, color: str) -> str:
    """Of the things that are there, the one that is likeliest ``color``."""
    there = [_facts(_alone(kind), "object")[0] for kind in KINDS]
    colored = [_facts(_alone(kind, color), "attribute")[0] for kind in KINDS]
    said = await _asked(name, picture, None, [*there, *colored])
    both = [said[at][1] * said[at + len(KINDS)][1] for at in range(len(KINDS))]
    best = max(range(len(KINDS)), key=both.__getitem__)
    return KINDS[best] if both[best] > _SURE**2 else CANNOT_TELL


async def _relation(
    name: str, picture: Picture, phrases: tuple[str, str], among: Sequence[str]
) -> str:
    """Return the likeliest of the predicates; one of contact says more than a direction."""
    kinds = [_kind(phrase) for phrase in phrases]
    source, target = kinds
    said = [" ".join([*_colors(p)[:1], k or ""]) for p, k in zip(phrases, kinds, strict=True)]
    if source is None or target is None or said[0] == said[1]:
        return CANNOT_TELL
    question = f"What is the relationship between the {said[0]} and the {said[1]} in the image?"
    possible = [p for p in among if is_animate(source) or p not in _DONE_WITH]
    facts = [
        _relation_fact(source, target, predicate).model_copy(update={"question": question})
        for predicate in possible
    ]
    chances = dict(zip(possible, await _asked(name, picture, None, facts), strict=True))
    for directions in (False, True):
        chosen = {
            p: chance
            for p, (_, chance) in chances.items()
            if (p in DIRECTIONS) is directions and chance > _SURE
        }
        if chosen:
            return max(chosen, key=chosen.__getitem__)
    return NO_RELATION


async def _asked(
    name: str, picture: Picture, image: Image.Image | None, facts: Sequence[Fact]
) -> list[tuple[str, float]]:
    """Return the model's choice for each fact, and the probability of the expected one.

    ``image`` replaces the picture.
    """
    if name in INSTANTS:
        return [_instant(picture, fact) for fact in facts]
    try:
        judge = await asyncio.to_thread(judge_of, f"local:miniature/{name}")
        seen = image if image is not None else await asyncio.to_thread(picture.decoded)
        answers = await judge.answer(seen, facts)
    except JudgeError as error:
        raise Problem("server", 500, str(error)) from error
    if all(answer.choice is None for answer in answers):
        raise Problem("server", 500, "the model answered no question about the picture")
    return [(answer.choice or "", answer.probability or 0.0) for answer in answers]


def _instant(picture: Picture, fact: Fact) -> tuple[str, float]:
    options = YES_NO if fact.is_binary else dict(zip("ABCDEFGH", fact.options, strict=False))
    said = instant(picture.digest, Question(1, fact.question, options))
    chances = {options[key]: chance for key, chance in said.chances}
    return options[said.answer], chances.get(fact.expected, 0.0)


def _alone(kind: str, color: str = "") -> SceneGraph:
    attributes = Attributes({"color": color} if color else {})
    return SceneGraph(objects=(SceneObject(id=f"{kind}.1", name=kind, attributes=attributes),))


def _facts(scene: SceneGraph, kind: str) -> list[Fact]:
    """Facts of one kind, asked whatever their parents are."""
    found = [fact for fact in _ASKED.facts(scene) if fact.kind == kind]
    # One scene asks for one value of a thing; here every value is asked.
    return [f.model_copy(update={"parents": (), "id": f"{f.id}={f.value}"}) for f in found]


def _relation_fact(source: str, target: str, predicate: str) -> Fact:
    ends = zip(("source", "target"), (source, target), strict=True)
    objects = tuple(SceneObject(id=end, name=kind) for end, kind in ends)
    relation = Relation(source="source", predicate=predicate, target="target")
    (fact,) = _facts(SceneGraph(objects=objects, relations=(relation,)), "relation")
    return fact


def _plain(text: str) -> str:
    """Return a name as it is said: without the quotes of JSON and the number of an id."""
    return split_id(" ".join(listed(text)).rstrip("."))[0]


def _kind(phrase: str) -> str | None:
    """Return the last word of a phrase that names a kind the models know."""
    for word in reversed(re.findall(r"[a-z]+", phrase.casefold())):
        if singular(word) in KINDS:
            return singular(word)
    return None


def _colors(phrase: str) -> list[str]:
    """Return the colours that a phrase names."""
    words = re.findall(r"[a-z]+", phrase.casefold())
    return [color for color in COLORS if color in words]


def _direction(red: Box, blue: Box) -> str:
    """Where the red box lies of the blue one, by the clearer axis of their middles."""
    across = (red[0] + red[2] - blue[0] - blue[2]) / 2
    down = (red[1] + red[3] - blue[1] - blue[3]) / 2
    if abs(across) >= abs(down):
        return "left of" if across < 0 else "right of"
    return "above" if down < 0 else "below"

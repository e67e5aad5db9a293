"""The tools about texts alone that scene graph evaluation asks for, answered by rules.

``record_scores``, ``record_prompt``, ``record_challenges``, ``record_schema``, and those of
:mod:`scenewright.mock_providers.text_tools`.

The tool of REAL that reads a text (prompt ``real_schema``), answered by rules.

The tools of TIFA and DSG that make questions of a text, answered by the rules that read
captions.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from scenewright.agents.composers.rules import SAID, word
from scenewright.agents.parsers.classes import CHALLENGES, classify
from scenewright.agents.parsers.rules import read_caption
from scenewright.core.formats import loads_scene
from scenewright.core.formats.published_questions import NUMBERS, TYPES, Proposition, read_tuple
from scenewright.core.inflection import plural, singular
from scenewright.core.layout import canonical_predicate
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import entries, listed, variables_of
from scenewright.mock_providers.wire import Turns
from scenewright.prompts import load_prompt

PROMPT = "real_schema"
SCHEMA_TOOL = load_prompt(PROMPT).tool
_IS = re.compile(
    r"\b(?:the|its|their|an?)\s+(?P<part>[a-z][a-z -]{1,30}?)\s+(?:is|are|can be)\s+"
    r"(?P<description>[a-z][^.;:,()]{1,60})",
    re.IGNORECASE,
)
_HAS = re.compile(
    r"\b(?:has|have|with)\s+(?:an?\s+)?(?P<description>[a-z]+(?:-[a-z]+)*(?:\s+and\s+[a-z]+)?)\s+"
    r"(?P<part>[a-z]+)\b",
    re.IGNORECASE,
)


def schema_of(turns: Turns) -> dict[str, Any]:
    """Return the schema in the "the PART is DESCRIPTION" and "has a DESCRIPTION PART" of a prompt.

    Raises ``Problem`` for a text that is not the prompt.
    """
    text = " ".join(listed(variables_of(PROMPT, turns)["text"]))
    found = sorted((*_IS.finditer(text), *_HAS.finditer(text)), key=lambda match: match.start())
    return {
        "attributes": [
            {
                "part": " ".join(match["part"].lower().split()),
                "description": " ".join(match["description"].split()),
                "quote": match[0],
            }
            for match in found
        ]
    }


PROMPT_OF = {
    load_prompt(name).tool: name
    for name in (
        *("tifa_questions", "tifa_filter", "tifa_open"),
        *("dsg_tuples", "dsg_dependencies", "dsg_questions"),
    )
}
"""Tool → its prompt."""
QUESTION_TOOLS = tuple(PROMPT_OF)
UNKNOWN = "unknown"
_COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown")
_SILENT_QUESTIONS = frozenset(
    {"is", "are", "there", "the", "a", "an", "what", "how", "many", "do", "does", "you", "see"}
)


def questions_answered(tool: str, turns: Turns) -> dict[str, Any]:
    """Return the arguments of ``tool``, one of :data:`QUESTION_TOOLS`.

    Raises ``Problem`` for a text that is not its prompt.
    """
    prompt = PROMPT_OF[tool]
    given = variables_of(prompt, turns)
    text = " ".join(listed(given["text"]))
    if prompt == "tifa_questions":
        return {"questions": _questions(_scene(text))}
    if prompt == "tifa_filter":
        rows = [row for row in entries(given["questions"]) if isinstance(row.get("number"), int)]
        return {
            "answers": [{"number": row["number"], "choice": _choice(row, text)} for row in rows]
        }
    if prompt == "tifa_open":
        rows = [row for row in entries(given["questions"]) if isinstance(row.get("number"), int)]
        return {"answers": [{"number": row["number"], "answer": _free(row, text)} for row in rows]}
    if prompt == "dsg_tuples":
        return {"tuples": _tuples(_scene(text))}
    tuples = _read(entries(given["tuples"]))
    if prompt == "dsg_dependencies":
        return {
            "dependencies": [
                {"id": number, "parents": _parents(number, tuples)} for number in tuples
            ]
        }
    return {
        "questions": [{"id": number, "question": _asking(said)} for number, said in tuples.items()]
    }


def _scene(text: str) -> SceneGraph | None:
    try:
        return read_caption(text).scene
    except SceneError:
        return None


def _questions(scene: SceneGraph | None) -> list[dict[str, Any]]:
    if scene is None:
        return []
    found: list[dict[str, Any]] = []

    def add(element: str, kind: str, question: str, choices: list[str], answer: str) -> None:
        found.append(
            {
                "element": element,
                "type": kind,
                "question": question,
                "choices": choices,
                "answer": answer,
            }
        )

    for name, n in Counter(item.name for item in scene.objects).items():
        add(name, "object", f"Is there a {name}?", ["yes", "no"], "yes")
        if n in (2, 3, 4):
            counts = ["1", "2", "3", "4"]
            add(name, "counting", f"How many {plural(name)} are there?", counts, str(n))
    for item in scene.objects:
        for key, value in item.attributes.items():
            if value in _COLOURS:
                others = [colour for colour in _COLOURS if colour != value][:3]
                asked = f"What color is the {item.name}?"
                add(value, "color", asked, [value, *others], value)
            else:
                kind = key if key in TYPES else "attribute"
                add(value, kind, f"Is the {item.name} {value}?", ["yes", "no"], "yes")
    names = {item.id: item.name for item in scene.objects}
    for one in scene.relations:
        asked = f"Is the {names[one.source]} {one.predicate} the {names[one.target]}?"
        add(one.predicate, "spatial", asked, ["yes", "no"], "yes")
    # Two things of one name ask alike.
    return list({row["question"]: row for row in found}.values())


def _choice(row: dict[str, Any] | Any, text: str) -> str:
    choices = [str(one) for one in row.get("choices") or ()]
    said, asked = _words(text), _words(str(row.get("question", "")))
    if set(choices) == {"yes", "no"}:
        return "yes" if set(asked) - _SILENT_QUESTIONS <= set(said) else "no"
    there = [one for one in choices if set(_words(one)) <= set(said)]
    # What a text says of a thing stands before it.
    telling = [word for word in asked if word in said and word not in _SILENT_QUESTIONS]
    place = max(map(said.index, telling), default=len(said))
    before = [one for one in there if said.index(_words(one)[0]) < place]
    near = before or there
    return max(near, key=lambda one: said.index(_words(one)[0])) if near else UNKNOWN


def _free(row: dict[str, Any] | Any, text: str) -> str:
    asked = _words(str(row.get("question", "")))
    choices = list(NUMBERS.values()) if "how" in asked else [*_COLOURS]
    return _choice({**row, "choices": choices}, text)


def _tuples(scene: SceneGraph | None) -> list[dict[str, Any]]:
    if scene is None:
        return []
    rows: dict[tuple[str, ...], None] = {}
    counted = Counter(item.name for item in scene.objects)
    for name in counted:
        rows["entity", "whole", name] = None
    for name, n in counted.items():
        if n > 1:
            rows["other", "count", name, f"=={n}"] = None
    for item in scene.objects:
        for key, value in item.attributes.items():
            rows["attribute", key, item.name, value] = None
    names = {item.id: item.name for item in scene.objects}
    for one in scene.relations:
        ends = names[one.source], names[one.target], one.predicate
        rows["relation", "spatial", *ends] = None
    return [
        {"id": number, "category": row[0], "kind": row[1], "arguments": list(row[2:])}
        for number, row in enumerate(rows, start=1)
    ]


def _read(rows: Any) -> dict[int, Proposition]:
    found = {}
    for row in rows:
        said = read_tuple(str(row.get("tuple", "")))
        if said is None or not isinstance(row.get("id"), int):
            raise Problem.invalid(f"the tuple {row} cannot be read")
        found[row["id"]] = said
    return found


def _parents(number: int, tuples: dict[int, Proposition]) -> list[int]:
    mine = tuples[number]
    if mine.broad == "entity":
        return []
    return [
        other
        for other, said in tuples.items()
        if said.broad == "entity" and said.parts[0] in mine.parts[:2]
    ]


def _asking(said: Proposition) -> str:
    first, last = said.parts[0], said.parts[-1]
    if said.broad == "entity":
        return f"Is there a {first}?"
    if said.kind == "count":
        return f"Are there {last.lstrip('=')} {plural(first)}?"
    if len(said.parts) > 2:
        return f"Is the {first} {last} the {said.parts[1]}?"
    return f"Is the {first} {last}?"


def _words(text: str) -> list[str]:
    found = re.findall(r"[a-z0-9]+", text.casefold())
    return [NUMBERS.get(word, singular(word)) for word in found]


SCORES_PROMPT = "score_answers"
SCORES_TOOL = load_prompt(SCORES_PROMPT).tool
WRITING_PROMPT = "synthesize_prompt"
WRITING_TOOL = load_prompt(WRITING_PROMPT).tool
CLASSES_PROMPT = "classify_challenges"
CLASSES_TOOL = load_prompt(CLASSES_PROMPT).tool
TOOLS = (SCORES_TOOL, WRITING_TOOL, CLASSES_TOOL, SCHEMA_TOOL, *QUESTION_TOOLS)
MOST = 5
"""Highest score."""
_SILENT = frozenset({"a", "an", "the", "is", "are", "it", "of", "in", "to", "and", "object"})
_EXPECTED = ("gt_answer", "expected", "answer")
_GIVEN = ("pred_answer", "given", "prediction")


def answered(tool: str, turns: Turns) -> dict[str, Any]:
    """Return the arguments of ``tool``, one of :data:`TOOLS`.

    Raises ``Problem`` for words that are not those of its prompt.
    """
    if tool == SCORES_TOOL:
        pairs = entries(variables_of(SCORES_PROMPT, turns)["pairs"])
        scores = [
            {"number": row["number"], "score": score(_first(row, _EXPECTED), _first(row, _GIVEN))}
            for row in pairs
            if isinstance(row.get("number"), int)
        ]
        return {"scores": scores}
    if tool == SCHEMA_TOOL:
        return schema_of(turns)
    if tool in QUESTION_TOOLS:
        return questions_answered(tool, turns)
    if tool == WRITING_TOOL:
        return {"prompt": _prompt(variables_of(WRITING_PROMPT, turns))}
    rows = entries(variables_of(CLASSES_PROMPT, turns)["prompts"])
    return {
        "classes": [
            {
                "number": row["number"],
                "category": (found := classify(str(row.get("prompt", "")))).category,
                "challenge": found.challenge,
            }
            for row in rows
            if isinstance(row.get("number"), int)
        ]
    }


def score(expected: str, given: str) -> int:
    """0 to 5: 5 for the same words (or predicates of one meaning), else five times their F1."""
    if _plain(expected) == _plain(given):
        return MOST
    one, other = _bag(expected), _bag(given)
    shared = sum((one & other).values())
    if not shared:
        return 0
    # Other words beside the right ones are no full answer.
    return min(MOST - 1, round(MOST * 2 * shared / (one.total() + other.total())))


def _plain(text: str) -> str:
    words = " ".join(re.findall(r"[\w'-]+", text.casefold()))
    return canonical_predicate(words)


def _bag(text: str) -> Counter[str]:
    words = (singular(word) for word in re.findall(r"[\w'-]+", text.casefold()))
    return Counter(word for word in words if word not in _SILENT)


def _first(row: Any, keys: tuple[str, ...]) -> str:
    return next((str(row[key]) for key in keys if row.get(key) is not None), "")


def _prompt(given: dict[str, str]) -> str:
    """All facts of the scene graph in words, and what the challenge asks for."""
    try:
        scene = loads_scene(given["template"])
        challenge = next((name for name in CHALLENGES if name in given["challenge"]), "NONE")
        return word(scene, SAID.get(challenge, [""])[0])
    except (SceneError, ValueError) as error:
        raise Problem.invalid(f"the scene graph of the prompt cannot be read: {error}") from error

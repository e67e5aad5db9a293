"""The tools of TIFA and DSG that make questions of a text, answered by the rules that read
captions."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.formats.dsg_tuples import Proposition, read_tuple
from scenewright.core.formats.tifa import NUMBERS, TYPES
from scenewright.core.plurals import plural, singular
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.prompt_variables import entries, listed, variables_of
from scenewright.mock_providers.turns import Turns
from scenewright.prompts import load_prompt

PROMPT_OF = {
    load_prompt(name).tool: name
    for name in (
        *("tifa_questions", "tifa_filter", "tifa_open"),
        *("dsg_tuples", "dsg_dependencies", "dsg_questions"),
    )
}
"""Tool → its prompt."""
TOOLS = tuple(PROMPT_OF)
UNKNOWN = "unknown"
_COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown")
_SILENT = frozenset(
    {"is", "are", "there", "the", "a", "an", "what", "how", "many", "do", "does", "you", "see"}
)


def answered(tool: str, turns: Turns) -> dict[str, Any]:
    """The arguments of ``tool``, one of :data:`TOOLS`; raises ``Problem`` for words that are not
    those of its prompt."""
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
        return parse_caption(text)
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
        return "yes" if set(asked) - _SILENT <= set(said) else "no"
    there = [one for one in choices if set(_words(one)) <= set(said)]
    # What a text says of a thing stands before it.
    place = max((said.index(word) for word in asked if word in said and word not in _SILENT),
                default=len(said))  # fmt: skip
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

"""The tools about texts alone that scene graph evaluation asks for, answered by rules:
``record_scores``, ``record_prompt``, ``record_challenges``, ``record_schema``, and those of
:mod:`scenewright.mock_providers.questioning`."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from scenewright.agents.composers.wording import SAID, word
from scenewright.agents.parsers.prompt_classes import CHALLENGES, classify
from scenewright.core.formats import loads_scene
from scenewright.core.placement import canonical_predicate
from scenewright.core.plurals import singular
from scenewright.core.scene import SceneError
from scenewright.mock_providers import questioning
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.prompt_variables import entries, variables_of
from scenewright.mock_providers.schemas import SCHEMA_TOOL, schema_of
from scenewright.mock_providers.turns import Turns
from scenewright.prompts import load_prompt

SCORES_PROMPT = "score_answers"
SCORES_TOOL = load_prompt(SCORES_PROMPT).tool
WRITING_PROMPT = "synthesize_prompt"
WRITING_TOOL = load_prompt(WRITING_PROMPT).tool
CLASSES_PROMPT = "classify_challenges"
CLASSES_TOOL = load_prompt(CLASSES_PROMPT).tool
TOOLS = (SCORES_TOOL, WRITING_TOOL, CLASSES_TOOL, SCHEMA_TOOL, *questioning.TOOLS)
MOST = 5
"""Highest score."""
_SILENT = frozenset({"a", "an", "the", "is", "are", "it", "of", "in", "to", "and", "object"})
_EXPECTED = ("gt_answer", "expected", "answer")
_GIVEN = ("pred_answer", "given", "prediction")


def answered(tool: str, turns: Turns) -> dict[str, Any]:
    """The arguments of ``tool``, one of :data:`TOOLS`; raises ``Problem`` for words that are not
    those of its prompt."""
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
    if tool in questioning.TOOLS:
        return questioning.answered(tool, turns)
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

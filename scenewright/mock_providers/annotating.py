"""``script:annotator``: the tools of dataset building that need no picture, answered by rules.

So are those of :mod:`scenewright.mock_providers.text_tools`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import HumanMessage

from scenewright.agents.parsers.scene_classes import diversity
from scenewright.core.formats.megasg import read
from scenewright.core.placement import canonical_predicate
from scenewright.core.scene import SceneError
from scenewright.mock_providers import text_tools as texts
from scenewright.mock_providers.turns import Turns
from scenewright.mock_providers.wire import ModelRequest
from scenewright.prompts import load_prompt

ANNOTATOR = "script:annotator"
"""Name of the script; of a judge's stand-in it answers these tools."""
_TOOLS = SYNONYMS_TOOL, CLASSES_TOOL, ATTRIBUTES_TOOL = tuple(
    load_prompt(name).tool
    for name in ("merge_synonyms", "classify_diversity", "augment_attributes")
)
_QUALITIES = ("red", "small", "wooden", "large", "blue", "old", "white", "shiny", "striped")


def is_annotating(asked: ModelRequest) -> bool:
    """Whether a request wants one of the tools that :func:`annotate` answers."""
    return asked.form == "tool" and asked.tool in (*_TOOLS, *texts.TOOLS) and not asked.images


def annotate(turns: Turns) -> tuple[str, dict[str, Any]] | None:
    """The call of the tool among those offered that it knows; none if there is none.

    Predicates of one meaning go by the planner's table, classes of scenes by the rules of
    :mod:`scenewright.agents.parsers.scene_classes`, attributes by a hash of the category. Raises
    ``Problem`` for a tool of :mod:`scenewright.mock_providers.text_tools` without its prompt.
    """
    names = [str(function["name"]) for function in turns.tools.functions]
    tool = next((name for name in names if name in (*_TOOLS, *texts.TOOLS)), None)
    if tool is None:
        return None
    if tool in texts.TOOLS:
        return tool, texts.answered(tool, turns)
    shown = next(
        (
            found
            for message in turns.messages
            if isinstance(message, HumanMessage)
            and (found := _list_in(str(message.text), last=tool == ATTRIBUTES_TOOL))
        ),
        [],
    )
    if tool == SYNONYMS_TOOL:
        return tool, {"synonyms": _synonyms([str(word) for word in shown])}
    if tool == CLASSES_TOOL:
        return tool, {"images": [_classed(entry) for entry in shown if isinstance(entry, dict)]}
    return tool, {"instances": [_instances(str(name)) for name in shown]}


def _synonyms(words: list[str]) -> list[dict[str, str]]:
    known = set(words)
    return [
        {"predicate": word, "means": meant}
        for word in words
        if (meant := canonical_predicate(word)) != word and meant in known
    ]


def _classed(entry: Mapping[str, Any]) -> dict[str, str]:
    try:
        scene = read({k: v for k, v in entry.items() if k in ("objects", "relationships")}, "")
        first, second = diversity(scene)
    except SceneError:
        first, second = "Non-People-Centric", "Objects"
    return {
        "image_id": str(entry.get("image_id", "")),
        "file_name": str(entry.get("file_name", "")),
        "level 1": first,
        "level 2": second,
    }


def _instances(category: str) -> dict[str, Any]:
    start = hashlib.sha256(category.encode()).digest()[0]
    words = [_QUALITIES[(start + step) % len(_QUALITIES)] for step in range(3)]
    return {"category": category, "instances": [f"{word} {category}" for word in words]}


def _list_in(text: str, last: bool) -> list[Any]:
    """The longest JSON list in ``text``, or the ``last``: behind the examples of a prompt."""
    decoder, best, at = json.JSONDecoder(), list[Any](), text.find("[")
    longest = 0
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(found, list) and (last or end - at > longest):
                best, longest = found, end - at
        at = text.find("[", end)
    return best

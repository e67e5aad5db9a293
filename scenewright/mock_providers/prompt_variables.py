"""What was put into a prompt: its variables, read back from the text of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from langchain_core.messages import HumanMessage

from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import Turns
from scenewright.prompts import load_prompt

_STRING = r'"(?:[^"\\]|\\.)*"'
_VARIABLE = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def variables_of(prompt_id: str, turns: Turns, *, last: bool = False) -> dict[str, str]:
    """Variable → what stands in its place, of the first user message that is ``prompt_id``, or of
    the ``last`` one, where earlier ones are examples.

    Later messages may say what was wrong with a reply. Raises ``Problem`` if no message is that
    prompt, word for word.
    """
    form = _form(prompt_id)
    for message in reversed(turns.messages) if last else turns.messages:
        if isinstance(message, HumanMessage) and (found := form.search(str(message.text))):
            return {name: text.strip() for name, text in found.groupdict().items()}
    raise Problem.invalid(
        f"no user message is the prompt {prompt_id}: the lab knows no other words"
    )


@lru_cache(maxsize=16)
def _form(prompt_id: str) -> re.Pattern[str]:
    """The prompt's text, each variable a named group."""
    pieces = _VARIABLE.split(load_prompt(prompt_id).text)
    seen: set[str] = set()
    made = ""
    for at, piece in enumerate(pieces):
        if at % 2 == 0:
            # Providers' formats and callers may break lines elsewhere.
            made += r"\s+".join(re.escape(word) for word in re.split(r"\s+", piece))
        else:
            # A JSON string is one value, whatever spaces and words are in it.
            made += rf"(?P={piece})" if piece in seen else rf"(?P<{piece}>{_STRING}|.*?)"
            seen.add(piece)
    return re.compile(made + r"\s*\Z", re.DOTALL)


def listed(text: str) -> list[str]:
    """The words of a list in a prompt: JSON, or divided by commas."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        parts = text.strip("[](){} ").split(",")
        return [word for part in parts if (word := part.strip().strip("\"'`"))]
    return [str(one) for one in found] if isinstance(found, list) else [str(found)]


def entries(text: str) -> list[Mapping[str, Any]]:
    """The objects of a JSON list; raises ``Problem`` if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise Problem.invalid("the numbered list of the prompt is no JSON list")
    return [entry for entry in found if isinstance(entry, dict)]

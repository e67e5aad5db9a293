"""The tool of REAL that reads a text (prompt ``real_schema``), answered by rules."""

from __future__ import annotations

import re
from typing import Any

from scenewright.mock_providers.prompt_variables import listed, variables_of
from scenewright.mock_providers.turns import Turns
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
    """What "the PART is DESCRIPTION" and "has a DESCRIPTION PART" say in the prompt's text.

    Raises ``Problem`` for words that are not those of the prompt.
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

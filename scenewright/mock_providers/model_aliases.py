"""Which of the lab's models answers for a provider's own, so that a profile runs as it is."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

JUDGES: Mapping[str, str] = {
    "gpt-4.1": "script:director",
    "gpt-*-terra*": "script:director",
    "gpt-6-luna*": "judge-b",
    "gemini-decision-*": "judge-a",
    "gpt-[0-9]*-mini*": "judge-a",
    "gpt-4o*": "judge-b",
    "gpt-[0-9]*": "judge-c",
    "gemini-*-flash-lite*": "judge-b",
    "gemini-*-flash*": "judge-a",
    "gemini-[0-9]*": "judge-c",
    "claude-*haiku*": "judge-a",
    "claude-*sonnet*": "judge-b",
    "claude-*-[0-9]*": "judge-c",
}
"""Pattern of a name → the model that looks at images for it."""
GENERATORS: Mapping[str, str] = {
    "gpt-image-*": "miniature",
    "chatgpt-image-*": "miniature",
    "dall-e-*": "miniature",
    "gemini-*-image*": "miniature",
}
"""Pattern of a name → the model that draws for it."""


def model_alias(name: str, among: Mapping[str, str]) -> str | None:
    """The first of ``among`` whose pattern fits ``name``; none if there is no such pattern."""
    fitting = (own for pattern, own in among.items() if fnmatch.fnmatchcase(name, pattern))
    return next(fitting, None)

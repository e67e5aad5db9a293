"""Points that a model of the lab gives a picture, REAL's baseline (prompt ``real_direct``)."""

from __future__ import annotations

import re
from typing import Any

from scenewright.mock_providers.models import judge
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.prompt_variables import variables_of
from scenewright.mock_providers.sheets import YES_NO, Question
from scenewright.mock_providers.turns import Turns
from scenewright.prompts import load_prompt

PROMPT = "real_direct"
POINTS_TOOL = load_prompt(PROMPT).tool


async def realism_of(name: str, picture: Picture, turns: Turns) -> dict[str, Any]:
    """A point for each attribute that the model ``name`` says yes to, all looked at for itself.

    Raises ``Problem`` if the model fails, or for words that are not those of the prompt.
    """
    pairs = described(variables_of(PROMPT, turns)["description"])
    questions = [
        Question(number, f"Is the {part} {description}?", YES_NO)
        for number, (part, description) in enumerate(pairs, start=1)
    ]
    said = await judge(name, picture, questions)
    return {"score": sum(one.answer == "yes" for one in said)}


def described(text: str) -> list[tuple[str, str]]:
    """Return the (part, description) pairs of ``bill: hooked; legs: red``."""
    pairs = (entry.partition(": ") for entry in re.split(r";\s+", text))
    return [(part.strip(), rest.strip()) for part, _, rest in pairs if part.strip() and rest]

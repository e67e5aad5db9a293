"""The tools that take marks of 0 to 10, answered by what the lab's judges say of the picture.

For consistency they are asked VQAScore's question about the text, for quality about realism, of
which they never learned anything: a mark hangs on the picture and the question, and is the same
each time.
"""

from __future__ import annotations

from typing import Any

from scenewright.mock_providers.models import judge
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.prompt_variables import listed, variables_of
from scenewright.mock_providers.sheets import YES_NO, Question
from scenewright.mock_providers.turns import Turns
from scenewright.prompts import load_prompt

PROMPT_OF = {load_prompt(name).tool: name for name in ("rate_consistency", "rate_quality")}
"""Tool → its prompt."""
MARK_TOOLS = tuple(PROMPT_OF)
_QUESTIONS = {
    "consistency": 'Does this figure show "{text}"?',
    "naturalness": "Does the picture have a realistic shape and structure?",
    "artifacts": "Does the picture have a realistic texture, color and shade?",
}


async def graded(tool: str, name: str, picture: Picture, turns: Turns) -> dict[str, Any]:
    """The arguments of ``tool``, one of :data:`MARK_TOOLS`: ten times the probability of a yes,
    rounded.

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

"""The tool that takes how real an object looks, answered by what the lab's judges say of it.

They never learned what a real thing looks like; what they say is a number that hangs on the picture
and the question, and is the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenewright.core.ports.realism_scorer import HIGHEST, LOWEST, on_scale
from scenewright.core.scene import SceneError
from scenewright.mock_providers.models import judge
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.prompt_variables import listed, variables_of
from scenewright.mock_providers.sheets import YES_NO, Question
from scenewright.mock_providers.turns import Turns
from scenewright.prompts import load_prompt
from scenewright.tools.vision.realism.judged import object_facts
from scenewright.tools.vision.realism.vlm import PROMPTS

RATING_TOOL = load_prompt(PROMPTS["base"]).tool
_KEYS = {"shape": "shape", "texture": "texture", "joint": "overall"}


async def rated(name: str, picture: Picture, turns: Turns) -> dict[str, Any]:
    """The arguments of the tool for the object asked about last, of which ``picture`` is the view.

    Whole numbers to the Likert question, decimals and a word on faults to the freer one. Raises
    ``Problem`` for other words than these prompts, or if the model fails.
    """
    wording, given = _asked(turns)
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


def _asked(turns: Turns) -> tuple[str, Mapping[str, str]]:
    """The wording and the variables of the last question; earlier ones are examples."""
    for wording, prompt in PROMPTS.items():
        try:
            return wording, variables_of(prompt, turns, last=True)
        except Problem:
            continue
    raise Problem.invalid(
        f"no user message is one of the prompts {', '.join(PROMPTS.values())}: the lab knows no "
        "other words"
    )

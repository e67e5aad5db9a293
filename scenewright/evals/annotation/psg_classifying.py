"""Classes of prompts by a language model, several prompts in a call (supplement A.2, Table 6).

Prompt ``classify_challenges``. The paper's precedence is applied to its answers in code as well;
what it does not classify stays unclassified, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from scenewright.agents.chat.language_replies import as_data, ask_for, name_of, shortened, tool_of
from scenewright.agents.judges.pictures import character_tokens
from scenewright.agents.parsers.classes import (
    CHALLENGES,
    PROMPT_CATEGORIES,
    Classes,
    with_precedence,
)
from scenewright.prompts import load_prompt
from scenewright.providers.usage import Usage

PROMPT = "classify_challenges"
BATCH = 20
"""Prompts in one call."""
_TOKENS_A_CLASS = 25


async def classify_by(chat: BaseChatModel, prompts: Sequence[str]) -> list[Classes]:
    """The classes of ``prompts``, in order, by one call. Never raises for what the model or its
    library does: its prompts are then unclassified."""
    by, heard = name_of(chat), 0

    def read(given: Mapping[str, Any]) -> dict[int, Classes]:
        nonlocal heard
        heard += 1
        return read_classes(given, len(prompts), by, last=heard > 1)

    prompt = load_prompt(PROMPT)
    try:
        asked = [HumanMessage(request_of(prompts))]
        found = (await ask_for(chat, asked, tool_of(prompt), read)).value
    except Exception as error:
        # Whatever the model's library raises costs these prompts and no others.
        reason = shortened(f"{type(error).__name__}: {error}")
        return [Classes("", "", by, reason) for _ in prompts]
    return [
        with_precedence(one, text) if (one := found[number]).category else one
        for number, text in enumerate(prompts, start=1)
    ]


def request_of(prompts: Sequence[str]) -> str:
    """What a model is asked about ``prompts``."""
    rows = [{"number": number, "prompt": text} for number, text in enumerate(prompts, start=1)]
    return load_prompt(PROMPT).render(prompts=as_data(rows))


def read_classes(given: Mapping[str, Any], count: int, by: str, last: bool) -> dict[int, Classes]:
    """Number → classes; those that the reply has not, or not usable, are empty with a reason.

    Raises ``ValueError`` for anything but one fitting answer a number, unless it is the ``last``
    chance.
    """
    rows = given.get("classes")
    if not isinstance(rows, list):
        raise ValueError("classes is missing or no list")
    found: dict[int, Classes] = {}
    problems: list[str] = []
    for at, row in enumerate(rows):
        number = row.get("number") if isinstance(row, Mapping) else None
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= count:
            problems.append(f"classes[{at}]: there is no number {number!r} in the list")
            continue
        if number in found:
            problems.append(f"number {number} is given twice")
            found[number] = Classes("", "", by, "the model gave two answers")
            continue
        category, challenge = (str(row.get(key, "")).upper() for key in ("category", "challenge"))
        wrong = ""
        if category not in PROMPT_CATEGORIES:
            wrong = f"{row.get('category')!r} is no category"
        elif challenge not in CHALLENGES:
            wrong = f"{row.get('challenge')!r} is no challenge"
        if wrong:
            problems.append(f"number {number}: {wrong}")
        found[number] = Classes("", "", by, wrong) if wrong else Classes(category, challenge, by)
    for number in range(1, count + 1):
        if number not in found:
            problems.append(f"number {number} is missing")
            found[number] = Classes("", "", by, "the model left it out")
    if problems and not last:
        raise ValueError("; ".join(problems[:8]))
    return found


def expected(prompts: Sequence[str]) -> Usage:
    """Tokens of one call, by a quarter of the characters."""
    tokens = character_tokens(len(request_of(prompts)) + len(str(load_prompt(PROMPT).output)))
    return Usage(tokens, _TOKENS_A_CLASS * len(prompts))

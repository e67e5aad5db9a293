"""How a fact is put to a judge: the prompt, the text and the short labels of its options."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass

from scenewright.core.facts import Fact
from scenewright.prompts import Prompt, load_prompt

BINARY_PROMPT = "judge_binary"
CHOICE_PROMPT = "judge_choice"


@dataclass(frozen=True, slots=True)
class Wording:
    """A fact in words."""

    prompt: Prompt
    """The prompt file."""
    text: str
    """What the judge reads."""
    labels: tuple[str, ...]
    """What it may answer, one a option of the fact and in their order: yes/no, or letters."""


def lettered(options: tuple[str, ...]) -> str:
    """``A) kicking; B) throwing; C) no visible relationship``: the form of Scene-Bench."""
    letters = string.ascii_uppercase
    if len(options) > len(letters):
        raise ValueError(f"{len(options)} options: offer at most {len(letters)}")
    return "; ".join(
        f"{letter}) {option}" for letter, option in zip(letters, options, strict=False)
    )


def word(fact: Fact, clean: Callable[[str], str] = str) -> Wording:
    """The wording of ``fact``; ``clean`` is applied to everything that comes from the scene."""
    if fact.is_binary:
        prompt = load_prompt(BINARY_PROMPT)
        return Wording(prompt, prompt.render(question=clean(fact.question)), fact.options)
    prompt = load_prompt(CHOICE_PROMPT)
    options = tuple(clean(option) for option in fact.options)
    text = prompt.render(question=clean(fact.question), options=lettered(options))
    return Wording(prompt, text, tuple(string.ascii_uppercase[: len(options)]))

"""The same question put in other ways: options in another order, and other words.

A judge that looks at the picture gives one answer to all of them. Options of a choice are turned
round, so that each stands in each place once (as in the permutation tests of Zheng et al., 2024,
"Large language models are not robust multiple choice selectors"): once with "no visible
relationship" kept last, where runs always offer it, and once with all of them. A yes/no question
offers its options in its words, "Yes or no?" and "No or yes?". Paraphrases are fixed templates;
'Does this figure show "…"?' is that of VQAScore (Lin et al., 2024), the others are plain wordings
of the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from scenewright.core.facts import Fact
from scenewright.core.questions import NO_RELATION

Form = Literal["plain", "order", "turn", "paraphrase"]

_ONE = re.compile(r"Is there (?P<thing>an? .+) in the image\?", re.DOTALL)
_MANY = re.compile(r"Are there at least (?P<thing>\d+ .+) in the image\?", re.DOTALL)
_STATE = re.compile(r"Is the (?P<thing>.+)\?", re.DOTALL)
_RELATION = re.compile(r"What is the relationship between (?P<thing>.+) in the image\?", re.DOTALL)
_TEMPLATES: tuple[tuple[re.Pattern[str], tuple[str, str]], ...] = (
    (_ONE, ('Does this figure show "{thing}"?', "Can you see {thing} in the picture?")),
    (_MANY, ('Does this figure show "at least {thing}"?', "Can you see at least {thing}?")),
    (_STATE, ("In the picture, is the {thing}?", "Looking at the image, is the {thing}?")),
    (_RELATION, ("How are {thing} related in the picture?", "Which relation holds for {thing}?")),
)
_ANY = ("Look at the picture. {question}", "In this image: {question}")
PARAPHRASES = 2
"""How many each question has."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A fact, asked in one of several ways."""

    form: Form
    """``plain`` as it is; ``order``: its options in another order that a run might offer;
    ``turn``: with "no visible relationship" in another place too; ``paraphrase``."""
    fact: Fact
    """The fact with that question or those options; its id is kept."""


def variants_of(
    fact: Fact, orders: bool = True, turns: bool = True, paraphrases: int = PARAPHRASES
) -> list[Variant]:
    """``fact`` as it is, then in other orders of its options, then in other words.

    A choice among k options has k − 1 further orders, or k − 2 if the last one is "no visible
    relationship" and k − 1 ``turns`` of them all; a yes/no question has two wordings of its
    options; ``paraphrases`` (0–2) of either follow. Deterministic.
    """
    found = [Variant("plain", fact)]
    if orders:
        found += [Variant("order", ordered) for ordered in _orders(fact)]
    if turns and keeps_last(fact):
        found += [Variant("turn", turned) for turned in _turned(fact, len(fact.options))]
    for question in paraphrases_of(fact)[:paraphrases]:
        found.append(Variant("paraphrase", fact.model_copy(update={"question": question})))
    return found


def keeps_last(fact: Fact) -> bool:
    """Whether runs keep the last option of ``fact`` in its place."""
    return not fact.is_binary and len(fact.options) > 2 and fact.options[-1] == NO_RELATION


def _orders(fact: Fact) -> list[Fact]:
    if fact.is_binary:
        # The options of a yes/no question are in nobody's prompt: they must be said.
        return [
            fact.model_copy(
                update={
                    "question": f"{fact.question} {first.capitalize()} or {second}?",
                    "options": (first, second),
                }
            )
            for first, second in (("yes", "no"), ("no", "yes"))
        ]
    return _turned(fact, len(fact.options) - keeps_last(fact))


def _turned(fact: Fact, first: int) -> list[Fact]:
    """``fact`` with its ``first`` options turned by 1, 2, …; the others stay."""
    return [
        fact.model_copy(
            update={
                "options": (
                    *fact.options[by:first],
                    *fact.options[:by],
                    *fact.options[first:],
                )
            }
        )
        for by in range(1, first)
    ]


def paraphrases_of(fact: Fact) -> tuple[str, ...]:
    """The question of ``fact`` in other words: its own form's templates, or some that fit any."""
    for pattern, templates in _TEMPLATES:
        found = pattern.fullmatch(fact.question)
        if found:
            # Names are data: braces in them are no fields.
            return tuple(template.replace("{thing}", found["thing"]) for template in templates)
    return tuple(template.replace("{question}", fact.question) for template in _ANY)


def subject_of(fact: Fact) -> tuple[str, ...]:
    """What ``fact`` asks about, without what it claims: facts that may rule each other out have
    the same. Facts without a subject go by their words."""
    if not fact.subject:
        return (fact.question,)
    return (fact.kind, *sorted((fact.subject, fact.target or "")), fact.key or "")

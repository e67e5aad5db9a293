"""Facts as typed questions: yes or no, a choice among options, a score of ordered levels.

An object, a count and an attribute are asked as yes or no, a relation as a choice among the options
of its fact, the realism of an object as a score of five levels. Everything here is pure.

Decision models are paid for every word of a question. A request is about one image, so "in the
image" adds nothing, and a model that estimates statements gets one. Only the package's own
questions have a shorter form; all others stay as they are. No answer changes its meaning:
:func:`restored` gives back the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from scenewright.agents.judges.sheet import MAX_OPTION, clean
from scenewright.core.facts import Fact
from scenewright.core.questions import NO_RELATION
from scenewright.prompts import load_prompt

Wording = Literal["short", "full"]


_FORMS = (
    ("Is there {} in the image?", "Is there {}?", "There is {}."),
    ("Are there {} in the image?", "Are there {}?", "There are {}."),
    ("What is the relationship between {} in the image?", "How are {} related?", ""),
)
"""Questions of :mod:`scenewright.core.questions`, which for one object or one relation are the
paper's own; each with a short question, and its yes as a statement where it has one. ``{}`` is the
subject.
"""


def shortened(question: str) -> tuple[str, str]:
    """Return ``question`` in fewer words, and its yes as a statement if it has one.

    Other forms of questions are returned unchanged.
    """
    for full, short, statement in _FORMS:
        about = _filled(full, question)
        if about is not None:
            return short.format(about), statement.format(about)
    return question, ""


def restored(text: str) -> str:
    """Return the full question of a ``text`` by :func:`shortened`; others unchanged."""
    if any(_filled(full, text) for full, _, _ in _FORMS):
        return text
    for full, *puts in _FORMS:
        for put in filter(None, puts):
            about = _filled(put, text)
            if about is not None:
                return full.format(about)
    return text


def _filled(form: str, text: str) -> str | None:
    """Return the blank of ``form`` in ``text``; None if it has another form."""
    before, after = form.split("{}")
    found = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", text, re.DOTALL)
    return None if found is None else found[1]


Kind = Literal["yes_no", "choice", "score"]
Orders = Literal[1, 2]

DECISION_PROMPT = "judge_decision"
STATEMENT_PROMPT = "judge_statement"
ASKING = 2
"""Version of the form of questions."""


@dataclass(frozen=True, slots=True)
class Question:
    """One typed question, independent of the wire."""

    name: str
    """Its name in the request: ``f1``, ``f2``, …; ``g1`` is ``f1`` asked once more in another
    order of its options."""
    kind: Kind
    """Kind of answer."""
    text: str
    options: tuple[tuple[str, str], ...]
    """(value, description) of each possible answer, in the order offered. Of ``yes_no`` they are
    ``yes`` and ``no``, and a wire whose answer is one probability gives that of the first; of
    ``score`` they are the levels, the least first, and their values are ``0``, ``1``, …"""
    claim: str = ""
    """Of ``yes_no``: the yes as a short statement, if there is one."""

    @property
    def values(self) -> tuple[str, ...]:
        """The values of the options, in the order offered."""
        return tuple(value for value, _ in self.options)

    @property
    def statement(self) -> str:
        """Of ``yes_no``: the question with its first option as the answer, as a statement."""
        if self.claim and self.options[0][0] == "yes":
            return self.claim
        answer = self.options[0][0].capitalize()
        return load_prompt(STATEMENT_PROMPT).render(question=self.text, answer=answer)


@dataclass(frozen=True, slots=True)
class DecisionSheet:
    """Questions about one image in one request."""

    facts: tuple[Fact, ...]
    questions: tuple[Question, ...]
    """The questions: one a fact in their order, then those asked once more."""
    of: tuple[int, ...]
    """Index of each question's fact in ``facts``."""


def sheet_of(
    facts: Sequence[Fact],
    orders: Orders = 1,
    *,
    turns: bool = False,
    wording: Wording = "full",
) -> DecisionSheet:
    """Return the questions about ``facts``, in the facts' own words or ``short``.

    With two ``orders`` every choice is asked once more under another name, its options as
    :func:`turned` has them, and so is every yes/no question where the wire ``turns`` its sense. A
    score has its order by itself. Raises ``ValueError`` for a fact of which :func:`problem_of`
    tells one.
    """
    first = [_question(f"f{at}", fact, wording) for at, fact in enumerate(facts, start=1)]
    twice = [at for at, fact in enumerate(facts) if copies(fact, orders, turns=turns) > 1]
    again = [
        replace(first[at], name=f"g{at + 1}", options=turned(first[at].options)) for at in twice
    ]
    return DecisionSheet(tuple(facts), (*first, *again), (*range(len(facts)), *twice))


def turned(options: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return ``options`` in reverse order, "no visible relationship" last as in the paper."""
    # Sorting keeps the order of equals.
    return tuple(sorted(reversed(options), key=lambda option: option[0] == NO_RELATION))


def kind_of(fact: Fact) -> Kind:
    """Return the kind of question for ``fact``.

    A fact of realism without the class of its object is a statement of another measure (that of
    VQAScore), whose probability of a yes is wanted.
    """
    if not fact.is_binary:
        return "choice"
    return "score" if fact.kind == "realism" and fact.value else "yes_no"


def copies(fact: Fact, orders: Orders, *, turns: bool) -> int:
    """Return the number of questions that ``fact`` takes."""
    kind = kind_of(fact)
    return 2 if orders == 2 and (kind == "choice" or (kind == "yes_no" and turns)) else 1


def problem_of(fact: Fact, most_options: int) -> str:
    """Return why ``fact`` cannot be asked with at most so many options; empty if it can.

    Options that only control characters or outer spaces tell apart are the same to a wire.
    """
    if kind_of(fact) != "choice":
        return ""
    if len(fact.options) > most_options:
        return f"{len(fact.options)} options: offer at most {most_options}"
    values = [_value(option) for option in fact.options]
    if not all(values):
        return "an option without text: give each a word"
    if len(set(values)) < len(values):
        return "two options look the same: make them different"
    return ""


@cache
def levels() -> tuple[str, ...]:
    """Return the levels of a score, lowest first."""
    output = load_prompt(DECISION_PROMPT).output
    assert output is not None, "the prompt of decisions ships with its levels"
    return tuple(output["enum"])


def _question(name: str, fact: Fact, wording: Wording) -> Question:
    kind = kind_of(fact)
    put = clean(fact.question)
    text, claim = shortened(put) if wording == "short" else (put, "")
    text = load_prompt(DECISION_PROMPT).render(question=text)
    if kind == "score":
        options = tuple((str(at), level) for at, level in enumerate(levels()))
    elif kind == "yes_no":
        options = (("yes", ""), ("no", ""))
    else:
        problem = problem_of(fact, len(fact.options))
        if problem:
            raise ValueError(f"{fact.id}: {problem}")
        options = tuple((_value(option), "") for option in fact.options)
    return Question(name, kind, text, options, claim if kind == "yes_no" else "")


def _value(option: str) -> str:
    return " ".join(clean(option, MAX_OPTION).split())

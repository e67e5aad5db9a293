"""Facts as typed questions (yes or no, a choice, a score of levels), and reading of their answers.

An object, a count and an attribute are asked as yes or no, a relation as a choice among the options
of its fact, the realism of an object as a score of five levels. Everything here is pure.

Decision models are paid for every word of a question. A request is about one image, so "in the
image" adds nothing, and a model that estimates statements gets one. Only the package's own
questions have a shorter form; all others stay as they are. No answer changes its meaning:
:func:`restored` gives back the question.

The rules from raw answers to probabilities are the same for all wires. A question that the model
refused, left out, answered twice or answered with an invalid probability has a reason in place of
probabilities, and does not affect the others. Nothing is read from a ``confidence``: it means
something else at every provider.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from scenewright.agents.judges.reading import MIN_MASS, FactReading, of_shares, off_labels, quote
from scenewright.agents.judges.sheet import MAX_OPTION, clean
from scenewright.core.facts import Fact
from scenewright.core.questions import NO_RELATION
from scenewright.prompts import load_prompt
from scenewright.providers.clients.base import MalformedReply
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage

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
    facts: Sequence[Fact], orders: Orders = 1, *, turns: bool = False, wording: Wording = "full"
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


READING = 1
"""Version of the reading of replies."""
REFUSED = "the model refused the question"
MISSING = "the reply does not answer it"
TWO_DIGITS = 0.005
"""Largest change of a probability by rounding to two digits, the coarsest of the providers."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Decided probabilities of one question."""

    shares: tuple[float, ...] | None = None
    """Probability of each option, in the order offered, adding up to 1. None: see ``reason``."""
    reason: str = ""
    """Why there are none."""
    final: bool = False
    """Whether asking again is useless: the model refused."""


@dataclass(frozen=True, slots=True)
class DecisionReading:
    """A parsed reply."""

    answers: tuple[Decided, ...]
    """One per question, in the order asked."""
    usage: Usage
    """Its tokens."""
    model: str = ""
    """Served model, as the provider names it; empty if unknown."""
    request_id: str = ""
    """The provider's id of the request."""


class JsonObject(dict[str, Any]):
    """A JSON object that also has the values of repeated keys."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = tuple(pairs)
        """All keys with their values; the object itself holds the last value of each."""


def parse_json(text: str) -> Any:
    """Parse JSON ``text`` with objects as :class:`JsonObject`.

    Raises ``MalformedReply``.
    """
    try:
        return json.loads(text, object_pairs_hook=JsonObject)
    except (ValueError, RecursionError) as error:
        raise MalformedReply(f"no JSON: {quote(text)}") from error


_KINDS: Mapping[object, Kind] = {
    "noul": "yes_no", "predicate": "yes_no", "choice": "choice", "score": "score"
}  # fmt: skip
"""A wire's type of answer → kind."""


def read_listed(questions: Sequence[Question], answers: Sequence[object]) -> tuple[Decided, ...]:
    """Return the answers of a wire that lists them in the order of the questions.

    Where every name stands in its place, the place decides; a missing name is not a contradiction.
    Else the names decide, so that a reply in another order ends right, and a question without an
    answer of its name, or with two, has a reason.
    """
    given = [one.get("name") if isinstance(one, Mapping) else None for one in answers]
    names = [name if isinstance(name, str) else None for name in given]
    in_place = len(names) == len(questions) and all(
        name in (None, question.name) for name, question in zip(names, questions, strict=True)
    )
    if in_place:
        return tuple(map(decide, questions, answers))
    return read_named(questions, list(zip(names, answers, strict=True)))


def read_named(
    questions: Sequence[Question], answers: Sequence[tuple[str | None, object]]
) -> tuple[Decided, ...]:
    """Return the answers of a wire that names them."""
    known = {question.name for question in questions}
    unknown = [
        "one without a name" if name is None else quote(name)
        for name, _ in answers
        if name not in known
    ]
    besides = f", but {', '.join(unknown[:3])}" if unknown else ""
    found = []
    for question in questions:
        given = [answer for name, answer in answers if name == question.name]
        if len(given) == 1:
            found.append(decide(question, given[0]))
        elif given:
            found.append(Decided(reason=f"was answered {len(given)} times"))
        else:
            found.append(Decided(reason=f"{MISSING}{besides}"))
    return tuple(found)


def decide(question: Question, answer: object) -> Decided:
    """Return a probability for every option of ``question``, or the reason why there is none.

    ``answer`` has the form of any wire: of a yes/no question the probability of the first option
    under ``noul`` (type ``predicate``: ``probability``), of others ``probabilities``, an object or
    a list of objects.
    """
    if isinstance(answer, Mapping) and answer.get("type") == "refusal":
        return Decided(reason=REFUSED, final=True)
    try:
        return Decided(_shares(question, answer))
    except ValueError as error:
        return Decided(reason=str(error))


def _shares(question: Question, answer: object) -> tuple[float, ...]:
    """Return the probability of every option.

    Those that miss a sum of 1 by no more than rounding explains are scaled to it. An answer that
    names another option than its likeliest one contradicts itself. Raises ``ValueError``.
    """
    if not isinstance(answer, Mapping):
        raise ValueError(f"answered {quote(answer)}")
    said = answer.get("type")
    if said is None:
        said = next((one for one in _KINDS if one in answer), None)
    kind = _KINDS.get(said) if isinstance(said, str) else None
    if kind is None:
        raise ValueError(f"gave an answer of type {quote(said)}")
    if kind != question.kind:
        raise ValueError(f"answered a {kind} where a {question.kind} was asked")
    if kind == "yes_no":
        first = _probability(answer.get("probability" if said == "predicate" else "noul"))
        return first, 1.0 - first
    values = question.values
    known: dict[str, float] = {}
    for value, share in _listed(answer.get("probabilities")):
        # A list names levels by whole numbers; of a choice a number is another value.
        option = str(value) if kind == "score" and type(value) is int else value
        if not isinstance(option, str) or option not in values:
            raise ValueError(f"gave a probability to {quote(option)}: not one of the options")
        if option in known:
            raise ValueError(f"gave two probabilities to {quote(option)}")
        known[option] = _probability(share)
    missing = [value for value in values if value not in known]
    if missing:
        raise ValueError(f"gave no probability to {quote(missing[0])}")
    total = math.fsum(known.values())
    if abs(total - 1.0) > TWO_DIGITS * len(values) + 1e-9:
        raise ValueError(f"gave probabilities that add up to {total:g}")
    choice = answer.get("choice") if kind == "choice" else None
    if choice is not None:
        if not isinstance(choice, str) or choice not in values:
            raise ValueError(f"answered {quote(choice)}: not one of the options")
        likeliest = max(known, key=known.__getitem__)
        if known[choice] < known[likeliest] - 2 * TWO_DIGITS - 1e-9:
            raise ValueError(f"answered {quote(choice)}, but gave {quote(likeliest)} more")
    return tuple(known[value] / total for value in values)


def _listed(given: object) -> Sequence[tuple[object, object]]:
    """Return the pairs of value and probability in an object or a list of objects."""
    if isinstance(given, JsonObject):
        return given.pairs
    if isinstance(given, list) and all(isinstance(one, Mapping) for one in given):
        return [(one.get("value"), one.get("probability")) for one in given]
    raise ValueError(f"gave as probabilities {quote(given)}")


def _probability(given: object) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if number and 0.0 <= given <= 1.0:  # type: ignore[operator]
        return float(given)  # type: ignore[arg-type]
    raise ValueError(f"gave the probability {quote(given)}: none from 0 to 1")


def weighed(decided: Decided, mass: object) -> Decided:
    """Return ``decided``, unless the labels hold almost none of the model's probability.

    ``mass``: joint probability of all labels; ignored if it is not a number.
    """
    if decided.shares is None or isinstance(mass, bool) or not isinstance(mass, int | float):
        return decided
    if mass >= MIN_MASS:
        return decided
    return Decided(reason=off_labels(mass, "its labels"), final=True)


def parts_of(reading: DecisionReading, sheet: DecisionSheet) -> list[FactReading]:
    """Return the reply's answer to each fact of ``sheet``, in order; see :func:`fact_parts`.

    Raises ``UnusableReply`` if no question has a usable answer and not all were refused.
    """
    parts = fact_parts(reading.answers, sheet)
    if all(part.choice is None for part in parts):
        lost = next((part for part in parts if not part.final), None)
        if lost is not None:
            raise UnusableReply(f"no usable answer: {lost.reason}", reading.usage)
    return parts


def fact_parts(answers: Sequence[Decided], sheet: DecisionSheet) -> list[FactReading]:
    """Return the answer to each fact of ``sheet`` from ``answers``, one per question.

    A fact asked in two orders has the mean of what both gave. P(fact holds) is the share of the
    expected option; of a score the expected level between the least (0) and the highest (1).
    """
    given: list[list[tuple[Question, Decided]]] = [[] for _ in sheet.facts]
    for question, at, decided in zip(sheet.questions, sheet.of, answers, strict=True):
        given[at].append((question, decided))
    return [_part(fact, pairs) for fact, pairs in zip(sheet.facts, given, strict=True)]


def _part(fact: Fact, given: Sequence[tuple[Question, Decided]]) -> FactReading:
    first, decided = given[0]
    told = [
        dict(zip(question.values, one.shares, strict=True))
        for question, one in given
        if one.shares is not None
    ]
    if not told:
        return FactReading(reason=decided.reason, final=all(one.final for _, one in given))
    mean = [sum(shares[value] for shares in told) / len(told) for value in first.values]
    if first.kind == "choice":
        total = math.fsum(mean)
        shares = {option: share / total for option, share in zip(fact.options, mean, strict=True)}
        return of_shares(fact, shares, "decision")
    yes = mean[0]
    if first.kind == "score":
        yes = sum(at * share for at, share in enumerate(mean)) / (len(mean) - 1)
    yes = min(1.0, max(0.0, yes))
    return of_shares(fact, {"yes": yes, "no": 1.0 - yes}, "decision")

"""Read replies of decision models: the rules from raw answers to probabilities, for all wires.

A question that the model refused, left out, answered twice or answered with an invalid probability
has a reason in place of probabilities, and does not affect the others. Nothing is read from a
``confidence``: it means something else at every provider.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.agents.judges.decisions.asking import DecisionSheet, Kind, Question
from scenewright.agents.judges.reading import MIN_MASS, FactReading, of_shares, off_labels, quote
from scenewright.core.facts import Fact
from scenewright.providers.clients.base import MalformedReply
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage

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

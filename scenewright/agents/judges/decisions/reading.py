"""From the raw answers of a decision model to probabilities: every rule is here, for all wires.

A question that the model refused, left out, answered twice or answered with something that is no
probability has a reason in place of probabilities, and costs the others nothing. Nothing is ever
read off a ``confidence``: it means something else at every provider.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.agents.judges.decisions.asking import DecisionSheet, Kind, Question
from scenewright.agents.judges.logprobs import MIN_MASS
from scenewright.agents.judges.reading import FactReading, MalformedReply
from scenewright.core.facts import Fact
from scenewright.providers.decisions import UnusableReply
from scenewright.providers.usage import Usage

READING = 1
"""Raised when the way in which replies are read changes."""
REFUSED = "the model refused the question"
MISSING = "the reply does not answer it"
TWO_DIGITS = 0.005
"""Most that rounding to two digits, the coarsest of the providers, moves a probability."""
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One answer of a reply, out of its wire format and not checked."""

    name: str | None
    """The question that it names; none: it names none."""
    kind: Kind | None = None
    """What it answers; none: the wire does not say."""
    refused: bool = False
    """The model declined."""
    shares: tuple[tuple[object, object], ...] = ()
    """(value, probability) of each option; of ``yes_no`` the first option's alone will do, under
    whatever value."""
    choice: object = None
    """The value that it names as its answer; none: it names none."""
    problem: str = ""
    """Why it could not be taken out of the wire format."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What a reply says of one question."""

    shares: tuple[float, ...] | None = None
    """Probability of each option, in the order offered; they add up to 1. None: see ``reason``."""
    reason: str = ""
    """Why there are none."""
    final: bool = False
    """Asking once more changes nothing: the model refused."""


@dataclass(frozen=True, slots=True)
class DecisionReading:
    """A provider's reply, read."""

    answers: tuple[Decided, ...]
    """One a question, in the order asked."""
    usage: Usage
    """Its tokens."""
    model: str = ""
    """The model that answered, as the provider names it; empty where it does not say."""
    request_id: str = ""
    """How the provider names the request."""


class JsonObject(dict[str, Any]):
    """A JSON object that knows which of its keys stood there more than once."""

    repeated: frozenset[str] = frozenset()
    """Those keys; each holds the last of its values."""


def parse_json(text: str) -> Any:
    """The JSON ``text``, its objects :class:`JsonObject`; raises ``MalformedReply``."""

    def made(pairs: list[tuple[str, Any]]) -> JsonObject:
        found = JsonObject(pairs)
        if len(found) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            found.repeated = frozenset(name for name, count in counts.items() if count > 1)
        return found

    try:
        return json.loads(text, object_pairs_hook=made)
    except (ValueError, RecursionError) as error:
        raise MalformedReply(f"no JSON: {shown(text)}") from error


def read_listed(questions: Sequence[Question], raws: Sequence[RawAnswer]) -> tuple[Decided, ...]:
    """The answers of a wire that lists them in the order of the questions.

    Where every name stands in its place, the place decides; a missing name is no contradiction.
    Else the names decide, so that a reply in another order ends right, and a question without an
    answer of its name, or with two, has a reason.
    """
    in_place = len(raws) == len(questions) and all(
        raw.name is None or raw.name == question.name
        for raw, question in zip(raws, questions, strict=True)
    )
    if in_place:
        return tuple(decide(*pair) for pair in zip(questions, raws, strict=True))
    return read_named(questions, raws)


def read_named(questions: Sequence[Question], raws: Sequence[RawAnswer]) -> tuple[Decided, ...]:
    """The answers of a wire that names them."""
    given: dict[str, list[RawAnswer]] = {}
    unknown: list[str] = []
    names = {question.name for question in questions}
    for raw in raws:
        if raw.name in names:
            assert raw.name is not None
            given.setdefault(raw.name, []).append(raw)
        else:
            unknown.append(shown(raw.name) if raw.name is not None else "one without a name")
    besides = f", but {', '.join(unknown[:3])}" if unknown else ""
    found = []
    for question in questions:
        answers = given.get(question.name, [])
        if len(answers) == 1:
            found.append(decide(question, answers[0]))
        elif answers:
            found.append(Decided(reason=f"was answered {len(answers)} times"))
        else:
            found.append(Decided(reason=f"{MISSING}{besides}"))
    return tuple(found)


def decide(question: Question, raw: RawAnswer) -> Decided:
    """What ``raw`` says of ``question``: a probability for every option, or why there is none.

    Shares that miss a sum of 1 by no more than rounding explains are scaled to it. An answer that
    names another option than its likeliest one contradicts itself.
    """
    if raw.refused:
        return Decided(reason=REFUSED, final=True)
    if raw.problem:
        return Decided(reason=raw.problem)
    if raw.kind is not None and raw.kind != question.kind:
        return Decided(reason=f"answered a {raw.kind} where a {question.kind} was asked")
    if question.kind == "yes_no" and len(raw.shares) == 1:
        share = _probability(raw.shares[0][1])
        if share is None:
            return _no_probability(raw.shares[0][1])
        return Decided((share, 1.0 - share))
    return _spread(question, raw)


def weighed(decided: Decided, mass: object) -> Decided:
    """``decided``, unless the options' labels held next to nothing of the model's probability.

    ``mass``: the probability of all labels together; what is no number says nothing.
    """
    if decided.shares is None or isinstance(mass, bool) or not isinstance(mass, int | float):
        return decided
    if mass >= MIN_MASS:
        return decided
    reason = (
        f"only {mass:.2g} of the next token's probability lies on its labels: the model does not "
        "answer in the asked form"
    )
    return Decided(reason=reason, final=True)


def parts_of(reading: DecisionReading, sheet: DecisionSheet) -> list[FactReading]:
    """What ``reading`` says of each fact of ``sheet``, in order: see :func:`fact_parts`.

    Raises ``UnusableReply`` if no question has a usable answer and not all were refused.
    """
    parts = fact_parts(reading.answers, sheet)
    if all(part.choice is None for part in parts):
        lost = next((part for part in parts if not part.final), None)
        if lost is not None:
            raise UnusableReply(f"no usable answer: {lost.reason}", reading.usage)
    return parts


def fact_parts(answers: Sequence[Decided], sheet: DecisionSheet) -> list[FactReading]:
    """What ``answers``, one a question, say of each fact of ``sheet``, in order.

    A fact asked in two orders has the mean of what both gave. P(fact holds) is the share of the
    expected option; of a score the expected level between the least (0) and the highest (1).
    """
    given: dict[int, list[tuple[Question, Decided]]] = {at: [] for at in range(len(sheet.facts))}
    for question, at, decided in zip(sheet.questions, sheet.of, answers, strict=True):
        given[at].append((question, decided))
    return [_part(fact, given[at]) for at, fact in enumerate(sheet.facts)]


def of_type(
    name: str | None, said: object, kinds: Mapping[str, Kind]
) -> tuple[Kind | None, RawAnswer]:
    """The kind of an answer of the type ``said`` by a wire's ``kinds``, and what the type alone
    tells: that it is a refusal, or of no known type, where there is no kind."""
    if said == "refusal":
        return None, RawAnswer(name, refused=True)
    kind = kinds.get(said) if isinstance(said, str) else None
    if kind is None:
        return None, RawAnswer(name, problem=f"gave an answer of type {shown(said)}")
    return kind, RawAnswer(name, kind)


def shown(value: object) -> str:
    """``value`` for a message, cut short."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _part(fact: Fact, given: Iterable[tuple[Question, Decided]]) -> FactReading:
    pairs = list(given)
    told = [(question, one.shares) for question, one in pairs if one.shares is not None]
    if not told:
        first = pairs[0][1]
        return FactReading(reason=first.reason, final=all(one.final for _, one in pairs))
    values = pairs[0][0].values
    mean = [
        sum(dict(zip(question.values, shares, strict=True))[value] for question, shares in told)
        / len(told)
        for value in values
    ]
    if pairs[0][0].kind == "score":
        real = sum(at * share for at, share in enumerate(mean)) / (len(mean) - 1)
        return _binary(fact, real)
    if pairs[0][0].kind == "yes_no":
        return _binary(fact, mean[0])
    shares = dict(zip(fact.options, mean, strict=True))
    total = math.fsum(mean)
    shares = {option: share / total for option, share in shares.items()}
    choice = max(shares, key=shares.__getitem__)
    return FactReading(choice, min(1.0, shares[fact.expected]), "decision", distribution=shares)


def _binary(fact: Fact, yes: float) -> FactReading:
    yes = min(1.0, max(0.0, yes))
    choice = "yes" if yes >= 0.5 else "no"
    return FactReading(choice, yes if fact.expected == "yes" else 1.0 - yes, "decision")


def _spread(question: Question, raw: RawAnswer) -> Decided:
    """The shares of all options, checked."""
    values = question.values
    known: dict[str, float] = {}
    for value, given in raw.shares:
        # A number or a boolean of the same text is another value.
        if not isinstance(value, str) or value not in values:
            return Decided(reason=f"gave a probability to {shown(value)}: none of the options")
        if value in known:
            return Decided(reason=f"gave two probabilities to {shown(value)}")
        share = _probability(given)
        if share is None:
            return _no_probability(given)
        known[value] = share
    missing = [value for value in values if value not in known]
    if missing:
        return Decided(reason=f"gave no probability to {shown(missing[0])}")
    total = math.fsum(known.values())
    if abs(total - 1.0) > TWO_DIGITS * len(values) + 1e-9:
        return Decided(reason=f"gave probabilities that add up to {total:g}")
    shares = tuple(known[value] / total for value in values)
    if raw.choice is not None:
        if raw.choice not in values or not isinstance(raw.choice, str):
            return Decided(reason=f"answered {shown(raw.choice)}: none of the options")
        if known[raw.choice] < max(known.values()) - 2 * TWO_DIGITS - 1e-9:
            likeliest = max(known, key=known.__getitem__)
            return Decided(reason=f"answered {shown(raw.choice)}, but gave {shown(likeliest)} more")
    return Decided(shares)


def _probability(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if 0.0 <= given <= 1.0 else None


def _no_probability(given: object) -> Decided:
    return Decided(reason=f"gave the probability {shown(given)}: none from 0 to 1")


def tokens_in(usage: Mapping[str, Any], *path: str) -> int:
    """The whole number at ``path`` of a reply's usage; 0 where there is none."""
    found: Any = usage
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0

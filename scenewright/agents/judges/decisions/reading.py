"""Read replies of decision models: the rules from raw answers to probabilities, for all wires.

A question that the model refused, left out, answered twice or answered with an invalid probability
has a reason in place of probabilities, and does not affect the others. Nothing is read from a
``confidence``: it means something else at every provider.

System One and Gemini send typed questions as a map and return a map of answers.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from scenewright.agents.judges.calling import Endpoint
from scenewright.agents.judges.decisions.asking import DecisionSheet, Kind, Question
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import MIN_MASS, FactReading, MalformedReply, shown
from scenewright.core.facts import Fact
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage

READING = 1
"""Version of the reading of replies."""
REFUSED = "the model refused the question"
MISSING = "the reply does not answer it"
TWO_DIGITS = 0.005
"""Largest change of a probability by rounding to two digits, the coarsest of the providers."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One unchecked answer of a reply."""

    name: str | None
    """Name of its question; None: unnamed."""
    kind: Kind | None = None
    """Kind of answer; None: unknown from the wire."""
    refused: bool = False
    """Whether the model declined."""
    shares: tuple[tuple[object, object], ...] = ()
    """(value, probability) of each option; of ``yes_no`` the first option's alone suffices, under
    any value.
    """
    choice: object = None
    """Named answer; None: unnamed."""
    problem: str = ""
    """Problem with the wire format."""


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
    """A JSON object that knows its repeated keys."""

    repeated: frozenset[str] = frozenset()
    """Repeated keys; each holds the last of its values."""


def parse_json(text: str) -> Any:
    """Parse JSON ``text`` with objects as :class:`JsonObject`.

    Raises ``MalformedReply``.
    """

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
    """Return the answers of a wire that lists them in the order of the questions.

    Where every name stands in its place, the place decides; a missing name is not a contradiction.
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
    """Return the answers of a wire that names them."""
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
    """Return a probability for every option of ``question``, or the reason why there is none.

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
    """Return ``decided``, unless the labels hold almost none of the model's probability.

    ``mass``: joint probability of all labels; ignored if it is not a number.
    """
    if decided.shares is None or isinstance(mass, bool) or not isinstance(mass, int | float):
        return decided
    if mass >= MIN_MASS:
        return decided
    reason = (
        f"only {mass:.2g} of the next token's probability lies on its labels: the model does not "
        "answer in the requested form"
    )
    return Decided(reason=reason, final=True)


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
    given: dict[int, list[tuple[Question, Decided]]] = {at: [] for at in range(len(sheet.facts))}
    for question, at, decided in zip(sheet.questions, sheet.of, answers, strict=True):
        given[at].append((question, decided))
    return [_part(fact, given[at]) for at, fact in enumerate(sheet.facts)]


def of_type(
    name: str | None, said: object, kinds: Mapping[str, Kind]
) -> tuple[Kind | None, RawAnswer]:
    """Return the kind of an answer with the wire's type ``said``.

    Without a kind the second value says why: a refusal, or an unknown type.
    """
    if said == "refusal":
        return None, RawAnswer(name, refused=True)
    kind = kinds.get(said) if isinstance(said, str) else None
    if kind is None:
        return None, RawAnswer(name, problem=f"gave an answer of type {shown(said)}")
    return kind, RawAnswer(name, kind)


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
    """Return the checked shares of all options."""
    values = question.values
    known: dict[str, float] = {}
    for value, given in raw.shares:
        # A number or a boolean of the same text is another value.
        if not isinstance(value, str) or value not in values:
            return Decided(reason=f"gave a probability to {shown(value)}: not one of the options")
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
            return Decided(reason=f"answered {shown(raw.choice)}: not one of the options")
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
    """Return the whole number at ``path`` of a reply's usage; 0 where there is none."""
    found: Any = usage
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


_NAME_DIGITS = 8
_KINDS: Mapping[str, Kind] = {"noul": "yes_no", "choice": "choice", "score": "score"}


def put(
    question: Question, *, true: str = "true", false: str = "false", blank: str | None = None
) -> dict[str, Any]:
    """Return ``question`` as a value of the map of questions.

    ``true``, ``false``: the keys of the criteria of a yes/no question, which has some only where it
    is turned round. ``blank``: what stands for an option that has no description.
    """
    asked: dict[str, Any] = {"instructions": question.text}
    if question.kind == "yes_no":
        first, second = question.values
        # Reversed: its "true" means no.
        criteria = {} if first == "yes" else {"criteria": {true: first, false: second}}
        return {**asked, "type": "noul", **criteria}
    if question.kind == "choice":
        options = {value: told or blank for value, told in question.options}
        return {**asked, "type": "choice", "criteria": options}
    return {**asked, "type": "score", "criteria": [label for _, label in question.options]}


def raws_of(answers: JsonObject) -> list[RawAnswer]:
    """Return the answers in a map ``{name: {noul | choice | score, …}}``.

    A repeated name counts as several answers.
    """
    found = []
    for name, answer in answers.items():
        raw = _taken(name, answer)
        found += [raw, raw] if name in answers.repeated else [raw]
    return found


def picture_name(digest: str, text: str) -> str:
    """Return a name for the image of that ``digest`` (hex) that does not occur in ``text``.

    It is replaced by the picture wherever it stands, inside words too. The same picture has the
    same name, so that prefixes are alike.
    """
    digits = _NAME_DIGITS
    while f"<img-{digest[:digits]}>" in text and digits < len(digest):
        digits += 1
    return f"<img-{digest[:digits]}>"


def _taken(name: str, answer: object) -> RawAnswer:
    if not isinstance(answer, Mapping):
        return RawAnswer(name, problem=f"answered {shown(answer)}")
    said = answer.get("type")
    if said is None:
        said = next((one for one in _KINDS if one in answer), None)
    kind, raw = of_type(name, said, _KINDS)
    if kind is None:
        return raw
    if kind == "yes_no":
        return replace(raw, shares=(("", answer.get("noul")),))
    given = answer.get("probabilities")
    if not isinstance(given, JsonObject):
        return replace(raw, problem=f"gave as probabilities {shown(given)}")
    if given.repeated:
        return replace(raw, problem=f"gave two probabilities to {min(given.repeated)!r}")
    choice = answer.get("choice") if kind == "choice" else None
    return replace(raw, shares=tuple(given.items()), choice=choice)


@dataclass(frozen=True, slots=True)
class WireReply:
    """A reply with HTTP status 200."""

    text: str
    """The body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers, in lower case."""


class DecisionWire(Endpoint, Protocol):
    """Wire format of a decision model: a pure ``build``, one await, a pure ``read``."""

    def build(self, picture: PreparedImage, questions: Sequence[Question]) -> Any:
        """Build the request as data, picture first, so that prefixes are alike. Pure."""
        ...

    async def send(self, request: Any) -> Any:
        """Make one attempt and return the provider's reply.

        Raises what its client raises.
        """
        ...

    def read(self, response: Any, questions: Sequence[Question]) -> DecisionReading:
        """Return the reply's answers to the questions. Pure.

        Raises ``UnusableReply`` where the whole request was refused, ``MalformedReply`` for what is
        no reply of the provider.
        """
        ...

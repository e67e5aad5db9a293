"""What a judge's reply says of each fact of a sheet.

An answer outside its fact's options, one that contradicts another, a missing one or a
probability that is none leaves its fact unscored alone, with the reason. A reply of which
nothing can be used is an :class:`~scenewright.providers.decisions.UnusableReply`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from scenewright.agents.judges.logprobs import Token, answer_places, label_masses
from scenewright.agents.judges.sheet import MAX_OPTION, Sheet, clean
from scenewright.core.facts import Fact, ProbabilityMethod
from scenewright.providers.decisions import UnusableReply
from scenewright.providers.usage import Usage

READING = 4
"""Raised when the way in which replies are read changes."""
_SHOWN = 60
_NUMBERED = re.compile(r"\s*(\d{1,4})\s*[:.)–-]\s*(.*)", re.DOTALL)
_UNUSED = "token probabilities could not be used: "
NO_TOKENS = f"{_UNUSED}the server tells none"
OTHER_TOKENS = f"{_UNUSED}the tokens are not those of the reply's text"
NO_OPTION = f"{_UNUSED}no option is among the likeliest tokens at the answer"
"""Notes of answers."""
_THOUGHT = "</think>"
_FENCED = re.compile(r"\s*```\w*\s*\n(.*?)\s*```\s*", re.DOTALL)
_LETTERED = re.compile(r"([a-z])\s*[).:]\s*(.*)", re.DOTALL)


class MalformedReply(RuntimeError):
    """A reply that is not in the provider's wire format: a fault on the way, worth another try."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A provider's reply, out of its wire format."""

    content: Mapping[str, Any] | str
    """Arguments of the tool call, or the JSON text."""
    usage: Usage
    """Its tokens."""
    model: str = ""
    """The model that answered, as the provider names it."""
    request_id: str = ""
    """How the provider names the request."""
    tokens: tuple[Token, ...] = ()
    """The tokens of the reply, where the provider tells their probabilities; the text may be a part
    of what they say."""
    weighed: bool = False
    """Whether token probabilities were asked for."""
    cut: bool = False
    """The reply ended at the limit of output tokens."""


@dataclass(frozen=True, slots=True)
class FactReading:
    """What a reply says of one fact."""

    choice: str | None = None
    """The option it chose; none: unscored."""
    probability: float | None = None
    """Probability that the fact holds."""
    method: ProbabilityMethod | None = None
    """How the probability was obtained; ``binary`` where there is none."""
    rationale: str = ""
    """The judge's reason."""
    reason: str = ""
    """Why the fact is unscored."""
    distribution: dict[str, float] | None = None
    """Probability of each option of a choice, where the model gives it."""
    final: bool = False
    """Asking once more changes nothing: the model refused."""
    note: str = ""
    """Why token probabilities that were asked for are not in it."""

    def state(self, fact: Fact) -> Literal["yes", "no", "unscored"]:
        """The state of the answer to ``fact``, of which this is said."""
        if self.choice is None:
            return "unscored"
        return "yes" if self.choice == fact.expected else "no"


def read_parts(reading: Reading, sheet: Sheet) -> list[FactReading]:
    """What ``reading`` says of each fact of ``sheet``, in order.

    A stated probability p is "that this answer is right": P(fact holds) is p for the expected
    option and ``(1 − p)/(k − 1)`` for another of k, which takes what is left to be spread
    evenly. Below 1/k it contradicts the answer and is left out (method ``binary``). Where the
    reply has token probabilities, they decide instead, and give every option its own; where they
    were asked for and cannot be used, the part's note says why.

    Raises ``UnusableReply`` if nothing can be used.
    """
    text = _text_of(reading.content)
    content = _content(reading, text)
    entries = _entries(reading, content)
    places, note = _places(reading, text, entries)
    reasons = _reasons(content)
    given: dict[int, list[FactReading]] = {}
    for at, entry in enumerate(entries):
        number = _number(entry)
        if number is not None and 1 <= number <= len(sheet.facts):
            part = _part(entry, sheet.facts[number - 1], reasons.get(number, ""))
            if part.choice is not None:
                if places is not None:
                    part = _weighed(part, reading.tokens, places[at], sheet, number - 1)
                elif note:
                    part = replace(part, note=note)
            given.setdefault(number, []).append(part)
    missing = "the reply was cut off before it" if reading.cut else "the reply does not answer it"
    parts = [
        _agreed(given.get(number, [FactReading(reason=missing)]))
        for number in range(1, len(sheet.facts) + 1)
    ]
    if all(part.choice is None for part in parts):
        if reading.cut:
            raise _cut(reading)
        raise UnusableReply(f"no usable answer: {parts[0].reason}", reading.usage)
    return parts


def _text_of(content: Mapping[str, Any] | str) -> str:
    """The JSON text of a reply, without what it was thought before and a fence around it."""
    if not isinstance(content, str):
        return ""
    text = content.rpartition(_THOUGHT)[2]
    fenced = _FENCED.fullmatch(text)
    return text if fenced is None else fenced[1]


def _content(reading: Reading, text: str) -> Any:
    content: Any = reading.content
    if isinstance(content, str):
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            if reading.cut:
                raise _cut(reading) from error
            raise UnusableReply(f"no JSON: {_shown(content)}", reading.usage) from error
    return content


def _reasons(content: Any) -> dict[int, str]:
    """The reasons of a reply by the numbers of their questions, the first of each."""
    found: dict[int, str] = {}
    given = content.get("why") if isinstance(content, Mapping) else None
    for reason in given if isinstance(given, list) else ():
        match = _NUMBERED.match(reason) if isinstance(reason, str) else None
        if match is not None:
            found.setdefault(int(match[1]), clean(match[2]))
    return found


def _entries(reading: Reading, content: Any) -> list[Mapping[str, Any]]:
    entries = content.get("answers") if isinstance(content, Mapping) else None
    if not isinstance(entries, list):
        if reading.cut:
            raise _cut(reading)
        raise UnusableReply(f"no list of answers: {_shown(content)}", reading.usage)
    return [entry if isinstance(entry, Mapping) else {} for entry in entries]


def _cut(reading: Reading) -> UnusableReply:
    return UnusableReply(
        f"the reply was cut off after {reading.usage.tokens_out} tokens: allow the judge more "
        "(output_tokens.judge in the profile or in scenewright.toml, or max_output_tokens of the "
        "model in its account), or fewer facts a call",
        reading.usage,
        cut=True,
    )


def _number(entry: Mapping[str, Any]) -> int | None:
    number = entry.get("n")
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _part(entry: Mapping[str, Any], fact: Fact, rationale: str) -> FactReading:
    said = entry.get("a")
    choice = option_of(said, fact)
    if choice is None:
        return FactReading(
            rationale=rationale, reason=f"answered {_shown(said)}, which is none of the options"
        )
    stated = entry.get("p")
    if stated is None:
        return FactReading(choice, None, "binary", rationale)
    known = isinstance(stated, int | float) and not isinstance(stated, bool)
    if not known or not 0 <= stated <= 1:
        return FactReading(
            rationale=rationale, reason=f"gave the probability {_shown(stated)}: none from 0 to 1"
        )
    right = float(stated)
    options = len(fact.options)
    if right < 1 / options:
        return FactReading(choice, None, "binary", rationale)
    holds = right if choice == fact.expected else (1 - right) / (options - 1)
    return FactReading(choice, holds, "verbalized", rationale)


def option_of(said: object, fact: Fact) -> str | None:
    """The option that ``said`` names: by its label or its text, whatever the case and space.

    ``B``, ``b)`` and ``B) on`` name the second option, so does ``on`` where no other reads so.
    """
    if not isinstance(said, str):
        return None
    text = _plain(said)
    if fact.is_binary:
        return text if text in fact.options else None
    if len(text) == 1 and "a" <= text <= "z":
        at = ord(text) - ord("a")
        if at < len(fact.options):
            return fact.options[at]
    texts = [_plain(clean(option, MAX_OPTION)) for option in fact.options]
    if texts.count(text) == 1:
        return fact.options[texts.index(text)]
    lettered = _LETTERED.fullmatch(text)
    if lettered is None:
        return None
    at = ord(lettered.group(1)) - ord("a")
    rest = lettered.group(2)
    if at >= len(fact.options) or (rest and rest != texts[at]):
        return None
    return fact.options[at]


def _agreed(parts: Sequence[FactReading]) -> FactReading:
    """The one thing that all answers to a fact say."""
    first = parts[0]
    if all(part.choice == first.choice for part in parts):
        return first
    said = ", ".join(dict.fromkeys(_shown(part.choice or "nothing usable") for part in parts))
    return FactReading(reason=f"was answered {len(parts)} times, differently: {said}")


def _places(
    reading: Reading, text: str, entries: Sequence[Mapping[str, Any]]
) -> tuple[list[tuple[int, int] | None] | None, str]:
    """Where each entry's answer stands in the tokens joined; else none, and why if it is amiss.

    The tokens may say more than the text: servers take thoughts and the fence of a JSON block out
    of the text alone.
    """
    if not reading.tokens or not isinstance(reading.content, str):
        return None, NO_TOKENS if reading.weighed else ""
    data = text.encode("utf-8", "replace")
    begin = b"".join(token.data for token in reading.tokens).rfind(data)
    if begin < 0:
        return None, OTHER_TOKENS
    found = iter(answer_places(data))
    places: list[tuple[int, int] | None] = []
    for entry in entries:
        place = next(found, None) if isinstance(entry.get("a"), str) else None
        places.append(None if place is None else (begin + place[0], begin + place[1]))
    # A key that stands twice in an object makes the places and the answers two lists.
    return (places, "") if next(found, None) is None else (None, OTHER_TOKENS)


def _weighed(
    part: FactReading,
    tokens: Sequence[Token],
    place: tuple[int, int] | None,
    sheet: Sheet,
    index: int,
) -> FactReading:
    fact, labels = sheet.facts[index], sheet.labels[index]
    masses = None if place is None else label_masses(tokens, place, labels)
    if masses is None:
        return replace(part, note=NO_OPTION)
    shares = {option: masses.get(at, 0.0) for at, option in enumerate(fact.options)}
    return replace(
        part,
        probability=min(1.0, shares[fact.expected]),
        distribution=None if fact.is_binary else shares,
        method="logprob",
    )


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

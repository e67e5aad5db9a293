"""Read judges' replies: answers, token probabilities and errors of the connection.

An answer outside its fact's options, one that contradicts another, a missing one or an invalid
probability leaves only its fact unscored, with the reason. A reply without any usable answer is an
:class:`~scenewright.providers.retry.UnusableReply`.

A model that returns the likeliest tokens at each position tells, at the first token of an answer's
value, how likely it held the other answers. Token boundaries are the model's affair: positions are
found by counting bytes in the joined tokens.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal
from urllib.parse import urlsplit

from scenewright.agents.judges.sheet import MAX_OPTION, Sheet, clean
from scenewright.core.error_text import error_text, hidden
from scenewright.core.facts import Fact, ProbabilityMethod
from scenewright.core.validation import cut_short
from scenewright.providers.retry import (
    Decision,
    PermanentError,
    Transient,
    UnusableReply,
    classify_http,
    unreachable,
)
from scenewright.providers.usage import Usage

MIN_MASS = 1e-3
"""Least joint probability of the labels for an answer."""
_LEXEME = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_AFTER_LETTER = frozenset(").:")


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply and its alternatives."""

    data: bytes
    """The token in UTF-8; a character may be cut in two."""
    logprob: float
    """Natural logarithm of its probability."""
    top: tuple[tuple[bytes, float], ...] = ()
    """Likeliest tokens at its position with their logarithms; may include the token itself."""


def answer_places(data: bytes) -> list[tuple[int, int]]:
    """Return the positions of the strings ``answers[i].a`` of a JSON text, in order.

    Pairs of byte offsets of the content, without the quotes. ``data`` must be sound JSON.
    """
    return [place for path, place in _strings(data) if _is_answer(path)]


def label_masses(
    tokens: Sequence[Token], place: tuple[int, int], labels: Sequence[str]
) -> dict[int, float] | None:
    """Return the probability of each of ``labels`` (by index) at the value at ``place``.

    Read at the first token that holds more of the value than space, and normalised over the
    labels that are among its likeliest tokens. None if the value begins with no label or the
    tokens tell no probability.
    """
    ends = list(accumulate(len(token.data) for token in tokens))
    start, end = place
    value = b"".join(token.data for token in tokens)[start:end]
    said = _label(value + b'"', labels)
    while said is not None and start < end:
        at = bisect_right(ends, start)
        token = tokens[at]
        before = token.data[: start - (ends[at] - len(token.data))]
        if token.data[len(before) :].strip():
            # Of an answer that is cut into tokens, the first may look like another label.
            fits = _label(token.data[len(before) :], labels) == said
            return _masses(token, before, labels) if fits else None
        start = ends[at]
    return None


def _masses(token: Token, before: bytes, labels: Sequence[str]) -> dict[int, float] | None:
    if not token.top:
        # Without alternatives its own probability says nothing about theirs.
        return None
    chances = {token.data: token.logprob, **dict(token.top)}
    masses: dict[int, float] = {}
    for data, logprob in chances.items():
        index = _label(data[len(before) :], labels) if data.startswith(before) else None
        if index is not None and not math.isnan(logprob):
            masses[index] = masses.get(index, 0.0) + math.exp(min(0.0, logprob))
    total = sum(masses.values())
    if total <= 0.0:
        return None
    return {index: mass / total for index, mass in masses.items()}


def _label(data: bytes, labels: Sequence[str]) -> int | None:
    """Return the only label that a value beginning with ``data`` can be, or None."""
    inside, quote, _ = data.partition(b'"')
    text = inside.decode("utf-8", errors="replace").strip().casefold()
    if not text:
        return None
    spelled = [label.casefold() for label in labels]
    if text in spelled:
        return spelled.index(text)
    if len(spelled[0]) == 1:
        lettered = text[0] in spelled and text[1:2] in _AFTER_LETTER
        return spelled.index(text[0]) if lettered else None
    if quote:
        return None
    begun = [index for index, label in enumerate(spelled) if label.startswith(text)]
    return begun[0] if len(begun) == 1 else None


def _is_answer(path: tuple[str | int, ...]) -> bool:
    return len(path) == 3 and path[0] == "answers" and path[2] == "a"


def _strings(data: bytes) -> Iterator[tuple[tuple[str | int, ...], tuple[int, int]]]:
    """Yield every string value of a JSON text: its path, and the position of its content."""
    path: list[str | int] = []
    key = False
    for match in _LEXEME.finditer(data):
        lexeme = match.group()
        if lexeme in (b"{", b"["):
            path.append("" if lexeme == b"{" else 0)
            key = lexeme == b"{"
        elif lexeme in (b"}", b"]"):
            path.pop()
            key = False
        elif lexeme == b",":
            last = path[-1]
            if isinstance(last, int):
                path[-1] = last + 1
            key = isinstance(last, str)
        elif lexeme == b":":
            key = False
        elif key:
            path[-1] = json.loads(lexeme)
        elif lexeme.startswith(b'"'):
            yield tuple(path), (match.start() + 1, match.end() - 1)


READING = 4
"""Version of the reading of replies."""
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
    """A reply outside the provider's wire format: a fault in transit, worth another try."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A provider's reply in a common form."""

    content: Mapping[str, Any] | str
    """Arguments of the tool call, or the JSON text."""
    usage: Usage
    """Its tokens."""
    model: str = ""
    """The model that answered, as the provider names it."""
    request_id: str = ""
    """The provider's id of the request."""
    tokens: tuple[Token, ...] = ()
    """Tokens of the reply, where the provider returns their probabilities; they may hold more than
    the text.
    """
    weighed: bool = False
    """Whether token probabilities were requested."""
    cut: bool = False
    """Whether the reply ended at the limit of output tokens."""


@dataclass(frozen=True, slots=True)
class FactReading:
    """A reply's answer to one fact."""

    choice: str | None = None
    """Chosen option; None: unscored."""
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
    """Whether asking again is useless: the model refused."""
    note: str = ""
    """Why requested token probabilities are missing."""

    def state(self, fact: Fact) -> Literal["yes", "no", "unscored"]:
        """Return the state of this answer to ``fact``."""
        if self.choice is None:
            return "unscored"
        return "yes" if self.choice == fact.expected else "no"


def read_parts(reading: Reading, sheet: Sheet) -> list[FactReading]:
    """Return a reply's answer to each fact of ``sheet``, in order.

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
    """Return the JSON text of a reply, without thoughts before it and a fence around it."""
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
            raise UnusableReply(f"no JSON: {shown(content)}", reading.usage) from error
    return content


def _reasons(content: Any) -> dict[int, str]:
    """Return the reasons of a reply by question number, the first of each."""
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
        raise UnusableReply(f"no list of answers: {shown(content)}", reading.usage)
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
            rationale=rationale, reason=f"answered {shown(said)}, which is not one of the options"
        )
    stated = entry.get("p")
    if stated is None:
        return FactReading(choice, None, "binary", rationale)
    known = isinstance(stated, int | float) and not isinstance(stated, bool)
    if not known or not 0 <= stated <= 1:
        return FactReading(
            rationale=rationale,
            reason=f"gave the probability {shown(stated)}: not from 0 to 1",
        )
    right = float(stated)
    options = len(fact.options)
    if right < 1 / options:
        return FactReading(choice, None, "binary", rationale)
    holds = right if choice == fact.expected else (1 - right) / (options - 1)
    return FactReading(choice, holds, "verbalized", rationale)


def option_of(said: object, fact: Fact) -> str | None:
    """Return the option named by ``said``: by label or text, ignoring case and space.

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
    """Return the answer to a fact on which all its entries agree."""
    first = parts[0]
    if all(part.choice == first.choice for part in parts):
        return first
    said = ", ".join(dict.fromkeys(shown(part.choice or "nothing usable") for part in parts))
    return FactReading(reason=f"was answered {len(parts)} times, differently: {said}")


def _places(
    reading: Reading, text: str, entries: Sequence[Mapping[str, Any]]
) -> tuple[list[tuple[int, int] | None] | None, str]:
    """Return the position of each entry's answer in the joined tokens.

    Otherwise None, and the reason if the tokens do not fit the text. The tokens may hold more than
    the text: servers remove thoughts and the fence of a JSON block from the text only.
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
    # With a repeated key in an object, positions and answers do not correspond.
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


def shown(value: object) -> str:
    """Return ``value`` for a message, cut short."""
    return cut_short(repr(value), _SHOWN)


_TRANSPORTS = ("httpx", "httpx2", "httpcore", "httpcore2", "aiohttp")


def of_status(status: int, headers: Mapping[str, str], message: str, key: str) -> Decision:
    """Return the decision for a reply with an HTTP error ``status``."""
    return classify_http(status, headers, hidden(message, key))


def of_connection(error: BaseException, key: str, place: str = "") -> Decision:
    """Return the decision for a request without a reply to the address ``place``.

    The libraries wrap such an error several times, each saying less: the innermost says why.
    """
    host = urlsplit(place).netloc.rpartition("@")[2]
    whither = f" to {host}" if host else ""
    return Transient(hidden(f"no connection{whither}: {unreachable(error, key)}", key))


def of_other(error: Exception, key: str, place: str = "") -> Decision:
    """Return the decision for an error other than an HTTP status.

    A lost connection and a reply out of its wire format may be mended by another try. ``place`` is
    the address that was asked.
    """
    text = error_text(error, key=key)
    if isinstance(error, MalformedReply):
        return Transient(hidden(f"malformed reply: {error}", key), replied=True)
    if isinstance(error, UnicodeError):
        return PermanentError(f"the request cannot be sent: {text}")
    if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _TRANSPORTS:
        return of_connection(error, key, place)
    # The libraries take a reply apart without looking: what is missing in it raises these.
    if isinstance(error, ValueError | TypeError | LookupError | AttributeError):
        return Transient(f"malformed reply: {text}", replied=True)
    return PermanentError(text)

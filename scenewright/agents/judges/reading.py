"""Read judges' replies: answers and token probabilities.

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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from string import ascii_lowercase
from typing import Any, Literal

from scenewright.agents.judges.sheet import MAX_OPTION, Sheet, clean
from scenewright.core.facts import Answer, Fact, ProbabilityMethod
from scenewright.core.validation import cut_short
from scenewright.providers.clients.base import Completion, Token
from scenewright.providers.retry import UnusableReply

MIN_MASS = 1e-3
"""Least joint probability of the labels for an answer."""
_LEXEME = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_AFTER_LETTER = frozenset(").:")


def answer_places(data: bytes) -> list[tuple[int, int]]:
    """Return the positions of the strings ``answers[i].a`` of a JSON text, in order.

    Pairs of byte offsets of the content, without the quotes. ``data`` must be sound JSON.
    """
    places = []
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
            key = isinstance(path[-1], str)
        elif lexeme == b":":
            key = False
        elif key:
            path[-1] = json.loads(lexeme)
        elif lexeme.startswith(b'"') and path == ["answers", 0, "a"]:
            places.append((match.start() + 1, match.end() - 1))
    return places


def label_masses(
    tokens: Sequence[Token], place: tuple[int, int], labels: Sequence[str]
) -> dict[int, float] | None:
    """Return the probability of each of ``labels`` (by index) at the value at ``place``.

    Read at the first token that holds more of the value than space, and normalised over the
    labels that are among its likeliest tokens. None if the value begins with no label or the
    tokens tell no probability.
    """
    start, end = place
    value = b"".join(token.data for token in tokens)[start:end]
    named = _label(value + b'"', labels)
    ends = list(accumulate(len(token.data) for token in tokens))
    while named is not None and start < end:
        at = bisect_right(ends, start)
        token = tokens[at]
        before = token.data[: start - (ends[at] - len(token.data))]
        if not token.data[len(before) :].strip():
            start = ends[at]
            continue
        # Of an answer that is cut into tokens, the first may look like another label. Without
        # alternatives its own probability says nothing about theirs.
        if _label(token.data[len(before) :], labels) != named or not token.top:
            return None
        masses: dict[int, float] = {}
        for data, logprob in {token.data: token.logprob, **dict(token.top)}.items():
            index = _label(data[len(before) :], labels) if data.startswith(before) else None
            if index is not None and not math.isnan(logprob):
                masses[index] = masses.get(index, 0.0) + math.exp(min(0.0, logprob))
        total = sum(masses.values())
        return {index: mass / total for index, mass in masses.items()} if total > 0.0 else None
    return None


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


READING = 5
"""Version of the reading of replies."""
_SHOWN = 60
_REFUSAL_LENGTH = 200
_NUMBERED = re.compile(r"\s*(\d{1,4})\s*[:.)–-]\s*(.*)", re.DOTALL)
_UNUSED = "token probabilities could not be used: "
NO_TOKENS = f"{_UNUSED}the server tells none"
OTHER_TOKENS = f"{_UNUSED}the tokens are not those of the reply's text"
NO_OPTION = f"{_UNUSED}no option is among the likeliest tokens at the answer"
"""Notes of answers."""
_FENCED = re.compile(r"\s*```\w*\s*\n(.*?)\s*```\s*", re.DOTALL)
_LETTERED = re.compile(r"([a-z])\s*[).:]\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FactReading:
    """A reply's answer to one fact."""

    choice: str | None = None
    """Chosen option; None: unscored."""
    probability: float | None = None
    """Probability that the fact holds."""
    method: ProbabilityMethod | None = None
    """Source of the probability; ``binary`` where there is none."""
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

    def answer(self, fact: Fact, judge_id: str, **told: Any) -> Answer:
        """Return the answer of a judge to ``fact``; ``told``: costs, model and prompt."""
        state: Literal["yes", "no", "unscored"] = "unscored"
        if self.choice is not None:
            state = "yes" if self.choice == fact.expected else "no"
        read = asdict(self)
        del read["final"]
        return Answer(fact_id=fact.id, judge_id=judge_id, state=state, **read, **told)


def of_shares(fact: Fact, shares: dict[str, float], method: ProbabilityMethod) -> FactReading:
    """Return the reading of a probability for each option of ``fact``: the likeliest is chosen."""
    return FactReading(
        choice=max(shares, key=shares.__getitem__),
        probability=min(1.0, shares[fact.expected]),
        method=method,
        distribution=None if fact.is_binary else shares,
    )


def off_labels(mass: float, labels: str) -> str:
    """Return the reason why probabilities of labels that hold only ``mass`` are not used."""
    return (
        f"only {mass:.2g} of the next token's probability lies on {labels}: the model does not "
        "answer in the requested form"
    )


def read_parts(reply: Completion, sheet: Sheet) -> list[FactReading]:
    """Return a reply's answer to each fact of ``sheet``, in order.

    A stated probability p is "that this answer is right": P(fact holds) is p for the expected
    option and ``(1 − p)/(k − 1)`` for another of k, which takes what is left to be spread
    evenly. Below 1/k it contradicts the answer and is left out (method ``binary``). Where the
    reply has token probabilities, they decide instead, and give every option its own; where they
    were asked for and cannot be used, the part's note says why.

    Raises ``UnusableReply`` for a refusal, and if nothing can be used.
    """
    if reply.stop == "refusal":
        refused = f"refused: {cut_short(reply.text, _REFUSAL_LENGTH)}".rstrip(": ")
        raise UnusableReply(refused, reply.usage, retry=False)
    cut = reply.stop == "length"
    numbers = range(1, len(sheet.facts) + 1)
    found = None if reply.data is None else reply.data.get("answers")
    if not isinstance(found, list):
        if cut:
            raise _cut(reply)
        what = "no JSON" if reply.data is None else "no list of answers"
        given_back = reply.text if reply.data is None else reply.data
        raise UnusableReply(f"{what}: {quote(given_back)}", reply.usage)
    entries: list[Mapping[str, Any]] = [one if isinstance(one, Mapping) else {} for one in found]
    places, note = _places(reply, entries)
    reasons: dict[int, str] = {}
    why = reply.data.get("why") if isinstance(reply.data, Mapping) else None
    for reason in why if isinstance(why, list) else ():
        match = _NUMBERED.match(reason) if isinstance(reason, str) else None
        if match is not None:
            reasons.setdefault(int(match[1]), clean(match[2]))
    given: dict[int, list[FactReading]] = {}
    for entry, place in zip(entries, places, strict=True):
        number = entry.get("n")
        if isinstance(number, bool) or not isinstance(number, int | float) or number not in numbers:
            continue
        number = int(number)
        fact = sheet.facts[number - 1]
        part = _part(entry, fact, reasons.get(number, ""))
        if part.choice is not None:
            labels = sheet.labels[number - 1]
            masses = None if place is None else label_masses(reply.tokens, place, labels)
            if masses is None:
                part = replace(part, note=note)
            else:
                shares = {option: masses.get(at, 0.0) for at, option in enumerate(fact.options)}
                weighed = of_shares(fact, shares, "logprob")
                part = replace(weighed, choice=part.choice, rationale=part.rationale)
        given.setdefault(number, []).append(part)
    missing = "the reply was cut off before it" if cut else "the reply does not answer it"
    parts: list[FactReading] = []
    for number in numbers:
        several = given.get(number, [FactReading(reason=missing)])
        choices = dict.fromkeys(part.choice for part in several)
        if len(choices) > 1:
            said = ", ".join(quote(choice or "nothing usable") for choice in choices)
            reason = f"was answered {len(several)} times, differently: {said}"
            several = [FactReading(reason=reason)]
        parts.append(several[0])
    if all(part.choice is None for part in parts):
        if cut:
            raise _cut(reply)
        raise UnusableReply(f"no usable answer: {parts[0].reason}", reply.usage)
    return parts


def _cut(reply: Completion) -> UnusableReply:
    return UnusableReply(
        f"the reply was cut off after {reply.usage.tokens_out} tokens: allow the judge more "
        "(output_tokens.judge in the profile or in scenewright.toml, or max_output_tokens of the "
        "model in its account), or fewer facts a call",
        reply.usage,
        retry=False,
    )


def _part(entry: Mapping[str, Any], fact: Fact, rationale: str) -> FactReading:
    said, stated = entry.get("a"), entry.get("p")
    choice = option_of(said, fact)
    if choice is None:
        reason = f"answered {quote(said)}, which is not one of the options"
        return FactReading(rationale=rationale, reason=reason)
    known = isinstance(stated, int | float) and not isinstance(stated, bool) and 0 <= stated <= 1
    if stated is not None and not known:
        reason = f"gave the probability {quote(stated)}: not from 0 to 1"
        return FactReading(rationale=rationale, reason=reason)
    options = len(fact.options)
    if stated is None or stated < 1 / options:
        return FactReading(choice, None, "binary", rationale)
    holds = float(stated) if choice == fact.expected else (1 - stated) / (options - 1)
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
    texts = [_plain(clean(option, MAX_OPTION)) for option in fact.options]
    by_letter = dict(zip(ascii_lowercase, fact.options, strict=False))
    if text in by_letter:
        return by_letter[text]
    if texts.count(text) == 1:
        return fact.options[texts.index(text)]
    lettered = _LETTERED.fullmatch(text)
    if lettered is None or lettered[1] not in by_letter:
        return None
    at = ascii_lowercase.index(lettered[1])
    return fact.options[at] if lettered[2] in ("", texts[at]) else None


def _places(
    reply: Completion, entries: Sequence[Mapping[str, Any]]
) -> tuple[list[tuple[int, int] | None], str]:
    """Return the position of each entry's answer in the joined tokens; None: it has none.

    Also returns the note of an answer whose probability cannot be read there. The tokens may hold
    more than the text: thoughts and the fence of a JSON block are removed from the text only.
    """
    nowhere: list[tuple[int, int] | None] = [None] * len(entries)
    if not reply.tokens:
        return nowhere, NO_TOKENS if reply.logprobs_requested else ""
    fenced = _FENCED.fullmatch(reply.text)
    text = reply.text if fenced is None else fenced[1]
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        text = ""
    data = text.encode("utf-8", "replace")
    begin = b"".join(token.data for token in reply.tokens).rfind(data) if data else -1
    found = [(begin + start, begin + end) for start, end in answer_places(data)]
    said = [at for at, entry in enumerate(entries) if isinstance(entry.get("a"), str)]
    # With a repeated key in an object, positions and answers do not correspond.
    if begin < 0 or len(found) > len(said):
        return nowhere, OTHER_TOKENS
    places = dict(zip(said, found, strict=False))
    return [places.get(at) for at in range(len(entries))], NO_OPTION


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def quote(value: object) -> str:
    """Return ``value`` for a message, cut short."""
    return cut_short(repr(value), _SHOWN)

"""From what a model judged to what it says, and how a fault bends it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from scenewright.agents.judges.pictures import CHARACTERS_A_TOKEN, text_tokens
from scenewright.mock_providers.faults import Chance, Fault
from scenewright.mock_providers.models import Judged
from scenewright.mock_providers.wire import REFUSAL, ModelReply, ModelRequest, Token

_PIECE = re.compile(r"\d{1,3}|[^\W\d_]+|_+|\s+|[^\w\s]+|.", re.DOTALL)
_OUTSIDE = "maybe"


def pieces(text: str) -> list[str]:
    """``text`` cut into words, numbers of up to three digits, spaces and signs.

    Joined they are the text again.
    """
    return _PIECE.findall(text)


def render_answer(
    judged: Sequence[Judged], sheet: bool, asked: ModelRequest, fault: Fault | None, chance: Chance
) -> ModelReply:
    """Return the answer to ``asked``, bent by ``fault`` if it is one of content.

    ``sheet``: the questions came as a sheet, so that plain text holds the JSON too.
    """
    if fault is Fault.REFUSAL:
        return ModelReply(REFUSAL, {}, "refusal")
    if fault is Fault.EMPTY:
        return ModelReply("", {}, "empty")
    answers = [_entry(item, asked.fields) for item in judged]
    if fault is Fault.OUTSIDE_OPTIONS:
        for answer in answers:
            answer["a"] = _OUTSIDE
    if fault is Fault.WRONG_NUMBER:
        if chance.number % 2 and answers:
            answers.pop()
        else:
            extra = dict(answers[-1])
            if "n" in extra:
                extra["n"] = max(item.question.number for item in judged) + 1
            answers.append(extra)
    as_json = (sheet and not asked.plain) or asked.form != "text"
    arguments: dict[str, Any] = {"answers": answers}
    if asked.fields is None or "why" in asked.fields:
        arguments["why"] = []
    if as_json:
        text = json.dumps(arguments, separators=(",", ":"))
    else:
        text = "\n".join(str(answer["a"]) for answer in answers)
    if fault is Fault.INVALID_JSON:
        return _invalid(text, answers)
    if fault is Fault.TRUNCATED_JSON:
        return _cut(text, len(text) // 2, answers)
    if asked.max_tokens is not None and text_tokens(text) > asked.max_tokens:
        return _cut(text, asked.max_tokens * CHARACTERS_A_TOKEN, answers)
    tokens = None
    if asked.alternatives is not None and asked.form != "tool":
        tokens = _tokens(text, answers, judged, as_json)
    return ModelReply(text, arguments, tokens=tokens)


def _entry(item: Judged, fields: frozenset[str] | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "n": item.question.number,
        "a": item.answer,
        "p": round(item.probability, 4),
    }
    if fields is None or "a" not in fields:
        return entry
    return {name: value for name, value in entry.items() if name in fields}


def _invalid(text: str, answers: Sequence[dict[str, Any]]) -> ModelReply:
    """JSON without the colon after its first key.

    Where a format carries an object, the array comes as a string that is broken in the same
    way, which Claude is known to do.
    """
    broken = text.replace('":', '" ', 1) if '":' in text else f'{{"a" "{text}"'
    inner = json.dumps(list(answers), separators=(",", ":")).replace('":', '" ', 1)
    return ModelReply(broken, {"answers": inner[:-1]}, "malformed")


def _cut(text: str, at: int, answers: Sequence[dict[str, Any]]) -> ModelReply:
    """Return the first ``at`` characters, and of the answers those that were finished by then."""
    whole = []
    length = len('{"answers":[')
    for answer in answers:
        length += len(json.dumps(answer, separators=(",", ":"))) + 1
        if length <= at:
            whole.append(answer)
    return ModelReply(text[:at], {"answers": whole} if whole else {}, "length")


def _tokens(
    text: str, answers: Sequence[dict[str, Any]], judged: Sequence[Judged], as_json: bool
) -> tuple[Token, ...]:
    """Return the pieces of ``text``; those that hold an answer with the chances of its options."""
    found: list[Token] = []
    at = 0
    for position, answer in enumerate(answers):
        mark = f'"a":{json.dumps(answer["a"])}' if as_json else str(answer["a"])
        start = text.index(mark, at)
        if as_json:
            start += len('"a":"')
        end = start + (len(mark) - len('"a":""') if as_json else len(mark))
        found += [Token(piece, ((piece, 1.0),)) for piece in pieces(text[at:start])]
        found.append(_answer_token(text[start:end], judged[min(position, len(judged) - 1)]))
        at = end
    found += [Token(piece, ((piece, 1.0),)) for piece in pieces(text[at:])]
    return tuple(found)


def _answer_token(piece: str, item: Judged) -> Token:
    if piece != item.answer:
        return Token(piece, ((piece, 1.0),))
    others = sorted((chance for chance in item.chances if chance[0] != piece), key=lambda c: -c[1])
    return Token(piece, ((piece, item.probability), *others))

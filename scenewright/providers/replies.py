"""Read replies as servers really send them: errors inside a 200, pages, thoughts, JSON, pictures.

Pure functions over text and decoded JSON, without a provider's SDK: every client and every role
reads through them. A reply is data; nothing in it is followed. Servers, gateways and proxies each
have a form of their own for errors: people read the words of the server that failed and not of the
gateway before it.
"""

from __future__ import annotations

import html
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator

from scenewright.core.validation import cut_short, mapping_of

ERROR_TEXTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("error_texts.toml").read_text(encoding="utf-8")
)
"""Texts of servers' errors: the status that they mean, and what to do about them."""
_SHOWN = 300
_UNNAMED = "unnamed"
"""Category of a filter that names none."""
_GENERIC = re.compile(
    r"(?i:provider returned error|error|internal server error)|[A-Z]\w*(?:Error|Exception)|"
)
"""Messages that say less than the detail beside them."""


def error_message(body: object) -> str:
    """Return the message of an error's ``body``, with the upstream's own words and the remedy.

    Reads OpenAI's form, errors that are strings, FastAPI's ``detail``, AUTOMATIC1111's ``errors``
    and the ``metadata.raw`` of gateways, which may be JSON again.
    """
    message = cut_short(" ".join(_message(body).split()), _SHOWN)
    filtered = content_filter_of(body)
    notes = [remedy(message), "" if filtered == _UNNAMED else filtered]
    notes = [note for note in notes if note and note not in message]
    return f"{message} ({'; '.join(notes)})" if notes else message


def _message(value: object, depth: int = 0) -> str:
    if isinstance(value, str):
        nested = decoded(value) if depth < 4 and value.lstrip()[:1] in ("{", "[") else None
        return _message(nested, depth + 1) if nested is not None else value
    if isinstance(value, list) and value and depth < 8:
        return "; ".join(said for item in value[:3] if (said := _message(item, depth + 1)))
    if not isinstance(value, Mapping) or depth >= 8:
        return ""
    place = value.get("loc")
    if isinstance(place, list) and isinstance(value.get("msg"), str):
        return f"{'.'.join(map(str, place))}: {value['msg']}"
    keys = ("error", "message", "msg", "detail", "errors", "status_msg", "title")
    found = [said for key in keys if (said := _message(value.get(key), depth + 1))]
    told = next((said for said in found if not _GENERIC.fullmatch(said)), "".join(found[:1]))
    wanted, limit = value.get("n_prompt_tokens"), value.get("n_ctx")
    if isinstance(wanted, int) and isinstance(limit, int):
        # llama.cpp: the words alone have no figures.
        told = f"{told.rstrip('.')}: {wanted} prompt tokens, context of {limit}"
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping):
        raw = _message(metadata.get("raw"), depth + 1)
        if raw and raw not in told:
            told = raw if _GENERIC.fullmatch(told) else f"{told}: {raw}"
        provider = metadata.get("provider_name")
        if isinstance(provider, str) and provider and provider not in told:
            told = f"{told} (provider {provider})"
    return told


def remedy(message: str) -> str:
    """Return what to do about a server's error ``message``, where its words tell; else ""."""
    for row in ERROR_TEXTS["remedies"]:
        match = re.search(row["words"], message, re.IGNORECASE)
        if match is not None:
            return str(row["advice"]).format(**match.groupdict())
    return ""


def retry_delay(body: Any) -> str | None:
    """Return the seconds to wait by the ``RetryInfo`` in the body of a Google error, or None."""
    try:
        for detail in body["error"]["details"]:
            if str(detail.get("@type", "")).endswith("google.rpc.RetryInfo"):
                return str(detail["retryDelay"]).removesuffix("s")
    except (TypeError, KeyError, AttributeError):
        pass
    return None


def decoded(text: str) -> Any:
    """Return ``text`` as JSON, or None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_OVERFLOWS = tuple(
    (re.compile(row["words"].replace("#", r"(\d[\d,]*)"), re.IGNORECASE), row["order"])
    for row in ERROR_TEXTS["overflows"]
)


def context_overflow(status: int, message: str) -> tuple[int | None, int | None] | None:
    """Return the context's size and the tokens wanted, where an error says that they do not fit.

    None for other errors; a figure is None where the server does not tell it.
    """
    for words, order in _OVERFLOWS:
        match = words.search(message)
        if match is not None:
            found = [int(group.replace(",", "")) if group else None for group in match.groups()]
            limit, wanted = (*found, None, None)[:2]
            return (wanted, limit) if order == "limit last" else (limit, wanted)
    return (None, None) if status == 413 and "rate" not in message.casefold() else None


def overflow_text(limit: int | None, wanted: int | None) -> str:
    """Return what a request that is too long says of itself, with the remedy."""
    size = "the request" if wanted is None else f"the request of {wanted} tokens"
    context = "the model's context" if limit is None else f"the model's context of {limit} tokens"
    return (
        f"{size} does not fit into {context}: start the server with a larger context, lower the "
        "longest image side, or ask fewer facts a call"
    )


def silently_cut(tokens_in: int | None, characters: int) -> str:
    """Return the problem where a server cut a prompt of text without an error, or "".

    Ollama then counts its context's size, or half of it and two more, however long the prompt
    was. ``characters``: length of the prompt's text.
    """
    if tokens_in is None or tokens_in * 6 >= characters:
        return ""
    if not any((tokens_in - more) % 1024 == 0 for more in range(4)):
        return ""
    return (
        f"the server read {tokens_in} tokens of a prompt of {characters} characters: it cut the "
        "beginning off; give it a larger context (OLLAMA_CONTEXT_LENGTH or num_ctx)"
    )


def content_filter_of(body: object) -> str:
    """Return the categories for which a provider filtered a request or reply, or "".

    Reads Azure's ``innererror`` and ``content_filter_results`` (also inside LiteLLM's error) and
    the reasons of OpenRouter's moderation.
    """
    found: dict[str, None] = {}
    is_filtered = _filtered(body, found, 0)
    return ", ".join(found) or (_UNNAMED if is_filtered else "")


def _filtered(value: object, found: dict[str, None], depth: int) -> bool:
    if isinstance(value, list) and depth < 8:
        return any([_filtered(item, found, depth + 1) for item in value])
    if not isinstance(value, Mapping) or depth >= 8:
        return False
    is_filtered = value.get("code") in ("content_filter", "ResponsibleAIPolicyViolation")
    is_filtered |= value.get("finish_reason") == "content_filter"
    for key, item in value.items():
        if key in ("content_filter_result", "content_filter_results") and isinstance(item, Mapping):
            for category, verdict in item.items():
                if isinstance(verdict, Mapping) and verdict.get("filtered") is True:
                    severity = verdict.get("severity")
                    found[f"{category} ({severity})" if severity else str(category)] = None
        elif (
            key == "metadata"
            and isinstance(item, Mapping)
            and isinstance(item.get("reasons"), list)
        ):
            found.update(dict.fromkeys(map(str, item["reasons"])))
        else:
            is_filtered |= _filtered(item, found, depth + 1)
    return is_filtered or bool(found)


_TITLE = 80
_PAGE_BYTES = 65_536
"""Part of a page that is read."""
_STATUS_BY_CODE = {
    code: int(status) for status, codes in ERROR_TEXTS["codes"].items() for code in codes
}
_TAG = r"(?:\w+:)?(?:think|thinking|thoughts?)"
_OPEN = rf"<{_TAG}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|channel>thought"
_CLOSE = rf"</{_TAG}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<channel\|>"
_MARK = re.compile(rf"(?P<open>{_OPEN})|(?P<close>{_CLOSE})", re.IGNORECASE)
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)([^<]*)(?:<\|constrain\|>\w*)?\s*<\|message\|>")
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_BARE_CHANNELS = re.compile(r"\Aanalysis.*assistantfinal", re.DOTALL)
"""gpt-oss behind a server that drops its special tokens."""
_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(?:(?![ \t]*```)[^\n]*\n)*[ \t]*```[ \t]*$", re.MULTILINE)
_BRACKET = re.compile(r"[{\[]")
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_FAILURES = 256
"""Most brackets tried in vain, so that a long reply of brackets costs no time."""
_SPENT = "the thoughts may have used up the output tokens: allow more of them"
_CUTS = 16
"""Thoughts beyond which quoted tags are cut too, so that a reply of tags costs no time."""
_CALLS = ("arguments", "parameters", "args", "input")
_ANSWER_KEYS = (
    "choices",
    "output",
    "candidates",
    "content",
    "data",
    "images",
    "answers",
    "artifacts",
)

_MIN_REPEATED, _MIN_OFTEN_REPEATED, _OFTEN = 600, 300, 16
_MAX_PERIOD = 400
_MIN_REPEATS = 4


def status_inside(body: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return the status and message of an error that a 200 carries, or None.

    A body with something usable is no error, whatever else it holds, unless its choice ended in
    an error. An error without a status that can be told is a 500.
    """
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(first, Mapping):
        broken = first.get("finish_reason") == "error"
        if first.get("error"):
            return _status_of(first, first["error"])
        if broken:
            error = body.get("error")
            return _status_of(body, error) if error else (502, "the provider failed midway")
    base = mapping_of(body.get("base_resp"))
    errors = body.get("errors")
    error = body.get("error") or (errors[0] if isinstance(errors, list) and errors else errors)
    said = body.get("detail") or body.get("message") or body.get("msg")
    # Nearly all events of a stream: nothing else is looked at.
    if not (base.get("status_code") or error or said):
        return None
    if any(_holds(body.get(key)) for key in _ANSWER_KEYS):
        return None
    if base.get("status_code"):
        return _status_of(body, base.get("status_msg"))
    if not error and choices is not None and choices != []:
        return None
    return _status_of(body, error or said)


def _holds(value: object) -> bool:
    """Return whether ``value`` holds an answer: something other than roles and empty fields."""
    if isinstance(value, Mapping):
        labels = ("role", "index", "finish_reason", "native_finish_reason", "type", "id", "object")
        return any(_holds(item) for key, item in value.items() if key not in labels)
    if isinstance(value, list | tuple):
        return any(_holds(item) for item in value)
    return value not in (None, "", False)


def _status_of(body: Mapping[str, Any], error: object) -> tuple[int, str]:
    inner = error if isinstance(error, Mapping) else {}
    message = error_message(
        {"error": error, **{key: body.get(key) for key in ("detail", "errors")}}
    )
    codes = [
        holder.get(key)
        for holder in (inner, body)
        for key in ("code", "status", "status_code", "type")
    ]
    for code in codes:
        number = int(code) if isinstance(code, str) and code.isdecimal() else code
        if isinstance(number, int) and 400 <= number <= 599:
            return number, message
    for code in codes:
        named = _STATUS_BY_CODE.get(code.casefold()) if isinstance(code, str) else None
        if named is not None:
            return named, message
    if isinstance(body.get("detail"), list):
        return 422, message
    for row in ERROR_TEXTS["statuses"]:
        if re.search(row["words"], message, re.IGNORECASE):
            return int(row["status"]), message
    return 500, message


def page_problem(content_type: str, body: bytes | str, base_url: str) -> str:
    """Return what is wrong with a page or plain text where JSON was expected; "" if it is neither.

    The text names the page's title, whether it looks like a sign-in page, an error of a proxy or
    an address without ``/v1``, and ``base_url``.
    """
    text = body if isinstance(body, str) else body[:_PAGE_BYTES].decode("utf-8", errors="replace")
    text = text[:_PAGE_BYTES].lstrip("\ufeff \t\r\n")
    kind = content_type.partition(";")[0].strip().casefold()
    is_page = re.match(r"(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+)?html\b", text, re.I)
    if is_page is None and (
        not text or text[0] in '{["' or kind not in ("text/html", "text/plain")
    ):
        return ""
    if kind == "text/plain" and is_page is None:
        said = cut_short(" ".join(text.split()), _TITLE)
        return (
            f"base_url {base_url} answers with text and not JSON: {said!r}{_without_v1(base_url)}"
        )
    heading = re.search(r"<(title|h1)\b[^>]*>(.*?)</\1>", text, re.I | re.DOTALL)
    inner = re.sub(r"<[^>]*>", " ", heading[2]) if heading is not None else ""
    title = cut_short(" ".join(html.unescape(inner).split()), _TITLE)
    page = f"a page ({title!r})" if title else "a page without a title"
    start = f"base_url {base_url} answers with {page} and not JSON"
    signs_in = r"\b(?:sign|log)(?:ging)?[ -]?(?:in|on)\b|single sign-on|\bsso\b|captive portal"
    blocked = (
        r"cloudflare|bad gateway|gateway time-?out|service unavailable|access denied|"
        r"attention required|just a moment|\b5[02]\d\b|squid|zscaler|proxy|blocked"
    )
    if re.search(signs_in, title, re.I) or re.search(r"type=[\"']?password", text, re.I):
        return f"{start}: it asks to sign in; use an address that takes the API key"
    if re.search(blocked, title, re.I) or (not title and re.search("cloudflare", text, re.I)):
        return f"{start}: it comes from a proxy or gateway before the server"
    return f"{start}{_without_v1(base_url) or ': check base_url'}"


def _without_v1(base_url: str) -> str:
    path = urlsplit(base_url).path
    return "" if re.search(r"/v\d", path) else ": base_url should end in /v1"


def without_thoughts(text: str) -> str:
    """Return ``text`` without a model's thoughts, which may hold discarded answers.

    Reads tags as ``<think>``, ``[THINK]`` and ``◁think▷``, an end tag alone (the chat template
    began the thought) and gpt-oss's channels. An opening tag without an end leaves what stands
    before it. Tags quoted in a JSON string, a code fence or backticks of the answer stay.
    """
    while (shorter := _without_thoughts(text)) != text:
        text = shorter
    return text


def _without_thoughts(text: str) -> str:
    channels = [(found[1], found[2], found.end()) for found in _CHANNEL.finditer(text)]
    if channels:
        final = [end for name, to, end in channels if name == "final" or "to=" in to]
        rest = text[final[-1] :] if final else ""
        stop = _CHANNEL_END.search(rest)
        return (rest[: stop.start()] if stop else rest).strip()
    bare = _BARE_CHANNELS.match(text)
    if bare is not None:
        return text[bare.end() :].strip()
    kept: list[str] = []
    at, cuts = 0, 0
    while (mark := _first_mark(text, at, quotes=cuts < _CUTS)) is not None:
        if mark.lastgroup == "close":
            kept.clear()
        else:
            kept.append(text[at : mark.start()])
            ends = (found for found in _marks(text, mark.end()) if found.lastgroup == "close")
            mark = next(ends, None)
        at, cuts = mark.end() if mark is not None else len(text), cuts + 1
    if not cuts:
        return text
    # A separator, so that what stands around a thought does not join into a tag.
    return "\n".join(part for piece in (*kept, text[at:]) if (part := piece.strip()))


def _marks(text: str, start: int) -> Iterator[re.Match[str]]:
    """Yield the tags of thoughts from ``start`` on that stand in no backticks."""
    for found in _MARK.finditer(text, start):
        if text[found.start() - 1 : found.start()] + text[found.end() : found.end() + 1] != "``":
            yield found


def _first_mark(text: str, start: int, *, quotes: bool) -> re.Match[str] | None:
    """Return the first tag from ``start`` on.

    ``quotes``: only one outside the JSON values and code fences that begin there.
    """
    first = next(_marks(text, start), None)
    if first is None or not quotes:
        return first
    quoted = [block.span() for block in _FENCED.finditer(text, start)]
    quoted += [(begin, end) for begin, end, _ in _json_spans(text, start)]
    for found in _marks(text, first.start()):
        if not any(begin < found.start() < end for begin, end in quoted):
            return found
    return None


def _json_spans(text: str, start: int = 0) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and value of every outermost JSON object and array of ``text``.

    Values with NaN or infinite numbers are passed over. Nothing follows a value that is cut off
    at the end of the text: its parts are no answers.
    """
    at, failures, end_of_text = _bracket(text, start), 0, len(text.rstrip())
    while at >= 0 and failures < _FAILURES:
        try:
            value, end, finite = _value_at(text, at)
        except json.JSONDecodeError as error:
            unterminated = error.pos >= end_of_text or error.msg.startswith("Unterminated")
            if unterminated and text[at + 1 :].lstrip()[:1] in ('"', "{", "["):
                return
            failures, end = failures + 1, at + 1
        except (ValueError, RecursionError):
            failures, end = failures + 1, at + 1
        else:
            if finite:
                yield at, end, value
        at = _bracket(text, end)


def _bracket(text: str, start: int) -> int:
    found = _BRACKET.search(text, start)
    return -1 if found is None else found.start()


def _value_at(text: str, at: int) -> tuple[Any, int, bool]:
    """Return the JSON value at ``at``, its end, and whether all its numbers are finite."""
    strange: list[str] = []

    def number(digits: str) -> float:
        if not math.isfinite(value := float(digits)):
            strange.append(digits)
        return value

    decoder = json.JSONDecoder(parse_constant=number, parse_float=number)
    try:
        value, end = decoder.raw_decode(text, at)
    except json.JSONDecodeError as error:
        if not text[at : error.pos + 1].rstrip("}] \t\r\n").endswith(","):
            raise
        # Trailing commas become blanks, so that positions stay.
        value, end = decoder.raw_decode(_TRAILING.sub(lambda found: found[1] or " ", text[at:]))
        end += at
    return value, end, not strange


def json_values(text: str) -> list[Any]:
    """Return every outermost JSON object and array of ``text``, in order.

    Reads them in fences, between prose, with trailing commas, and as JSON inside a JSON string.
    """
    values = [value for _, _, value in _json_spans(text)]
    if not values and text.lstrip("\ufeff \n")[:1] == '"':
        inner = decoded(text.strip("\ufeff \n"))
        values = [value for _, _, value in _json_spans(inner)] if isinstance(inner, str) else []
    return values


def best_object(text: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the JSON object of ``text`` that answers to ``schema``; None if there is none.

    Of several it is the last that validates, else the last with the schema's required keys, else
    the last. The arguments of a tool call that was written as text count too.
    """
    objects = list(_objects(json_values(text)))
    if schema is None or not objects:
        return next((found for found, is_inner in reversed(objects) if not is_inner), None)
    validator = Draft202012Validator(schema)
    required = set(schema.get("required", ()))
    valid = [found for found, _ in objects if validator.is_valid(found)]
    whole = [found for found, _ in objects if required and required <= found.keys()]
    return [*(found for found, is_inner in objects if not is_inner), *whole, *valid][-1]


def _objects(values: Sequence[Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the objects of ``values``, each after the arguments inside it (True)."""
    for value in values:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                for key in _CALLS:
                    inner = item.get(key)
                    inner = decoded(inner) if isinstance(inner, str) else inner
                    if isinstance(inner, Mapping):
                        yield inner, True
                yield item, False


def answer_of(said: str, thought: str, schema: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the text of an answer without its thoughts, and the problem if there is no text.

    An empty answer is replaced by what the field of ``thought`` ends with, if that validates
    against ``schema``: a reasoning parser takes a guided answer for thoughts.
    """
    text = without_thoughts(said)
    if text.strip():
        return text, ""
    if not thought.strip():
        if said.strip():
            return "", f"the reply holds thoughts and no answer: {_SPENT}"
        return "", "the reply is empty"
    *_, (_, end, value) = [(0, -1, None), *_json_spans(thought)]
    is_last = isinstance(value, Mapping) and not thought[end:].strip("` \r\n")
    if is_last and schema is not None and Draft202012Validator(schema).is_valid(value):
        return json.dumps(value, ensure_ascii=False), ""
    return "", (
        f"the reply is empty and its reasoning field has {len(thought)} characters: start the "
        f"server without its reasoning parser, or with enable_thinking=false; or {_SPENT}"
    )


def repeats(text: str) -> str:
    """Return how the end of a growing ``text`` repeats itself, or "".

    Looks for a period of 1 to 400 characters that fills the last 600 characters and occurs at
    least four times, or fills the last 300 and occurs at least 16 times. Rows that count differ,
    so lists and tables do not match.
    """
    tail = text[-_MIN_REPEATS * _MAX_PERIOD - 1 :]
    size = len(tail)
    end = tail[-32:]
    at = tail.rfind(end, 0, size - 1) if size >= _MIN_OFTEN_REPEATED else -1
    while at >= 0 and (period := size - len(end) - at) <= _MAX_PERIOD:
        often = max(_MIN_OFTEN_REPEATED, _OFTEN * period)
        span = min(often, max(_MIN_REPEATED, _MIN_REPEATS * period))
        if size >= span and tail[size - span : size - period] == tail[size - span + period :]:
            unit = cut_short(tail[-period:], 60)
            return f"the last {span} characters repeat {unit!r}"
        at = tail.rfind(end, 0, at + len(end) - 1)
    return ""

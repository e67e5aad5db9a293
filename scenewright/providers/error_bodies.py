"""Read the bodies of errors: message, remedy, time to wait, overflowing contexts, content filters.

Servers, gateways and proxies each have a form of their own; these functions know them, so that
people read the words of the server that failed and not of the gateway before it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scenewright.core.validation import cut_short

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

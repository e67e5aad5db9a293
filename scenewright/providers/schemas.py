"""Schemas of answers as providers take them.

Every schema that is sent bounds its strings and lists, because a small model behind a grammar may
repeat itself until its tokens are used up. Providers refuse or ignore some of these bounds;
:func:`schema_for` leaves those out. The answer is validated against the whole schema all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Dialect = Literal["openai", "azure", "anthropic", "gemini", "compatible"]
"""Provider whose rules a schema follows; ``compatible``: servers of OpenAI's wire format."""

_LENGTHS = frozenset({"minLength", "maxLength"})
_ITEMS = frozenset({"minItems", "maxItems", "uniqueItems"})
_RANGES = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)  # fmt: skip
_REFUSED: Mapping[Dialect, frozenset[str]] = {
    # platform.openai.com/docs/guides/structured-outputs#supported-schemas names no lengths and no
    # uniqueItems; jina-ai/node-DeepResearch#79: "maxLength is not permitted". maxItems is allowed,
    # but each number of questions would be a schema to compile.
    "openai": _LENGTHS | _ITEMS,
    # learn.microsoft.com/azure/foundry/openai/how-to/structured-outputs, unsupported keywords.
    "azure": _LENGTHS | _ITEMS | _RANGES | {"pattern", "format"},
    # platform.claude.com/docs/en/build-with-claude/structured-outputs, JSON schema limitations;
    # agentjido/req_llm#302 and #707: "property 'maxItems' is not supported".
    "anthropic": _LENGTHS | _ITEMS | _RANGES,
    # ai.google.dev/gemini-api/docs/structured-output knows no lengths; the maxItems of a request
    # may add up to some 960 (googleapis/python-genai#2170), and 70 objects were answered with
    # HTTP 500 (googleapis/go-genai#336).
    "gemini": _LENGTHS | _ITEMS,
    "compatible": frozenset(),
}
_LONGEST = 1999
"""Most repetitions in a grammar of llama.cpp: 2000 was refused (ggml-org/llama.cpp#27087), more
are taken as unbounded (#26613).
"""
_BY_NAME = ("properties", "$defs")


def schema_for(dialect: Dialect, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``schema`` without the keywords that ``dialect`` refuses."""
    refused = _REFUSED[dialect]
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        too_long = key in ("maxLength", "maxItems") and value > _LONGEST
        if key in refused or too_long:
            continue
        if key in _BY_NAME:
            kept[key] = {name: schema_for(dialect, inner) for name, inner in value.items()}
        elif isinstance(value, Mapping):
            kept[key] = schema_for(dialect, value)
        elif isinstance(value, list | tuple):
            kept[key] = [
                schema_for(dialect, item) if isinstance(item, Mapping) else item for item in value
            ]
        else:
            kept[key] = value
    return kept

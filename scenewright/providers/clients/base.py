"""Requests and completions in a common form, the settings of a model, and schemas of answers.

Every schema that is sent bounds its strings and lists, because a small model behind a grammar may
repeat itself until its tokens are used up. Providers refuse or ignore some of these bounds;
:func:`schema_for` leaves those out. The answer is validated against the whole schema all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from scenewright.core.errors import ScenewrightError
from scenewright.core.validation import FrozenModel
from scenewright.providers.usage import Usage

Dialect = Literal["openai", "azure", "anthropic", "gemini", "compatible"]
"""Provider whose rules a schema follows; ``compatible``: servers of OpenAI's wire format."""

_LENGTHS = frozenset({"minLength", "maxLength"})
_ITEMS = frozenset({"minItems", "maxItems", "uniqueItems"})
_RANGES = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
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


ToolChoice = Literal["probe", "named", "required", "schema"]
Way = Literal["named", "required", "schema"]
"""Way to force a tool: by its name, by the word ``required``, or by a JSON schema instead."""
Sampling = Literal["temperature", "top_p", "top_k", "seed"]
Effort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
Resolution = Literal["", "low", "medium", "high"]
Stop = Literal["end", "tools", "length", "refusal"]
"""Why a reply ended: complete, tool calls, cut off at the output limit, or refused by the provider
or the model.
"""
STREAM = "stream"
"""Parameter that asks for a stream."""
TOP_LOGPROBS = 20
"""Top tokens requested per position: the most that OpenAI, vLLM and Gemini return."""


class ClientSettings(FrozenModel):
    """Settings of requests to one chat model."""

    api: Literal["chat", "responses"] = "chat"
    """Interface of OpenAI's API; other providers have one."""
    structured: Literal["tool", "schema"]
    """Structured output: a forced tool call, or a JSON text of a given schema."""
    strict: bool
    """Whether it is asked to follow the schema exactly."""
    tool_choice: ToolChoice = "named"
    """Way to force a tool in OpenAI's format: ``named`` (an object with its name), ``required``
    (that word, with one tool), ``schema`` (a JSON schema instead), or ``probe``: found out by the
    first requests, and kept.
    """
    logprobs: bool
    """Whether it returns log-probabilities of tokens; then ``structured`` is ``schema``."""
    sampling: dict[Sampling, float]
    """Sampling parameters that it accepts, with the values that are sent."""
    max_output_tokens: int = Field(ge=0)
    """Output limit sent; 0: none."""
    efforts: tuple[Effort, ...] | None = None
    """Reasoning efforts that it accepts, the cheapest first; None: unknown."""
    reasoning_effort: Effort = ""
    """Reasoning effort of OpenAI's models; empty: not sent, the model's default."""
    media_resolution: Resolution = ""
    """Gemini's media resolution; empty: not sent, the model's default."""
    prompt_cache: bool
    """Whether the provider is asked to cache the prompt up to the picture: by a key for OpenAI, by
    a mark after the picture for Anthropic, where writing costs a quarter more. Gemini caches by
    itself.
    """

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if self.logprobs and self.structured != "schema":
            raise ValueError('logprobs need structured = "schema": tool calls have none')
        if self.api == "responses" and "seed" in self.sampling:
            raise ValueError('api = "responses" takes no seed: leave it out of sampling')
        if self.api == "responses" and "top_k" in self.sampling:
            raise ValueError('api = "responses" takes no top_k: leave it out of sampling')
        if self.efforts is not None and self.reasoning_effort not in ("", *self.efforts):
            raise ValueError(
                f'reasoning_effort = "{self.reasoning_effort}" is refused: this model accepts '
                f"{', '.join(self.efforts)} (if that has changed, set efforts too)"
            )
        if self.logprobs and self.thinks_by_setting:
            raise ValueError(
                'a thinking model returns no logprobs: set reasoning_effort = "none", or '
                "logprobs = false"
            )
        return self

    @property
    def thinks_by_setting(self) -> bool:
        """Whether settings make it think before it answers."""
        return self.reasoning_effort not in ("", "none")

    def sent_sampling(self) -> dict[str, Any]:
        """Return the sampling parameters to send.

        A seed and ``top_k`` are whole numbers.
        """
        return {
            name: int(value) if name in ("seed", "top_k") else value
            for name, value in self.sampling.items()
        }


@dataclass(frozen=True, slots=True)
class Terms:
    """The form of one request."""

    way: Way = "named"
    """Way to force a tool."""
    responses: bool = False
    """Whether OpenAI's Responses API is asked."""
    effort: Effort = ""
    """Reasoning effort to send; empty: none."""
    logprobs: bool = False
    """Whether log-probabilities are requested."""
    left_out: frozenset[str] = frozenset()
    """Parameters that are not sent."""

    @property
    def streams(self) -> bool:
        """Whether the reply is streamed."""
        return STREAM not in self.left_out


class RequestError(ScenewrightError, RuntimeError):
    """A request that cannot be sent; says how to change it."""


class MalformedReply(ScenewrightError, RuntimeError):
    """A reply outside the provider's wire format: a fault in transit, worth another try."""


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """An image file in a message."""

    data: bytes
    media_type: str
    """Its MIME type."""


Part = str | Picture


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool by a model."""

    id: str
    name: str
    arguments: dict[str, Any]
    signature: str = ""
    """Opaque mark (base64) that Gemini wants back with the call."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[Part, ...] = ()
    """Texts and pictures, in order; a model's own messages have texts alone."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls of an assistant's message."""
    call_id: str = ""
    """Of a tool's answer: the call that it answers."""
    name: str = ""
    """Of a tool's answer: the tool."""
    failed: bool = False
    """Of a tool's answer: whether it reports an error."""
    signature: str = ""
    """Opaque mark (base64) that Gemini wants back with the text."""

    @property
    def text(self) -> str:
        """The texts, joined."""
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request."""

    schemas: tuple[dict[str, Any], ...] = ()
    """Each in OpenAI's form: ``{"type": "function", "function": {name, description,
    parameters}}``."""
    choice: Literal["auto", "none", "any"] | str = "auto"
    """Whether one may, may not or must be called; ``=look`` must be the tool ``look``."""
    parallel: bool | None = None
    """Whether several may be called at once; None: the provider's default."""
    strict: bool | None = None
    """Whether arguments must match the schema exactly; None: the provider's default."""

    @property
    def named(self) -> str | None:
        """Name of the one tool that must be called."""
        return self.choice[1:] if self.choice.startswith("=") else None

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Name, description and parameters of each tool."""
        return [schema["function"] for schema in self.schemas]

    @property
    def forced(self) -> bool:
        """Whether a tool must be called."""
        return bool(self.schemas) and self.choice not in ("auto", "none")


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The JSON object that a reply must be."""

    name: str
    """Name of the tool or schema that it is asked by."""
    schema: Mapping[str, Any]
    """Its JSON schema."""

    def as_tool(self, *, strict: bool) -> Tools:
        """Return the one tool that must be called with the object."""
        function = {"name": self.name, "parameters": dict(self.schema)}
        schema = {"type": "function", "function": function}
        return Tools((schema,), f"={self.name}", strict=strict or None)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request to a chat model."""

    messages: tuple[Message, ...]
    """The conversation; the system's message is the first, if there is one."""
    output: OutputSchema | Tools | None = None
    """A JSON object or tool calls; None: text."""
    stop: tuple[str, ...] = ()
    """Texts at which the reply ends."""
    cache_key: str = ""
    """Name of the beginning of the prompt, for a provider's cache."""
    reminder: str = ""
    """Problem of the last attempt; sent as the last words, so that a retry differs."""

    def sent_messages(self) -> tuple[Message, ...]:
        """Return the messages, with the reminder at the end of the last."""
        if not self.reminder:
            return self.messages
        *before, last = self.messages
        if last.role != "user":
            return (*self.messages, Message("user", (self.reminder,)))
        *parts, end = last.parts
        said = (f"{end}\n\n{self.reminder}",) if isinstance(end, str) else (end, self.reminder)
        return (*before, replace(last, parts=(*parts, *said)))


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply and its alternatives."""

    data: bytes
    """The token in UTF-8; a character may be cut in two."""
    logprob: float
    """Natural logarithm of its probability."""
    top: tuple[tuple[bytes, float], ...] = ()
    """Likeliest tokens at its position with their logarithms; may include the token itself."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply of a chat model in a common form."""

    text: str
    """Its text, without thoughts; a refusal's words."""
    stop: Stop
    """Why it ended."""
    usage: Usage
    calls: tuple[ToolCall, ...] = ()
    """Tool calls."""
    data: Mapping[str, Any] | None = None
    """The object that an :class:`OutputSchema` asked for; None: there is none."""
    called: bool = False
    """Whether the object came as a call of the tool that was forced."""
    ended: str = ""
    """The provider's word for why it ended."""
    model: str = ""
    """The model that answered, as the provider names it."""
    request_id: str = ""
    """The provider's id of the request."""
    tokens: tuple[Token, ...] = ()
    """Tokens of the reply, where their probabilities came; they may hold more than the text."""
    logprobs_requested: bool = False
    """Whether token probabilities were requested."""
    signature: str = ""
    """Opaque mark (base64) that Gemini wants back with the text."""
    streamed: bool = False
    """Whether it came part by part."""
    thoughts: int = 0
    """Characters of thoughts that came beside the text."""


@dataclass(frozen=True, slots=True)
class RawReply:
    """An unread reply of a decision model."""

    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Its headers, in lower case."""


def place_of(base_url: str) -> str:
    """Return host, port and path of ``base_url``, without secrets."""
    parts = urlsplit(base_url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"

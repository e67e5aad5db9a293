"""Abilities of providers' chat models, as data and as found out; ends of models by lists.

``models.toml`` has the abilities, and an account may override them.

Forced tools (:class:`ToolForcing`): a server with OpenAI's format is made to fill in a form by the
tool's name, by the word ``required`` beside that tool alone, or by a JSON schema in place of the
tool; servers ignore or refuse what they do not understand. Where the way is not declared it is
found by the requests themselves: a request that was not filled in is sent again in the next way,
and the way that worked is kept, for other processes too
(:mod:`scenewright.providers.known_models`).

Log-probabilities (:class:`Logprobs`) depend on the model, its version and its reasoning effort, and
providers change that. A request refused for asking is sent again without; a server that returns
none in several replies is asked no more.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from scenewright.agents.judges.pictures import PictureCaps
from scenewright.agents.judges.reading import of_other
from scenewright.agents.judges.sheet import Reasons
from scenewright.config.accounts import DECISION_HOSTS, KEY_VARIABLES, AccountSpec, missing_key
from scenewright.core.ports.judge import JudgeCaps, JudgeError
from scenewright.providers.known_models import (
    KnownServer,
    ModelEnd,
    ModelTableError,
    checked,
    row_of,
    rows_of,
)

ToolChoice = Literal["probe", "named", "required", "schema"]
Way = Literal["named", "required", "schema"]
_WAYS: tuple[Way, ...] = ("named", "required", "schema")
REFUSED_WAY = "the server refused the way in which the tool was to be forced"
"""Reason for sending a request in another way."""
_ABOUT_TOOLS = re.compile(r"tool|function", re.IGNORECASE)
_ABOUT_FORMS = re.compile(r"response_format|schema", re.IGNORECASE)
_TOOL_CHOICE = "tool_choice"
_LOG = logging.getLogger("scenewright.providers")


class ToolForcing:
    """How one model's tools are forced, declared or found out."""

    def __init__(self, declared: ToolChoice, model: str, server: KnownServer | None = None) -> None:
        """``model``: name in the log; ``server``: remembers the way that was found."""
        self._model = model
        self._declared = declared != "probe"
        self._server = None if self._declared else server
        self._bound = False
        kept = self._server.recall(_TOOL_CHOICE) if self._server is not None else None
        self._recalled = kept in _WAYS
        # A way that was remembered may bind no longer: then the others are tried.
        self._order = tuple(sorted(_WAYS, key=lambda way: way != kept))
        self.way: Way = self._order[0] if declared == "probe" else declared
        """Way of the next request."""

    def bound(self, way: Way) -> None:
        """Keep ``way``, in which a request was filled in."""
        if self._declared or self._bound:
            return
        self._bound, self.way = True, way
        if self._recalled:
            return
        if self._server is not None:
            self._server.keep(_TOOL_CHOICE, way)
        if way != "named":
            _LOG.warning(
                "%s lets no tool be forced by its name; the way that binds is found: declare "
                'tool_choice = "%s" for it in its account to spare the tries',
                *(self._model, way),
            )

    def missed(self, way: Way) -> bool:
        """Return whether another way is left after a request in ``way`` was not filled in."""
        if self._declared or self._bound:
            return False
        if self._recalled:
            self._recalled = False
            self._forget()
        if way != self.way:
            # Sent before the change: another way is tried by now.
            return True
        at = self._order.index(way) + 1
        # After the last way the next call starts over: the model may have been at fault.
        self.way = self._order[at % len(self._order)]
        return at < len(self._order)

    def refused(self, way: Way, status: int, message: str) -> bool:
        """Return whether an HTTP error is about the way, and another one is left."""
        about = _ABOUT_FORMS if way == "schema" else _ABOUT_TOOLS
        return status in (400, 422) and bool(about.search(message)) and self.missed(way)

    def begin_anew(self) -> None:
        """Find the way again: another version of the model answers now."""
        if not self._declared:
            self._bound = self._recalled = False
            self._order, self.way = _WAYS, _WAYS[0]
            self._forget()

    def _forget(self) -> None:
        if self._server is not None:
            self._server.forget(_TOOL_CHOICE)


Sampling = Literal["temperature", "top_p", "top_k", "seed"]
Effort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
Resolution = Literal["", "low", "medium", "high"]
_MEDIA_TOKENS = {"low": "media-280", "medium": "media-560", "high": "media-1120"}


class ModelCaps(PictureCaps):
    """Abilities and limits of one model."""

    api: Literal["chat", "responses"] = "chat"
    """Interface of OpenAI's API; other providers have one."""
    facts_per_call: int = Field(ge=1, le=512)
    """Most facts asked in one call."""
    structured: Literal["tool", "schema"]
    """Structured output: a forced tool call, or a JSON text of a given schema."""
    strict: bool
    """Whether it is asked to follow the schema exactly."""
    tool_choice: ToolChoice = "named"
    """How a tool is forced in OpenAI's format: ``named`` (an object with its name), ``required``
    (that word, with one tool), ``schema`` (a JSON schema instead), or ``probe``: found out by the
    first requests, and kept.
    """
    pictures: bool = True
    """Whether it accepts pictures; without them it may still compose and direct."""
    logprobs: bool
    """Whether it returns log-probabilities of tokens; then ``structured`` is ``schema``."""
    sampling: dict[Sampling, float]
    """Sampling parameters that it accepts, with the values that are sent."""
    max_output_tokens: int = Field(ge=0)
    """Output limit sent; 0: none."""
    thinks: bool = False
    """Whether it thinks by default; thoughts count as output, so limits of roles do not apply."""
    reasoning_effort: Effort = ""
    """Reasoning effort of OpenAI's models; empty: not sent, the model's default."""
    media_resolution: Resolution = ""
    """Gemini's media resolution; empty: not sent, the model's default."""
    reasons: Reasons
    """Answers with a reason: ``none``, ``doubted`` (no, or unsure) or ``all``."""
    stems: bool
    """Whether words shared by questions are written once."""
    prompt_cache: bool
    """Whether the provider is asked to cache the prompt up to the picture: by a key for OpenAI, by
    a mark after the picture for Anthropic, where writing costs a quarter more. Gemini caches by
    itself.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.logprobs and self.structured != "schema":
            raise ValueError('logprobs need structured = "schema": tool calls have none')
        if self.api == "responses" and "seed" in self.sampling:
            raise ValueError('api = "responses" takes no seed: leave it out of sampling')
        if self.api == "responses" and "top_k" in self.sampling:
            raise ValueError('api = "responses" takes no top_k: leave it out of sampling')
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

    @property
    def judge_caps(self) -> JudgeCaps:
        """Abilities in the form of the judge protocol."""
        return JudgeCaps(
            facts_per_call=self.facts_per_call,
            probability="logprob" if self.logprobs else "verbalized",
            max_side=self.max_side,
            local=False,
            images_per_call=self.images_per_call,
            structured=self.structured,
            sampling=tuple(sorted(self.sampling)),
            bounds_calls=True,
        )

    def sent_sampling(self) -> dict[str, Any]:
        """Return the sampling parameters to send.

        A seed and ``top_k`` are whole numbers.
        """
        return {
            name: int(value) if name in ("seed", "top_k") else value
            for name, value in self.sampling.items()
        }


def caps_of(
    provider: str,
    model: str,
    overrides: Mapping[str, object] | None = None,
    *,
    chats: bool = False,
) -> ModelCaps:
    """Return the abilities of ``provider``'s ``model``; ``overrides`` replace single keys.

    A row's table ``when_thinking`` holds what changes while the model thinks: with a
    ``reasoning_effort`` other than "none", and for language models that converse (``chats``), which
    think as long as the model does by itself unless an override says otherwise.

    Raises ``JudgeError`` for an unknown provider, an unknown key or a value that cannot be.
    """
    if provider in DECISION_HOSTS:
        raise JudgeError(
            f"{provider} serves decision models here: name one decision:{provider}/{model}, or "
            'give its chat models an account with provider = "openai"'
        )
    if provider not in KEY_VARIABLES:
        raise JudgeError(f"no provider {provider!r}: use one of {', '.join(KEY_VARIABLES)}")
    name = f"{provider}:{model}"
    row = row_of(rows_of("scenewright.agents.judges", "models.toml"), name)
    thinking = row.pop("when_thinking", None)
    if isinstance(thinking, Mapping):
        if chats:
            row["reasoning_effort"] = ""
        effort = (overrides or {}).get("reasoning_effort", row.get("reasoning_effort", ""))
        if effort != "none":
            row.update(thinking)
    row.update(overrides or {})
    if (overrides or {}).get("media_resolution") and "image_tokens" not in (overrides or {}):
        row["image_tokens"] = _MEDIA_TOKENS.get(str(row["media_resolution"]), row["image_tokens"])
    try:
        return checked(ModelCaps, row, name)
    except ModelTableError as error:
        raise JudgeError(str(error)) from error


REFUSED_LOGPROBS = "the server refused log-probabilities"
"""Reason for sending a request without log-probabilities."""
_ABOUT = re.compile(r"log[_ -]?prob", re.IGNORECASE)
SILENT_REPLIES = 3
"""Replies in a row without log-probabilities after which none are requested: a gateway in front of
several servers may have one that returns none.
"""
_LOGPROBS, _NONE = "logprobs", "none"


class Logprobs:
    """Whether requests of one model ask for log-probabilities."""

    def __init__(self, declared: bool, model: str, server: KnownServer) -> None:
        """Start from ``declared``: whether the model is said to support it.

        ``model`` is its name in the log.
        """
        self._declared, self._model, self._server = declared, model, server
        self.asked = declared and server.recall(_LOGPROBS) != _NONE
        self._silent = 0

    def refused(self, asked: bool, status: int, message: str) -> bool:
        """Return whether an HTTP error refuses log-probabilities.

        A request without them may then succeed. ``asked``: whether the request asked for them.
        """
        about = asked and status in (400, 422) and _ABOUT.search(message) is not None
        if about:
            self._give_up("refuses to tell")
        return about

    def came(self, asked: bool, told: bool) -> None:
        """Note whether a complete reply ``told`` them; ``asked``: whether it was asked to."""
        if asked:
            self._silent = 0 if told else self._silent + 1
            if self._silent >= SILENT_REPLIES:
                self._give_up("tells no")

    def begin_anew(self) -> None:
        """Ask again: another version of the model answers now."""
        self.asked, self._silent = self._declared, 0

    def _give_up(self, what: str) -> None:
        if self.asked:
            self.asked = False
            self._server.keep(_LOGPROBS, _NONE)
            _LOG.warning(
                "%s %s log-probabilities: its judge states its probabilities instead; declare "
                "logprobs = false for it in its account to ask for none",
                *(self._model, what),
            )


_SECONDS = 20.0


def listed_ends(
    name: str, account: AccountSpec, models: Iterable[str]
) -> tuple[dict[str, ModelEnd], str]:
    """Return announced ends of ``models`` from an account's own list of models, by spec.

    One request (``GET /v1/models``) to OpenAI's or Anthropic's address, or the account's; other
    providers list no dates and are not asked. The second value says why nothing could be read; else
    it is empty. A model without an announced end is left out.
    """
    key = account.key()
    if key is None:
        return {}, missing_key(account.provider, name)
    wanted = set(models)
    try:
        if account.provider == "openai":
            listed = _openai_ends(key, account.base_url)
        elif account.provider == "anthropic":
            listed = _anthropic_ends(key, account.base_url)
        else:
            return {}, ""
    except Exception as error:
        reason = of_other(error, key).reason
        return {}, f"{name} was asked for its list of models and failed: {reason}"
    return {
        f"{name}:{model}": ModelEnd(ends=ends, source=f"the list of models of {name}")
        for model, ends in listed.items()
        if model in wanted
    }, ""


def _openai_ends(key: str, base_url: str | None) -> dict[str, date]:
    import openai

    with openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=_SECONDS) as client:
        ends = {model.id: _day(model.shutdown_date) for model in client.models.list()}
    return {model: day for model, day in ends.items() if day is not None}


def _anthropic_ends(key: str, base_url: str | None) -> dict[str, date]:
    import anthropic

    with anthropic.Anthropic(
        api_key=key, base_url=base_url, max_retries=0, timeout=_SECONDS
    ) as client:
        ends = {model.id: _day(model.retires_at) for model in client.models.list(limit=1000)}
    return {model: day for model, day in ends.items() if day is not None}


def _day(told: datetime | str | None) -> date | None:
    """Parse a provider's date; None for none and for an invalid one."""
    if isinstance(told, datetime):
        return told.date()
    try:
        return date.fromisoformat(str(told)[:10])
    except ValueError:
        return None

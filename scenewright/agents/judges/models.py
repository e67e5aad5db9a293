"""What a provider's model can do, as data: ``models.toml`` and a user's own words for a judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.agents.judges.forcing import ToolChoice
from scenewright.agents.judges.pictures import ImageFormat, ImagePreparation
from scenewright.agents.judges.sheet import Reasons
from scenewright.agents.judges.tokens import RULES
from scenewright.config.accounts import DECISION_HOSTS, KEY_VARIABLES
from scenewright.core.ports.judge import JudgeCaps, JudgeError
from scenewright.providers.model_table import ModelTableError, checked, row_of, rows_of

Sampling = Literal["temperature", "top_p", "top_k", "seed"]
Effort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
Resolution = Literal["", "low", "medium", "high"]
_MEDIA_TOKENS = {"low": "media-280", "medium": "media-560", "high": "media-1120"}


class ModelCaps(BaseModel):
    """What one model takes and gives."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    api: Literal["chat", "responses"] = "chat"
    """Which of OpenAI's interfaces is used; the other providers have one."""
    facts_per_call: int = Field(ge=1, le=512)
    """Most facts asked in one call."""
    images_per_call: int = Field(ge=1)
    """Most images that one call takes."""
    max_side: int = Field(ge=8)
    """Longest side, in pixels, that it is shown."""
    image_format: ImageFormat
    """File format of the images that are sent."""
    image_quality: int = Field(ge=1, le=100)
    """Quality of a JPEG or WebP image."""
    image_bytes: int = Field(ge=1)
    """Most bytes of an image's file."""
    structured: Literal["tool", "schema"]
    """Whether it answers by a forced tool call or in a JSON text of a given schema."""
    strict: bool
    """Whether it is asked to follow the schema exactly."""
    tool_choice: ToolChoice = "named"
    """How OpenAI's format forces a tool: ``named`` (an object with its name), ``required`` (that
    word, beside it alone), ``schema`` (not at all: a JSON schema takes its place), or ``probe``:
    found out by the first requests that are not filled in, and kept."""
    pictures: bool = True
    """Whether it sees pictures; a language model that sees none may still write and direct."""
    logprobs: bool
    """Whether it tells the probabilities of its tokens; then ``structured`` is ``schema``."""
    sampling: dict[Sampling, float]
    """Sampling parameters that it accepts, with the values that are sent."""
    image_tokens: str
    """Name of the rule that counts an image's tokens (:data:`~.tokens.RULES`)."""
    max_output_tokens: int = Field(ge=0)
    """Limit of output tokens that is sent; 0: none is."""
    thinks: bool = False
    """Whether it thinks by itself and its thoughts count as output: limits of roles are not for
    it."""
    reasoning_effort: Effort = ""
    """How long OpenAI's models think before they answer; empty: not sent, the model's own."""
    media_resolution: Resolution = ""
    """In how many tokens Gemini sees an image; empty: not sent, the model's own."""
    reasons: Reasons
    """The answers that it gives a reason for: ``none``, ``doubted`` (no, or unsure) or ``all``."""
    stems: bool
    """Words that questions share are written once; else each question is written out."""
    prompt_cache: bool
    """The provider is asked to keep the prompt up to the picture: by a key of the picture for
    OpenAI, by a mark after it for Anthropic, where writing costs a quarter more. Gemini needs no
    asking."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.logprobs and self.structured != "schema":
            raise ValueError('logprobs need structured = "schema": tool calls tell none')
        if self.api == "responses" and "seed" in self.sampling:
            raise ValueError('api = "responses" takes no seed: leave it out of sampling')
        if self.api == "responses" and "top_k" in self.sampling:
            raise ValueError('api = "responses" takes no top_k: leave it out of sampling')
        if self.logprobs and self.thinks_by_setting:
            raise ValueError(
                'a model that thinks tells no logprobs: set reasoning_effort = "none", or '
                "logprobs = false"
            )
        if self.image_tokens not in RULES:
            raise ValueError(f"image_tokens {self.image_tokens!r}: use one of {', '.join(RULES)}")
        return self

    @property
    def thinks_by_setting(self) -> bool:
        """Whether it was told to think before it answers."""
        return self.reasoning_effort not in ("", "none")

    @property
    def preparation(self) -> ImagePreparation:
        """What is done to an image before it is sent."""
        return ImagePreparation(
            self.max_side, self.image_format, self.image_quality, self.image_bytes
        )

    @property
    def judge_caps(self) -> JudgeCaps:
        """The same as callers of a judge see it."""
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
        """The sampling parameters as they are sent; a seed and ``top_k`` are whole numbers."""
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
    """Return what ``provider``'s ``model`` can do; ``overrides`` replace single keys.

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

"""What a provider's model can do, as data: ``models.toml`` and a user's own words for a judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.accounts import KEY_VARIABLES
from scenewright.agents.judges.base import JudgeCaps, JudgeError
from scenewright.agents.judges.pictures import ImageFormat, ImagePreparation
from scenewright.agents.judges.tokens import RULES
from scenewright.calls.model_table import ModelTableError, checked, row_of, rows_of

Sampling = Literal["temperature", "top_p", "top_k", "seed"]


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
    logprobs: bool
    """Whether it tells the probabilities of its tokens; then ``structured`` is ``schema``."""
    sampling: dict[Sampling, float]
    """Sampling parameters that it accepts, with the values that are sent."""
    image_tokens: str
    """Name of the rule that counts an image's tokens (:data:`~.tokens.RULES`)."""
    max_output_tokens: int = Field(ge=0)
    """Limit of output tokens that is sent; 0: none is."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.logprobs and self.structured != "schema":
            raise ValueError('logprobs need structured = "schema": tool calls tell none')
        if self.api == "responses" and "seed" in self.sampling:
            raise ValueError('api = "responses" takes no seed: leave it out of sampling')
        if self.api == "responses" and "top_k" in self.sampling:
            raise ValueError('api = "responses" takes no top_k: leave it out of sampling')
        if self.image_tokens not in RULES:
            raise ValueError(f"image_tokens {self.image_tokens!r}: use one of {', '.join(RULES)}")
        return self

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


def caps_of(provider: str, model: str, overrides: Mapping[str, object] | None = None) -> ModelCaps:
    """What ``provider``'s ``model`` can do; ``overrides`` replace single keys.

    Raises ``JudgeError`` for an unknown provider, an unknown key or a value that cannot be.
    """
    if provider not in KEY_VARIABLES:
        raise JudgeError(f"no provider {provider!r}: use one of {', '.join(KEY_VARIABLES)}")
    name = f"{provider}:{model}"
    row = row_of(rows_of("scenewright.agents.judges", "models.toml"), name)
    row.update(overrides or {})
    try:
        return checked(ModelCaps, row, name)
    except ModelTableError as error:
        raise JudgeError(str(error)) from error

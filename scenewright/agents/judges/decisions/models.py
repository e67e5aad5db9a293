"""What a decision model can do, as data: ``models.toml`` and a user's own words for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.agents.judges.decisions.asking import Orders, levels
from scenewright.agents.judges.decisions.hosts import PLAIN
from scenewright.agents.judges.decisions.wording import Wording
from scenewright.agents.judges.pictures import ImageFormat, ImagePreparation
from scenewright.agents.judges.tokens import RULES
from scenewright.config.accounts import DECISION_HOSTS
from scenewright.core.ports.judge import JudgeCaps, JudgeError
from scenewright.providers.model_table import ModelTableError, checked, row_of, rows_of


class DecisionCaps(BaseModel):
    """What one decision model takes and gives."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wire: str
    """Whose wire format it is asked in: ``openai``, ``gemini``, or a host of System One by its name
    in ``hosts.toml``."""
    questions_per_call: int = Field(ge=1)
    """Most questions of one request; a fact asked in two orders takes two."""
    options_per_question: int = Field(ge=2)
    """Most options of a choice, and levels of a score."""
    images_per_call: int = Field(ge=1)
    """Most images that one request takes."""
    orders: Orders
    """How often a choice is asked in one request: with 2 once more with its options the other way
    round, and the mean counts."""
    turns: bool
    """Whether yes/no questions can be asked the other way round, for the second order."""
    wording: Wording
    """``short``: the package's own questions are put in fewer words; ``full``: as they are."""
    detail: str
    """How closely the model looks at an image, in the provider's word; empty: it is not sent."""
    max_side: int = Field(ge=8)
    """Longest side, in pixels, that it is shown."""
    image_format: ImageFormat
    """File format of the images that are sent."""
    image_quality: int = Field(ge=1, le=100)
    """Quality of a JPEG or WebP image."""
    image_bytes: int = Field(ge=1)
    """Most bytes of an image's file."""
    request_bytes: int = Field(ge=0)
    """Most bytes of one request, the image in base64 included; 0: no limit is known."""
    request_tokens: int = Field(ge=0)
    """Most input tokens of one request, by our estimate; 0: no limit is known."""
    image_tokens: str
    """Name of the rule that estimates an image's tokens (:data:`~scenewright.agents.judges.tokens.
    RULES`)."""
    question_tokens: int = Field(ge=0)
    """Tokens of a question besides its words: name, type and what stands around them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.questions_per_call < self.orders:
            raise ValueError("questions_per_call is below orders: no choice can be asked")
        if self.options_per_question < len(levels()):
            raise ValueError(
                f"options_per_question is {self.options_per_question}: a score has {len(levels())}"
            )
        if self.image_tokens not in RULES:
            raise ValueError(f"image_tokens {self.image_tokens!r}: use one of {', '.join(RULES)}")
        if self.request_bytes and self.request_bytes < self.picture_bytes:
            raise ValueError(
                f"request_bytes is {self.request_bytes}, but an image of image_bytes takes "
                f"{self.picture_bytes} in base64: lower image_bytes"
            )
        return self

    @property
    def preparation(self) -> ImagePreparation:
        """What is done to an image before it is sent."""
        return ImagePreparation(
            self.max_side, self.image_format, self.image_quality, self.image_bytes
        )

    @property
    def picture_bytes(self) -> int:
        """Most bytes that an image takes in a request."""
        return 4 * -(-self.image_bytes // 3)

    @property
    def judge_caps(self) -> JudgeCaps:
        """The same as callers of a judge see it."""
        return JudgeCaps(
            facts_per_call=self.questions_per_call // self.orders,
            probability="decision",
            max_side=self.max_side,
            local=False,
            images_per_call=self.images_per_call,
            bounds_calls=True,
            at_once=True,
        )


def deciding() -> tuple[str, ...]:
    """The providers and hosts that have decision models."""
    return tuple(dict.fromkeys(name.partition(":")[0] for name in _rows()))


def caps_of(
    provider: str, model: str, overrides: Mapping[str, object] | None = None
) -> DecisionCaps:
    """What the decision model ``provider:model`` can do; ``overrides`` replace single keys.

    Raises ``JudgeError`` for a provider without decision models, an unknown key or a value that
    cannot be.
    """
    rows, providers = _rows(), deciding()
    if provider not in providers:
        raise JudgeError(
            f"no decision models at {provider!r}: use an account of {', '.join(providers)}"
        )
    name = f"{provider}:{model}"
    row = row_of(rows, f"{PLAIN}:{model}") if provider in DECISION_HOSTS else {}
    row.update(row_of(rows, name))
    row.update(overrides or {})
    try:
        return checked(DecisionCaps, row, name)
    except ModelTableError as error:
        raise JudgeError(str(error)) from error


def _rows() -> Mapping[str, Mapping[str, object]]:
    return rows_of("scenewright.agents.judges.decisions", "models.toml")

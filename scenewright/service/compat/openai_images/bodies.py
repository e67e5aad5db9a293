"""Requests and replies of the OpenAI Images routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from scenewright.core.validation import RequestModel
from scenewright.service.api.common import Extension
from scenewright.service.compat.adapter import Outcome, SizeWords
from scenewright.service.core.pictures import FileFormat

MOST = 10
"""Most pictures of one request."""
MOST_CHARACTERS = 32_000
"""Longest prompt that the API takes; as a sentence the parser takes fewer."""
_SIZE = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})")
_LEAST_SIDE, _MOST_SIDE = 16, 4096


_SIDE = r"(1[6-9]|[2-9]\d|[1-9]\d{2}|[1-3]\d{3}|40[0-8]\d|409[0-6])"
"""A side within these limits."""


def _size_schema(schema: dict[str, Any]) -> None:
    """Add to the schema of a size what :func:`read_size` demands."""
    for form in schema["anyOf"]:
        if form.get("type") == "string":
            form["pattern"] = f"^(auto|{_SIDE}x{_SIDE})$"


_Word = Annotated[str, StringConstraints(max_length=256)]


class OpenAIExtension(Extension):
    """The request's ``scenewright`` field: what OpenAI's API has no words for."""

    seed: int = Field(default=0, ge=0, lt=2**62)
    """Seed of the first picture; each further one has the next."""
    cancel_on_disconnect: bool = False
    """Whether the runs of a stream are cancelled when its client leaves."""


class GenerationBody(RequestModel):
    """A request for pictures. What has no meaning here is taken and has no effect."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = Field(min_length=1, max_length=MOST_CHARACTERS)
    """Prompt of the picture, read by the rules parser."""
    model: _Word | None = None
    """Name of a profile; any other name means the service's default."""
    n: int | None = Field(default=None, ge=1, le=MOST)
    """Pictures, 1–10; each is a run of its own with the next seed."""
    size: str | None = Field(default=None, json_schema_extra=_size_schema)
    """``auto`` or ``WIDTHxHEIGHT`` with sides of 16–4096 pixels."""
    response_format: Literal["url", "b64_json"] | None = None
    """Form of the pictures: in the reply (default), or as addresses."""
    output_format: Literal["png", "jpeg", "webp"] | None = None
    """Format of the files."""
    output_compression: int | None = Field(default=None, ge=0, le=100)
    """Quality of JPEG and WebP files."""
    stream: bool | None = None
    """Whether rounds come as they happen, as server-sent events."""
    partial_images: int | None = Field(default=None, ge=0, le=3)
    """Most candidates of a run that a stream shows before its end."""
    background: Literal["opaque", "auto"] | None = None
    """Pictures are opaque."""
    quality: _Word | None = None
    """No effect: the profile decides."""
    moderation: Literal["low", "auto"] | None = None
    """No effect."""
    style: _Word | None = None
    """No effect: say it in the prompt."""
    complexity: _Word | None = None
    """No effect."""
    user: _Word | None = None
    """No effect: the API key tells who asks."""
    safety_identifier: _Word | None = None
    """No effect."""
    scenewright: OpenAIExtension = OpenAIExtension()
    """Options beyond OpenAI's API; of the client, in ``extra_body``."""

    @field_validator("size")
    @classmethod
    def _a_size(cls, value: str | None) -> str | None:
        read_size(value)
        return value

    @property
    def wanted(self) -> tuple[int, int] | None:
        """(width, height) that is asked for; none: ``auto``."""
        return read_size(self.size)

    @property
    def file_format(self) -> FileFormat:
        """Format of the files."""
        return self.output_format or "png"

    @property
    def compression(self) -> int:
        """Quality of JPEG and WebP files."""
        return 100 if self.output_compression is None else self.output_compression


class EditBody(GenerationBody):
    """A request to go on from a picture."""

    input_fidelity: Literal["high", "low"] | None = None
    """No effect: what is right in the picture is kept."""


class ImageData(BaseModel):
    """A picture."""

    b64_json: str | None = None
    """The file in base64."""
    url: str | None = None
    """Address; where keys are demanded it needs one too."""
    revised_prompt: str
    """Prompt that it was drawn from: the scene as the composer put it."""


class TokenDetails(BaseModel):
    """Kinds of tokens."""

    text_tokens: int
    """All of them: what a judge's picture took is not told apart."""
    image_tokens: int = 0
    """Always 0."""


class Usage(BaseModel):
    """Tokens of judges, composers and directors; drawing with a model takes none."""

    input_tokens: int
    """Tokens that the models read."""
    input_tokens_details: TokenDetails
    """Their kinds."""
    output_tokens: int
    """Tokens that the models wrote."""
    output_tokens_details: TokenDetails
    """Their kinds."""
    total_tokens: int
    """Both."""


class ModelNote(BaseModel):
    """Which models were at work."""

    asked: str | None
    """``model`` of the request."""
    profile: str
    """The profile that drew and judged."""
    known: bool
    """Whether that was asked for; else it is the service's default."""


class SizeNote(BaseModel):
    """Origin of the size."""

    sent: SizeWords
    """Of the picture that was sent."""
    drawn: SizeWords
    """Of the picture in the run."""
    scaled: bool
    """Whether it was scaled from one to the other."""


class ReplyNotes(BaseModel):
    """The reply's ``scenewright`` field."""

    model: ModelNote
    """Which models were at work."""
    size: SizeNote | None
    """Origin of the size; of the first picture."""
    start: str | None = None
    """Content hash of the picture that was sent: a run of ``POST /v1/refinements`` may begin
    with it too."""
    runs: tuple[Outcome, ...]
    """One a picture, in the order of ``data``; runs without a picture last."""


class ImagesReply(BaseModel):
    """Pictures, with what the judges say of them."""

    created: int
    """Unix time in seconds."""
    background: Literal["opaque"] = "opaque"
    """Pictures are opaque."""
    data: tuple[ImageData, ...]
    """The pictures."""
    output_format: FileFormat
    """Format of the files."""
    size: SizeWords
    """Of the first picture."""
    usage: Usage
    """Of all runs together."""
    scenewright: ReplyNotes
    """Facts, scores and runs."""


class ModelInfo(BaseModel):
    """A profile as a model."""

    id: str
    """Name of the profile: what a request gives as ``model``."""
    object: Literal["model"] = "model"
    """Always ``model``."""
    created: int = 0
    """Always 0: a profile has no date."""
    owned_by: str = "scenewright"
    """Always ``scenewright``."""


class ModelList(BaseModel):
    """All of them."""

    object: Literal["list"] = "list"
    """Always ``list``."""
    data: tuple[ModelInfo, ...]
    """The profiles that can run here."""


class OpenAIError(BaseModel):
    """Problem."""

    message: str
    """In words, with the remedy."""
    type: str
    """Its kind: ``invalid_request_error``, ``rate_limit_error``, ``server_error``, …"""
    param: str | None
    """The parameter that is wrong."""
    code: str | None
    """A word for programs."""


class ErrorReply(BaseModel):
    """An error in OpenAI's format."""

    error: OpenAIError
    """Problem."""


def read_size(value: str | None) -> tuple[int, int] | None:
    """(width, height) of ``WIDTHxHEIGHT``; none for ``auto`` or none. ``ValueError`` otherwise."""
    if value is None or value == "auto":
        return None
    found = _SIZE.fullmatch(value)
    size = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(_LEAST_SIDE <= side <= _MOST_SIDE for side in size):
        raise ValueError(
            f"use auto or WIDTHxHEIGHT with sides of {_LEAST_SIDE} to {_MOST_SIDE} pixels"
        )
    return size


def usage_of(outcomes: Sequence[Outcome]) -> Usage:
    """Return the usage of several runs together."""
    told, said = (
        int(sum(one.usage.get(name, 0) for one in outcomes)) for name in ("tokens_in", "tokens_out")
    )
    return Usage(
        input_tokens=told,
        input_tokens_details=TokenDetails(text_tokens=told),
        output_tokens=said,
        output_tokens_details=TokenDetails(text_tokens=said),
        total_tokens=told + said,
    )

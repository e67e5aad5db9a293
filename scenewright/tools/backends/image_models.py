"""Abilities of models behind image APIs: the table of facts and a user's own settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.agents.judges.pictures import CHARACTERS_A_TOKEN
from scenewright.core.ports import MAX_SIDE
from scenewright.core.ports.backend import BackendError, BackendFeatures
from scenewright.providers.model_facts import ModelTableError, checked, model_facts, row_of

PROVIDERS = ("openai", "gemini")
_Side = Annotated[int, Field(ge=8, le=MAX_SIDE)]
_Size = tuple[_Side, _Side]


@dataclass(frozen=True, slots=True)
class Served:
    """A size as a provider is asked for it."""

    width: int
    """Pixels."""
    height: int
    """Pixels."""
    ratio: str = ""
    """Name of the aspect ratio, where there are names."""
    resolution: str = ""
    """Name of the resolution, likewise."""


class ImageCaps(BaseModel):
    """Inputs and outputs of one model."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pictures: int = Field(ge=0, le=64)
    """Most pictures in a request, the one to be changed included; 0: it takes none."""
    masks: bool
    """Whether a mask may say where the picture may change."""
    markup: bool = False
    """Whether boxes and strokes may be laid over the first picture, as a transparent one."""
    instructions: bool
    """Whether the prompt may say what to change."""
    default_size: _Size
    """(width, height) in pixels of a picture of which no size is asked."""
    sizes: tuple[_Size, ...]
    """The only sizes that are served; empty: those that the next keys allow."""
    step: int = Field(ge=1)
    """Sides are multiples of it."""
    least_pixels: int = Field(ge=1)
    """Least width × height."""
    most_pixels: int = Field(ge=64)
    """Most width × height."""
    most_side: int = Field(ge=8, le=MAX_SIDE)
    """Longest side in pixels."""
    most_ratio: float = Field(ge=1)
    """Longer side over the shorter one, at most."""
    ratios: dict[str, _Size]
    """Name of an aspect ratio → its size at the first resolution; empty: sizes have no names."""
    resolutions: tuple[str, ...]
    """Names of resolutions, each twice as large as the one before; empty: there is one."""
    prompt_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a prompt; None: not known."""
    prompt_characters: int | None = Field(default=None, ge=1)
    """Most characters of a prompt, which longer ones are refused for; None: not known."""
    qualities: tuple[str, ...] | None = None
    """The words for ``quality`` that it knows; None: any word is sent."""
    complexities: tuple[str, ...] | None = None
    """The words for ``complexity`` that it knows; None: any word is sent."""
    partial_images: int = Field(default=0, ge=0, le=16)
    """Most pictures that it shows of one while it draws; 0: none."""
    partial_tokens: int = Field(default=0, ge=0)
    """Tokens of one of these, as an estimate."""
    languages: tuple[str, ...] = ("en",)
    """Languages of prompts that it reads (ISO 639-1); ``*``: any."""
    parameters: dict[str, str | int | bool]
    """Further parameters of every request."""
    edit_parameters: dict[str, str | int | bool]
    """Further parameters of requests with pictures."""
    picture_side: int = Field(ge=64, le=MAX_SIDE)
    """Longest side, in pixels, of references as they are sent."""
    output_tokens: int = Field(ge=0)
    """Tokens of one picture, as an estimate for limits of tokens a minute."""
    as_of: date
    """Date of these facts."""
    source: str
    """Source of these facts."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.least_pixels > self.most_pixels or self.step**2 > self.most_pixels:
            raise ValueError("most_pixels is less than least_pixels or than a square of one step")
        if self.step > self.most_side:
            raise ValueError("most_side is less than one step")
        return self

    def features(self, size: tuple[int, int] | None) -> BackendFeatures:
        """Return the same as callers of a backend see it; ``size`` goes before the model's default.

        Every size is served: the nearest one of the model's is drawn and scaled.
        """
        references = max(0, self.pictures - 1)
        limits = [] if self.prompt_tokens is None else [self.prompt_tokens]
        if self.prompt_characters is not None:
            limits.append(self.prompt_characters // CHARACTERS_A_TOKEN)
        return BackendFeatures(
            references=references,
            reference_maths="pictures" if references else "none",
            masks=False,
            edit=self.pictures > 0,
            negative_prompt=False,
            languages=self.languages,
            seeds=False,
            sizes=None,
            default_size=size or self.default_size,
            default_steps=1,
            default_guidance=0.0,
            instructions=self.instructions and self.pictures > 0,
            edit_references=references if self.instructions else 0,
            strengths=False,
            prompt_tokens=min(limits, default=None),
        )

    def served(self, size: tuple[int, int]) -> Served:
        """Return the size that is asked of the provider for a picture of ``size`` (width, height).

        Nearest in shape, then in area; a smaller one only where none is large enough.
        """
        known = [Served(*pair) for pair in self.sizes]
        for name, (width, height) in self.ratios.items():
            known += [
                Served(width << at, height << at, name, resolution)
                for at, resolution in enumerate(self.resolutions or ("",))
                if max(width, height) << at <= MAX_SIDE
            ]
        if not known:
            return self._free(*size)
        shape, area = math.log(size[0] / size[1]), size[0] * size[1]

        def distance(one: Served) -> tuple[float, bool, int]:
            own = one.width * one.height
            # Sizes of one name differ in shape by the rounding of their sides.
            off = round(abs(math.log(one.width / one.height) - shape), 2)
            return off, own < area, abs(own - area)

        return min(known, key=distance)

    def _free(self, width: int, height: int) -> Served:
        ratio = self.most_ratio
        wide, high = min(width, height * ratio), min(height, width * ratio)
        scale = math.sqrt(max(1.0, self.least_pixels / (wide * high)))
        scale = min(scale, math.sqrt(self.most_pixels / (wide * high)), self.most_side / wide)
        scale = min(scale, self.most_side / high)
        sides = [
            max(self.step, round(side * scale / self.step) * self.step) for side in (wide, high)
        ]
        while sides[0] * sides[1] < self.least_pixels:
            sides[sides.index(min(sides))] += self.step
        while sides[0] * sides[1] > self.most_pixels or max(sides) > self.most_side:
            sides[sides.index(max(sides))] -= self.step
        return Served(sides[0], sides[1])


def image_caps_of(
    provider: str, model: str, overrides: Mapping[str, object] | None = None
) -> ImageCaps:
    """Return the capabilities of ``provider``'s ``model``; ``overrides`` replace single keys.

    Raises ``BackendError`` for a provider without image models, an unknown key or an invalid value.
    """
    if provider not in PROVIDERS:
        raise BackendError(
            f"{provider} has no models that draw: use an account of {' or '.join(PROVIDERS)}, or "
            "a model on this machine ('diffusers:MODEL')"
        )
    name = f"{provider}:{model}"
    row = row_of(model_facts().rows("image"), name)
    for name in ("qualities", "complexities", "prompt_tokens", "prompt_characters"):
        row.setdefault(name, None)
    row.update(overrides or {})
    try:
        return checked(ImageCaps, row, name)
    except ModelTableError as error:
        raise BackendError(str(error)) from error

"""The pictures that heads were trained on, by content: what they may not be measured on.

The record lies beside the weights. Names and folders of pictures change, and the parts of a set
hang on a seed that nobody remembers; the pixels of a picture stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Literal, Protocol, Self, runtime_checkable

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.core.images import to_rgb

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
_LENGTH = 32
Digest = Annotated[str, Field(pattern=f"^[0-9a-f]{{{_LENGTH}}}$")]


class TrainedOn(BaseModel):
    """Digests of pictures by the part that they had in a training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    train: tuple[Digest, ...]
    """The weights were fitted to them."""
    validation: tuple[Digest, ...] = ()
    """They told when to stop: the heads were chosen by them."""
    test: tuple[Digest, ...] = ()
    """The training did not see them."""

    @classmethod
    def of(cls, parts: Iterable[tuple[str, Part]]) -> Self:
        """Return the record of (digest, part) pairs; a digest may come several times."""
        found: dict[Part, set[str]] = {part: set() for part in PARTS}
        for digest, part in parts:
            found[part].add(digest)
        return cls(**{part: tuple(sorted(found[part])) for part in PARTS})

    @model_validator(mode="after")
    def _apart(self) -> Self:
        every = [*self.train, *self.validation, *self.test]
        if len(set(every)) < len(every):
            raise ValueError("a picture is in two parts")
        return self

    def part_of(self, digest: str) -> Part | None:
        """Return the part of a picture; None if the training did not know it."""
        return self._parts.get(digest)

    def seen(self, digest: str) -> bool:
        """Return whether the training used the picture."""
        return self.part_of(digest) in ("train", "validation")

    @cached_property
    def _parts(self) -> Mapping[str, Part]:
        return {digest: part for part in PARTS for digest in getattr(self, part)}


@runtime_checkable
class TrainedScorer(Protocol):
    """A scorer whose weights were fitted to rated pictures."""

    @property
    def trained_on(self) -> TrainedOn | None:
        """The pictures; None if they were not recorded."""
        ...


def picture_digest(image: Image.Image) -> str:
    """Return the digest of a picture's size and RGB pixels, 32 hex digits.

    Not of its PNG: other versions of the library compress the same pixels to other bytes.
    """
    rgb = to_rgb(image)
    found = hashlib.sha256(f"{rgb.width}x{rgb.height}\0".encode())
    found.update(rgb.tobytes())
    return found.hexdigest()[:_LENGTH]

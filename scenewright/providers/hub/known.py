"""What is known of a repository without asking the hub: licence, access and about its size."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

TABLE = Path(__file__).with_name("known.toml")
GB = 10**9


class Known(BaseModel):
    """One repository."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    licence: str
    """The hub's name of its licence."""
    gated: bool = False
    """Whether the licence must be accepted on the hub's page before files can be had."""
    gigabytes: dict[str, float] = Field(default_factory=dict)
    """About how much is fetched, in 10^9 bytes: ``""`` the model, a variant's name, or a path."""
    pipeline: str | None = None
    """Class of its pipeline in diffusers; None: it is none."""
    distilled: bool = False
    """Whether its denoiser was made to need no guidance scale."""
    as_of: date
    """Day on which this was right."""

    def bytes_of(self, keys: tuple[str, ...]) -> int | None:
        """Bytes of all ``keys`` together; None if one of them is not known."""
        if not keys or not set(keys) <= self.gigabytes.keys():
            return None
        return round(sum(self.gigabytes[key] for key in keys) * GB)


@cache
def known_repositories() -> Mapping[str, Known]:
    """The table that ships with scenewright, by repository."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: Known.model_validate(entry) for name, entry in table.items()}


def size_words(size: int | None) -> str:
    """Bytes for people, in steps of 10^3 as the hub shows them: ``6.9 GB``, ``45 MB``."""
    if size is None:
        return "size unknown"
    for unit, scale in (("GB", GB), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            value = size / scale
            return f"{value:.1f} {unit}" if value < 100 and unit == "GB" else f"{value:.0f} {unit}"
    return f"{size} bytes"

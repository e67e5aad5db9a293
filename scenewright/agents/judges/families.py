"""Families of vision-language models, as data: ``families.toml``."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Family(BaseModel):
    """What is known of the models of one or several classes of transformers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """How people call it."""
    classes: tuple[str, ...] = ()
    """Model classes of transformers."""
    processor: str | None = None
    """Class of the processor that is used in place of the model's own, which needs more packages;
    both write the same text for a picture."""
    images: str | None = None
    """Its image processor where that has no PIL form: ``module.class`` in ``transformers.models``,
    run without torchvision (``processors.py``)."""
    needs: str | None = None
    """Package without which the installed transformers cannot show it a picture; such a model is
    not loaded."""
    template: dict[str, str | bool] = Field(default_factory=dict)
    """Arguments of the chat template that switch thinking off, each passed where the template
    of the model knows it."""
    thinks: str = "no"
    """Whether it thinks before it answers, for people."""
    opens: str = ""
    """Mark with which thinking begins; empty: it never thinks."""
    closes: str = ""
    """Mark with which thinking ends."""
    leads: tuple[str, ...] = ()
    """What may stand between the end of thinking, or the begin of the reply, and the answer."""
    licence: str = ""
    """The hub's names of the licences of its models."""
    models: dict[str, float] = Field(default_factory=dict)
    """Repositories of the hub and their parameters in 10^9."""

    def reading(self) -> dict[str, object]:
        """What decides how a model of the family is asked and read."""
        return self.model_dump(
            include={"name", "processor", "images", "template", "opens", "closes", "leads"},
            mode="json",
        )


UNKNOWN = Family(name="other")
"""A family without a row: nothing is passed to its template, and its answer comes first."""


@cache
def families() -> tuple[Family, ...]:
    """The table that ships with scenewright."""
    text = files(__package__).joinpath("families.toml").read_text(encoding="utf-8")
    return tuple(Family.model_validate(row) for row in tomllib.loads(text)["family"])


def family_of(folder: Path) -> Family:
    """Return the family of the model in ``folder`` by the class that its configuration names."""
    found: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    named = set(found.get("architectures") or ()) if isinstance(found, dict) else set()
    return next((row for row in families() if named & set(row.classes)), UNKNOWN)

"""A director's turns as an agent outside takes them: a call of a tool, and what it told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AgentToolCall:
    """A tool that the agent calls."""

    tool: str
    """Its name."""
    arguments: dict[str, Any]
    """Its arguments as JSON data."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool told."""

    text: str
    """One line of JSON, or what went wrong."""
    picture: str | None = None
    """A small JPEG beside it, in base64."""
    ok: bool = True
    """Whether the tool did what it was asked."""

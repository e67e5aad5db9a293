"""Table of the texts of servers' errors: the status that they mean, and what to do about them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ERROR_TEXTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
"""The tables of ``error_texts.toml`` by name."""

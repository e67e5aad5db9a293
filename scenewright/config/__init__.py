"""Settings, profiles and accounts."""

from __future__ import annotations

from typing import Literal

OnModelChange = Literal["stop", "split", "accept"]
"""Reaction when a judge is served by another version of its model: ``stop`` with an error,
``split`` the tables by version, or ``accept`` and note the mixture.
"""

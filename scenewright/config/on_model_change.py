"""What happens where a judge turns out to be served by another version of its model."""

from __future__ import annotations

from typing import Literal

OnModelChange = Literal["stop", "split", "accept"]
"""``stop`` with an error, ``split`` the tables by version, or ``accept`` and note the mixture."""

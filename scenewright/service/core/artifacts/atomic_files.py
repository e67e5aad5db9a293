"""Files put in their places whole."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from scenewright.service.core.artifacts.objects import digest_of


def place_file(place: Path, data: bytes) -> None:
    """Write ``data`` so that the file is either the old one or the whole new one.

    Not flushed: the store has it, and what a power cut spoils is found out and fetched again.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
    try:
        draft.write_bytes(data)
        os.replace(draft, place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def same_digest(place: Path, digest: str) -> bool:
    """Whether the file is there and its SHA-256 (hex) is ``digest``."""
    try:
        return digest_of(place.read_bytes()) == digest
    except FileNotFoundError:
        return False

"""What lies on the disk of what is fetched, and what still fits there."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

PARTIAL = ".incomplete"
"""Suffix of a file that is not whole yet."""
_BLOCK = 1 << 22


def free_bytes(folder: Path) -> int:
    """Bytes that are free where ``folder`` is, or will be."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def sha256_of(place: Path, checked: Callable[[int], None]) -> str:
    """SHA-256 (hex) of the file ``place``; ``checked`` hears of bytes as they are read."""
    digest = hashlib.sha256()
    with place.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            checked(len(block))
    return digest.hexdigest()

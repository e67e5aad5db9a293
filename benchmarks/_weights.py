"""Which shipped weights a measurement read, and which of them were replaced since.

Python tells of every file that a process opens; models read at least their configuration that way.
Weights that only other processes read, such as those of a server that a benchmark starts, are not
seen.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import scenewright

WEIGHTS = Path(scenewright.__file__).parent / "miniature" / "weights"
_ASIDE = frozenset({"report.json", "README.md"})
"""Files beside weights that no model reads."""
_seen: set[str] = set()


def _opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str | os.PathLike):
        return
    path = os.fspath(arguments[0])
    if isinstance(path, str) and path.startswith(_PREFIX):
        folder, _, name = path.removeprefix(_PREFIX).rpartition(os.sep)
        if folder and name not in _ASIDE:
            _seen.add(folder.replace(os.sep, "/"))


_PREFIX = f"{WEIGHTS}{os.sep}"
sys.addaudithook(_opened)


def weights_read() -> dict[str, str]:
    """Return folder of weights → digest, of all that this process has read."""
    return {name: digest_of(WEIGHTS / name) for name in sorted(_seen)}


@cache
def digest_of(folder: Path) -> str:
    """Return 16 hex digits of SHA-256 of a folder's files; empty where it is no more."""
    found = hashlib.sha256()
    files = sorted(f for f in folder.glob("*") if f.is_file() and f.name not in _ASIDE)
    for file in files:
        found.update(file.name.encode())
        found.update(file.read_bytes())
    return found.hexdigest()[:16] if files else ""


def replaced(read: Mapping[str, str], place: Path = WEIGHTS) -> list[str]:
    """Return the folders whose weights are others now than when they were read."""
    return [name for name, digest in read.items() if digest_of(place / name) != digest]

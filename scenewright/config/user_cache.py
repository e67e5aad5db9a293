"""The folder of this user where scenewright keeps what it can make or find out again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(name: str) -> Path:
    """Return ``~/.cache/scenewright/NAME``, or that below ``XDG_CACHE_HOME``.

    It may not exist yet and may be emptied at any time. Raises ``RuntimeError`` where the user has
    no home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "scenewright" / name

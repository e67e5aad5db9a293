"""What of an error a client may read: words of our own, without paths of the server.

An error of a library says what its own program got wrong, and where on this machine: that belongs
in the log.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from scenewright.core.validation import cut_short
from scenewright.service.core.errors import ServiceError

_PACKAGE = __name__.partition(".")[0]
MOST_DETAIL = 4000
"""Longest text of an error, in characters."""
_BEFORE = r"(?<![\w/:.-])"
_AFTER = r"(?:/[^\s'\"`,;:()\[\]<>]*|(?![\w.-]))"


def is_own(error: BaseException) -> bool:
    """Whether ``error`` is one of this package, whose text is written for people."""
    return type(error).__module__.partition(".")[0] == _PACKAGE


class Disclosure:
    """Takes the paths of one service out of texts."""

    def __init__(self, *folders: Path) -> None:
        """``folders``: what may be named in errors besides the usual ones."""
        places = [*folders, *_usual_folders()]
        roots = {str(_resolved(place)) for place in places} | {
            str(place) for place in places if place.is_absolute()
        }
        longest = sorted((root for root in roots if len(root) > 1), key=len, reverse=True)
        self._paths = re.compile(f"{_BEFORE}(?:{'|'.join(map(re.escape, longest))}){_AFTER}")

    def text(self, error: BaseException) -> str:
        """Return what of ``error`` a client may read."""
        if isinstance(error, ServiceError):
            return self.clean(error.detail)
        if not is_own(error):
            return (
                f"an error of the service ({type(error).__name__}): its log says more. Try again, "
                "and tell the service's operator if it stays"
            )
        return self.clean(str(error) or type(error).__name__)

    def clean(self, text: str) -> str:
        """Return ``text`` in its lines, each path of the server cut down to its last name."""
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        found = self._paths.sub(lambda match: match[0].rstrip("/").rpartition("/")[2], lines)
        # What was sent may stand in it: of any length, with halves of characters that no JSON has.
        return cut_short(found, MOST_DETAIL).encode(errors="replace").decode()


def _usual_folders() -> Iterable[Path]:
    yield Path(__file__).parents[3].parent
    yield from map(Path, (sys.prefix, sys.base_prefix, tempfile.gettempdir()))
    for find in (Path.cwd, Path.home):
        try:
            yield find()
        except (OSError, RuntimeError):
            continue


def _resolved(place: Path) -> Path:
    try:
        return place.resolve()
    except OSError:
        return place.absolute()

"""Texts of errors that a client may read: words of our own, without paths of the server.

An error of a library says what its own program got wrong, and where on this machine: that belongs
in the log.
"""

from __future__ import annotations

import itertools
import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from scenewright.core.error_text import is_own
from scenewright.core.validation import cut_short
from scenewright.providers.hub.cache import cache_folder
from scenewright.service.core.errors import ServiceError

MOST_DETAIL = 4000
"""Longest text of an error, in characters."""
_BEFORE = r"(?<![\w/:.-])"
_LEAST_QUOTED, _CUT = 12, 60
"""Characters of a library's text that are taken for a quote of it, and those that a quote has at
least where it was cut."""
_QUOTED = re.compile(r"(?P<open>[(:])\s*(?:[A-Z]\w*(?:Error|Exception|Warning)?:\s*)?$")
_AFTER = r"(?:/[^\s'\"`,;:()\[\]<>]*|(?![\w.-]))"


class Disclosure:
    """Takes the paths of one service out of texts."""

    def __init__(self, *folders: Path) -> None:
        """``folders``: what may be named in errors besides the usual ones."""
        usual = (sys.prefix, sys.base_prefix, tempfile.gettempdir())
        places = [*folders, Path(__file__).parents[3].parent, *map(Path, usual), cache_folder()]
        for find in (Path.cwd, Path.home):
            with suppress(OSError, RuntimeError):
                places.append(find())
        roots = {str(place) for place in places if place.is_absolute()}
        for place in places:
            try:
                roots.add(str(place.resolve()))
            except OSError:
                roots.add(str(place.absolute()))
        longest = sorted((root for root in roots if len(root) > 1), key=len, reverse=True)
        self._paths = re.compile(f"{_BEFORE}(?:{'|'.join(map(re.escape, longest))}){_AFTER}")

    def text(self, error: BaseException) -> str:
        """Return what of ``error`` a client may read."""
        if not is_own(error):
            return (
                f"an error of the service ({type(error).__name__}): its log says more. Try again, "
                "and tell the service's operator if it stays"
            )
        text = error.detail if isinstance(error, ServiceError) else str(error)
        # What it quotes of a library's error behind it belongs in the log, too.
        seen = {id(error)}
        cause = error.__cause__ or error.__context__
        while cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            # The text of a lookup's error is the name that was looked up.
            if not is_own(cause) and not isinstance(cause, LookupError):
                said = str(cause).strip()
                for line in (said, *said.splitlines()):
                    text = _without_quote(text, line.strip())
            cause = cause.__cause__ or cause.__context__
        return self.clean(text or type(error).__name__)

    def clean(self, text: str) -> str:
        """Return ``text`` in its lines, each path of the server cut down to its last name."""
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        found = self._paths.sub(lambda match: match[0].rstrip("/").rpartition("/")[2], lines)
        # What was sent may stand in it: of any length, with halves of characters that no JSON has.
        return cut_short(found, MOST_DETAIL).encode(errors="replace").decode()


def _without_quote(text: str, quote: str) -> str:
    """Return ``text`` without ``quote``, or its beginning if it was cut, where one stands.

    It stands in parentheses or after a colon, with or without the name of its class. A few
    characters are no quote: they may be a name that was sent.
    """
    if text == quote:
        return ""
    at = text.find(quote[:_CUT]) if len(quote) >= _LEAST_QUOTED else -1
    before = _QUOTED.search(text[:at]) if at >= 0 else None
    if before is None:
        return text
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(text[at:], quote, strict=False))
    end = at + sum(1 for _ in same)
    if before["open"] == "(" and text[end : end + 1] == ")":
        end += 1
    return text[: before.start()].rstrip() + text[end:]

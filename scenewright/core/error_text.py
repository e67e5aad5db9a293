"""Errors in words: for a person, for a client of a service, for a log.

An error of this package is written for people: its message is told as it is. One of a library is
told with its class, on one line and without anything like a secret. A process that serves clients
withholds the texts of libraries: they name its own files, and help the operator alone, who finds
them in the log.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scenewright.core.validation import cut_short

_LOG = logging.getLogger(__name__)
_PACKAGE = __name__.partition(".")[0]
LONGEST = 500
"""Longest text of an error, in characters."""
_SHORTEST_SECRET = 6
_ELSEWHERE = "the service's log says more"
_LOGGED_AGAIN, _MOST_LOGGED = 60.0, 1000
"""Seconds after which the same text is logged again, and texts that are remembered for it."""

_withheld: list[Callable[[BaseException], str]] = []
_logged: dict[str, float] = {}


def is_own(error: BaseException) -> bool:
    """Return whether ``error`` is one of this package, whose text is written for people."""
    return type(error).__module__.partition(".")[0] == _PACKAGE


def error_text(error: BaseException, limit: int = LONGEST, *, key: str = "") -> str:
    """Return ``error`` in words, on one line of at most ``limit`` characters.

    ``key``: a secret that may stand in a library's text. Where :func:`library_texts_withheld` is at
    work, a library's text goes to the log, and its class alone is told; the same holds for what an
    own error quotes of one.
    """
    if isinstance(error, BaseExceptionGroup):
        return error_text(error.exceptions[0], limit, key=key)
    if is_own(error):
        whole = text = str(error)
        if _withheld and (text := _withheld[-1](error)) != whole:
            _log_once(scrubbed(whole, limit), None)
        return cut_short(" ".join(text.split()), limit) or type(error).__name__
    name = type(error).__name__
    said = hidden(f"{name}: {error}".rstrip(": "), key, limit)
    if not _withheld:
        return said
    # A traceback repeats the text, and a key with it.
    _log_once(said, None if key else error)
    return f"{name}: {_ELSEWHERE}"


@contextmanager
def library_texts_withheld(own: Callable[[BaseException], str]) -> Iterator[None]:
    """Withhold the texts of libraries in this process; ``own`` returns what an own error may tell.

    It holds for all threads: reasons are written in those of the models, too.
    """
    _withheld.append(own)
    try:
        yield
    finally:
        _withheld.remove(own)


def _log_once(text: str, error: BaseException | None) -> None:
    """Log ``text``, unless it was logged just now: many facts may share it."""
    now = time.monotonic()
    if now - _logged.get(text, -_LOGGED_AGAIN) < _LOGGED_AGAIN:
        return
    if len(_logged) >= _MOST_LOGGED:
        _logged.clear()
    _logged[text] = now
    _LOG.warning("a model or library failed: %s", text, exc_info=error)


# A reply's text can be megabytes of image data.
_READ = 100_000

_NAMES = (
    r"(?:(?:x-)?(?:goog-api|api|access|auth|secret|private|session|refresh|id)[-_ ]?)?(?:key|token)"
    r"|(?:proxy-)?authorization|password|secret"
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*,[^\s\"'<>)]*", "[data]"),
        (r"://[^/\s:@]+:[^/\s@]+@", "://[hidden]@"),
        (
            rf"\b({_NAMES})((?:\s+provided)?[\"']?\s*[=:]\s*[\"']?)"
            r"(?!\[hidden\])(?:(?:bearer|basic)\s+)?[^\s\"'&,;)}\]]+",
            r"\1\2[hidden]",
        ),
        (r"\b(bearer|basic)\s+[\w.~+/*=-]{4,}", r"\1 [hidden]"),
        (r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|or|sw)[-_][\w*.-]{6,}", "[hidden]"),
        (r"\bAIza[\w*-]{8,}", "[hidden]"),
        # Longer than a SHA-256 in hex, which names images.
        (r"[A-Za-z0-9+/=_-]{72,}", "[data]"),
    )
)


def scrubbed(text: str, limit: int = 300) -> str:
    """Return ``text`` on one line of at most ``limit`` characters, without anything like a secret.

    Hides keys by their usual shapes and names, and long runs of base64.
    """
    if len(text) > _READ:
        # The word that the cut may have halved is dropped too.
        text = text[:_READ].rpartition(" ")[0]
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def hidden(text: str, key: str, limit: int = 300) -> str:
    """Return ``text`` as :func:`scrubbed` does, without ``key`` too."""
    if len(key) >= _SHORTEST_SECRET:
        text = text.replace(key, "[hidden]")
    return scrubbed(text, limit)

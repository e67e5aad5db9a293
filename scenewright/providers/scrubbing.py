"""Texts of providers and libraries made fit for a log: no keys, no image data, one line."""

from __future__ import annotations

import re

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
    """``text`` on one line of at most ``limit`` characters, without what looks like a secret.

    Hides keys by their usual shapes and names, and long runs of base64.
    """
    if len(text) > _READ:
        # The word that the cut may have halved is dropped too.
        text = text[:_READ].rpartition(" ")[0]
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"

"""Where the files of a run lie in the store, and which of its event logs is the run's.

::

    runs/ID/manifest.json
    runs/ID/images/HASH.png
    runs/ID/requests/KEY.json        which image a request gave
    runs/ID/answers/HASH.jsonl       answers that were paid for, some in each
    runs/ID/events/NUMBER-TOKEN.jsonl
    runs/ID/result.json
    sent/TENANT/HASH.png             pictures that people have sent

Every server that takes the run over writes an event log of its own, with a higher number. Nobody
writes another's, so a server that has lost the run without knowing it harms nothing: its log is not
the run's any longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LOG = re.compile(r"runs/[^/]+/events/(\d{6})-([0-9a-f]+)\.jsonl")
IMAGE = re.compile(r"runs/[^/]+/images/([0-9a-f]{64})\.png")
"""Key of an image."""
NOTE = re.compile(r"runs/[^/]+/requests/([0-9a-f]{64})\.json")
"""Key of what a request gave."""
PAID = re.compile(r"runs/[^/]+/answers/([0-9a-f]{64})\.jsonl")
"""Key of some answers."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The event log of one server."""

    number: int
    """The highest is the run's."""
    token: str
    """Tells apart two servers that took the same number; only one of them has the run."""

    def key(self, run: str) -> str:
        """Its key."""
        return f"runs/{run}/events/{self.number:06d}-{self.token}.jsonl"


def claims_among(keys: Iterable[str]) -> dict[Claim, str]:
    """The event logs among ``keys``."""
    found = {}
    for key in keys:
        match = _LOG.fullmatch(key)
        if match:
            found[Claim(int(match[1]), match[2])] = key
    return found


def newest(claims: Iterable[Claim]) -> list[Claim]:
    """The logs with the highest number: one, or more where servers met in the taking over."""
    claims = list(claims)
    highest = max((claim.number for claim in claims), default=0)
    return [claim for claim in claims if claim.number == highest]


def image_key(run: str, digest: str) -> str:
    """Key of an image of a run."""
    return f"runs/{run}/images/{digest}.png"


def whole_lines(data: bytes) -> bytes:
    """``data`` up to its last line end."""
    return data[: data.rfind(b"\n") + 1]

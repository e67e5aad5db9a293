"""Keys of a run's files in the store, and the choice of its event log.

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

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
    """Name that separates two servers that took the same number; only one of them has the run."""

    def key(self, run: str) -> str:
        """Return its key."""
        return f"runs/{run}/events/{self.number:06d}-{self.token}.jsonl"


def claims_among(keys: Iterable[str]) -> dict[Claim, str]:
    """Return the event logs among ``keys``."""
    return {Claim(int(match[1]), match[2]): key for key in keys if (match := _LOG.fullmatch(key))}


def newest(claims: Iterable[Claim]) -> list[Claim]:
    """Return the logs with the highest number.

    One, or more where servers met in the taking over.
    """
    claims = list(claims)
    highest = max((claim.number for claim in claims), default=0)
    return [claim for claim in claims if claim.number == highest]


def image_key(run: str, digest: str) -> str:
    """Return the key of an image of a run."""
    return f"runs/{run}/images/{digest}.png"


def whole_lines(data: bytes) -> bytes:
    """Return ``data`` up to its last line end."""
    return data[: data.rfind(b"\n") + 1]


def digest_of(data: bytes) -> str:
    """Return SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def place_file(place: Path, data: bytes, *, flush: bool = False) -> None:
    """Write ``data`` so that the file is either the old one or the whole new one.

    Without ``flush`` it need not outlive a power cut: the store has it, and what is spoilt is found
    out and fetched again.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(draft, "xb") as file:
            file.write(data)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def same_digest(place: Path, digest: str) -> bool:
    """Return whether the file is there and its SHA-256 (hex) is ``digest``."""
    try:
        return digest_of(place.read_bytes()) == digest
    except FileNotFoundError:
        return False

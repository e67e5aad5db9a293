"""Digests of JSON values, of which fingerprints are made."""

from __future__ import annotations

import hashlib
import json


def json_digest(*parts: object, sort_keys: bool = False) -> str:
    """Return the SHA-256 (hex) of the JSON list of ``parts``."""
    return hashlib.sha256(json.dumps(parts, sort_keys=sort_keys).encode()).hexdigest()


def short_digest(*parts: object) -> str:
    """Return 12 hex digits that change with any of ``parts``; the order of keys does not matter."""
    return json_digest(*parts, sort_keys=True)[:12]

"""Which photo goes to which part of a set: decided by its id alone, so that no order matters."""

from __future__ import annotations

import hashlib

from scenewright.evals.annotation.config import Splits

PARTS = ("train", "val", "test")


def place_of(photo_id: str, seed: int) -> float:
    """A number in [0, 1) for the photo: the first eight bytes of SHA-256 over seed and id."""
    digest = hashlib.sha256(f"{seed}\0{photo_id}".encode("utf-8", "surrogatepass")).digest()
    # Of 64 bits a double holds 53.
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def part_of(place: float, splits: Splits) -> str:
    """``train``, ``val`` or ``test`` of a photo at ``place`` of [0, 1), by the shares of
    ``splits``; never ``test`` where that is drawn by counts."""
    test = 0.0 if splits.test_counts else splits.test
    shares = dict(zip(PARTS, (splits.train, splits.val, test), strict=True))
    left = place * sum(shares.values())
    chosen = "train"
    for part, share in shares.items():
        if share <= 0:
            continue
        chosen = part
        if left < share:
            break
        left -= share
    return chosen

"""Ranks scored pictures within their classes, and selects from the ranks (REAL, Section 4.4).

The paper compares training sets augmented with the best, the worst and random pictures of each
class; all three are drawn from the same scored pictures. Where the cut falls among equal scores the
selection says nothing of them, and :func:`ties` tells how many there are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

How = Literal["high", "random", "low", "none"]
"""Best of each class, any of each class, worst of each class, or no picture at all."""
HOW: tuple[How, ...] = get_args(How)


@dataclass(frozen=True, slots=True)
class Ranked:
    """One picture that can be ranked."""

    image: str
    """Its path or name; not twice in one class."""
    label: str
    """Its class, within which it is ranked."""
    score: float | None
    """Higher is better; None if it is unscored."""
    digest: str = ""
    """Hash of its content, where it is known: equal scores are told apart by it, so that the
    order does not hang on where the files lie. Else by the hash of ``image``."""


def by_rank(rows: Iterable[Ranked]) -> dict[str, list[Ranked]]:
    """Class → its scored pictures, best first; classes in the order of their names.

    Equal scores are ordered by hash, so the result does not depend on the order of ``rows``.
    Unscored pictures are left out: they have no rank. A class all of whose pictures are unscored
    stands there empty. Raises ``ValueError`` for a score that is no finite number, and for a
    picture that stands twice in a class.
    """
    classes: dict[str, list[Ranked]] = {}
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.label, row.image) in seen:
            raise ValueError(f"{row.image} stands twice in the class {row.label!r}")
        seen.add((row.label, row.image))
        inside = classes.setdefault(row.label, [])
        if row.score is None:
            continue
        if not math.isfinite(row.score):
            raise ValueError(f"{row.image} has the score {row.score}: give a number, or none")
        inside.append(row)
    return {label: sorted(classes[label], key=_best_first) for label in sorted(classes)}


def select(rows: Iterable[Ranked], k: int, how: How, seed: int = 0) -> list[Ranked]:
    """At most ``k`` scored pictures of each class: ``high`` the best ones, ``low`` the worst ones
    (worst first), ``random`` as many of any rank, ``none`` nothing.

    ``high`` and ``low`` share no picture where a class has ``2·k`` scored ones. ``random`` depends
    on ``seed`` alone, not on the order of ``rows`` or on the other classes. Unscored pictures are
    in no selection. Classes follow each other by name. Raises ``ValueError`` as :func:`by_rank`,
    for a negative ``k`` and for another ``how``.
    """
    if k < 0:
        raise ValueError(f"{k} pictures a class cannot be selected")
    if how not in HOW:
        raise ValueError(f"there is no selection {how!r}: take {', '.join(HOW)}")
    if how == "none":
        return []
    found: list[Ranked] = []
    for ranked in by_rank(rows).values():
        if how == "low":
            ranked.reverse()
        elif how == "random":
            ranked.sort(key=lambda row: _hash(f"{seed}\0{row.label}\0{_name(row)}"))
        found.extend(ranked[:k])
    return found


def tied_at(scores: Sequence[float], k: int) -> range:
    """Return the places of ``scores``, in their order of rank, that share the score at the cut
    after the first ``k``, some of them before and some after it; empty where the cut parts two
    scores, or nothing."""
    if not 0 < k < len(scores) or scores[k - 1] != scores[k]:
        return range(0)
    first = next(at for at, score in enumerate(scores) if score == scores[k])
    last = next((at for at in range(k, len(scores)) if scores[at] != scores[k]), len(scores))
    return range(first, last)


def ties(rows: Iterable[Ranked], k: int, how: Literal["high", "low"]) -> dict[str, int]:
    """Return by class how many pictures share the score at the cut of a selection, of which a hash
    takes some and leaves others; 0 where the scores decide."""
    found = {}
    for label, ranked in by_rank(rows).items():
        scores = [row.score for row in ranked if row.score is not None]
        found[label] = len(tied_at(scores if how == "high" else scores[::-1], k))
    return found


def _best_first(row: Ranked) -> tuple[float, str, str]:
    assert row.score is not None
    return -row.score, _hash(_name(row)), row.image


def _name(row: Ranked) -> str:
    return row.digest or row.image


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

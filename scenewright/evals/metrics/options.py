"""Options of metrics, checked: what a configuration says wrongly is told by name."""

from __future__ import annotations

import math
from typing import Any

from scenewright.evals.metrics.base import MetricError


def real(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """``value`` as a number in [low, high]; ``MetricError`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise MetricError(f"{name} is {value!r}: use a number {_between(low, high)}")
    return float(value)


def whole(name: str, value: Any, low: int, high: float = math.inf) -> int:
    """``value`` as a whole number in [low, high]; ``MetricError`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MetricError(f"{name} is {value!r}: use a whole number {_between(low, high)}")
    return value


def text(name: str, value: Any, allowed: tuple[str, ...] = ()) -> str:
    """``value`` as text, one of ``allowed`` if it names any; ``MetricError`` otherwise."""
    if not isinstance(value, str) or (allowed and value not in allowed):
        choice = f"one of {', '.join(allowed)}" if allowed else "text"
        raise MetricError(f"{name} is {value!r}: use {choice}")
    return value


def switch(name: str, value: Any) -> bool:
    """``value`` as true or false; ``MetricError`` otherwise."""
    if not isinstance(value, bool):
        raise MetricError(f"{name} is {value!r}: use true or false")
    return value


def _between(low: float, high: float) -> str:
    return f"of {low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"


QUESTION_OPTIONS: dict[str, str] = {
    "questions": "whose: item (those of the set), chat (a language model's), scene (facts of the "
    "scene), or auto (default: the first of these that there is)",
    "chat": "ACCOUNT:MODEL that writes questions about an item's text (none by default)",
    "protocol": "how a scene is asked about: scene-bench (default of tifa) or grounded (of dsg)",
}
"""Options of every metric that asks questions about an item."""


PANEL_OPTIONS: dict[str, str] = {
    "judges": "who is asked, ACCOUNT:MODEL or a list (default: the report judges of the profile)",
    "profile": "whose report judges are asked (default: yours)",
    "aggregator": "which makes the score: mean (default), median, trimmed, majority or dawid_skene",
    "folder": "where answers are kept for other days (default: below ~/.cache)",
}
"""Options that every metric of this kind has."""


COUNT_OPTION = {
    "count": "what of an answer counts: choices (default, as published) or probabilities",
}

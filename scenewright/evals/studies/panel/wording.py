"""Figures in sentences, tables and files: what the studies write in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import Figure


def estimate(figure: Figure) -> Estimate:
    """``figure`` as a cell of a table."""
    return Estimate(value=figure.value, low=figure.low, high=figure.high, n=figure.n)


def as_json(figure: Figure) -> dict[str, float] | float | None:
    """``figure`` as benchmarks and studies keep it."""
    if figure.value is None or figure.low is None or figure.high is None:
        return figure.value
    return {"mean": figure.value, "low": figure.low, "high": figure.high}


def as_record(figure: Figure) -> dict[str, float | None]:
    """``value``, ``low`` and ``high`` of a row of a file."""
    return {"value": figure.value, "low": figure.low, "high": figure.high}


def plain(figure: Figure, digits: int = 3) -> str:
    """``0.931 [0.902, 0.957]``, with true minus signs."""
    return estimate(figure).text(digits)


def difference(figure: Figure, digits: int = 3) -> str:
    """With its sign: ``+0.012 [+0.003, +0.021]``."""
    return estimate(figure).text(digits, sign=True)


def side(figure: Figure) -> int:
    """1 or −1 where the interval lies above or below 0, else 0."""
    if figure.low is None or figure.high is None:
        return 0
    return int(figure.low > 0.0) - int(figure.high < 0.0)


def percent(value: float, digits: int = 0) -> str:
    """``0.931`` as ``93 %``."""
    return f"{number(100.0 * value, digits)} %"


def joined(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def ordinal(n: int) -> str:
    """``2nd``."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def short_name(voter: str) -> str:
    """The part of a judge's id that tells it from others, for axes."""
    return voter.rsplit("/", 1)[-1].rsplit(":", 1)[-1]


def short_names(ids: Iterable[str]) -> tuple[str, ...]:
    """Ids without the account and folder before the name, as long as all stay different."""
    given = tuple(ids)
    for marks in ("/:", ":"):
        shown = tuple(_after(one, marks) for one in given)
        if len(set(shown)) == len(given):
            return shown
    return given


def _after(text: str, marks: str) -> str:
    cut = max(text.rfind(mark) for mark in marks)
    return text[cut + 1 :] or text

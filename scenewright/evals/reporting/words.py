"""Numbers as reports show them."""

from __future__ import annotations


def whole(value: float) -> str:
    """Return ``12,345``."""
    return f"{round(value):,}"


def count(number: int, noun: str) -> str:
    """Return ``1 item``, ``2,000 items``."""
    return f"{whole(number)} {noun}" if number == 1 else f"{whole(number)} {noun}s"


def dollars(value: float | None) -> str:
    """Return US dollars with the digits that a small amount needs; a dash for None."""
    if value is None:
        return "–"
    if value == 0:
        return "$0"
    return (
        f"${value:,.2f}" if value >= 0.1 else f"${value:.2g}" if value >= 1e-4 else f"${value:.1e}"
    )


def signed(value: float | None, digits: int = 3) -> str:
    """Return a difference with its sign; a dash for None."""
    if value is None:
        return "–"
    return f"{value:+.{digits}f}".replace("-", "−")


def p_value(value: float | None) -> str:
    """Return ``0.031``, ``<0.001``; a dash for None."""
    if value is None:
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def probability(part: int, of: int) -> str:
    """Return ``12.3%`` of a count; a dash for none. Never rounds to a false 0 or 100."""
    if not of:
        return "–"
    share = 100 * part / of
    if 0 < share < 0.1:
        return "<0.1%"
    if 99.9 < share < 100:
        return ">99.9%"
    return f"{share:.1f}%"


def score(value: float | None, digits: int = 3) -> str:
    """Return a score; a dash for None. Large ones (distances) have fewer digits."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}" if abs(value) < 100 else f"{value:.1f}"

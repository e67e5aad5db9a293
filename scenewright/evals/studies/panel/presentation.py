"""How results of all parts are shown: numbers in words, table cells, rows of files and sentences.

A part measures, and hands tidy rows (one mapping a row, figures unrounded) to the functions here:
:func:`layout` makes a table of the page, :func:`records` the rows of a parquet file,
:func:`figures` the entries of ``study.json``, and :func:`sentences` fills the templates in
``assets/sentences``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.layout import Cell, Column, Layout, Row

Heads = Mapping[str, str | tuple[str, int] | tuple[str, int, float]]
"""Columns of a table: column of the rows → title, decimal places (default 3), and the factor of its
numbers."""
_MARK = re.compile(r"^\s*- ", re.MULTILINE)
"""Beginning of a sentence in a template."""


def estimate(figure: Figure, factor: float = 1.0) -> Estimate:
    """Return ``figure`` times ``factor`` as a table cell shows it."""
    made = Estimate(value=figure.value, low=figure.low, high=figure.high, n=figure.n)
    return made if factor == 1.0 else made.times(factor)


def plain(figure: Figure, digits: int = 3) -> str:
    """Return ``0.931 [0.902, 0.957]``, with true minus signs."""
    return estimate(figure).text(digits)


def difference(figure: Figure, digits: int = 3) -> str:
    """Return ``+0.012 [+0.003, +0.021]``."""
    return estimate(figure).text(digits, sign=True)


def percent(found: Figure | float, digits: int | None = None, sign: bool = False) -> str:
    """Return ``12.3 % [10.0, 14.9]``, a dash without a value, or ``12 %`` of a bare share."""
    if not isinstance(found, Figure):
        return f"{number(100.0 * found, digits or 0)} %"
    return _in_words(found, 1 if digits is None else digits, sign, " %")


def points(figure: Figure, digits: int = 1, sign: bool = True) -> str:
    """Return ``+2.1 points [+0.4, +3.9]``: a difference of shares, in percentage points."""
    return _in_words(figure, digits, sign, " points")


def _in_words(figure: Figure, digits: int, sign: bool, unit: str) -> str:
    if figure.value is None:
        return "–"
    shown, _, interval = estimate(figure, 100.0).text(digits, sign).partition(" [")
    return shown + unit + (f" [{interval}" if interval else "")


def side(figure: Figure | Estimate) -> int:
    """Return 1 if the interval is above 0, −1 if it is below 0, else 0."""
    if figure.low is None or figure.high is None:
        return 0
    return int(figure.low > 0.0) - int(figure.high < 0.0)


def apart(one: Figure, other: Figure) -> bool:
    """Return whether the two intervals have nothing in common."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high < other.low or other.high < one.low


def way(figure: Figure, above: str, below: str, neither: str) -> str:
    """Return the words for the side of 0 on which the interval is."""
    return {1: above, -1: below, 0: neither}[side(figure)]


def joined(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def counted(n: int, noun: str) -> str:
    """Return ``1 judge`` or ``3 judges``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def ordinal(n: int) -> str:
    """Return ``2nd``."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def short_name(voter: str) -> str:
    """Return the part of a judge's id that distinguishes it from others, for axes."""
    return voter.rsplit("/", 1)[-1].rsplit(":", 1)[-1]


def short_names(ids: Iterable[str]) -> tuple[str, ...]:
    """Return ids without the account and folder before the name, if all stay different."""
    known = tuple(ids)
    for marks in ("/:", ":"):
        shown = tuple(one[max(map(one.rfind, marks)) + 1 :] or one for one in known)
        if len(set(shown)) == len(known):
            return shown
    return known


def flat(figure: Figure | Estimate) -> Any:
    """Return ``{"mean", "low", "high"}``, or the bare number where there is no interval."""
    if figure.low is None or figure.high is None:
        return figure.value
    return {"mean": figure.value, "low": figure.low, "high": figure.high}


def figures(found: Iterable[tuple[str, Figure | Estimate | None]]) -> dict[str, Any]:
    """Return the entries of ``study.json``; those without a value are left out."""
    return {key: flat(one) for key, one in found if one is not None and one.value is not None}


def records(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a parquet file: a figure takes three columns, for its value and interval.

    A figure ``x`` becomes ``x``, ``x_low`` and ``x_high``; one whose name ends with ``value`` keeps
    its beginning: ``gain_value``, ``gain_low``, ``gain_high``. Columns that begin with an
    underscore are for tables and plots alone, and NaN becomes None.
    """
    return [_record(row) for row in rows]


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name.startswith("_"):
            continue
        if isinstance(value, Figure | Estimate):
            stem = name.removesuffix("value") if name.endswith("value") else f"{name}_"
            found |= {name: value.value, f"{stem}low": value.low, f"{stem}high": value.high}
        else:
            found[name] = None if isinstance(value, float) and value != value else value
    return found


def bare(name: str, found: Figure | Estimate) -> dict[str, float | None]:
    """Return the columns of the one figure of a row: ``name``, ``low`` and ``high``."""
    return {name: found.value, "low": found.low, "high": found.high}


def layout(
    key: str,
    title: str,
    head: str,
    heads: Heads,
    rows: Iterable[tuple[str, str, Mapping[str, Any]]],
    used_only: bool = False,
) -> Layout:
    """Return a table of the page.

    Args:
        key: Its id.
        title: Above it.
        head: Title of the first column.
        heads: Its other columns; with ``used_only`` those in which some row has a value.
        rows: (key, title, values by column): a figure, a number, or either with a note behind it.
        used_only: Whether to leave out empty columns.
    """
    listed = list(rows)
    shown = {
        name: (told, 3, 1.0) if isinstance(told, str) else (*told, 1.0)[:3]
        for name, told in heads.items()
        if not used_only
        or any(_cell(values.get(name)).measured not in (None, Estimate()) for *_, values in listed)
    }
    return Layout(
        id=key,
        title=title,
        head=head,
        columns=tuple(
            Column(key=k.strip("_").removesuffix("_value"), title=t, digits=d)
            for k, (t, d, _) in shown.items()
        ),
        rows=tuple(
            Row(
                key=at,
                title=told,
                cells=tuple(_cell(values.get(k), factor) for k, (*_, factor) in shown.items()),
            )
            for at, told, values in listed
        ),
        of_paper=False,
    )


def _cell(value: Any, factor: float = 1.0) -> Cell:
    value, note = value if isinstance(value, tuple) else (value, "")
    if value is None:
        return Cell(note=note)
    if isinstance(value, Figure):
        value = estimate(value)
    elif not isinstance(value, Estimate):
        value = Estimate(value=float(value)) if value == value else Estimate(reason="no answers")
    return Cell(measured=value.times(factor) if factor != 1.0 else value, note=note)


def sentences(part: str, block: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sentences of a template's block (``findings`` or ``notes``), filled in.

    In ``assets/sentences/PART.j2`` each one begins with ``- `` at the start of a line.
    """
    template = _environment().get_template(f"{part}.j2")
    text = "".join(template.blocks[block](template.new_context(dict(values))))
    found = (" ".join(one.split()) for one in _MARK.split(text))
    return tuple(one for one in found if one)


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("scenewright.evals.studies.panel", "assets/sentences"),
        autoescape=False,
        undefined=StrictUndefined,
    )
    made.filters |= {
        "plain": plain,
        "diff": difference,
        "percent": percent,
        "points": points,
        "way": way,
        "side": side,
        "number": number,
        "listed": joined,
        "counted": counted,
        "ordinal": ordinal,
        "short": short_name,
    }
    return made

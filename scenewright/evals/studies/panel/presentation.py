"""How results of all parts are shown: numbers in words, table cells, rows of files and sentences.

A part measures, and hands tidy rows (one mapping a row, figures unrounded) and a few values to
:func:`report`. Its template, ``assets/parts/PART.j2``, has a block for each of ``findings``,
``notes``, ``tables`` and ``figures``: the first two hold sentences, the others call ``table(…)``
(:class:`_Collector`) for each table of the page and ``figure(…)`` for each entry of ``study.json``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from scenewright.evals.reporting.plots import Measured
from scenewright.evals.statistics.answers import Contrast, difference_answer
from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import Figure, side_of_zero
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.study import PanelStudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

Rows = Sequence[Mapping[str, Any]]
"""Tidy rows: what was measured by name of the column."""
Heads = Mapping[str, str | Sequence[Any]]
"""Columns of a table: column of the rows → title, decimal places (default 3), and the factor of its
numbers."""
_MARK = re.compile(r"^\s*- ", re.MULTILINE)
"""Beginning of a sentence in a template."""


def estimate(figure: Figure) -> Estimate:
    """Return ``figure`` as a table cell shows it."""
    return Estimate(**figure.model_dump())


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
    shown, _, interval = estimate(figure).times(100.0).text(digits, sign).partition(" [")
    return shown + unit + (f" [{interval}" if interval else "")


def side(figure: Measured, digits: int = 3) -> int:
    """Return 1 if the interval is above 0, −1 if it is below 0, else 0, as it is shown."""
    return side_of_zero(figure, digits)


def apart(one: Figure, other: Figure) -> bool:
    """Return whether the two intervals have nothing in common."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high < other.low or other.high < one.low


def way(figure: Figure, above: str, below: str, neither: str, digits: int = 3) -> str:
    """Return the words for the side of 0 on which the interval is."""
    return {1: above, -1: below, 0: neither}[side(figure, digits)]


def answer(
    figure: Figure, after: str, before: str, measure: str, n: int, unit: str, higher: bool = True
) -> str:
    """Return whether ``after`` is better than ``before`` by the difference ``figure``.

    ``n`` counts what was resampled, each a ``unit``; ``higher``: more of ``measure`` is better.
    """
    found = estimate(figure).model_copy(update={"n": n})
    return difference_answer(
        Contrast(after, before, found, measure, unit=unit, higher_is_better=higher)
    ).sentence


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


def percentages(titles: Mapping[str, str], digits: int = 1) -> dict[str, tuple[str, int, float]]:
    """Return columns whose numbers are shares, shown in percent."""
    return {name: (title, digits, 100.0) for name, title in titles.items()}


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


def flat(figure: Measured) -> Any:
    """Return ``{"mean", "low", "high"}``, or the bare number where there is no interval."""
    if figure.low is None or figure.high is None:
        return figure.value
    return bare("mean", figure)


def bare(name: str, found: Measured) -> dict[str, float | None]:
    """Return the columns of the one figure of a row: ``name``, ``low`` and ``high``."""
    return {name: found.value, "low": found.low, "high": found.high}


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


def report(
    part: str,
    values: Mapping[str, Any],
    *,
    plots: Mapping[str, Callable[[], Plot] | None],
    records_of: Mapping[str, Rows | None],
    before: Sequence[str] = (),
    after: Sequence[str] = (),
) -> PanelStudyResult:
    """Return the result of a part, shown by its template.

    Args:
        part: Its name.
        values: What its template shows: rows by name, figures, numbers and words.
        plots: File stem → function that draws the plot; None: it is left out.
        records_of: File stem → rows of a parquet file; None: it is left out.
        before: Notes before those of the template.
        after: Notes behind them.
    """
    template = _environment().get_template(f"{part}.j2")
    found = _Collector()
    context = {
        **values,
        "table": found.table,
        "figure": found.figure,
        "figures": found.figures_of,
        "percentages": percentages,
    }

    def rendered(block: str) -> str:
        return "".join(template.blocks[block](template.new_context(context)))

    def sentences(block: str) -> tuple[str, ...]:
        each = (" ".join(one.split()) for one in _MARK.split(rendered(block)))
        return tuple(one for one in each if one)

    for block in ("tables", "figures"):
        rendered(block)
    return PanelStudyResult(
        findings=sentences("findings"),
        tables=tuple(found.tables),
        plots={stem: draw for stem, draw in plots.items() if draw},
        records={stem: records(rows) for stem, rows in records_of.items() if rows is not None},
        figures=found.figures,
        notes=(*before, *sentences("notes"), *after),
    )


class _Collector:
    """Tables and figures that a template calls for, in its order."""

    def __init__(self) -> None:
        self.tables: list[Layout] = []
        self.figures: dict[str, Any] = {}

    def table(
        self,
        key: str,
        title: str,
        head: str,
        rows: Rows,
        columns: Heads,
        at: str,
        label: str = "",
        used_only: bool = False,
    ) -> str:
        """Add a table of the page.

        Args:
            key: Its id.
            title: Above it.
            head: Title of the first column.
            rows: Its rows; a cell is a figure, a number, or either with a note behind it.
            columns: Its other columns; with ``used_only`` those in which some row has a value.
            at: Key of a row, as ``str.format`` makes it of the row's columns.
            label: Title of a row, likewise; empty: its key.
            used_only: Whether to leave out empty columns.
        """
        shown = {
            name: (told, 3, 1.0) if isinstance(told, str) else (*told, 1.0)[:3]
            for name, told in columns.items()
            if not used_only
            or any(_cell(row.get(name)).measured not in (None, Estimate()) for row in rows)
        }
        self.tables.append(
            Layout(
                id=key,
                title=title,
                head=head,
                columns=tuple(
                    Column(key=name.strip("_").removesuffix("_value"), title=told, digits=digits)
                    for name, (told, digits, _) in shown.items()
                ),
                rows=tuple(
                    Row(
                        key=at.format_map(row),
                        title=(label or at).format_map(row),
                        cells=tuple(
                            _cell(row.get(name), factor) for name, (*_, factor) in shown.items()
                        ),
                    )
                    for row in rows
                ),
                of_paper=False,
            )
        )
        return ""

    def figure(self, key: str, found: Measured | None, whole: bool = False) -> str:
        """Add an entry of ``study.json``, if it has a value; ``whole``: also without one."""
        if found is not None and (whole or found.value is not None):
            self.figures[key] = bare("mean", found) if whole else flat(found)
        return ""

    def figures_of(
        self, at: str, rows: Rows, names: Mapping[str, str] | Sequence[str], whole: bool = False
    ) -> str:
        """Add the columns ``names`` of each row; keys are those formatted with ``at``.

        ``names`` are columns, or column → its name in keys; in ``at`` it is ``{name}``.
        """
        told = names if isinstance(names, Mapping) else dict(zip(names, names, strict=True))
        for row in rows:
            for column, name in told.items():
                self.figure(at.format_map({**row, "name": name}), row.get(column), whole)
        return ""


def _cell(value: Any, factor: float = 1.0) -> Cell:
    value, note = value if isinstance(value, tuple) else (value, "")
    if value is None:
        return Cell(note=note)
    if isinstance(value, Figure):
        value = estimate(value)
    elif not isinstance(value, Estimate):
        value = Estimate(value=float(value)) if value == value else Estimate(reason="no answers")
    return Cell(measured=value.times(factor) if factor != 1.0 else value, note=note)


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("scenewright.evals.studies.panel", "assets/parts"),
        autoescape=False,
        undefined=StrictUndefined,
    )
    made.filters |= {
        "plain": plain,
        "answer": answer,
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

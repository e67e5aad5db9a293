"""Write the pages that quote benchmarks: ``docs/results.md`` and the table of the README.

``make results``. ``templates/results.md`` holds the text and names
the figures; they come from ``benchmarks/results``. A test holds the committed pages equal to what
this writes, so a measurement is followed by its pages or fails the tests.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from benchmarks import _loop
from benchmarks._harness import RESULTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
SECTION = "results"
"""The README's section."""


@dataclass(frozen=True, slots=True)
class Result:
    """One file of results, as templates ask for it."""

    name: str
    commit: str
    date: str
    n: int
    figures: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path) -> Result:
        """Read a file that :func:`benchmarks._harness.write` wrote."""
        found = json.loads(file.read_text(encoding="utf-8"))
        return cls(found["name"], found["commit"], found["date"], found["n"], found["figures"])

    def __call__(self, key: str, digits: int = 3, scale: float = 1.0) -> str:
        """Return a figure in words: ``0.166 [0.158, 0.173]`` if it has an interval."""
        value = self.figures[key]
        if not isinstance(value, Mapping):
            return shown(value, digits, scale)
        mean, low, high = (shown(value[part], digits, scale) for part in ("mean", "low", "high"))
        return f"{mean} [{low}, {high}]"

    def mean(self, key: str, digits: int = 3, scale: float = 1.0) -> str:
        """Return a figure without its interval."""
        value = self.figures[key]
        return shown(value["mean"] if isinstance(value, Mapping) else value, digits, scale)

    @property
    def source(self) -> str:
        """Say where the figures come from."""
        return f"`python -m benchmarks.{self.name}`: n = {self.n:,}, {self.date}, `{self.commit}`"


def shown(value: Any, digits: int = 3, scale: float = 1.0) -> str:
    """Return a number in words, with thousands apart and a true minus; text as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and scale == 1.0:
        return f"{value:,}"
    text = f"{value * scale:,.{digits}f}"
    if not float(text.replace(",", "")):
        text = text.lstrip("-")
    return text.replace("-", "−")


def _table(result: Result, columns: Mapping[str, str], rows: Mapping[str, str], digits: int) -> str:
    """Return a Markdown table: a figure ``COLUMN`` with the row's name in place of ``{}``."""
    lines = [f"| | {' | '.join(columns.values())} |", f"| --- |{' --- |' * len(columns)}"]
    for row, words in rows.items():
        keys = (column.replace("{}", row) for column in columns)
        cells = (result(key, digits) if key in result.figures else "–" for key in keys)
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


@cache
def _environment() -> Environment:
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    pages.globals |= {"table": _table, "shown": _loop.shown, "mean": _loop.mean}
    return pages


def template(name: str) -> Template:
    """Return a file of ``templates``."""
    return _environment().get_template(name)


def rendered(page: str, folder: Path = RESULTS) -> str:
    """Return a page of ``templates`` with the figures of ``folder``.

    Raises ``jinja2.UndefinedError`` and ``KeyError`` for a result or figure that is not there.
    """
    from benchmarks import loop, strategies

    results = {file.stem: Result.read(file) for file in folder.glob("*.json")}
    gains, repairs = results["loop"], results["strategies"]
    return template(page).render(
        results=results,
        loop_table=partial(loop.markdown, gains.figures, gains.n, gains.date),
        strategies_table=partial(strategies.markdown, repairs.figures, repairs.n, repairs.date),
    )


class SectionError(ValueError):
    """A page without the marks of a section; says what to put there."""


def fill_section(text: str, name: str, body: str) -> str:
    """Return ``text`` with ``body`` between ``<!-- name:begin -->`` and ``<!-- name:end -->``.

    Raises ``SectionError`` unless both marks are there once, in this order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise SectionError(f"the page needs a line {begin} and after it a line {end}, each once")
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n{body.strip()}\n{end}{after}"


def pages() -> dict[Path, str]:
    """Return every page that quotes benchmarks, as it should be."""
    readme = README.read_text(encoding="utf-8")
    return {
        PAGE: rendered("results.md"),
        README: fill_section(readme, SECTION, rendered("readme_results.md")),
    }


def write() -> list[Path]:
    """Write the pages that are not as they should be, and return them."""
    changed = []
    for page, text in pages().items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
            changed.append(page)
    return changed


def main() -> None:
    """Command line."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    for page in write():
        print(f"written to {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

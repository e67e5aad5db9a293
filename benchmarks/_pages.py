"""Write the pages that quote benchmarks: ``docs/results.md`` and the table of the README.

``make results``. ``templates/results.md`` holds the text and names
the figures; they come from ``benchmarks/results``. A test holds the committed pages equal to what
this writes, so a measurement is followed by its pages or fails the tests.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from benchmarks import loop, strategies
from benchmarks._harness import RESULTS
from benchmarks._templates import Result, template

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
SECTION = "results"
"""The README's section."""


def rendered(page: str, folder: Path = RESULTS) -> str:
    """Return a page of ``templates`` with the figures of ``folder``.

    Raises ``jinja2.UndefinedError`` and ``KeyError`` for a result or figure that is not there.
    """
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

"""Write the pages that quote benchmarks: ``docs/results.md``, the README's table, marks of claims.

``make results``. ``templates/results.md`` holds the text and names
the figures; they come from ``benchmarks/results``. A test holds the committed pages equal to what
this writes, so a measurement is followed by its pages or fails the tests.

A sentence of another page that rests on a result ends with ``<!-- claim:NAME --><!-- /claim -->``
(or several names, with commas). Between the two stands, while a figure is stale, what changed since
(:mod:`benchmarks._provenance`): the test refuses a claim on a stale figure that does not say so.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
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
CLAIM = re.compile(r"(<!-- claim:([\w, ]+) -->).*?(<!-- /claim -->)", re.S)


def rendered(page: str, folder: Path = RESULTS) -> str:
    """Return a page of ``templates`` with the figures of ``folder``.

    Raises ``jinja2.UndefinedError`` and ``KeyError`` for a result or figure that is not there.
    """
    results = results_in(folder)
    gains, repairs = results["loop"], results["strategies"]
    return template(page).render(
        results=results,
        loop_table=partial(loop.markdown, gains.figures, gains.n, gains.date),
        strategies_table=partial(strategies.markdown, repairs.figures, repairs.n, repairs.date),
    )


def results_in(folder: Path = RESULTS) -> dict[str, Result]:
    """Return the results of ``folder`` by name."""
    return {file.stem: Result.read(file) for file in sorted(folder.glob("*.json"))}


def marked(text: str, results: Mapping[str, Result]) -> str:
    """Return a page with what is to be said behind each claim on a stale figure.

    Raises ``KeyError`` for a claim on a result that is not there.
    """

    def filled(found: re.Match[str]) -> str:
        names = [name.strip() for name in found[2].split(",")]
        said = "; ".join(
            f"`benchmarks.{name}` was measured {results[name].stale}"
            for name in names
            if results[name].stale
        )
        return f"{found[1]}{f' *({said})*' if said else ''}{found[3]}"

    return CLAIM.sub(filled, text)


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
    results = results_in()
    readme = fill_section(
        README.read_text(encoding="utf-8"), SECTION, rendered("readme_results.md")
    )
    texts = {
        file: file.read_text(encoding="utf-8") for file in sorted((ROOT / "docs").glob("*.md"))
    }
    claims = {file: marked(text, results) for file, text in texts.items() if CLAIM.search(text)}
    return {**claims, PAGE: rendered("results.md"), README: marked(readme, results)}


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

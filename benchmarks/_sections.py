"""Figures in pages: text between two marks is replaced, all else stays as it is."""

from __future__ import annotations

import os
from pathlib import Path


class SectionError(ValueError):
    """A page without the marks of a section; says what to put there."""


def fill_section(text: str, name: str, body: str) -> str:
    """``text`` with ``body`` between ``<!-- name:begin -->`` and ``<!-- name:end -->``.

    Raises ``SectionError`` unless both marks are there once, in this order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise SectionError(f"the page needs a line {begin} and after it a line {end}, each once")
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n{body.strip()}\n{end}{after}"


def write_section(page: Path, name: str, body: str) -> None:
    """Fill a section of the file ``page``; it is the old or the whole new one at any time.

    Raises ``SectionError`` naming the page, and ``OSError``.
    """
    text = page.read_text(encoding="utf-8")
    try:
        filled = fill_section(text, name, body)
    except SectionError as error:
        raise SectionError(f"{page.name}: {error}") from None
    if filled != text:
        draft = page.with_name(f".{page.name}.tmp")
        draft.write_text(filled, encoding="utf-8")
        os.replace(draft, page)

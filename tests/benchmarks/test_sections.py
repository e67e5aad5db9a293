"""A section of a page is replaced between its marks, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._sections import SectionError, fill_section, write_section

BEGIN, END = "<!-- loop:begin -->", "<!-- loop:end -->"
plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=40)


@given(plain, plain, plain, plain)
def test_only_what_stands_between_the_marks_changes(
    before: str, old: str, after: str, new: str
) -> None:
    filled = fill_section(f"{before}{BEGIN}{old}{END}{after}", "loop", new)
    assert filled == f"{before}{BEGIN}\n{new.strip()}\n{END}{after}"
    assert fill_section(filled, "loop", new) == filled


@pytest.mark.parametrize(
    "page",
    ["", BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}", "<!-- other:begin -->"],
)
def test_a_page_without_the_marks_is_refused(page: str) -> None:
    with pytest.raises(SectionError, match="loop:begin"):
        fill_section(page, "loop", "text")


def test_the_page_is_written_whole_and_sections_do_not_meet(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    other = "<!-- rounds:begin -->\nkept\n<!-- rounds:end -->"
    page.write_text(f"# Title\n{BEGIN}\nold\n{END}\n{other}\n", encoding="utf-8")
    write_section(page, "loop", "λ1 = 0\n")
    assert page.read_text(encoding="utf-8") == f"# Title\n{BEGIN}\nλ1 = 0\n{END}\n{other}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["README.md"]


def test_a_refused_page_stays_as_it_is_and_is_named(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("no marks")
    with pytest.raises(SectionError, match=r"README\.md"):
        write_section(page, "loop", "text")
    assert page.read_text() == "no marks"

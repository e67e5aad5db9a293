"""Pages quote the committed results, and nothing of a page but its section is replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._harness import RESULTS
from benchmarks._pages import (
    CLAIM,
    ROOT,
    SECTION,
    SectionError,
    fill_section,
    pages,
    rendered,
    results_in,
)
from benchmarks._templates import Result, shown
from scenewright.evals.studies.olip.evaluation import FLOORS

BEGIN, END = "<!-- loop:begin -->", "<!-- loop:end -->"
plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=40)


@pytest.fixture(scope="module")
def written() -> dict[Path, str]:
    return pages()


def test_the_committed_pages_quote_the_committed_results(written: dict[Path, str]) -> None:
    """They mark what is stale, too: in the table, behind the figures, and behind each claim."""
    assert {ROOT / "docs" / "results.md", ROOT / "README.md"} <= written.keys()
    for file, text in written.items():
        assert file.read_text(encoding="utf-8") == text, "run `make results`"


REFERS = re.compile(r"[Ff]igures: \s*\[results\]\(results\.md|\[figures\]\(results\.md")
INTERVAL = re.compile(r"−?\d+\.\d+ \[−?\d+\.\d+, −?\d+\.\d+\]")


def paragraphs() -> Iterator[tuple[str, str]]:
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if file.name not in ("results.md", "model-card.md"):
            one = file.read_text(encoding="utf-8")
            text = fill_section(one, SECTION, "") if file.name == "README.md" else one
            yield from ((file.name, part) for part in re.split(r"\n\s*\n", text))


def test_a_page_that_rests_on_figures_names_them_so_that_they_can_be_marked() -> None:
    unnamed = [
        f"{page}: {text[:80]}"
        for page, text in paragraphs()
        if (REFERS.search(text) or (INTERVAL.search(text) and "results.md" in text))
        and not CLAIM.search(text)
        and not text.startswith(">")
    ]
    assert not unnamed, "put <!-- claim:NAME --><!-- /claim --> behind what rests on a result"


def test_an_interval_on_a_page_is_a_figure_of_its_result() -> None:
    results = results_in()
    for page, text in paragraphs():
        for claim in CLAIM.finditer(text):
            result = results[claim[2]]
            for quoted in INTERVAL.findall(text):
                digits = len(quoted.split(" ")[0].partition(".")[2])
                known = {result(key, digits) for key in result.figures}
                assert quoted in known, f"{page} quotes {quoted} of {claim[2]}"


def test_every_result_is_quoted(written: dict[Path, str]) -> None:
    text = written[ROOT / "docs" / "results.md"]
    for file in RESULTS.glob("*.json"):
        assert f"`python -m benchmarks.{file.stem}`" in text


def test_the_realism_table_shows_who_looks_at_no_picture(tmp_path: Path) -> None:
    """A judge that loses to a constant is seen to, and ranks stand beside errors."""
    for file in RESULTS.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    found = json.loads((tmp_path / "olip.json").read_text(encoding="utf-8"))
    for name in FLOORS:
        found["figures"] |= {f"mae.joint.{name}": 0.25, f"acc.joint.{name}": 0.5}
        found["figures"].pop(f"spearman.joint.{name}", None)
    found["figures"]["spearman.joint.olip"] = 0.75
    (tmp_path / "olip.json").write_text(json.dumps(found))
    text = rendered("results.md", tmp_path)
    rows = [line for line in text.splitlines() if line.endswith("| 0.250 | 0.500 | – |")]
    assert [row.split("|")[1].partition(":")[0].strip() for row in rows] == [
        *("constant", "constant", "majority", "random")
    ]
    (olip,) = [line for line in text.splitlines() if line.startswith("| OLIP |")]
    assert olip.endswith("| 0.750 |")


def test_figures_are_shown_with_their_interval_and_a_true_minus(tmp_path: Path) -> None:
    figures: dict[str, Any] = {
        "error": {"mean": 0.1661, "low": 0.158, "high": 0.1731},
        "gain": {"mean": -0.01, "low": -0.02, "high": -0.0001},
        "kills": 1200,
        "share": 0.5,
        "what": "limit",
    }
    file = tmp_path / "some.json"
    found = {"name": "some", "commit": "abc", "date": "2026-01-02", "n": 1000, "figures": figures}
    found["machine"] = {"device": "cpu"}
    file.write_text(json.dumps(found))
    result = Result.read(file)
    assert result("error") == "0.166 [0.158, 0.173]"
    assert result.mean("error", 2) == "0.17"
    assert result("gain") == "−0.010 [−0.020, 0.000]"
    assert result("kills") == "1,200"
    assert result("share", 0, 100) == "50"
    assert result("what") == "limit"
    assert result.source == "`python -m benchmarks.some`: n = 1,000, 2026-01-02, `abc` †"
    with pytest.raises(KeyError):
        result("unknown")


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_numbers_are_shown_to_the_digits_that_are_asked(value: float, digits: int) -> None:
    said = float(shown(value, digits).replace(",", "").replace("−", "-"))
    assert said == round(value, digits)


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

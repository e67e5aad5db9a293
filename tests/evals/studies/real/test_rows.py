"""Rows of REAL scores: files that survive a kill, in both forms."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scenewright.evals.errors import EvalError
from scenewright.evals.studies.real.real_scorer import (
    RealRow,
    append_row,
    combine,
    read_rows,
    write_rows,
)

SHARES = st.none() | st.floats(0, 1)
ROWS = [
    RealRow(image="a.png", label="x", s_att=0.5, attributes=2, visible=2, matched=1,
            s_style=0.5, combined=0.25, wrong=("bill is red",), usd=0.1, tokens=7, seconds=1.5),
    RealRow(image="b.png", label="x", reason="cannot be read"),
]  # fmt: skip


@given(SHARES, SHARES, SHARES, st.integers(0, 3))
def test_combined_is_the_product_of_what_is_known(
    att: float | None, rel: float | None, style: float | None, attributes: int
) -> None:
    row = RealRow(image="a", label="x", s_att=att, s_rel=rel, attributes=attributes)
    row = row.with_style(style)
    base = att if attributes else rel
    assert row.combined == (None if base is None or style is None else base * style)
    assert RealRow.model_validate_json(row.model_dump_json()) == row


def test_scores_outside_are_told() -> None:
    with pytest.raises(ValueError, match="style"):
        combine(0.5, 1.5)
    with pytest.raises(ValidationError, match="combined"):
        RealRow(image="a", label="x", s_att=0.5, attributes=1, s_style=0.5, combined=0.5)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_rows_come_back(tmp_path: Path, name: str) -> None:
    file = write_rows(tmp_path / name, ROWS)
    assert read_rows(file) == ROWS
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_torn_line_loses_itself_alone(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    append_row(file, ROWS[0])
    with file.open("a") as out:
        out.write(ROWS[1].model_dump_json()[:20])
    assert read_rows(file) == ROWS[:1]
    append_row(file, ROWS[1])
    assert read_rows(file) == ROWS


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(ROWS[0].model_dump_json() + '\n{"image": ""}\n')
    with pytest.raises(EvalError, match="line 2"):
        read_rows(file)
    file.write_text("{oops\n" + ROWS[0].model_dump_json() + "\n")
    with pytest.raises(EvalError, match="line 1: not valid JSON"):
        read_rows(file)

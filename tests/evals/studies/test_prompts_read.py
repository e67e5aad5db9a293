"""What of the prompts of some pictures was not read, as columns of tables."""

from __future__ import annotations

from typing import Any

from scenewright.evals.studies.readings import COLUMNS, PromptsRead, cells, layout


def row(tokens: int | None, facts: int | None = 0) -> dict[str, Any]:
    return {"tokens_dropped": tokens, "facts_dropped": facts}


def test_rows_are_summed_and_what_is_not_known_is_no_zero() -> None:
    found = PromptsRead.of([row(0), row(7, 2), row(5, 1), row(None, None)])
    assert found == PromptsRead(pictures=3, cut=2, tokens=12, facts=3)
    assert found.text == "3 (12)"
    assert PromptsRead.of([row(None), {}]) is None
    whole = PromptsRead.of([row(0, None)])
    assert whole == PromptsRead(pictures=1, cut=0, tokens=0, facts=0)
    assert whole.text == "0"
    # A set's own questions: which facts the words were is not known.
    open_ = PromptsRead.of([row(7, None), row(3, 1)])
    assert open_ == PromptsRead(pictures=2, cut=2, tokens=10, facts=None)
    assert open_.text == "? (10)"


def test_a_table_says_dashes_where_nothing_is_known() -> None:
    read = PromptsRead(pictures=4, cut=1, tokens=9, facts=2)
    table = layout({"a": read, "b": None}, "Arm")
    assert table is not None
    assert "| a | 4 | 1 | 9 | 2 |" in table.markdown()
    assert "| b | – | – | – | – |" in table.markdown()
    assert layout({"a": None}, "Arm") is None
    assert len(cells(None)) == len(COLUMNS) == 2

"""Rows of a benchmark: they survive a kill, and older ones are not mixed with newer ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._rows import Row, Rows, RowsError, fingerprint_of


class Found(Row):
    value: float


def row(at: int, value: float = 0.5, fingerprint: str = "new") -> Found:
    return Found(fingerprint=fingerprint, at=at, value=value)


def opened(path: Path, fingerprint: str = "new") -> Rows[Found]:
    return Rows(path, Found, fingerprint)


def test_rows_are_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with opened(tmp_path / "new" / "rows.jsonl") as rows:
        rows.add(row(3))
        assert rows.get(3) == row(3)
        assert rows.get(0) is None
    with opened(tmp_path / "new" / "rows.jsonl") as rows:
        assert rows.get(3) == row(3)
        assert rows.stale == 0


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_last_line_is_cut_off_and_measured_again(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path) as rows:
        rows.add(row(0))
        rows.add(row(1))
    whole, torn = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole + torn[:kept])
    with opened(path) as rows:
        assert rows.get(0) == row(0)
        assert rows.get(1) is None
        rows.add(row(1, 0.75))
    with opened(path) as rows:
        assert rows.get(1) == row(1, 0.75)
    assert path.read_bytes().count(b"\n") == 2


def test_a_broken_line_that_was_whole_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path) as rows:
        rows.add(row(0))
        rows.add(row(1))
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first[:9] + b"\n" + second)
    with pytest.raises(RowsError, match="line 1"):
        opened(path)
    path.write_bytes(first.replace(b'"value"', b'"other"') + second)
    with pytest.raises(RowsError, match="line 1"):
        opened(path)


def test_rows_of_other_models_or_options_are_kept_but_not_used(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path, "old") as rows:
        rows.add(row(0, 0.1, "old"))
    with opened(path) as rows:
        assert rows.get(0) is None
        assert rows.stale == 1
        rows.add(row(0, 0.9))
        with pytest.raises(ValueError, match="old"):
            rows.add(row(1, 0.1, "old"))
    with opened(path, "old") as rows:
        assert rows.get(0) == row(0, 0.1, "old")


def test_a_scene_measured_again_counts_with_its_newest_row(tmp_path: Path) -> None:
    with opened(tmp_path / "rows.jsonl") as rows:
        rows.add(row(0, 0.1))
        rows.add(row(0, 0.2))
    with opened(tmp_path / "rows.jsonl") as rows:
        assert rows.get(0) == row(0, 0.2)


def test_two_processes_do_not_write_into_one_file(tmp_path: Path) -> None:
    with opened(tmp_path / "rows.jsonl"), pytest.raises(RowsError, match="--work"):
        opened(tmp_path / "rows.jsonl")
    with opened(tmp_path / "rows.jsonl") as rows:
        assert rows.get(0) is None


def test_a_fingerprint_changes_with_every_part_and_not_with_their_order() -> None:
    parts = {"weights": "a", "rounds": [1, 4]}
    assert fingerprint_of(parts) == fingerprint_of(dict(reversed(parts.items())))
    changed = [{**parts, "weights": "b"}, {**parts, "rounds": [4, 1]}, {**parts, "more": None}]
    assert len({fingerprint_of(p) for p in (parts, *changed)}) == 4

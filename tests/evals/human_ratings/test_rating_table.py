"""Ratings as CSV, there and back, and tables of strangers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenewright.evals.human_ratings.study import RatingError
from scenewright.evals.human_ratings.table import COLUMNS, Rating, read_csv, write_csv

# Cells are read without the spaces around them; names hold no other ends of lines either.
PLAIN = st.text(
    st.characters(codec="utf-8", exclude_characters="|\x00\r", exclude_categories=("Cs",)),
    min_size=1,
    max_size=20,
).map(str.strip).filter(bool)  # fmt: skip
ARMS = st.lists(PLAIN, min_size=2, max_size=4, unique=True)


@st.composite
def ratings(draw: st.DrawFn) -> Rating:
    kind: Any = draw(st.sampled_from(["choice", "facts", "score"]))
    shown = tuple(draw(ARMS)) if kind == "choice" else (draw(PLAIN),)
    place = draw(st.integers(0, len(shown) - 1))
    said = {
        "choice": str(place + 1),
        "facts": draw(st.sampled_from(["yes", "no", "cannot tell"])),
        "score": str(draw(st.integers(1, 5))),
    }
    seconds = draw(st.none() | st.integers(0, 10**7).map(lambda n: n / 1000))
    return Rating(
        rater=draw(PLAIN),
        task=draw(PLAIN),
        kind=kind,
        item=draw(PLAIN),
        shown=shown,
        arm=shown[place],
        fact=draw(PLAIN) if kind == "facts" else "",
        value=said[kind],
        seconds=seconds,
        shown_at="2026-01-02T03:04:05.678+00:00",
        rated_at="2026-01-02T03:04:09.000+00:00",
        repeat=draw(st.booleans()),
        changes=draw(st.integers(0, 9)),
    )


@given(st.lists(ratings(), min_size=1, max_size=6))
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_written_is_read(tmp_path: Path, rows: list[Rating]) -> None:
    file = tmp_path / "ratings.csv"
    assert write_csv(rows, file) == len(rows)
    assert list(read_csv(file)) == rows


def table(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_table_of_another_make_is_read_by_its_own_names(tmp_path: Path) -> None:
    file = table(
        tmp_path / "t.csv",
        {"worker": "w1", "model": "sd", "prompt": "p1", "answer": "4"},
        {"worker": "w2", "model": "sd", "prompt": "p1", "answer": "3.5"},
    )
    names = {"rater": "worker", "arm": "model", "item": "prompt", "value": "answer"}
    found = read_csv(file, names, "score")
    assert [(r.rater, r.item, r.arm, r.value) for r in found] == [
        ("w1", "p1", "sd", "4"),
        ("w2", "p1", "sd", "3.5"),
    ]
    assert found[0].shown == ("sd",)


def test_faults_are_named_with_their_line(tmp_path: Path) -> None:
    good = {"rater": "a", "item": "i", "arm": "x", "kind": "score", "value": "3"}
    for change, told in (
        ({"value": "very"}, r"line 3: 'very' is not a score"),
        ({"value": "nan"}, r"'nan' is not a score"),
        ({"kind": "taste"}, r"line 3: the kind is 'taste'"),
        ({"rater": ""}, r"line 3: rater is empty"),
        ({"kind": "facts", "value": "maybe"}, r"line 3: 'maybe': a fact is yes, no"),
        ({"kind": "choice", "arm": ""}, r"line 3: the chosen arm"),
    ):
        file = table(tmp_path / "t.csv", good, {**good, **change})
        with pytest.raises(RatingError, match=told):
            read_csv(file)
    with pytest.raises(RatingError, match="lacks the columns worker"):
        read_csv(file, {"rater": "worker"})
    with pytest.raises(RatingError, match="unknown column who"):
        read_csv(file, {"who": "worker"})
    file = table(tmp_path / "t.csv", {"rater": "a", "item": "i", "value": "3"})
    with pytest.raises(RatingError, match="--kind"):
        read_csv(file)
    with pytest.raises(RatingError, match="cannot be read"):
        read_csv(tmp_path / "nothing.csv")


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RatingError, match="cannot be written"):
        write_csv([], tmp_path / "file" / "r.csv")
    write_csv([], tmp_path / "empty.csv")
    assert (tmp_path / "empty.csv").read_text("utf-8").strip() == ",".join(COLUMNS)
    assert {p.name for p in tmp_path.iterdir()} == {"file", "empty.csv"}

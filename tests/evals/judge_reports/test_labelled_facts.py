"""Tables of labels."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenewright.core.questions import NO_RELATION
from scenewright.evals.judge_reports.labelled_facts import LabelError, read_labels
from tests.doubles import painted

Rows = Sequence[dict[str, object]]


def names_of(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def write_csv(path: Path, rows: Rows) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names_of(rows))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path: Path, rows: Rows) -> Path:
    table = {name: [row.get(name) for row in rows] for name in names_of(rows)}
    pq.write_table(pa.table(table), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, color in (("a.png", (250, 0, 0)), ("b.png", (0, 0, 250))):
        painted((8, 6), color).save(tmp_path / name)
    return tmp_path


def test_questions_in_own_words(folder: Path) -> None:
    rows = [
        {"image": "a.png", "question": "Any dog?", "holds": 1},
        {
            "image": "b.png",
            "question": "Where is it?",
            "options": "left | right|nowhere",
            "expected": "right",
            "holds": "no",
            "kind": "Relation",
            "group": "Absent",
            "fact_id": "mine",
        },
    ]
    first, second = read_labels(write_csv(folder / "labels.csv", rows))
    assert (first.fact.question, first.fact.options, first.fact.expected) == (
        "Any dog?",
        ("yes", "no"),
        "yes",
    )
    assert (first.holds, first.fact.kind, first.group) == (True, "object", "")
    assert first.picture.load().getpixel((0, 0)) == (250, 0, 0)
    assert (second.fact.options, second.fact.expected) == (("left", "right", "nowhere"), "right")
    assert (second.holds, second.fact.kind, second.group) == (False, "relation", "absent")
    assert second.fact.id == "mine"


def test_scenewright_words_what_is_given_as_parts(folder: Path) -> None:
    rows = [
        {"image": "a.png", "subject": "owl", "holds": 1},
        {"image": "a.png", "subject": "owl", "value": "white", "holds": 0},
        {"image": "a.png", "subject": "owl", "predicate": "on", "target": "box", "holds": 0},
    ]
    facts = [known.fact for known in read_labels(write_csv(folder / "labels.csv", rows))]
    assert [fact.kind for fact in facts] == ["object", "attribute", "relation"]
    assert facts[0].question == "Is there an owl in the image?"
    assert facts[1].question == "Is the owl white?"
    assert facts[2].question.startswith("What is the relationship between the owl and the box")
    assert facts[2].expected == "on"
    assert facts[2].options[-1] == NO_RELATION
    assert not any(fact.parents for fact in facts)


def test_parquet_gives_the_same_as_csv(folder: Path) -> None:
    rows: list[dict[str, object]] = [
        {"image": "a.png", "question": "Any dog?", "holds": True, "options": ["no", "yes"]},
        {"image": "b.png", "question": "Any dog?", "holds": False, "options": None},
    ]
    flat = [
        {**row, "holds": int(bool(row["holds"])), "options": "no|yes" if at == 0 else ""}
        for at, row in enumerate(rows)
    ]

    def read(path: Path) -> list[tuple[object, ...]]:
        return [
            (known.fact.question, known.fact.options, known.holds, known.picture.name)
            for known in read_labels(path)
        ]

    table = read(write_parquet(folder / "labels.parquet", rows))
    assert table == read(write_csv(folder / "labels.csv", flat))
    assert table[0][1] == ("no", "yes")


def known(**more: object) -> dict[str, object]:
    return {"image": "a.png", "question": "Any dog?", "holds": 1, **more}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([known(), known(image="b.png", holds="maybe")], "holds is 'maybe': write 1 or 0"),
        ([known(), known(image="lost.png")], r"the image .*lost\.png is missing"),
        ([known(), known(image="")], "it names no image"),
        ([known(), known(question="", image="b.png")], "neither question nor subject"),
        ([known(), known(image="b.png", kind="colour")], "the kind is 'colour': use one of"),
        ([known(), known(image="b.png", expected="dog")], "expected is 'dog': use one of yes, no"),
        ([known(), known(image="b.png", options="yes")], "options must be two or more"),
        ([known(), known(image="b.png", options="a|a", expected="a")], "all different"),
        ([known(), known(holds=0)], "asks the same of the same image: give one row"),
        ([known(fact_id="x"), known(image="b.png", fact_id="x")], "has the same fact_id"),
        (
            [known(), {"image": "b.png", "subject": "dog", "predicate": "on", "holds": 1}],
            "needs both predicate and target",
        ),
        (
            [known(), {"image": "b.png", "subject": "dog", "holds": 1, "kind": "relation"}],
            "the kind is relation, but what is given makes it an object fact",
        ),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_faulty_row_is_named(folder: Path, rows: Rows, message: str, form: str) -> None:
    if form == "parquet":
        text = [{name: str(value) for name, value in row.items()} for row in rows]
        path, place = write_parquet(folder / "labels.parquet", text), "row 2"
    else:
        path, place = write_csv(folder / "labels.csv", rows), "line 3"
    with pytest.raises(LabelError, match=rf"labels\.{form}, {place}: .*{message}"):
        read_labels(path)


def test_lost_columns_and_files_are_named(folder: Path) -> None:
    path = write_csv(folder / "labels.csv", [{"image": "a.png", "truth": 1}])
    with pytest.raises(LabelError, match=r"lacks the columns holds, question \(or subject\)"):
        read_labels(path)
    with pytest.raises(LabelError, match="cannot be read: No such file"):
        read_labels(folder / "none.csv")

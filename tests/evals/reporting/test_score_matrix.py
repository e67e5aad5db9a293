"""Scores as arrays, and rows brought together by item."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenewright.evals.reporting.items import Flag, flags_of, gather
from scenewright.evals.reporting.score_matrix import (
    Column,
    complexity_class,
    higher_is_better,
    in_order,
    item_ids,
    load_score_matrix,
)
from scenewright.evals.store.results import SCHEMAS, Results
from tests.evals.reporting.made import Made, write_evaluation


@pytest.fixture
def results(tmp_path: Path) -> Results:
    made = Made(items=230, failing=0.1, unscored=0.05, seeds=(0, 1), pictures=False)
    return Results(write_evaluation(tmp_path / "e", made))


def test_every_score_stands_in_its_place(results: Results) -> None:
    score_matrix = load_score_matrix(results)
    at = {item: number for number, item in enumerate(score_matrix.items)}
    arm = {each.name: number for number, each in enumerate(score_matrix.arms)}
    seen = 0
    for row in results.rows("scores"):
        if not row["item"]:
            continue
        column = Column(row["metric"], row["part"], row["panel"])
        value = score_matrix.values[column][at[row["item"]], arm[row["arm"]]]
        assert np.isnan(value) if row["value"] is None else value == row["value"]
        seen += 1
    there = sum(int((~np.isnan(values)).sum()) for values in score_matrix.values.values())
    lacking = sum(int(mask.sum()) for mask in score_matrix.unscored.values())
    assert there + lacking == seen


def test_arms_and_scores_are_in_the_order_of_the_configuration(results: Results) -> None:
    score_matrix = load_score_matrix(results)
    assert [arm.name for arm in score_matrix.arms] == [
        "miniature/composition/0",
        "miniature/composition/1",
        "miniature/feedback/0",
        "miniature/feedback/1",
    ]
    assert [c.metric for c in score_matrix.columns()] == ["sgscore", "clipscore"]
    assert next(iter(score_matrix.values)) == Column("sgscore", "", "report")
    assert {s.metric for s in score_matrix.sets} == {"fid"}


def test_failures_are_counted_with_their_reason(results: Results) -> None:
    score_matrix = load_score_matrix(results)
    failed = [row for row in results.rows("rounds") if row["state"] == "failed"]
    assert score_matrix.failed.sum() == len(failed) > 0
    assert sum(score_matrix.failures.values()) == len(failed)
    assert {why for _, why in score_matrix.failures} == {"the backend gave nothing"}


def test_rows_of_unknown_items_are_counted(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", Made(items=5, pictures=False))
    items = Results(folder).table("items")
    pq.write_table(items.slice(0, 4), folder / "items.parquet")
    score_matrix = load_score_matrix(Results(folder))
    assert len(score_matrix.items) == 4
    assert score_matrix.strangers > 0


def test_only_the_kept_picture_counts(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", Made(items=3, conditions=("a",), pictures=False))
    results = Results(folder)
    rounds, scores = results.rows("rounds"), results.rows("scores")
    # Round 1 is kept and shows the same picture as round 0, which was judged; round 2 is another.
    for row in list(rounds):
        rounds += [{**row, "round": 1}, {**row, "round": 2, "image": "ab" * 32, "kept": False}]
        row["kept"] = False
    other = [{**row, "round": 2, "image": "ab" * 32, "value": 9.0} for row in scores if row["item"]]
    for table, rows in (("rounds", rounds), ("scores", other + scores + other)):
        pq.write_table(
            pa.Table.from_pylist(rows, schema=SCHEMAS[table]),  # type: ignore[index]
            folder / f"{table}.parquet",
        )
    score_matrix = load_score_matrix(Results(folder))
    assert np.all(score_matrix.kept == 0)
    expected = {r["item"]: r["value"] for r in scores if r["metric"] == "clipscore"}
    column = score_matrix.values[Column("clipscore", "", "")][:, 0]
    assert dict(zip(score_matrix.items, column.tolist(), strict=True)) == expected


def test_an_evaluation_without_tables_is_an_empty_board(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", Made(items=2, pictures=False))
    for name in ("rounds", "scores", "verdicts", "answers"):
        (folder / f"{name}.parquet").unlink()
    score_matrix = load_score_matrix(Results(folder))
    assert (len(score_matrix.items), score_matrix.arms, score_matrix.values) == (2, [], {})


def test_rows_come_together_by_item_in_the_order_of_the_set(
    results: Results, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ids = item_ids(results)
    found = list(gather(results, ids, ("rounds", "verdicts", "answers"), scratch))
    assert [one.item["item"] for one in found] == ids.to_pylist()
    assert [one.number for one in found] == list(range(230))
    for table in ("rounds", "verdicts", "answers"):
        rows = results.rows(table)  # type: ignore[arg-type]
        assert sum(len(one.rows[table]) for one in found) == len(rows)  # type: ignore[index]
        for one in found[::50]:
            mine = [row for row in rows if row["item"] == one.item["item"]]
            assert one.rows[table] == mine  # type: ignore[index]
    assert not list(scratch.iterdir())


def test_what_is_wrong_with_a_picture() -> None:
    def row(kind: str, state: str, disagreement: float = 0.0) -> dict[str, object]:
        return {"kind": kind, "state": state, "disagreement": disagreement}

    assert flags_of([row("object", "yes")], failed=False) == Flag.HOLDS
    assert flags_of([], failed=True) == Flag.FAILED
    assert flags_of([], failed=False) == Flag.MISSING
    many = [row("object", "no"), row("relation", "void"), row("attribute", "unscored", 0.95)]
    assert flags_of(many, failed=False) == (Flag.OBJECT | Flag.VOID | Flag.UNSCORED | Flag.DISPUTED)


def test_classes_stand_in_their_order() -> None:
    assert in_order("level", ["hard", "simple", "", "medium"]) == ["simple", "medium", "hard"]
    assert in_order("complexity", ["10+", "2", "9"]) == ["2", "9", "10+"]
    assert [complexity_class(v) for v in (None, 1.0, 9.4, 10.0, 33.0)] == [
        "", "1", "9", "10+", "10+",
    ]  # fmt: skip


def test_what_is_better_is_as_the_manifest_says() -> None:
    manifest = {"models": {"metrics": {"odd": {"higher_is_better": False}}}}
    assert not higher_is_better("odd", manifest)
    assert higher_is_better("sgscore", {})
    assert not higher_is_better("fid", {})

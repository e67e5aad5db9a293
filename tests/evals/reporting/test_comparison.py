"""Which arms and items are compared, and what makes a comparison refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.comparison import Comparison, Difference, compare, corrected
from scenewright.evals.reporting.evaluations import open_sides, pairs_of
from scenewright.evals.reporting.pages import ChoiceError
from scenewright.evals.statistics.answers import difference_answer
from scenewright.evals.statistics.estimates import Paired, holm, paired
from scenewright.evals.store.results import SCHEMAS, Results, Table
from tests.evals.reporting.made import Made, write_evaluation


def compared(*selectors: str | Path, **options: Any) -> Comparison:
    pairs = pairs_of(open_sides([str(s) for s in selectors]), options.pop("baseline", False))
    return compare(pairs, **{"resamples": 500, **options})


def named(found: Comparison, **wanted: str) -> Difference:
    fitting = [
        d
        for d in found.differences
        if all(getattr(d, name) == value for name, value in {"scope": "", **wanted}.items())
    ]
    assert len(fitting) == 1, [(d.before, d.after, d.metric, d.scope) for d in found.differences]
    return fitting[0]


def rewrite(folder: Path, table: Table, change: Any) -> None:
    """Give every row of a table to ``change``; what it gives back is kept."""
    rows = [row for row in map(change, Results(folder).rows(table)) if row is not None]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[table]), folder / f"{table}.parquet")


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return write_evaluation(tmp_path / "one", Made(items=30, pictures=False))


def test_the_numbers_are_those_of_the_tables(one: Path) -> None:
    scores = {
        (row["item"], row["condition"]): row["value"]
        for row in Results(one).rows("scores")
        if row["metric"] == "sgscore" and not row["part"]
    }
    items = sorted({item for item, _ in scores})
    differences = [scores[i, "feedback"] - scores[i, "composition"] for i in items]
    found = named(compared(one, by=None), metric="sgscore")
    assert (found.before, found.after) == ("miniature/composition", "miniature/feedback")
    assert found.result.model_dump() == pytest.approx(
        paired(differences, resamples=500).model_dump() | {"p": found.result.p}
    )
    assert found.score_after == pytest.approx(np.mean([scores[i, "feedback"] for i in items]))
    assert found.better == "after"


def test_the_main_difference_is_tested_alone_and_all_others_after_it(one: Path) -> None:
    found = compared(one, parts=True)
    (main,) = found.leading
    assert main.p_holm == main.result.p
    rest = [d for d in found.differences if d != main and d.result.p is not None]
    whole = {d.column: d.p_holm for d in found.differences if not d.scope}
    own = holm([d.result.p for d in rest]).tolist()
    assert len(rest) > 10
    assert [d.p_holm for d in rest] == pytest.approx(
        [max(p, whole[d.column] or 0.0) if d.scope else p for d, p in zip(rest, own, strict=True)]
    )


def difference(scope: str, p: float, mean: float = 0.346, n: int = 24) -> Difference:
    result = Paired(n=n, mean=mean, low=0.193, high=0.498, p=p)
    return Difference(before="a", after="b", metric="sgscore", scope=scope, result=result)


def test_classes_that_are_looked_at_besides_take_nothing_from_the_main_result() -> None:
    classes = [difference(f"level={at}", 0.2) for at in range(8)]
    found = Comparison(differences=tuple(corrected([difference("", 0.008), *classes])))
    assert found.differences[0].p_holm == 0.008
    assert found.answer.verdict == "better"
    assert found.correction.startswith("Holm corrects for the main difference alone, then for")
    # Tested together, as one family of nine, it would be lost.
    assert holm([0.008, *[0.2] * 8])[0] > 0.05


def test_a_class_counts_only_where_the_whole_does() -> None:
    found = Comparison(
        differences=tuple(corrected([difference("", 0.07), difference("level=hard", 0.001)]))
    )
    whole, hard = found.differences
    assert hard.p_holm == whole.p_holm == 0.07
    assert not hard.significant
    assert "is not significant in the test of sign flips" in found.answer.sentence
    assert (
        "counts only where the difference over all items"
        in difference_answer(found.contrast(hard)).sentence
    )
    clear = corrected([difference("", 0.01), difference("level=hard", 0.001)])
    assert [d.p_holm for d in clear] == [0.01, 0.01]
    assert all(d.significant for d in clear)


def test_every_class_of_items_has_its_line(one: Path) -> None:
    levels = [row["level"] for row in Results(one).rows("items")]
    found = compared(one, metrics=["sgscore"])
    by_level = {d.scope: d.result.n for d in found.differences}
    assert by_level == {"": 30} | {f"level={name}": levels.count(name) for name in set(levels)}
    classes = {d.scope for d in compared(one, by="group").differences}
    assert classes == {"", "group=People-Centric", "group=Non-People-Centric"}


def test_items_without_both_scores_are_left_out_and_counted(one: Path) -> None:
    def spoil(row: dict[str, Any]) -> dict[str, Any] | None:
        if row["metric"] == "sgscore" and not row["part"]:
            if row["item"] == "item-00003" and row["condition"] == "feedback":
                return {**row, "value": None, "reason": "nobody answered"}
            if row["item"] == "item-00004":
                return {**row, "value": None, "reason": "nobody answered"}
            if row["item"] == "item-00005" and row["condition"] == "composition":
                return None
        return row

    rewrite(one, "scores", spoil)
    found = named(compared(one, by=None), metric="sgscore")
    assert found.result.n == 27
    assert found.left_out == {
        "unscored in miniature/feedback": 1,
        "unscored in both": 1,
        "not finished in miniature/composition": 1,
    }


def test_a_picture_that_failed_is_named_as_the_reason(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", Made(items=40, failing=0.2, pictures=False))
    found = named(compared(folder, by=None), metric="sgscore")
    failed = {(row["item"]) for row in Results(folder).rows("rounds") if row["state"] == "failed"}
    assert found.result.n == 40 - len(failed)
    assert sum(found.left_out.values()) == len(failed)
    assert all("picture failed" in why for why in found.left_out)


def test_seeds_are_averaged_within_the_item(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", Made(items=12, seeds=(0, 1, 2), pictures=False))
    found = named(compared(folder, by=None), metric="sgscore")
    assert found.result.n == 12
    assert found.seeds == "means over the common seeds 0, 1, 2"
    values: dict[tuple[str, str], list[float]] = {}
    for row in Results(folder).rows("scores"):
        if row["metric"] == "sgscore" and not row["part"]:
            values.setdefault((row["item"], row["condition"]), []).append(row["value"])
    items = sorted({item for item, _ in values})
    expected = [np.mean(values[i, "feedback"]) - np.mean(values[i, "composition"]) for i in items]
    assert found.result.mean == pytest.approx(np.mean(expected))
    single = f"{folder}:miniature/composition/0"
    other = f"{folder}:miniature/composition/1"
    apart = named(compared(single, other, by=None), metric="sgscore")
    assert apart.seeds == "no common seed: means over seed 0 and over seed 1"


def test_a_seed_that_one_side_lacks_is_no_part_of_the_pair(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", Made(items=6, seeds=(0, 1), pictures=False))
    rewrite(
        folder,
        "scores",
        lambda row: (
            None
            if (row["item"], row["condition"], row["seed"]) == ("item-00000", "feedback", 1)
            else row
        ),
    )
    found = named(compared(folder, by=None), metric="sgscore")
    rows = {
        (row["item"], row["condition"], row["seed"]): row["value"]
        for row in Results(folder).rows("scores")
        if row["metric"] == "sgscore" and not row["part"]
    }
    expected = [rows["item-00000", "feedback", 0] - rows["item-00000", "composition", 0]] + [
        np.mean([rows[f"item-{n:05d}", "feedback", s] for s in (0, 1)])
        - np.mean([rows[f"item-{n:05d}", "composition", s] for s in (0, 1)])
        for n in range(1, 6)
    ]
    assert found.result.mean == pytest.approx(np.mean(expected))


def test_evaluations_are_compared_arm_by_arm(tmp_path: Path) -> None:
    one = write_evaluation(tmp_path / "one", Made(items=20, name="one", pictures=False))
    two = write_evaluation(tmp_path / "two", Made(items=25, name="two", seed=1, pictures=False))
    found = compared(one, two, by=None)
    assert {(d.before, d.after) for d in found.differences} == {
        ("one:miniature/composition", "two:miniature/composition"),
        ("one:miniature/feedback", "two:miniature/feedback"),
    }
    first = found.differences[0]
    assert first.result.n == 20
    assert first.left_out == {"only two:miniature/composition has the item": 5}
    crossed = compared(f"{one}:miniature/composition", f"{two}:miniature/feedback", by=None)
    assert {(d.before, d.after) for d in crossed.differences} == {
        ("one:miniature/composition", "two:miniature/feedback")
    }


def test_three_arms_are_compared_each_with_each_or_with_the_first(tmp_path: Path) -> None:
    made = Made(items=8, conditions=("triplets", "composition", "feedback"), pictures=False)
    folder = write_evaluation(tmp_path / "e", made)
    pairs = {(d.before, d.after) for d in compared(folder, by=None).differences}
    assert len(pairs) == 3
    with_first = compared(folder, by=None, baseline=True)
    assert {d.before for d in with_first.differences} == {"miniature/triplets"}
    assert len({d.after for d in with_first.differences}) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fingerprint": "set-2"}, "the set: made, set-1 against made, set-2"),
        ({"judged": "2"}, "the judges of the panel report"),
        ({"prompt": "vqa@2#def"}, "the prompts of the panel report: vqa@1#abc against vqa@2#def"),
        ({"protocol": "grounded"}, "how facts are asked"),
    ],
)
def test_what_was_not_measured_alike_is_refused(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    one = write_evaluation(tmp_path / "one", Made(items=8, name="one", pictures=False))
    two = write_evaluation(tmp_path / "two", Made(items=8, name="two", pictures=False, **change))  # type: ignore[arg-type]
    with pytest.raises(ChoiceError, match="--force") as error:
        compared(one, two)
    assert said in str(error.value)
    forced = compared(one, two, force=True)
    assert any(said in warning for warning in forced.warnings)
    if "fingerprint" not in change:
        # CLIPScore has no judge: it can be compared whoever judged.
        assert compared(one, two, metrics=["clipscore"]).warnings == ()


def test_scores_of_sets_have_no_pairs_and_that_is_said(one: Path) -> None:
    found = compared(one)
    assert "fid" not in {d.metric for d in found.differences}
    assert any("fid" in note and "no pairs" in note for note in found.notes)
    with pytest.raises(ChoiceError, match="no pairs"):
        compared(one, metrics=["fid"])


def test_what_is_not_there_is_named_with_what_is(one: Path, tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"no arm 'x/y': use one of miniature/composition"):
        open_sides([f"{one}:x/y"])
    with pytest.raises(ChoiceError, match="use one of clipscore, sgscore"):
        compared(one, metrics=["beauty"])
    with pytest.raises(ChoiceError, match="unknown panel 'best': use one of report"):
        compared(one, panels=["best"])
    with pytest.raises(EvalError, match="holds no evaluation"):
        open_sides([str(tmp_path / "none")])
    with pytest.raises(ChoiceError, match="there is one arm"):
        compared(f"{one}:miniature/feedback")


def test_a_folder_whose_name_has_a_colon_is_a_folder(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "at:noon", Made(items=4, pictures=False))
    assert [side.arm for side in open_sides([str(folder)])[0]] == [
        "miniature/composition",
        "miniature/feedback",
    ]


def test_a_damaged_table_is_an_error_that_names_it(one: Path) -> None:
    (one / "scores.parquet").write_bytes(b"not a table")
    with pytest.raises(EvalError, match=r"scores\.parquet cannot be read"):
        open_sides([str(one)])


def test_an_item_that_is_there_twice_is_refused(one: Path) -> None:
    table = Results(one).table("items")
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), one / "items.parquet")
    with pytest.raises(EvalError, match="'item-00000' twice"):
        open_sides([str(one)])


def test_many_differences_get_sign_patterns_enough_to_come_out(tmp_path: Path) -> None:
    conditions = [f"c{n}" for n in range(9)]
    made = Made(
        items=40, conditions=conditions, quality={"c8": 1.0}, clip=False, pictures=False, sets=False
    )
    folder = write_evaluation(tmp_path / "e", made)
    found = compared(folder, parts=True, resamples=100)
    assert len(found.differences) > 400
    assert found.flips >= 40 * len(found.differences)
    clear = [d for d in found.differences if d.after == "miniature/c8" and not d.scope]
    assert all(d.significant for d in clear)


def test_a_distance_is_better_when_it_is_less() -> None:
    base = Difference(
        before="a", after="b", metric="fid", higher_is_better=False,
        result=Paired(n=9, mean=-2.0, p=0.001),
    )  # fmt: skip
    assert corrected([base])[0].better == "after"
    assert corrected([base.model_copy(update={"higher_is_better": True})])[0].better == "before"
    unclear = base.model_copy(update={"result": Paired(n=9, mean=-2.0, p=0.4)})
    assert corrected([unclear])[0].better == ""


def test_prompts_that_one_side_never_needed_are_no_difference(one: Path, tmp_path: Path) -> None:
    other = write_evaluation(tmp_path / "other", Made(items=30, pictures=False))

    def also_asked(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "prompt_id": "choice@1#abc"} if row["kind"] == "relation" else row

    rewrite(other, "answers", also_asked)
    pair = (f"{one}:miniature/feedback", f"{other}:miniature/feedback")
    assert compared(*pair, by=None).warnings == ()

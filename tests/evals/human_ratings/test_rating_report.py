"""What a report says: hand-made ratings whose figures are known, and real ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau, spearmanr

from scenewright.evals.human_ratings.comparison import confusion, machine_of
from scenewright.evals.human_ratings.report import RatingReport, rating_report, write_rating_report
from scenewright.evals.human_ratings.study import TIE, RatingError, StudyFolder
from scenewright.evals.human_ratings.table import (
    Rating,
    human_values,
    ratings_of,
    read_csv,
    units_of,
    write_csv,
)
from scenewright.evals.statistics.figures import Bootstrap, correlate
from scenewright.evals.store.results import Results
from tests.evals.human_ratings.rated import ARMS, evaluation, rows_of, study_in
from tests.evals.human_ratings.rating_client import begin, client, press
from tests.evals.krippendorff import krippendorff_alpha

ABC = ("a", "b", "c")
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
LIKERT = DATA / "dsg" / "tifa160-likert-anns.csv"


def chosen(rater: str, item: str, arm: str, shown: tuple[str, ...] = ABC, **more: Any) -> Rating:
    value = str(shown.index(arm) + 1)
    return Rating(rater, item, "choice", item, shown, arm, "", value, **more)


def scored(rater: str, item: str, arm: str, value: int, **more: Any) -> Rating:
    return Rating(rater, f"{item}{arm}", "score", item, (arm,), arm, "", str(value), **more)


SAME = "Pairs of raters who said the same"


def agreed(report: RatingReport, measure: str) -> float | None:
    return report.figure("agreement", measure, "value").value


def alpha(report: RatingReport) -> float | None:
    return report.tables["agreement"].figures("value")[0].value


def arms(report: RatingReport) -> list[float | None]:
    return [figure.value for figure in report.tables["arms"].figures("value")]


def positions(report: RatingReport) -> list[float | None]:
    return [figure.value for figure in report.tables["positions"].figures("share")]


# Three raters, four items: a by all; b by two of three; a, b and c once each; c by all.
CHOICES = [
    *(chosen(r, "1", "a") for r in "xyz"),
    *(chosen(r, "2", arm) for r, arm in zip("xyz", "bba", strict=True)),
    *(chosen(r, "3", arm) for r, arm in zip("xyz", "abc", strict=True)),
    *(chosen(r, "4", "c") for r in "xyz"),
]
METRIC = {
    ("1", "a"): 0.9, ("1", "b"): 0.1, ("1", "c"): 0.5,
    ("2", "a"): 0.7, ("2", "b"): 0.2, ("2", "c"): 0.1,
    ("3", "a"): 0.4, ("3", "b"): 0.4, ("3", "c"): 0.1,
    ("4", "a"): 0.3, ("4", "b"): 0.2,
}  # fmt: skip


def table_of(values: Mapping[tuple[str, str], float]) -> Any:
    units, people = units_of(CHOICES), human_values(CHOICES)
    return confusion("m", values, people, units, Bootstrap(4, 0, 200))


def test_the_confusion_of_choices_by_hand() -> None:
    row, found = table_of(METRIC)
    # Item 1: a and a. Item 2: people b, machine a. Item 3: a third each, half a and half b.
    third, sixth = 1 / 3, 1 / 6
    expected = [[1 + sixth, sixth, 0], [1 + sixth, sixth, 0], [sixth, sixth, 0]]
    np.testing.assert_allclose(found, expected)
    assert (row["items"], row["left_out"]) == (3, 1)
    assert (row["human_ties"], row["machine_ties"]) == (1, 1)
    assert row["same"].value == pytest.approx((1 + 0 + third) / 3)
    human = np.array([1 + third, 1 + third, third]) / 3
    machine = np.array([2.5, 0.5, 0]) / 3
    assert row["chance"] == pytest.approx(float(human @ machine))


def test_a_machine_that_chooses_as_people_do_agrees_fully() -> None:
    people = human_values([r for r in CHOICES if r.item != "3"])
    row, _ = table_of(people)
    assert row["same"].value == 1.0
    assert row["kappa"].value == pytest.approx(1.0)


def test_shares_of_arms_and_positions() -> None:
    report = rating_report(CHOICES, resamples=200)
    assert dict(zip("abc", arms(report), strict=True)) == {
        "a": pytest.approx((1 + 1 / 3 + 1 / 3) / 4),
        "b": pytest.approx((2 / 3 + 1 / 3) / 4),
        "c": pytest.approx((1 / 3 + 1) / 4),
    }
    assert sum(p or 0 for p in positions(report)) == pytest.approx(1.0)
    assert alpha(report) == pytest.approx(
        krippendorff_alpha([[0, 0, 0], [1, 1, 0], [0, 1, 2], [2, 2, 2]])
    )
    assert agreed(report, SAME) == pytest.approx((1 + 1 / 3 + 0 + 1) / 4)
    assert [report.counts[name] for name in ("units", "shared", "ratings")] == [4, 4, 12]


AB = ("a", "b")


def tied(rater: str, item: str, shown: tuple[str, ...] = AB) -> Rating:
    return Rating(rater, item, "choice", item, shown, "", "", TIE)


def test_a_tie_is_half_a_choice_of_both_and_an_answer_of_its_own() -> None:
    # Item 1: a, a, tie. Item 2: tie by all. Item 3: b, tie, tie.
    rows = [
        *(chosen(r, "1", "a", AB) for r in "xy"), tied("z", "1"),
        *(tied(r, "2") for r in "xyz"),
        chosen("x", "3", "b", AB), tied("y", "3"), tied("z", "3"),
    ]  # fmt: skip
    assert human_values(rows) == {
        ("1", "a"): pytest.approx(2.5 / 3), ("1", "b"): pytest.approx(0.5 / 3),
        ("2", "a"): 0.5, ("2", "b"): 0.5,
        ("3", "a"): pytest.approx(1 / 3), ("3", "b"): pytest.approx(2 / 3),
    }  # fmt: skip
    report = rating_report(rows, resamples=200)
    assert arms(report) == [
        pytest.approx((2.5 / 3 + 0.5 + 1 / 3) / 3), pytest.approx((0.5 / 3 + 0.5 + 2 / 3) / 3),
    ]  # fmt: skip
    assert report.figure("positions", "no difference", "share").value == pytest.approx(6 / 9)
    # Two who see no difference agree with each other, and with nobody who chose.
    assert alpha(report) == pytest.approx(krippendorff_alpha([[0, 0, 2], [2, 2, 2], [1, 2, 2]]))
    assert agreed(report, SAME) == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)
    # Where nobody chose, no position was chosen.
    assert [p.n for p in report.tables["positions"].figures("share")[:2]] == [3, 3]
    only = rating_report([tied(r, "2") for r in "xy"], resamples=200)
    assert only.tables["positions"].names == ["no difference"]
    assert arms(only) == [0.5, 0.5]


def test_people_who_see_no_difference_are_not_too_few() -> None:
    same = rating_report([tied(r, str(n)) for n in range(40) for r in "xy"], resamples=200)
    assert same.answers[0].sentence == (
        "No difference between b and a in people's choices on any of 40 items."
    )
    few = rating_report([tied(r, str(n)) for n in range(4) for r in "xy"], resamples=200)
    assert few.answers[0].verdict == "too little data"
    clear = [chosen(r, str(n), "b" if n % 5 else "a", AB) for n in range(40) for r in "xy"]
    found = rating_report(clear, resamples=200).answers
    assert found[0].sentence.startswith("b is better than a in people's choices by 0.600 [")
    assert found[1].sentence.startswith("Raters almost perfectly agree with each other (α 1.00")


def test_a_tie_in_a_table_needs_the_arms_that_were_shown(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("rater,item,kind,shown,arm,value\nx,1,choice,a|b,,No difference\n")
    assert read_csv(file) == (Rating("x", "1|", "choice", "1", AB, "", "", TIE),)
    file.write_text("rater,item,kind,shown,arm,value\nx,1,choice,,,no difference\n")
    with pytest.raises(RatingError, match=r"line 2.*needs the two arms that were shown"):
        read_csv(file)


async def test_a_choice_among_three_has_no_tie(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 2)
    three = study_in(tmp_path / "three", source, kind="choice", arms=ARMS[:3])
    two = study_in(tmp_path / "two", source, kind="choice", arms=ARMS[:2])
    async with client(three) as browser:
        page = await begin(browser)
        assert "No difference" not in page.text
        refused = await browser.post(str(page.url), data={"value": TIE})
        assert refused.status_code == 422
        assert "is not an answer to this question" in refused.text
    async with client(two) as browser:
        page = await begin(browser)
        assert "No difference" in page.text
        page = await press(browser, page, TIE)
        await press(browser, page, "1")
    rows = ratings_of(two)
    assert [(row.arm == "", row.value) for row in rows] == [(True, TIE), (False, "1")]
    assert read_back(rows, tmp_path) == rows


def read_back(rows: tuple[Rating, ...], folder: Path) -> tuple[Rating, ...]:
    write_csv(rows, folder / "ratings.csv")
    found = read_csv(folder / "ratings.csv")
    seconds = {(r.rater, r.task): r.seconds for r in rows}
    return tuple(replace(row, seconds=seconds[row.rater, row.task]) for row in found)


def test_repeats_count_for_steadiness_alone() -> None:
    again = [
        chosen("x", "1", "b", ("c", "b", "a"), repeat=True),
        chosen("x", "4", "c", ("c", "b", "a"), repeat=True),
    ]
    plain, more = rating_report(CHOICES, resamples=200), rating_report([*again, *CHOICES])
    assert arms(more) == arms(plain)
    assert alpha(more) == alpha(plain)
    assert more.cell("raters", "x", "repeats") == 2
    assert more.figure("raters", "x", "same_again").value == 0.5
    assert more.cell("raters", "y", "repeats") == 0
    assert more.figure("raters", "y", "same_again").value is None


def test_correlations_are_those_of_a_well_known_library() -> None:
    rng = np.random.default_rng(0)
    people = {(f"i{i}", a): float(rng.integers(1, 6)) for i in range(30) for a in "abcd"}
    metric = {key: value + rng.normal(0, 2) for key, value in people.items()}
    found = correlate("m", metric, people, resamples=200, seed=0)
    x, y = [people[k] for k in people], [metric[k] for k in people]
    assert found.spearman.value == pytest.approx(spearmanr(x, y).statistic)
    assert found.kendall.value == pytest.approx(kendalltau(x, y).statistic)
    assert found.spearman.n == 120
    assert found.spearman.low is not None
    assert found.spearman.high is not None
    assert found.spearman.low < found.spearman.value < found.spearman.high
    within = [
        kendalltau([people[f"i{i}", a] for a in "abcd"], [metric[f"i{i}", a] for a in "abcd"])
        for i in range(30)
    ]
    known = [tau.statistic for tau in within if not np.isnan(tau.statistic)]
    assert found.within.value == pytest.approx(np.mean(known))
    means = {
        a: np.mean([[people[f"i{i}", a], metric[f"i{i}", a]] for i in range(30)], 0) for a in "abcd"
    }
    pairs = np.array(list(means.values()))
    assert found.arms_kendall.value == pytest.approx(kendalltau(*pairs.T).statistic)
    assert found.arms_spearman.n == 4


def test_what_cannot_be_ranked_has_no_figure() -> None:
    values = {("i", "a"): 1.0, ("i", "b"): 2.0}
    flat = correlate("m", values, {("i", "a"): 1.0}, resamples=9, seed=0)
    assert flat.spearman.value is None
    assert flat.arms_kendall.value is None
    none = correlate("m", {}, {("i", "a"): 1.0}, resamples=9, seed=0)
    assert none.spearman.n == 0
    same = {(f"i{n}", "a"): 1.0 for n in range(5)}
    assert correlate("m", same, same, resamples=9, seed=0).kendall.value is None


def test_scores_use_the_distance() -> None:
    rows = [
        scored(r, str(i), "a", v)
        for i, values in enumerate(((1, 2), (4, 5), (2, 2), (5, 4)))
        for r, v in zip("xy", values, strict=True)
    ]
    report = rating_report(rows, resamples=200)
    table = [[1, 2], [4, 5], [2, 2], [5, 4]]
    assert alpha(report) == pytest.approx(krippendorff_alpha(table, "interval"))
    assert agreed(report, "Krippendorff's α (nominal)") == pytest.approx(krippendorff_alpha(table))
    assert arms(report)[0] == pytest.approx(25 / 8)


async def rated(folder: StudyFolder, **raters: list[str]) -> None:
    """Each rater presses these buttons, one after the other."""
    async with client(folder) as browser:
        for name, values in raters.items():
            page = await begin(browser, name)
            for value in values:
                page = await press(browser, page, value)


async def test_facts_that_hold_by_people_count_void_ones_as_missing(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 1, verdicts=lambda i, a, f: "yes" if f != 2 else "no")
    folder = study_in(tmp_path / "s", source, kind="facts", arms=("triplets",))
    # Facts: dog, ball, dog is red, dog left of ball.
    await rated(
        folder,
        Ann=["1:yes", "2:no", "3:yes"],
        Bea=["1:yes", "2:yes", "3:no", "4:cannot tell"],
        Carlo=["1:yes"],
    )
    ratings = ratings_of(folder)
    # Ann: two of four hold. Bea: two of three that she could tell. Carlo has not finished.
    values = human_values(ratings, folder.study)
    assert values == {("item-0", ARMS[0]): pytest.approx((2 / 4 + 2 / 3) / 2)}
    report = rating_report(ratings, folder.study, machine_of(Results(source)), resamples=100)
    panel = report.tables["panels"].rows[0]
    # Majorities: dog yes, ball tied, red tied; the relation nobody could tell.
    assert (panel["panel"], panel["facts"], panel["ties"]) == ("report", 1, 2)
    assert report.figure("panels", "report", "same").value == 1.0
    assert [row["cannot_tell"] for row in report.tables["raters"].rows] == [0, 1, 0]


async def test_a_report_on_an_evaluation_from_the_pages_to_the_file(tmp_path: Path) -> None:
    source = evaluation(
        tmp_path / "e",
        6,
        {"sgscore": lambda i, a: a / 4, "fid": lambda i, a: -a / 4, "lost": lambda i, a: None},
    )
    folder = study_in(tmp_path / "s", source, kind="choice", repeats=0.5)
    async with client(folder) as browser:
        for name in ("Ann", "Bea", "Carlo"):
            page = await begin(browser, name)
            while 'name="value"' in page.text:
                page = await press(browser, page, "2", seconds="3")
    machine = machine_of(Results(source), lower=("fid",))
    assert set(machine.metrics) == {"sgscore", "fid"}
    report = rating_report(ratings_of(folder), folder.study, machine, about="mine", resamples=200)
    assert report.tables["choices"].names == ["sgscore", "fid"]
    for name in ("choices", "choices-2"):
        rows = [[*row.values()][1:] for row in report.tables[f"table of {name}"].rows]
        # The machine always takes the last arm.
        assert np.sum(rows, axis=0) == pytest.approx([0, 0, 0, 6])
    assert report.tables["metrics"].caption.endswith("since less is better: fid.")
    # Always the second position: the report shows it.
    assert positions(report) == [0.0, 1.0, 0.0, 0.0]
    for row in report.tables["raters"].rows:
        assert (row["median_seconds"], row["repeats"]) == (3.0, 3)
    page_file = write_rating_report(report, tmp_path / "out")
    text = page_file.read_text("utf-8")
    data = (tmp_path / "out" / "report.json").read_text("utf-8")
    assert RatingReport.model_validate_json(data) == report
    for part in ("Agreement of raters", "sgscore", "best_of_3", "People and metrics", "Bea"):
        assert part in text
    names = {file.name for file in (tmp_path / "out").iterdir()}
    drawn = ("arms", "choices", "choices-2", "metrics", "raters")
    plots = {f"{name}.{ending}" for name in drawn for ending in ("png", "svg")}
    assert names == {"index.html", "report.json", *plots}
    assert "<script" not in text


def test_earlier_rounds_and_other_pictures_do_not_count(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 1, {"m": lambda i, a: float(a)})
    file = source / "scores.parquet"
    rows = pq.read_table(file).to_pylist()
    earlier = [{**row, "image": "f" * 64, "value": 99.0} for row in rows]
    whole = [{**rows[0], "item": "", "value": 50.0}]
    parts = [{**row, "part": "objects", "panel": "report", "value": 0.5} for row in rows]
    pq.write_table(rows_of("scores", [*earlier, *rows, *whole, *parts]), file)
    metrics = machine_of(Results(source)).metrics
    plain = next(name for name in metrics if "objects" not in name)
    assert metrics[plain] == {("item-0", arm): float(a) for a, arm in enumerate(ARMS)}
    assert any(name.startswith("m.objects") for name in metrics)


def test_ratings_of_two_kinds_or_none_are_no_report() -> None:
    with pytest.raises(RatingError, match="no ratings yet"):
        rating_report([])
    with pytest.raises(RatingError, match="several kinds: choice, score"):
        rating_report([CHOICES[0], scored("x", "1", "a", 3)])


@pytest.mark.skipif(not LIKERT.is_file(), reason="the ratings of TIFA160 are not on this machine")
def test_the_people_of_tifa160() -> None:
    """Agreement of five people on 800 pictures, in the figures of their release."""
    names = {"rater": "worker_id", "item": "item_id", "arm": "t2i_model", "value": "answer"}
    ratings = read_csv(LIKERT, names, "score")
    report = rating_report(ratings, resamples=200)
    assert report.counts == {
        "raters": 5, "items": 160, "units": 800, "shared": 800, "ratings": 3995
    }  # fmt: skip
    table = units_of(ratings).values
    assert alpha(report) == pytest.approx(krippendorff_alpha(table, "interval"))
    assert alpha(report) == pytest.approx(0.684, abs=5e-4)
    assert agreed(report, "Fleiss' κ") == pytest.approx(0.397, abs=5e-4)
    assert report.cell(
        "agreement", "Mean of the pairs' Cohen's κ (quadratic weights)", "value"
    ) == pytest.approx(0.683, abs=5e-4)

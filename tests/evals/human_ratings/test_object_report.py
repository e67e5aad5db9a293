"""What a report on objects says: hand-made ratings, and raters whose habits are known."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from scenewright.evals.human_ratings.object_analysis import Raters, agreement, raters
from scenewright.evals.human_ratings.object_tables import GAPS, histogram
from scenewright.evals.human_ratings.rated_objects import RatedObject, read_objects, write_objects
from scenewright.evals.human_ratings.rated_units import judged_of, rated_object
from scenewright.evals.human_ratings.report import (
    RatingReport,
    rating_report,
    write_rating_report,
)
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import (
    Candidate,
    RatingError,
    RatingStudy,
    Rule,
    StudyFolder,
    Task,
    Thing,
)
from scenewright.evals.human_ratings.table import Rating, ratings_of
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import Bootstrap
from tests.evals.human_ratings.rated_objects import objects_study, rate_next, said

ABC = ("sofa", "vase", "shirt")


def study(objects: int, wholes: int = 0, each: int = 2) -> RatingStudy:
    """``objects`` objects, ``each`` on a picture, by two sources in turn."""
    tasks = []
    for n in range(objects):
        picture = n // each
        tasks.append(
            Task(
                id=f"t{n}",
                item=f"i{picture}",
                candidates=(Candidate(arm=("flux", "sdxl")[picture % 2], image=f"h{picture}"),),
                thing=Thing(
                    id=f"o{n}",
                    category=ABC[n % 3],
                    box=(0, 0, 10 + n % each, 10),
                    size=(64, 64),
                    crop="c",
                ),
            )
        )
    for n in range(wholes):
        whole = tasks[n * each].model_copy(update={"id": f"p{n}", "thing": None})
        tasks.append(whole)
    return RatingStudy(name="s", kind="objects", arms=("flux", "sdxl"), tasks=tuple(tasks))


def rows(
    of: RatingStudy, table: Sequence[Sequence[tuple[str, tuple[int, int] | None]]]
) -> tuple[Rating, ...]:
    """Ratings: for each task, who said what, in that order."""
    return tuple(
        row
        for task, people in zip(of.tasks, table, strict=False)
        for minute, (name, scores) in enumerate(people)
        for row in said(name, task, scores, minute)
    )


def report(of: RatingStudy, ratings: Sequence[Rating]) -> RatingReport:
    return rating_report(ratings, of, about="by hand", resamples=50)


def agreed(made: RatingReport, aspect: str, measure: str) -> Estimate:
    return made.figure("agreement", aspect, measure)


def repeated(made: RatingReport) -> Estimate:
    return made.figure("over_objects", "rate of re-evaluation", "here")


def source(made: RatingReport, name: str, measure: str) -> Estimate:
    return made.figure("sources", name, measure)


def bias(made: RatingReport, rater: str, aspect: str) -> float | None:
    return made.figure("raters", rater, f"bias_{aspect}").value


# Four objects by Ann and Bea. Shape: (5,5) (4,3) (1,4) (2,2), texture: (3,3) (5,5) (2,2) (1,5).
TABLE = [
    [("Ann", (5, 3)), ("Bea", (5, 3))],
    [("Bea", (3, 5)), ("Ann", (4, 5))],
    [("Ann", (1, 2)), ("Bea", (4, 2)), ("Cid", (2, 3))],
    [("Ann", (2, 1)), ("Bea", (2, 5))],
    [("Ann", (1, 1)), ("Cid", None)],
    [("Bea", (5, 5))],
]


@pytest.fixture
def by_hand() -> RatingReport:
    of = study(7)
    return report(of, rows(of, TABLE))


def test_kappa_of_two_raters_by_hand(by_hand: RatingReport) -> None:
    # Shape: 2 of 4 the same. Ann says 5 4 1 2, Bea 5 3 4 2: by chance (1 + 1 + 1) of 16.
    assert agreed(by_hand, "shape", "same").value == pytest.approx(0.5)
    kappa = agreed(by_hand, "shape", "kappa")
    assert kappa.value == pytest.approx((0.5 - 3 / 16) / (1 - 3 / 16))
    assert kappa.n == 4
    assert agreed(by_hand, "shape", "distance").value == pytest.approx((0 + 1 + 3 + 0) / 4)
    # Texture: 3 of 4. Ann 3 5 2 1, Bea 3 5 2 5: by chance 3: 1, 5: 1 × 2, 2: 1, of 16.
    texture = agreed(by_hand, "texture", "kappa").value
    assert texture == pytest.approx((3 / 4 - 4 / 16) / (12 / 16))
    # Quadratic, shape: 1 − Σ(a−b)²·n / Σ over all pairs of (a−b)².
    a, b = np.array([5, 4, 1, 2]), np.array([5, 3, 4, 2])
    expected = 1 - 4 * ((a - b) ** 2).sum() / ((a[:, None] - b) ** 2).sum()
    assert agreed(by_hand, "shape", "weighted").value == pytest.approx(expected)


def test_counts_by_hand(by_hand: RatingReport) -> None:
    counts = by_hand.counts
    assert (counts["objects"], counts["finished"], counts["once"]) == (7, 3, 1)
    assert (counts["waiting"], counts["reevaluated"], counts["excluded"]) == (1, 1, 1)
    assert by_hand.tables["progress"].caption == "Taken out by category: vase 1."
    assert counts["untouched"] == 1
    # Two of the four objects with two first ratings: shape 1 and 4, texture 1 and 5.
    assert repeated(by_hand).value == pytest.approx(0.5)
    assert repeated(by_hand).n == 4


def test_an_object_has_the_mean_of_all_its_raters(by_hand: RatingReport) -> None:
    of = study(7)
    judged = judged_of(of, rows(of, TABLE))
    assert judged[2].means == pytest.approx((7 / 3, 7 / 3))
    assert judged[3].means == pytest.approx((2, 3))
    assert not judged[6].means
    # Means of shape 5, 3.5, 2.33, 2, 5 and of texture 3, 5, 2.33, 3, 5; halves go up.
    rated = [one for one in judged if not one.excluded]
    assert histogram(rated, 0) == (0, 2, 0, 1, 2)
    assert [row["texture"] for row in by_hand.tables["scores"].rows] == [0, 1, 2, 0, 2]


def test_groups_by_hand(by_hand: RatingReport) -> None:
    # Pictures 0 and 2 are flux's: objects 0 and 1, and 5 (4 was taken out).
    assert by_hand.tables["sources"].names == ["all objects", "flux", "sdxl"]
    assert [row["objects"] for row in by_hand.tables["sources"].rows] == [5, 3, 2]
    assert source(by_hand, "flux", "shape").value == pytest.approx((5 + 3.5 + 5) / 3)
    assert source(by_hand, "sdxl", "OcR").value == pytest.approx((7 / 3 + 2.5) / 2)
    # |shape − texture|: 2, 1.5, 0 of flux's, 0 and 1 of the other's.
    flux, sdxl = by_hand.tables["sources"].rows[1:]
    assert [flux[gap] for gap in GAPS] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert source(by_hand, "flux", "2 or more apart").value == pytest.approx(1 / 3)
    assert [sdxl[gap] for gap in GAPS] == pytest.approx([1 / 2, 1 / 2, 0, 0])
    assert {row["name"]: row["objects"] for row in by_hand.tables["categories"].rows} == {
        "sofa": 2, "vase": 1, "shirt": 2,
    }  # fmt: skip


def test_raters_by_hand(by_hand: RatingReport) -> None:
    ann, _, cid = by_hand.tables["raters"].rows
    assert (ann["objects"], ann["taken_out"], cid["objects"], cid["taken_out"]) == (5, 0, 2, 1)
    assert ann["median_seconds"] == pytest.approx(4.0)
    # Ann's shape minus the others': 0, 1, 1 − 3, 0.
    assert bias(by_hand, "Ann", "shape") == pytest.approx(-0.25)
    assert bias(by_hand, "Bea", "shape") == pytest.approx((0 - 1 + (4 - 1.5) + 0) / 4)
    assert bias(by_hand, "Cid", "texture") == pytest.approx(1.0)


def test_what_is_asked_again_tells_nothing_of_agreement() -> None:
    of = study(4)
    table = [list(people) for people in TABLE[:4]]
    before = report(of, rows(of, table)).tables["agreement"]
    table[3].append(("Cid", (3, 3)))
    assert report(of, rows(of, table)).tables["agreement"] == before


@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    of = study(7)
    ratings = list(rows(of, TABLE))
    random.Random(seed).shuffle(ratings)
    assert report(of, ratings) == report(of, rows(of, TABLE))


def test_bias_and_kappa_of_simulated_raters_come_back() -> None:
    """Ann gives the truth, Bea one point less where she can, and both slip at a known rate."""
    of = study(1500, each=1)
    rng = random.Random(3)
    table, slips = [], 0.3
    for _ in of.tasks:
        truth = (rng.randint(2, 5), rng.randint(1, 5))
        slip = [rng.random() < slips for _ in range(2)]
        bea = (truth[0] - 1, rng.randint(1, 5) if slip[1] else truth[1])
        table.append([("Ann", truth), ("Bea", bea)])
    made = report(of, rows(of, table))
    assert bias(made, "Ann", "shape") == pytest.approx(1.0)
    assert bias(made, "Bea", "shape") == pytest.approx(-1.0)
    # Always one apart: never the same, so κ is below chance; weighted it is still high.
    kappa = agreed(made, "shape", "kappa").value
    weighted = agreed(made, "shape", "weighted").value
    assert kappa is not None
    assert kappa < 0
    assert weighted is not None
    assert weighted > 0.6
    # A slip draws any of five at random: κ is one minus the share of slips.
    texture = agreed(made, "texture", "kappa")
    assert texture.value == pytest.approx(1 - slips, abs=0.04)
    assert texture.low is not None
    assert texture.high is not None
    assert texture.low < 1 - slips < texture.high


def test_raters_over_the_store_are_reported_as_they_rated(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=12, whole_share=0.5)
    store = RatingStore(folder)
    people = [store.rater(name) for name in ("Ann", "Bea", "Cid")]
    score = {"Ann": 5, "Bea": 1, "Cid": 4}
    for person in people:
        while rate_next(store, person, lambda task, s=score[person.name]: (s, 3)):
            pass
    store.close()
    made = rating_report(ratings_of(folder), folder.study, resamples=50)
    assert repeated(made).value == 1.0
    assert made.counts["reevaluated"] == made.counts["finished"] == 24
    assert made.counts["wholes"] == 6
    rated = {row["rater"]: row["objects"] for row in made.tables["raters"].rows}
    assert rated == {"Ann": 24, "Bea": 24, "Cid": 24}
    assert source(made, "all objects", "shape").value == pytest.approx(10 / 3)


def test_object_and_image_realism_are_correlated() -> None:
    of = study(20, wholes=10)
    scores = [1 + n // 4 for n in range(20)]
    table = [[("Ann", (s, s)), ("Bea", (s, s))] for s in scores]
    ratings = list(rows(of, table))
    for n, task in enumerate(of.tasks[20:]):
        arm = task.candidates[0].arm
        value = str(1 + n // 2)
        ratings.append(Rating("Ann", task.id, "objects", task.item, (arm,), arm, "", value))
    made = report(of, ratings)
    assert made.counts["wholes"] == 10
    image = made.figure("over_objects", "Spearman, picture and its five largest objects", "here")
    assert image.n == 10
    assert image.value == pytest.approx(1.0)
    both = made.figure("over_objects", "Spearman, shape and texture", "here")
    assert both.value == pytest.approx(1.0)


def test_the_page_the_data_and_the_plots(by_hand: RatingReport, tmp_path: Path) -> None:
    page = write_rating_report(by_hand, tmp_path / "r")
    text = unescape(page.read_text(encoding="utf-8"))
    for part in ("Cohen's κ", "0.400", "0.340", "taken out", "vase 1", "Shape and structure"):
        assert part in text
    for name in ("distribution", "sources", "categories", "discrepancy"):
        assert f'href="{name}.svg"' in text
        assert (tmp_path / "r" / f"{name}.png").stat().st_size > 2000
    data = json.loads((tmp_path / "r" / "report.json").read_text("utf-8"))
    assert RatingReport.model_validate(data) == by_hand


def test_a_study_and_the_set_made_of_it_say_the_same_of_their_raters(tmp_path: Path) -> None:
    """One analysis: the third rater's name is the first of the alphabet and changes nothing."""
    of = study(6)
    table = [
        [("Mia", (5, 3)), ("Zoe", (5, 3))],
        [("Zoe", (3, 5)), ("Mia", (4, 5))],
        [("Mia", (1, 2)), ("Zoe", (4, 2)), ("Ann", (1, 3))],
        [("Zoe", (2, 1)), ("Mia", (2, 5)), ("Ann", (2, 1))],
    ]
    judged = judged_of(of, rows(of, table))
    things = [rated_object(one) for one in judged if one.means]
    assert [rating.rater for rating in things[2].ratings] == ["Mia", "Zoe", "Ann"]
    write_objects_and_pictures(tmp_path, things)
    found: Raters = raters(read_objects(tmp_path))
    made = report(of, rows(of, table))
    for aspect in ("shape", "texture"):
        assert found.kappa[aspect].value == agreed(made, aspect, "kappa").value
        assert found.weighted[aspect].value == agreed(made, aspect, "weighted").value
        assert found.same[aspect].value == agreed(made, aspect, "same").value
    assert found.reviewed.value == repeated(made).value == pytest.approx(0.5)
    assert found.third == made.counts["reevaluated"] == 2


def write_objects_and_pictures(folder: Path, things: Sequence[RatedObject]) -> None:
    (folder / "images").mkdir()
    for thing in things:
        (folder / thing.image).touch()
    write_objects(folder, things)


def test_without_a_second_rater_there_is_no_agreement(tmp_path: Path) -> None:
    of = study(2)
    made = report(of, rows(of, [[("Ann", (3, 3))], [("Ann", (4, 4))]]))
    assert agreed(made, "shape", "kappa").value is None
    assert repeated(made).value is None
    assert "–" in write_rating_report(made, tmp_path).read_text("utf-8")


def test_a_study_in_which_all_is_taken_out_is_reported(tmp_path: Path) -> None:
    of = study(2)
    made = report(of, rows(of, [[("Ann", None)], [("Bea", None)]]))
    assert made.counts["excluded"] == 2
    assert source(made, "all objects", "OcR").value is None
    write_rating_report(made, tmp_path)


def test_other_rules_have_other_first_raters() -> None:
    of = study(1).model_copy(update={"rule": Rule(raters=3, apart=5)})
    judged = judged_of(of, rows(of, [[("a", (1, 1)), ("b", (5, 5)), ("c", (1, 5))]]))
    assert (judged[0].needed, judged[0].apart, len(judged[0].first)) == (0, False, 3)
    things = [rated_object(one) for one in judged]
    found = agreement(Bootstrap(1), np.zeros(1, np.intp), things, of.rule.raters)["shape"]
    assert found.same.n == 3
    assert found.same.value == pytest.approx(1 / 3)


def test_what_cannot_be_reported_says_so(tmp_path: Path) -> None:
    of = study(2)
    with pytest.raises(RatingError, match="no ratings yet"):
        report(of, ())
    with pytest.raises(RatingError, match="name its folder"):
        rating_report(rows(of, TABLE[:1]))
    folder: StudyFolder = objects_study(tmp_path, pictures=1)
    with pytest.raises(RatingError, match="no ratings yet"):
        rating_report(ratings_of(folder), folder.study)

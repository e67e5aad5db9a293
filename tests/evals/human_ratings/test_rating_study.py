"""Studies: where their pictures come from, which items they take, and in which order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from scenewright.evals.human_ratings.making import RatingStudySpec, make_study
from scenewright.evals.human_ratings.sources import match_arms, read_source
from scenewright.evals.human_ratings.study import (
    GAP,
    STUDY,
    Candidate,
    RatingError,
    RatingStudy,
    StudyFolder,
    Task,
    order_for,
)
from tests.evals.human_ratings.rated import ARMS, evaluation, picture, study_in


def many(n: int, repeats: float = 0.0, seed: int = 0) -> RatingStudy:
    candidates = tuple(Candidate(arm=a, image=a) for a in "abcd")
    return RatingStudy(
        name="many",
        kind="choice",
        arms=tuple("abcd"),
        seed=seed,
        repeats=repeats,
        tasks=tuple(Task(id=f"t{i}", item=f"i{i}", candidates=candidates) for i in range(n)),
    )


def test_a_choice_has_the_pictures_of_all_arms_and_the_original(tmp_path: Path) -> None:
    folder = study_in(tmp_path / "s", evaluation(tmp_path / "e"), kind="choice")
    study = folder.study
    assert len(study.tasks) == 6
    assert {task.item for task in study.tasks} == {f"item-{i}" for i in range(6)}
    for task in study.tasks:
        number = int(task.item[5:])
        assert tuple(c.arm for c in task.candidates) == ARMS
        for a, candidate in enumerate(task.candidates):
            with Image.open(folder.picture(candidate.image)) as shown:
                assert shown.tobytes() == picture(number, a).tobytes()
        assert task.original is not None
        assert folder.picture(task.original).is_file()
        assert "original image" in study.asked(task)


def test_without_an_original_the_scene_stands_in_words(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", originals=False)
    study = study_in(tmp_path / "s", source, kind="choice").study
    for task in study.tasks:
        assert task.original is None
        assert "scene below" in study.asked(task)
        assert task.phrases == ("A red dog is left of a ball.",)


def test_the_same_seed_draws_the_same_tasks_and_another_others(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 12)
    first, again, other = (
        study_in(tmp_path / name, source, kind="choice", n=5, seed=seed).study
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == again
    assert len(first.tasks) == 5
    assert [t.item for t in first.tasks] != [t.item for t in other.tasks]


def test_scores_come_with_all_arms_of_an_item(tmp_path: Path) -> None:
    study = study_in(tmp_path / "s", evaluation(tmp_path / "e"), kind="score", n=8).study
    items = [task.item for task in study.tasks]
    assert [items.count(item) for item in dict.fromkeys(items)] == [4, 4]
    assert all(len(task.candidates) == 1 and task.original is None for task in study.tasks)


def test_what_cannot_be_rated_is_left_out_and_counted(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 6, same=(0, 1), failed=((2, 3),))
    study = study_in(tmp_path / "s", source, kind="choice").study
    assert {task.item for task in study.tasks} == {"item-3", "item-4", "item-5"}
    assert study.left_out == {
        "two arms give the same picture": 2,
        "an arm has no picture of it": 1,
    }


def test_a_damaged_picture_is_found_before_a_rater_finds_it(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 3)
    found = read_source(source)
    file = found.entries[0].pictures[ARMS[0]]
    file.write_bytes(file.read_bytes()[:60])
    study = make_study(found, RatingStudySpec(kind="choice"), tmp_path / "s")
    assert len(study.tasks) == 2
    assert study.left_out == {"a picture of it cannot be read": 1}


def test_a_folder_of_arms_and_its_table_of_items(tmp_path: Path) -> None:
    for a, arm in enumerate(("old", "new", "originals")):
        (tmp_path / "in" / arm).mkdir(parents=True)
        for i in range(3):
            suffix = ".jpg" if arm == "new" else ".png"
            picture(i, a).save(tmp_path / "in" / arm / f"{i}{suffix}")
    (tmp_path / "in" / "items.csv").write_text("item,prompt,facts\n0,a dog,a dog|it is red\n")
    study = study_in(tmp_path / "s", tmp_path / "in", kind="choice").study
    assert study.arms == ("new", "old")
    assert all(task.original for task in study.tasks)
    facts = study_in(tmp_path / "f", tmp_path / "in", kind="facts").study
    assert [f.statement for f in facts.tasks[0].facts] == ["a dog", "it is red"]
    assert facts.left_out == {"it has no facts": 2}


def test_a_table_names_its_pictures(tmp_path: Path) -> None:
    for a in range(2):
        picture(0, a).save(tmp_path / f"{a}.png")
    table = tmp_path / "t.csv"
    table.write_text("item,arm,image,prompt\nx,a,0.png,a dog\nx,b,1.png,a dog\n")
    assert study_in(tmp_path / "s", table, kind="choice").study.tasks[0].prompt == "a dog"
    table.write_text("item,arm,image,prompt\nx,a,0.png,a dog\nx,a,1.png,a dog\n")
    with pytest.raises(RatingError, match=r"line 3: a second picture of 'x' by 'a'"):
        read_source(table)
    table.write_text("item,arm,image,prompt\nx,a,0.png,a dog\nx,b,1.png,a cat\n")
    with pytest.raises(RatingError, match=r"line 3: another prompt of 'x' than in line 2"):
        read_source(table)
    table.write_text("item,arm\nx,a\n")
    with pytest.raises(RatingError, match="lacks the columns image"):
        read_source(table)


def test_arms_are_named_by_what_tells_them_apart() -> None:
    assert match_arms(["feedback", "miniature/triplets"], ARMS) == (ARMS[2], ARMS[0])
    with pytest.raises(RatingError, match="'miniature' matches several"):
        match_arms(["miniature"], ARMS)
    with pytest.raises(RatingError, match="'sdxl' is not one of the arms"):
        match_arms(["sdxl"], ARMS)
    with pytest.raises(RatingError, match="named twice"):
        match_arms(["feedback", ARMS[2]], ARMS)


def test_wrong_wishes_say_what_to_do(tmp_path: Path) -> None:
    source = read_source(evaluation(tmp_path / "e", 2))
    for wish, told in (
        (RatingStudySpec(kind="choice", arms=(ARMS[0],)), "between 2 and 8 arms"),
        (RatingStudySpec(kind="choice", n=0), "one or more"),
        (RatingStudySpec(kind="choice", side=4), "from 16 to 4096"),
    ):
        with pytest.raises(RatingError, match=told):
            make_study(source, wish, tmp_path / "s")
    make_study(source, RatingStudySpec(kind="choice"), tmp_path / "s")
    with pytest.raises(RatingError, match="holds a study already"):
        make_study(source, RatingStudySpec(kind="choice"), tmp_path / "s")
    with pytest.raises(RatingError, match="make one with"):
        StudyFolder(tmp_path / "nothing")
    (tmp_path / "s" / STUDY).write_text("{", encoding="utf-8")
    with pytest.raises(RatingError, match="is damaged"):
        StudyFolder(tmp_path / "s")


def test_pictures_lose_what_generators_write_into_them(tmp_path: Path) -> None:
    (tmp_path / "in" / "secret-arm").mkdir(parents=True)
    (tmp_path / "in" / "other").mkdir()
    notes = PngInfo()
    notes.add_text("parameters", "model: secret-arm, a dog")
    picture(0, 0).save(tmp_path / "in" / "secret-arm" / "0.png", pnginfo=notes, dpi=(72, 72))
    picture(0, 1).save(tmp_path / "in" / "other" / "0.jpg", comment="drawn by secret-arm")
    (tmp_path / "in" / "items.csv").write_text("item,prompt\n0,a dog\n")
    folder = study_in(tmp_path / "s", tmp_path / "in", kind="choice")
    files = list((tmp_path / "s" / "images").iterdir())
    assert len(files) == 2
    assert all(b"secret" not in file.read_bytes() for file in files)
    kept = next(c for c in folder.study.tasks[0].candidates if c.arm == "secret-arm")
    with Image.open(folder.picture(kept.image)) as shown:
        assert shown.tobytes() == picture(0, 0).tobytes()


def test_all_pictures_can_be_made_the_same_size(tmp_path: Path) -> None:
    folder = study_in(tmp_path / "s", evaluation(tmp_path / "e", 2), kind="choice", side=48)
    for file in (folder.folder / "images").iterdir():
        with Image.open(file) as shown:
            assert max(shown.size) == 48


@given(st.integers(1, 60), st.floats(0, 1), st.integers(0, 5), st.text(max_size=5))
@settings(max_examples=60, deadline=None)
def test_every_task_comes_once_and_a_share_again(
    n: int, repeats: float, seed: int, rater: str
) -> None:
    study = many(n, repeats, seed)
    order = order_for(study, rater)
    assert order == order_for(study, rater)
    first = [p.task for p in order if not p.repeat]
    again = [p.task for p in order if p.repeat]
    assert sorted(first) == list(range(n))
    assert len(again) == len(set(again)) == round(repeats * n)
    assert all(sorted(p.slots) == [0, 1, 2, 3] for p in order)
    seen: set[int] = set()
    for place in order:
        assert place.repeat == (place.task in seen)
        seen.add(place.task)


def test_a_repeat_comes_well_after_the_first_showing() -> None:
    order = order_for(many(200, 0.1), "ann")
    at = {(p.task, p.repeat): n for n, p in enumerate(order)}
    gaps = [at[task, True] - at[task, False] for task, repeat in at if repeat]
    assert len(gaps) == 20
    assert min(gaps) >= GAP


def test_raters_meet_other_orders() -> None:
    study = many(30)
    orders = {order_for(study, name) for name in ("ann", "bea", "carlo")}
    assert len(orders) == 3
    assert order_for(study, "ann") != order_for(many(30, seed=1), "ann")


def test_every_arm_stands_everywhere() -> None:
    """Over many tasks each arm is about as often at each position."""
    slots = [p.slots for p in order_for(many(800), "ann")]
    for position in range(4):
        for arm in range(4):
            assert 140 <= sum(s[position] == arm for s in slots) <= 260


def test_the_file_of_a_study_says_what_it_holds(tmp_path: Path) -> None:
    study_in(tmp_path / "s", evaluation(tmp_path / "e", 2), kind="facts", name="Mine")
    data = json.loads((tmp_path / "s" / STUDY).read_text("utf-8"))
    assert data["name"] == "Mine"
    assert data["tasks"][0]["facts"][0]["kind"] == "object"

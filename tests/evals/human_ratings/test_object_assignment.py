"""Who rates which object: two different raters each, and a third where these differ widely."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenewright.evals.human_ratings.rated_units import RatedUnit, judged_of
from scenewright.evals.human_ratings.store import CLAIM_SECONDS, MOST_OPEN, RatingStore
from scenewright.evals.human_ratings.study import (
    Rule,
    Scores,
    StudyFolder,
    Task,
    far_apart,
    still_needed,
)
from scenewright.evals.human_ratings.table import ratings_of
from tests.evals.human_ratings.rated import evaluation, study_in
from tests.evals.human_ratings.rated_objects import objects_study, rate, rate_next, thing_of

score = st.tuples(st.integers(1, 5), st.integers(1, 5))
PAPER = Rule()


@contextmanager
def opened(folder: StudyFolder, clock: list[float] | None = None) -> Iterator[RatingStore]:
    store = RatingStore(folder, (lambda: clock[0]) if clock else lambda: 0.0)
    try:
        yield store
    finally:
        store.close()


def four(_: Task) -> tuple[int, int]:
    return (4, 4)


@pytest.mark.parametrize(
    ("said", "needed"),
    [
        ([], 2),
        ([(1, 1)], 1),
        ([(1, 3), (3, 5)], 0),
        ([(1, 3), (4, 3)], 1),
        ([(3, 1), (3, 4)], 1),
        ([(2, 5), (5, 2)], 1),
        ([(1, 3), (5, 3), (1, 1)], 0),
        ([None], 0),
        ([(1, 1), None], 0),
        ([(1, 1), (5, 5), None], 0),
    ],
)
def test_what_an_object_still_needs(said: list[Scores | None], needed: int) -> None:
    assert still_needed(said, PAPER) == needed


@given(st.lists(st.none() | score, max_size=4), st.randoms())
def test_the_order_of_ratings_does_not_matter(
    said: list[Scores | None], rng: random.Random
) -> None:
    other = list(said)
    rng.shuffle(other)
    assert still_needed(said, PAPER) == still_needed(other, PAPER)


@given(st.lists(score, min_size=2, max_size=4), st.integers(1, 5))
def test_raters_are_apart_if_any_two_of_them_are(said: list[Scores], apart: int) -> None:
    rule = Rule(apart=apart)
    pairs = any(far_apart([a, b], rule) for a in said for b in said)
    assert far_apart(said, rule) is pairs
    if apart == 5:
        assert not pairs


def habits(seed: int) -> dict[tuple[str, str], tuple[int, int] | None]:
    """What each of five raters says of each object; about one in twenty takes it out."""
    rng = random.Random(seed)
    return {
        (name, f"object-{p}-{k}"): None
        if rng.random() < 0.05
        else (rng.randint(1, 5), rng.randint(1, 5))
        for name in "abcde"
        for p in range(3)
        for k in range(2)
    }


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return objects_study(tmp_path_factory.mktemp("blank"), pictures=3)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(2, 5), st.lists(st.integers(0, 4), max_size=60), st.integers(0, 9))
def test_every_object_gets_two_raters_and_a_third_where_they_differ(
    blank: StudyFolder, tmp_path: Path, raters: int, turns: list[int], seed: int
) -> None:
    place = tmp_path / "copy"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(blank.folder, place)
    folder = StudyFolder(place)
    said = habits(seed)
    with opened(folder) as store:
        people = [store.rater(name) for name in "abcde"[:raters]]

        def turn(at: int) -> bool:
            person = people[at % raters]
            habit = lambda task: said[person.name, thing_of(task).id]  # noqa: E731
            return rate_next(store, person, habit) is not None

        # In whatever order they come, then each until nothing is left.
        for at in turns:
            turn(at)
        while any([turn(at) for at in range(raters)]):
            pass
        assert all(store.progress(person).done <= len(folder.study.tasks) for person in people)
    for one in judged_of(folder.study, ratings_of(folder)):
        names = [each.rater for each in one.said]
        assert len(set(names)) == len(names)
        if one.excluded:
            assert len(names) <= 3
            continue
        assert len(one.first) == 2
        third = one.apart and raters > 2
        assert len(names) == 2 + third
        assert one.needed == int(one.apart and raters == 2)


def test_several_raters_at_once_share_the_objects(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=3)
    taken: Counter[str] = Counter()
    with opened(folder) as store:
        # Six raters open three objects each before anyone answers.
        for name in "abcdef":
            rater = store.rater(name)
            for number in (1, 2, 3):
                showing = store.showing(rater, number)
                if showing is not None:
                    taken[showing.task.id] += 1
    assert len(taken) == 6
    assert set(taken.values()) == {2}


def test_a_claim_that_ran_out_goes_to_the_next_and_a_late_answer_is_kept(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=1, each=1)
    clock = [1000.0]
    with opened(folder, clock) as store:
        ann, bea, cid = map(store.rater, ("Ann", "Bea", "Cid"))
        late = store.showing(ann, 1)
        assert late is not None
        assert rate_next(store, bea, four) is not None
        assert store.open_after(cid) is None
        clock[0] += CLAIM_SECONDS + 1
        assert rate_next(store, cid, four) is not None
        # Nobody needs Ann any more, but her page is still open.
        assert store.open_after(ann) is None
        assert store.progress(ann).total == 0
        rate(store, ann, late, (5, 5))
        assert store.progress(ann).done == 1
    (only,) = judged_of(folder.study, ratings_of(folder))
    assert sorted(one.rater for one in only.said) == ["Ann", "Bea", "Cid"]
    assert only.needed == 0


def test_looking_at_a_page_again_renews_its_claim(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=1, each=1, rule=Rule(raters=1))
    clock = [0.0]
    with opened(folder, clock) as store:
        ann, bea = store.rater("Ann"), store.rater("Bea")
        for _ in range(4):
            assert store.open_after(ann) == 1
            assert store.open_after(bea) is None
            clock[0] += CLAIM_SECONDS * 0.8
        clock[0] += CLAIM_SECONDS
        assert store.open_after(bea) == 1


def test_a_rater_comes_back_to_what_was_skipped(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=2)
    with opened(folder) as store:
        ann = store.rater("Ann")
        first = store.showing(ann, 1)
        assert first is not None
        assert store.showing(ann, 3) is None
        assert store.showing(ann, 2) is not None
        assert store.open_after(ann, 1) == 2
        for number in (2, 3, 4):
            showing = store.showing(ann, number)
            assert showing is not None
            rate(store, ann, showing, (3, 3))
        assert store.open_after(ann, 4) == 1
        assert store.progress(ann).done == 3
        assert store.progress(ann).total == 4
        again = store.showing(ann, 1)
    assert again == first


def test_nobody_can_skip_everything_and_keep_it_from_others(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=20)
    with opened(folder) as store:
        ann = store.rater("Ann")
        number = 0
        while store.showing(ann, number + 1) is not None:
            number += 1
        assert number == MOST_OPEN
        assert store.open_after(ann, number) == 1


def test_the_one_who_took_an_object_out_can_put_it_back(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=1, each=1)
    with opened(folder) as store:
        ann, bea = store.rater("Ann"), store.rater("Bea")
        showing = store.showing(ann, 1)
        assert showing is not None
        rate(store, ann, showing, None)
        assert store.open_after(bea) is None
        rate(store, ann, showing, (2, 3))
        assert store.open_after(bea) == 1
    (only,) = judged_of(folder.study, ratings_of(folder))
    assert (only.excluded, only.means) == (False, (2.0, 3.0))


def test_a_changed_answer_calls_for_a_third(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=1, each=1)
    with opened(folder) as store:
        ann, bea, cid = map(store.rater, ("Ann", "Bea", "Cid"))
        showing = store.showing(ann, 1)
        assert showing is not None
        rate(store, ann, showing, (5, 4))
        rate_next(store, bea, four)
        assert store.open_after(cid) is None
        rate(store, ann, showing, (1, 4))
        assert store.open_after(ann) is None
        assert store.open_after(bea) is None
        assert store.open_after(cid) == 1


def test_what_is_nearest_to_its_end_comes_first(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=5)
    begun: set[str] = set()
    with opened(folder) as store:
        ann, bea = store.rater("Ann"), store.rater("Bea")
        for _ in range(4):
            task = rate_next(store, ann, four)
            assert task is not None
            begun.add(task.id)
        got = [rate_next(store, bea, four) for _ in range(4)]
        assert {task.id for task in got if task is not None} == begun


def test_orders_differ_between_raters_but_not_between_visits(tmp_path: Path) -> None:
    def order(place: str, name: str) -> list[str]:
        shutil.copytree(folder.folder, tmp_path / place)
        with opened(StudyFolder(tmp_path / place)) as store:
            rater = store.rater(name)
            return [t.id for _ in range(20) if (t := rate_next(store, rater, four)) is not None]

    folder = objects_study(tmp_path, pictures=10)
    first = order("1", "Ann")
    assert len(first) == 20
    assert order("2", "Ann") == first
    assert order("3", "Bea") != first


def test_other_kinds_still_show_all_tasks_to_all(tmp_path: Path) -> None:
    folder = study_in(tmp_path / "s", evaluation(tmp_path / "e", 2), kind="score")
    store = RatingStore(folder)
    totals = [store.progress(store.rater(name)).total for name in "abc"]
    store.close()
    assert totals == [len(folder.study.tasks)] * 3


def test_pictures_as_a_whole_follow_the_same_rule(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=2, each=1, whole_share=1.0)
    assert [task.thing is None for task in folder.study.tasks].count(True) == 2
    with opened(folder) as store:
        people = [store.rater(name) for name in "abc"]
        for person, value in zip(people, (1, 5, 4), strict=True):
            while rate_next(store, person, lambda task, value=value: (value, value)):
                pass
    found: list[RatedUnit] = list(judged_of(folder.study, ratings_of(folder)))
    assert [len(one.said) for one in found] == [3] * 4
    assert [one.means[0] for one in found] == pytest.approx([10 / 3] * 4)

"""Studies of objects: where these come from, which are taken, and rated sets that come out."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from scenewright.core.images import load_image
from scenewright.core.ports.vision import Box, Detection, DetectionError
from scenewright.evals.human_ratings.making import RatingStudySpec, make_study
from scenewright.evals.human_ratings.rated_objects import FILE, GivenRating, read_objects
from scenewright.evals.human_ratings.rated_units import export_objects
from scenewright.evals.human_ratings.sources import (
    UNKNOWN,
    detect_all,
    is_detections,
    is_rated_set,
    read_detected,
    read_rated,
    read_source,
)
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import RatingError, Rule, StudyFolder, Task
from scenewright.evals.human_ratings.table import ratings_of, read_csv, write_csv
from tests.doubles import painted
from tests.evals.human_ratings.rated import ARMS, evaluation
from tests.evals.human_ratings.rated_objects import (
    SOURCES,
    objects_study,
    rate_next,
    rated_set,
    thing_of,
)


def detections(folder: Path, things: Sequence[dict[str, object]], **more: object) -> Path:
    """A file of detections beside one picture of 100 × 100 pixels by sdxl."""
    (folder / "sdxl").mkdir(parents=True, exist_ok=True)
    painted((100, 100), (255, 0, 0)).save(folder / "sdxl/1.png")
    file = folder / "found.json"
    file.write_text(json.dumps({"images": {"sdxl/1.png": things, **more}}), encoding="utf-8")
    return file


def made(source: Path, folder: Path, **wish: object) -> StudyFolder:
    make_study(read_detected(source), RatingStudySpec(kind="objects", **wish), folder)  # type: ignore[arg-type]
    return StudyFolder(folder)


def test_small_and_unsure_objects_are_left_out_and_counted(tmp_path: Path) -> None:
    file = detections(
        tmp_path / "d",
        [
            {"name": "dog", "box": [10, 10, 20, 20], "score": 0.5},
            {"name": "cat", "box": [10, 10, 19, 20], "score": 0.9},
            {"name": "cow", "box": [10, 10, 80, 80], "score": 0.49},
            {"name": "sky", "box": [0, 0, 100, 50], "stuff": True},
        ],
    )
    study = made(file, tmp_path / "s").study
    assert [thing_of(task).category for task in study.tasks] == ["dog"]
    assert study.arms == ("sdxl",)
    ((why, count),) = study.left_out.items()
    assert count == 3
    assert "1.00% of the picture or a confidence of 0.5" in why
    more = made(file, tmp_path / "s2", least_share=0.0, least_score=0.0).study
    assert len(more.tasks) == 3


def test_coco_files_are_read(tmp_path: Path) -> None:
    painted((64, 64)).save(tmp_path / "a.png")
    file = tmp_path / "coco.json"
    file.write_text(
        json.dumps(
            {
                "images": [{"id": 1, "file_name": "a.png", "width": 64, "height": 64}],
                "categories": [{"id": 7, "name": "dog"}],
                "annotations": [{"id": 1, "image_id": 1, "category_id": 7, "bbox": [4, 8, 20, 30]}],
            }
        ),
        encoding="utf-8",
    )
    (task,) = made(file, tmp_path / "s").study.tasks
    assert thing_of(task).box == (4, 8, 24, 38)
    assert task.candidates[0].arm == UNKNOWN


def test_a_lost_picture_is_counted(tmp_path: Path) -> None:
    thing = {"name": "dog", "box": [10, 10, 60, 60]}
    file = detections(tmp_path, [thing], **{"sdxl/2.png": [thing]})
    assert made(file, tmp_path / "s").study.left_out == {"the picture is missing": 1}


def test_rated_objects_come_with_their_ids_and_without_their_ratings(tmp_path: Path) -> None:
    folder = objects_study(tmp_path)
    ids = {thing_of(task).id for task in folder.study.tasks}
    assert ids == {f"object-{p}-{k}" for p in range(4) for k in range(2)}
    assert folder.study.arms == SOURCES
    assert '"shape"' not in (folder.folder / "study.json").read_text("utf-8")


def test_boxes_and_crops_are_scaled_with_their_pictures(tmp_path: Path) -> None:
    file = detections(tmp_path, [{"name": "dog", "box": [10, 20, 60, 80]}])
    folder = made(file, tmp_path / "s", side=200)
    thing = thing_of(folder.study.tasks[0])
    assert (thing.size, thing.box) == ((200, 200), (20, 40, 120, 160))
    assert load_image(folder.picture(folder.study.tasks[0].candidates[0].image)).size == (200, 200)
    assert load_image(folder.picture(thing.crop)).size == (144, 144)


def test_the_draw_follows_the_seed(tmp_path: Path) -> None:
    source = read_rated(rated_set(tmp_path / "set", 10))

    def drawn(place: str, seed: int) -> list[str]:
        wish = RatingStudySpec(kind="objects", n=5, seed=seed, whole_share=0.5)
        study = make_study(source, wish, tmp_path / place)
        return [task.id + (task.thing.id if task.thing else task.item) for task in study.tasks]

    assert drawn("a", 1) == drawn("b", 1)
    assert drawn("c", 2) != drawn("a2", 1)


class Finder:
    """A detector that finds one dog and counts its work."""

    id, fingerprint = "finder:dog", "f"

    def __init__(self, fails_after: int = 99) -> None:
        self.calls = 0
        self._most = fails_after

    vocabulary = None

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        if self.calls >= self._most:
            raise DetectionError("the model is gone: load it again")
        self.calls += 1
        box: Box = (1.0, 2.0, 30.0, 40.0)
        return (Detection("dog", box, 0.75),)

    async def aclose(self) -> None:
        """Nothing to free."""


async def test_a_detector_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    source = read_source(evaluation(tmp_path / "e", 2))
    record = tmp_path / "s" / "found.jsonl"
    with pytest.raises(RatingError, match="load it again"):
        await detect_all(source, Finder(5), record)
    with record.open("a", encoding="utf-8") as file:
        file.write('{"image": "half of a li')
    ticks: list[tuple[int, int]] = []
    again = Finder()
    found = await detect_all(source, again, record, tick=lambda *at: ticks.append(at))
    assert again.calls == 3
    assert ticks[-1] == (8, 8)
    assert {(p.item, p.source) for p in found.objects} == {
        (f"item-{i}", arm) for i in range(2) for arm in ARMS
    }
    assert all(p.things[0].box == (1, 2, 30, 40) for p in found.objects)
    third = Finder()
    some = await detect_all(source, third, record, arms=("feedback",))
    assert (third.calls, len(some.objects)) == (0, 2)
    study = make_study(found, RatingStudySpec(kind="objects"), tmp_path / "s")
    assert len(study.tasks) == 8


def test_what_a_path_holds(tmp_path: Path) -> None:
    folder = rated_set(tmp_path / "set", 1)
    assert is_rated_set(folder)
    assert is_rated_set(folder / FILE)
    assert not is_detections(folder)
    assert is_detections(detections(tmp_path / "d", []))


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"n": 0}, "one or more"),
        ({"side": 5}, "from 16 to 4096"),
        ({"whole_share": 1.5}, "from 0 to 1"),
        ({"least_share": 0.9}, "--least-share"),
    ],
)
def test_a_wish_that_cannot_be_had(tmp_path: Path, wish: dict[str, float], told: str) -> None:
    file = detections(tmp_path, [{"name": "dog", "box": [10, 20, 60, 80]}])
    with pytest.raises(RatingError, match=told):
        made(file, tmp_path / "s", **wish)
    assert not (tmp_path / "s" / "study.json").exists()


def test_a_study_is_not_written_over(tmp_path: Path) -> None:
    folder = objects_study(tmp_path)
    with pytest.raises(RatingError, match="name another --out"):
        make_study(read_rated(tmp_path / "set"), RatingStudySpec(kind="objects"), folder.folder)


def rated_study(folder: Path, seed: int = 0, **wish: object) -> StudyFolder:
    """A study that Ann, Bea and Cid have rated to the end; one in ten objects is taken out."""
    found = objects_study(folder, pictures=10, **wish)
    rng = random.Random(seed)
    said = {
        (name, task.id): None
        if task.thing is not None and rng.random() < 0.1
        else (rng.randint(1, 5), rng.randint(1, 5))
        for name in ("Ann", "Bea", "Cid")
        for task in found.study.tasks
    }
    store = RatingStore(found)
    for name in ("Ann", "Bea", "Cid"):
        person = store.rater(name)

        def habit(task: Task, name: str = name) -> tuple[int, int] | None:
            return said[name, task.id]

        while rate_next(store, person, habit):
            pass
    store.close()
    return found


def test_the_export_is_what_the_trainer_reads(tmp_path: Path) -> None:
    folder = rated_study(tmp_path, whole_share=0.5)
    done = export_objects(folder, tmp_path / "out")
    found = read_objects(tmp_path / "out")
    assert (done.objects, done.objects + done.excluded + done.unfinished) == (len(found), 20)
    assert done.excluded > 0
    tasks = {thing_of(task).id: task for task in folder.study.tasks if task.thing is not None}
    rows = ratings_of(folder)
    for one in found:
        task = tasks[one.id]
        assert (one.category, one.box) == (thing_of(task).category, thing_of(task).box)
        assert one.source == task.candidates[0].arm
        said = {
            rater: tuple(
                next(int(r.value) for r in rows if (r.rater, r.task, r.fact) == (rater, task.id, a))
                for a in ("shape", "texture")
            )
            for rater in {r.rater for r in rows if r.task == task.id}
        }
        when = {
            name: min(
                r.shown_at or r.rated_at for r in rows if (r.rater, r.task) == (name, task.id)
            )
            for name in said
        }
        assert one.ratings == tuple(
            GivenRating(rater=name, shape=said[name][0], texture=said[name][1], when=when[name])
            for name in sorted(said, key=lambda name: (when[name], name))
        )
        assert one.shape == pytest.approx(sum(s for s, _ in said.values()) / len(said))
        gap = max(abs(a - b) for n in (0, 1) for a in [x[n] for x in said.values()]
                  for b in [x[n] for x in said.values()])  # fmt: skip
        assert len(said) == 2 or (len(said) == 3 and gap >= 3)
        assert load_image(tmp_path / "out" / one.image).size == thing_of(task).size
    assert any(one.image_realism is not None for one in found)
    assert any(one.image_realism is None for one in found)


def test_the_export_is_deterministic_and_can_be_rated_again(tmp_path: Path) -> None:
    folder = rated_study(tmp_path)
    for place in ("a", "b", "a"):
        export_objects(folder, tmp_path / place)
    files = [sorted(p.relative_to(tmp_path / x) for p in (tmp_path / x).rglob("*")) for x in "ab"]
    assert files[0] == files[1]
    assert (tmp_path / "a" / FILE).read_bytes() == (tmp_path / "b" / FILE).read_bytes()
    again = make_study(
        read_rated(tmp_path / "a"), RatingStudySpec(kind="objects"), tmp_path / "again"
    )
    assert {thing_of(t).id for t in again.tasks} == {o.id for o in read_objects(tmp_path / "a")}


def test_unfinished_objects_come_only_when_asked_for(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, rule=Rule(raters=2))
    store = RatingStore(folder)
    ann = store.rater("Ann")
    for _ in range(3):
        rate_next(store, ann, lambda _: (2, 4))
    store.close()
    with pytest.raises(RatingError, match="--fewest 1"):
        export_objects(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    done = export_objects(folder, tmp_path / "out", fewest=1)
    assert (done.objects, done.unfinished) == (3, 5)
    assert {(one.shape, one.texture) for one in read_objects(tmp_path / "out")} == {(2.0, 4.0)}


def test_ratings_of_objects_survive_a_table(tmp_path: Path) -> None:
    folder = rated_study(tmp_path)
    rows = ratings_of(folder)
    write_csv(rows, tmp_path / "all.csv")
    assert read_csv(tmp_path / "all.csv") == rows


def test_a_table_with_strange_ratings_of_objects_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    for row, told in (("a,i,color,3", "'color'"), ("a,i,shape,cannot tell", "not a score")):
        file.write_text(f"rater,item,fact,value\n{row}\n", encoding="utf-8")
        with pytest.raises(RatingError, match=told):
            read_csv(file, kind="objects")

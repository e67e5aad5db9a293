"""What scorers are measured on: saved parts, and no picture twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from scenewright.core.ports.vision import Detection, ObjectRealism, RealismError
from scenewright.evals.human_ratings.rated_objects import RatedObject, write_objects
from scenewright.evals.studies.olip.comparing import examples_of
from scenewright.evals.studies.olip.splits import (
    choose,
    picture_digests,
    seen_of,
    split_objects,
    trained_on,
)
from scenewright.tools.vision.realism.calibrated import CalibratedScorer
from scenewright.tools.vision.realism.trained_on import TrainedOn


def digest(number: int) -> str:
    return f"{number:032x}"


def rated(number: int) -> RatedObject:
    return RatedObject(
        id=str(number), image=f"{number}.png", category="dog", box=(0, 0, 4, 4), shape=3, texture=3
    )


OBJECTS = [rated(at) for at in range(20)]
DIGESTS = {item.image: digest(at) for at, item in enumerate(OBJECTS)}


def record(train: Sequence[int], test: Sequence[int], validation: Sequence[int] = ()) -> TrainedOn:
    parts = (("train", train), ("validation", validation), ("test", test))
    return TrainedOn.of((digest(at), part) for part, numbers in parts for at in numbers)  # type: ignore[misc]


def numbers(objects: Sequence[RatedObject]) -> list[int]:
    return [int(item.id) for item in objects]


class Heads:
    """A scorer with or without a record."""

    def __init__(self, name: str, found: TrainedOn | None) -> None:
        self.id = self.fingerprint = name
        self.trained_on = found

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        return [ObjectRealism(3, 3, 3) for _ in objects]

    async def aclose(self) -> None:
        pass


class Untrained(Heads):
    """A judge was never fitted to rated pictures."""

    def __init__(self) -> None:
        self.id = self.fingerprint = "judge"


def test_the_saved_part_holds_and_what_came_later_is_in_none() -> None:
    found = choose(OBJECTS, DIGESTS, "test", [record(range(10), (10, 12), (11,))])
    assert found.saved
    assert numbers(found.objects) == [10, 12]
    assert numbers(found.training) == list(range(10))


def test_of_several_trainings_no_picture_counts_that_one_of_them_used() -> None:
    first, second = record(range(10), (10, 11, 12)), record((11, *range(13, 20)), (0, 10, 12))
    assert numbers(choose(OBJECTS, DIGESTS, "test", [first, second]).objects) == [10, 12]
    # Heads of other sets have no say.
    other = record((100, 101), (102,))
    assert numbers(choose(OBJECTS, DIGESTS, "test", [other, first]).objects) == [10, 11, 12]
    with pytest.raises(RealismError, match="one after the other"):
        choose(OBJECTS, DIGESTS, "test", [record((0,), (1,)), record((1,), (0,))])
    with pytest.raises(RealismError, match="another part or another set"):
        choose(OBJECTS, DIGESTS, "validation", [first])


def test_without_trained_heads_the_seed_draws() -> None:
    found = choose(OBJECTS, DIGESTS, "test", [record((100,), (101,))], seed=3)
    assert not found.saved
    splits = split_objects(OBJECTS, DIGESTS, seed=3)
    assert numbers(found.objects) == [int(OBJECTS[at].id) for at in splits.test]


@pytest.mark.parametrize("calibrated", [False, True])
def test_overlap_is_refused_also_behind_a_calibration(calibrated: bool, tmp_path: Path) -> None:
    scorer: Heads | CalibratedScorer = Heads("olip:x", record((1, 2), (3,), (4,)))
    if calibrated:
        scorer = CalibratedScorer(scorer, examples_of(tmp_path, OBJECTS))  # type: ignore[arg-type]
    assert seen_of([scorer], OBJECTS[5:], DIGESTS) == [0]
    with pytest.raises(RealismError, match=r"trained on 3 of the 20 objects, 1\.png first"):
        seen_of([scorer], OBJECTS, DIGESTS)
    assert seen_of([scorer, Untrained()], OBJECTS, DIGESTS, allow=True) == [3, 0]


def test_nobody_can_tell_of_heads_without_a_record() -> None:
    with pytest.raises(RealismError, match="without the pictures it was trained on"):
        seen_of([Heads("olip:old", None)], OBJECTS, DIGESTS)
    assert seen_of([Heads("olip:old", None)], OBJECTS, DIGESTS, allow=True) == [None]


def test_the_same_picture_in_two_files_is_in_one_part(tmp_path: Path) -> None:
    objects = []
    for at in range(30):
        picture = Image.new("RGB", (8, 8), (at // 2, 0, 0))
        name = f"{at}.png" if at % 2 else f"{at}.bmp"
        picture.save(tmp_path / name)
        objects.append(rated(at).model_copy(update={"image": name}))
    write_objects(tmp_path, objects)
    digests = picture_digests(tmp_path, objects)
    assert len(set(digests.values())) == 15
    for seed in range(5):
        splits = split_objects(objects, digests, seed=seed, test=0.3)
        parts = [{at // 2 for at in splits.of(part)} for part in ("train", "validation", "test")]  # type: ignore[arg-type]
        assert sum(map(len, parts)) == 15
        trained_on(objects, digests, splits)
    split = [item.model_copy(update={"split": "train"}) for item in objects]
    split[3] = split[3].model_copy(update={"split": "test"})
    with pytest.raises(RealismError, match="file of the same pixels"):
        split_objects(split, digests)


def test_a_file_that_is_no_picture_is_like_no_other(tmp_path: Path) -> None:
    for name in ("0.png", "1.png"):
        (tmp_path / name).write_text("no picture")
    found = picture_digests(tmp_path, OBJECTS[:2])
    assert len(set(found.values())) == 2

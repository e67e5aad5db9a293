"""Sampled scenes of the painted world: complexity as asked, drawable, the same each time."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.agents.parsers.classes import OTHERS, PEOPLE, SCENE_CATEGORIES, diversity
from scenewright.core.formats import load_scene
from scenewright.evals.datasets import miniature_scenes as miniature
from scenewright.evals.datasets.base import Dataset, DatasetError, Item
from scenewright.miniature.painter import paint
from scenewright.miniature.world import KINDS, PREDICATES


def scene_of(item: Item) -> Any:
    assert item.scene is not None
    return item.scene


@pytest.mark.parametrize("attributes", [True, False])
def test_all_complexities_are_there_in_turn(attributes: bool) -> None:
    found = miniature.load(n=24, complexity="1-12", attributes=attributes)
    assert isinstance(found, Dataset)
    items = list(found)
    assert [len(scene_of(item).relations) for item in items] == [*range(1, 13)] * 2
    for item in items:
        scene = scene_of(item)
        assert {r.predicate for r in scene.relations} <= set(PREDICATES)
        kinds = Counter(o.name for o in scene.objects)
        assert set(kinds) <= set(KINDS)
        assert max(kinds.values()) <= (2 if attributes else 1)
        keys = {key for o in scene.objects for key in o.attributes}
        assert keys == ({"color"} if attributes else set())
        # The painter can draw the scene anew: its relations hold together.
        paint(scene, seed=0)


def test_levels_are_taken_in_turn() -> None:
    assert Counter(item.level for item in miniature.load(n=60)) == {
        "simple": 20,
        "medium": 20,
        "hard": 20,
    }
    items = list(miniature.load(n=9, levels=["hard", "hard", "simple"]))
    assert [item.level for item in items] == ["hard", "hard", "simple"] * 3
    sizes = [len(scene_of(item).relations) for item in miniature.load(n=5, levels=["hard"])]
    assert sizes == [8, 9, 10, 11, 12]


def test_a_larger_set_begins_with_the_smaller_one_and_seeds_differ() -> None:
    few, many = list(miniature.load(n=6, seed=3)), list(miniature.load(n=12, seed=3))
    assert many[:6] == few
    other = list(miniature.load(n=6, seed=4))
    assert not {scene_of(i).digest for i in few} & {scene_of(i).digest for i in other}


def test_the_fingerprint_tells_the_options() -> None:
    prints = {
        miniature.load(**options).fingerprint  # type: ignore[arg-type]
        for options in (
            {},
            {"n": 3},
            {"seed": 1},
            {"levels": ["hard"]},
            {"attributes": False},
            {"complexity": [1]},
            {"out": "x"},
        )
    }
    assert len(prints) == 7
    # The place of the pictures is not what the set is.
    assert miniature.load(out="a").fingerprint == miniature.load(out="b").fingerprint


def test_paintings_are_written_once_with_their_boxes(tmp_path: Path) -> None:
    found = miniature.load(n=3, out=str(tmp_path / "pictures"))
    assert not (tmp_path / "pictures").exists()
    items = list(found)
    times = {}
    for item in items:
        assert item.image is not None
        with Image.open(item.image) as picture:
            assert picture.size == (128, 128)
        assert [d.name for d in item.detections] == [o.name for o in scene_of(item).objects]
        for left, top, right, bottom in (d.box for d in item.detections):
            assert left < right <= 140
            assert top < bottom <= 140
        times[item.image] = Path(item.image).stat().st_mtime_ns
    assert list(found) == items
    assert {name: Path(name).stat().st_mtime_ns for name in times} == times
    assert len(list((tmp_path / "pictures").iterdir())) == 3


def test_it_can_be_read_while_an_event_loop_runs() -> None:
    async def read() -> list[str]:
        return [item.id for item in miniature.load(n=2)]

    assert asyncio.run(read()) == ["s0-00000", "s0-00001"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"n": 0}, "option n is 0"),
        ({"n": True}, "option n is True"),
        ({"seed": -1}, "option seed is -1"),
        ({"levels": ["easy"]}, "option levels has 'easy'"),
        ({"levels": []}, "option levels is empty"),
        ({"complexity": "1-20"}, "option complexity has 13"),
        ({"complexity": "few"}, "option complexity is 'few'"),
        ({"complexity": []}, "option complexity is empty"),
        ({"complexity": [1.5]}, "option complexity has 1.5"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(DatasetError, match=told):
        miniature.load(**options)
    with pytest.raises(DatasetError, match="reads no file"):
        miniature.load(Path("x"))


def test_classes_follow_from_the_content() -> None:
    def said(text: str) -> tuple[str, str]:
        return diversity(load_scene(text))

    assert said("person left of another person; house near tree") == (
        PEOPLE,
        "Social Interaction",
    )
    assert said("person riding boat; dog left of boat; cat left of dog")[1] == "Travel/Exploration"
    assert said("person holding ball; ball near dog; ball left of another ball") == (
        PEOPLE,
        "Sports & Recreation",
    )
    assert said("person left of zebra") == (PEOPLE, "Individual Activities")
    assert said("house left of tree; car near house") == (OTHERS, "Urban/Built")
    assert said("dog under tree; lamp left of tree") == (OTHERS, "Nature")
    assert said("zebra near lion") == (OTHERS, "Objects")
    for item in miniature.load(n=40):
        assert item.category in SCENE_CATEGORIES[item.group]

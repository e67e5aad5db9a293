"""Scores that something else gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scenewright.core.images import hash_of_image
from scenewright.core.ports.vision import ExtractionError, PairScores, Thing
from scenewright.tools.vision.extraction.score_table import ScoreTable
from tests.tools.vision.extraction.extraction_doubles import picture, seen

THINGS = [Thing("person.1", seen("person")), Thing("ball.1", seen("ball", (20, 4, 30, 14)))]
PAIR = {"source": "person.1", "target": "ball.1", "none": 0.1, "predicates": {"kicking": 0.8}}
SCORES = PairScores("person.1", "ball.1", 0.1, {"kicking": 0.8})


def written(folder: Path, data: Any) -> Path:
    path = folder / "scores.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


async def test_a_file_of_one_picture_or_of_several(tmp_path: Path) -> None:
    table = ScoreTable.load(written(tmp_path, {"pairs": [PAIR]}))
    assert await table.score(picture(), THINGS) == (SCORES,)
    first = table.fingerprint
    table = ScoreTable.load(written(tmp_path, {"images": {hash_of_image(picture()): [PAIR]}}))
    assert await table.score(picture(), THINGS) == (SCORES,)
    assert table.fingerprint != first
    with pytest.raises(ExtractionError, match="no scores of the picture"):
        await table.score(picture().rotate(90), THINGS)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("{", "is not JSON"),
        ({}, 'either "pairs"'),
        ({"pairs": [], "images": {}}, 'either "pairs"'),
        ({"pairs": [{**PAIR, "none": 2}]}, "pairs.0.none"),
        ({"pairs": [{**PAIR, "predicates": {"on": -1}}]}, "pairs.0"),
        ({"pairs": [{**PAIR, "score": 1}]}, "pairs.0.score"),
    ],
)
def test_a_broken_file_names_its_entry(tmp_path: Path, data: Any, told: str) -> None:
    with pytest.raises(ExtractionError, match=told):
        ScoreTable.load(written(tmp_path, data))
    with pytest.raises(ExtractionError, match="cannot be read"):
        ScoreTable.load(tmp_path / "missing.json")


async def test_a_function_plugs_in_and_its_failure_is_told() -> None:
    table = ScoreTable(lambda image, things: [SCORES], "mine-1")
    assert await table.score(picture(), THINGS) == (SCORES,)
    with pytest.raises(ExtractionError, match=r"'ball.1', which was not detected"):
        await table.score(picture(), THINGS[:1])

    def broken(image: object, things: object) -> list[PairScores]:
        raise RuntimeError("no device")

    with pytest.raises(ExtractionError, match="no device"):
        await ScoreTable(broken, "mine-2").score(picture(), THINGS)

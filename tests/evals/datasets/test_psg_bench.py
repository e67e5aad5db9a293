"""The set ``psg-bench``: drawn here, or read from a file of prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenewright.core.questions import facts_of
from scenewright.evals.datasets.base import DatasetError, DatasetSpec
from scenewright.evals.datasets.psg_prompts import rows
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.datasets.tables import write_items


def test_prompts_come_with_their_scenes_and_classes() -> None:
    items = list(rows.load(n=60))
    assert len(items) == 60
    for item in items:
        assert item.scene is not None
        assert item.prompt
        assert facts_of(item.scene)
        assert item.group
        assert item.category == item.meta["challenge"]
        assert item.meta["author"] == "rules"


def test_the_registry_opens_it_with_options_and_limit() -> None:
    options = {"names": "miniature", "templates": "position,counting", "n": 20, "seed": 3}
    spec = DatasetSpec(name="psg-bench", options=options, limit=7)
    found = list(open_dataset(spec))
    assert len(found) == 7
    assert {item.meta["template"] for item in found} == {"position", "counting"}
    assert found == list(rows.load(**{**options, "n": 20}))[:7]  # type: ignore[arg-type]


def test_a_file_is_read_back_equal(tmp_path: Path) -> None:
    items = list(rows.load(n=25))
    file = tmp_path / "prompts.jsonl"
    write_items(items, file)
    assert list(rows.load(file)) == items


def test_the_fingerprint_tells_options_and_content(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    write_items(rows.load(n=2), file)
    one = rows.load(file).fingerprint
    write_items(rows.load(n=3), file)
    prints = {
        one,
        rows.load(file).fingerprint,
        *(
            rows.load(**options).fingerprint
            for options in (
                {},
                {"n": 9},
                {"seed": 1},
                {"names": "coco"},
                {"contrastive": False},
                {"templates": ["counting"]},
                {"challenges": ["NONE"]},
            )
        ),
    }
    assert len(prints) == 9


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"n": 0}, "option n is 0"),
        ({"seed": -1}, "option seed is -1"),
        ({"names": "imagenet"}, "no names 'imagenet'"),
        ({"templates": "poem"}, "no template 'poem'"),
        ({"challenges": ["HARD"]}, "no challenge 'HARD'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(DatasetError, match=told):
        rows.load(**options)


def test_options_of_a_draw_are_none_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    write_items(rows.load(n=2), file)
    with pytest.raises(DatasetError, match="option seed is for prompts drawn here"):
        rows.load(file, seed=1)
    other = tmp_path / "prompts.csv"
    other.write_text("prompt\na dog\n", encoding="utf-8")
    with pytest.raises(DatasetError, match="not a file of `scenewright data synthesize`"):
        rows.load(other)

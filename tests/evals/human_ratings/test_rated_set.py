"""Sets of rated objects: what is written is read, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.rated_objects import (
    FILE,
    GivenRating,
    RatedObject,
    read_objects,
    write_objects,
)


def rated(number: int, **changes: object) -> RatedObject:
    """A rated object of the picture ``a.png``."""
    fields: dict[str, object] = {
        "id": f"a/{number}", "image": "a.png", "category": "dog", "box": (1, 2, 30, 40),
        "shape": 4.5, "texture": 2.0,
    }  # fmt: skip
    return RatedObject.model_validate(fields | changes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one picture."""
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    return tmp_path


def test_a_set_comes_back_as_it_was(folder: Path) -> None:
    ratings = (GivenRating(rater="first", shape=5, texture=2),)
    wanted = [rated(1, ratings=ratings, source="flux", split="test"), rated(2, image_realism=3.5)]
    assert write_objects(folder, wanted) == folder / FILE
    assert read_objects(folder) == wanted == read_objects(folder / FILE)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_ocr_is_the_mean_of_shape_and_texture() -> None:
    assert rated(1).joint == 3.25
    assert rated(1).detection.box == (1, 2, 30, 40)


@given(shape=st.floats(-2, 8), texture=st.floats(-2, 8))
def test_only_scores_of_the_scale_are_taken(shape: float, texture: float) -> None:
    if 1 <= shape <= 5 and 1 <= texture <= 5:
        assert 1 <= rated(1, shape=shape, texture=texture).joint <= 5
    else:
        with pytest.raises(ValidationError):
            rated(1, shape=shape, texture=texture)


def test_what_is_wrong_is_told_with_its_line(folder: Path) -> None:
    good = rated(1).model_dump_json()
    for line, problem in (
        ("{", "JSON"),
        (good, "used twice"),
        (rated(2).model_dump_json().replace("4.5", "7"), "shape"),
        (rated(3, image="b.png").model_dump_json(), r"the picture .*b\.png is missing"),
        (rated(4).model_dump_json().replace("30.0", "0.5"), "box"),
    ):
        (folder / FILE).write_text(f"{good}\n\n{line}\n")
        with pytest.raises(RealismError, match=f"line 3: .*{problem}"):
            read_objects(folder)


def test_a_set_that_is_not_there_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(RealismError, match="rate export"):
        read_objects(tmp_path)

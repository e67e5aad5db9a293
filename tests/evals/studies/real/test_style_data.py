"""Sets of photos and illustrations: how they are read and parted, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.studies.real.style import StyleError, checked, read_labelled
from tests.doubles import painted


def filled(folder: Path, n: int = 10) -> Path:
    """``n`` pictures of each class, all different."""
    for shade, label in ((40, "photo"), (140, "illustration")):
        (folder / label).mkdir(parents=True)
        for at in range(n):
            painted((9, 9), (shade + at, 0, 0)).save(folder / label / f"{at}.png")
    return folder


def test_a_folder_is_parted_by_class_and_content(tmp_path: Path) -> None:
    found = checked(read_labelled(filled(tmp_path / "a")), 0.2)
    assert [sum(one.label == "photo" for one in part) for part in (found.train, found.test)] == [
        8,
        2,
    ]
    moved = checked(read_labelled(filled(tmp_path / "elsewhere" / "b")), 0.2)
    assert moved.digest == found.digest
    assert checked(read_labelled(tmp_path / "a"), 0.2, seed=1).digest != found.digest


def test_no_test_picture_is_learned_under_another_name(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    for at in range(10):
        Image.open(folder / "photo" / f"{at}.png").save(folder / "photo" / f"again{at}.bmp")
    found = checked(read_labelled(folder), 0.3)
    assert found.repeated == 10
    assert not {one.digest for one in found.train} & {one.digest for one in found.test}


def test_a_list_names_pictures_and_parts(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    lines = [
        {"image": f"{label}/{at}.png", "label": label, "split": "test" if at < 3 else "train"}
        for label in ("photo", "illustration")
        for at in range(10)
    ]
    file = folder / "set.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    found = checked(read_labelled(file))
    assert (len(found.train), len(found.test)) == (14, 6)


def test_all_pictures_at_fault_are_named_at_once(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    (folder / "photo" / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "photo" / "text.png").write_text("no picture")
    Image.open(folder / "photo" / "0.png").save(folder / "illustration" / "both.png")
    with pytest.raises(StyleError) as told:
        checked(read_labelled(folder))
    message = str(told.value)
    assert message.startswith("3 pictures")
    assert all(name in message for name in ("cut.png", "text.png", "both.png", "0.png"))


def test_what_is_no_set_is_told(tmp_path: Path) -> None:
    with pytest.raises(StyleError, match="does not exist"):
        read_labelled(tmp_path / "nowhere")
    (tmp_path / "photo").mkdir()
    with pytest.raises(StyleError, match="no folder 'illustration'"):
        read_labelled(tmp_path)
    (tmp_path / "illustration").mkdir()
    with pytest.raises(StyleError, match="0 different pictures of the class 'photo'"):
        checked(read_labelled(tmp_path))
    file = tmp_path / "set.jsonl"
    file.write_text('{"image": "a.png", "label": "sketch"}')
    with pytest.raises(DatasetError, match="line 1: label"):
        read_labelled(file)


def test_one_class_alone_and_too_few_are_refused(tmp_path: Path) -> None:
    folder = filled(tmp_path, 6)
    pictures = read_labelled(folder)
    with pytest.raises(StyleError, match="class 'illustration'"):
        checked([one for one in pictures if one.label == "photo"])
    with pytest.raises(StyleError, match="3 different pictures of the class 'photo'"):
        checked(pictures[3:])
    with pytest.raises(StyleError, match="between 0 and 1"):
        checked(pictures, held_out=1.0)

"""Tests of pictures that a person brings to an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from scenewright.config.settings import find_profile
from scenewright.evals.datasets.base import DatasetSpec, Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import Arm, Condition, EvalConfig
from scenewright.evals.runner.estimating import estimate
from scenewright.evals.runner.given_pictures import GivenPictures, check_given

ITEMS = (Item(id="1", prompt="a red dog"), Item(id="a/2", prompt="two cats"))


def put(folder: Path, *names: str) -> Path:
    """Write small pictures of these names."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(folder / name, "PNG")
    return folder


def arms(seeds: Sequence[int] = (0,)) -> list[Arm]:
    """Return the arms of given pictures in ``pictures``."""
    spec = Condition(source="given", folder="pictures")
    profile = find_profile("miniature")
    return [Arm("miniature", "theirs", seed, spec, profile) for seed in seeds]


def names(folder: Path, seed: int = 0) -> list[str]:
    """Return the file of each item."""
    given = GivenPictures(folder)
    return [given.file(item, "miniature", seed).relative_to(folder).as_posix() for item in ITEMS]


@pytest.mark.parametrize(
    ("files", "seed"),
    [
        (("1.png", "a_2.JPG"), 0),
        (("1.TIF", "a_2.gif"), 0),
        (("3/1.png", "3/a_2.Jpeg", "4/1.png"), 3),
        (("miniature/3/1.png", "miniature/3/a_2.bmp", "other/3/1.png"), 3),
        (("a red dog_000003.png", "two cats_000003.png", "two cats_000004.png"), 3),
    ],
)
def test_known_layouts_are_found_whatever_the_ending(
    files: tuple[str, ...], seed: int, tmp_path: Path
) -> None:
    assert names(put(tmp_path, *files), seed) == list(files[:2])


def test_folders_of_samples_are_found_by_their_prompts(tmp_path: Path) -> None:
    put(tmp_path, "00000/samples/0000.png", "00000/samples/0003.png", "00001/samples/0003.png")
    for at, prompt in enumerate(("two cats", "a red dog")):
        (tmp_path / f"0000{at}" / "metadata.jsonl").write_text(f'{{"prompt": "{prompt}"}}\n')
    assert names(tmp_path, 3) == ["00001/samples/0003.png", "00000/samples/0003.png"]


def test_a_manifest_names_the_file_of_each_item_and_seed(tmp_path: Path) -> None:
    put(tmp_path, "x.png", "y.png", "z.png")
    rows = "item,seed,file\n1,0,x.png\n1,1,z.png\na/2,0,y.png\n"
    (tmp_path / "pictures.csv").write_text(rows, encoding="utf-8-sig")
    assert names(tmp_path) == ["x.png", "y.png"]
    with pytest.raises(EvalError, match=r"no picture of the item 'a/2'.*seed 1"):
        names(tmp_path, 1)


def test_pictures_are_checked_before_work(tmp_path: Path) -> None:
    folder = put(tmp_path / "pictures", "1.png", "a_2.png")
    check_given(arms(), ITEMS, tmp_path)
    with pytest.raises(
        EvalError, match=r"1\.png would be the picture of the item '1' for the seed 1"
    ):
        check_given(arms((0, 1)), ITEMS, tmp_path)
    (folder / "a_2.png").rename(folder / "b.png")
    with pytest.raises(EvalError, match=r"1 of 2 pictures cannot be used.*'a/2'"):
        check_given(arms(), ITEMS, tmp_path)
    put(folder, "1.JPG", "a_2.png")
    with pytest.raises(EvalError, match=r"1\.JPG and 1.png are both"):
        check_given(arms(), ITEMS, tmp_path)


def test_two_items_cannot_share_a_picture(tmp_path: Path) -> None:
    put(tmp_path / "pictures", "x.png")
    (tmp_path / "pictures" / "pictures.csv").write_text("item,file\n1,x.png\na/2,x.png\n")
    with pytest.raises(EvalError, match="of the item 'a/2' for the seed 0 and of '1' for 0"):
        check_given(arms(), ITEMS, tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="no folder"):
        check_given(arms(), ITEMS, tmp_path)


@pytest.mark.parametrize("written", ["", 'parse = "rules"'])
async def test_a_set_without_a_scene_is_told_before_work(written: str, tmp_path: Path) -> None:
    said = "a red dog" if not written else "!"
    (tmp_path / "p.csv").write_text(f"id,prompt\n1,{said}\n2,{said}\n")
    config = EvalConfig(
        name="x",
        dataset=DatasetSpec(
            name="table", path="p.csv", options={"parse": "rules"} if written else {}
        ),
    )
    told = r"0 of 2 items have a scene.*" + ("could not be read" if written else 'parse = "rules"')
    with pytest.raises(EvalError, match=told):
        await estimate(config, root=tmp_path)

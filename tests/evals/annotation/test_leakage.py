"""Photos that a test set holds already."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.annotation.leakage import LEAK, GuardedSet, Leaks, leaks_between
from scenewright.evals.datasets.base import DatasetSpec
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.errors import EvalError
from scenewright.evals.store.journal import Features
from tests.evals.annotation.building import Photos, built, text_model, voter


class MeanColour:
    """An extractor whose vector is the mean colour."""

    id = fingerprint = "mean colour"
    dimensions = 3

    def __init__(self) -> None:
        self.seen = 0

    async def features(self, images: Sequence[Image.Image]) -> Features:
        self.seen += len(images)
        rows = [np.asarray(image, np.float32).mean((0, 1)) for image in images]
        return np.array(rows, np.float32)


def painted(folder: Path, **colours: tuple[int, int, int]) -> Path:
    """Write pictures of these colours, with a dark corner."""
    folder.mkdir()
    for name, colour in colours.items():
        image = Image.new("RGB", (40, 40), colour)
        image.paste((9, 9, 9), (0, 0, 4, 4))
        image.save(folder / f"{name}.png")
    return folder


async def found_in(tmp_path: Path, extractor: MeanColour, least: float = 0.9) -> Leaks:
    first, test = (
        open_dataset(DatasetSpec(name="folder", path=str(tmp_path / name)))
        for name in ("train", "test")
    )
    return await leaks_between(first, test, extractor, tmp_path / "kept", least)


async def test_the_most_similar_photo_is_named_and_vectors_are_computed_once(
    tmp_path: Path,
) -> None:
    train = painted(tmp_path / "train", red=(250, 0, 0), blue=(0, 0, 250), pink=(250, 120, 130))
    test = painted(tmp_path / "test", dark=(120, 2, 0), green=(0, 250, 0))
    (train / "bad.png").write_bytes(b"no picture")
    extractor = MeanColour()
    found = await found_in(tmp_path, extractor)
    assert (found.photos, found.against) == (3, 2)
    assert set(found.found) == {str(train / "red.png")}
    like, value = found.found[str(train / "red.png")]
    assert like == str(test / "dark.png")
    assert value > 0.99
    assert "bad.png" in found.unread[str(train / "bad.png")]
    seen = extractor.seen
    assert set((await found_in(tmp_path, extractor, 0.7)).found) == {
        str(train / "red.png"),
        str(train / "pink.png"),
    }
    assert extractor.seen == seen


async def test_a_set_without_photos_is_an_error(tmp_path: Path) -> None:
    painted(tmp_path / "train", red=(250, 0, 0))
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "a.txt").write_text("a dog")
    with pytest.raises(EvalError, match="test set has nothing to compare"):
        await found_in(tmp_path, MeanColour())


async def test_a_building_leaves_them_out_and_counts_them(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 3)
    like = str(tmp_path / "photos" / "1.png")
    guarded = GuardedSet(photos, Leaks(3, 1, {like: ("test.png", 0.95)}, {}))
    assert [item.meta.get(LEAK) for item in guarded] == [None, "test.png", None]
    voters = [voter("a:1", lambda ids: [("dog.1", "on", "ball.1")])]
    made = await built(tmp_path / "set", guarded, voters, text_model())
    assert made.photos == {"kept": 2, "like a photo of the test set": 1}


def test_the_command_lists_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    painted(tmp_path / "train", red=(250, 0, 0), blue=(0, 0, 250))
    painted(tmp_path / "test", dark=(250, 0, 0))
    asked = ["data", "leaks", "folder", "folder", "--path", "train", "--against-path", "test"]
    asked += ["--extractor", f"{__name__}:mean_colour", "--out", "pairs.csv"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1, done.output
    assert "1 of 2 photos are like one of 1" in done.output
    rows = list(csv.reader(Path("pairs.csv").read_text("utf-8").splitlines()))
    assert rows == [["photo", "like", "similarity"], ["train/red.png", "test/dark.png", "1.0"]]


def mean_colour(output: str) -> MeanColour:
    """Return the extractor, as a plugin."""
    return MeanColour()

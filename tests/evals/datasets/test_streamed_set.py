"""What the port of a set promises, on the base of all sets that read files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenewright.evals.datasets.base import DatasetError, Item, StreamedSet, file_digest, make_item


def listed(ids: list[str], unique: bool = False, **options: object) -> StreamedSet:
    def entries(left_out: Counter[str]) -> Iterator[Item]:
        for name in ids:
            if name == "-":
                left_out["dash"] += 1
            else:
                yield Item(id=name, prompt="a ball")

    return StreamedSet(entries, name="table", version=1, options=options, unique=unique)


def test_every_iteration_begins_anew_and_counts_anew() -> None:
    found = listed(["a", "-", "b", "-"])
    first = iter(found)
    next(first)
    assert dict(found.left_out) == {}
    assert [item.id for item in found] == ["a", "b"]
    assert dict(found.left_out) == {"dash": 2}
    assert [item.id for item in first] == ["b"]
    assert dict(found.left_out) == {"dash": 2}


def test_an_id_that_is_given_twice_is_refused() -> None:
    with pytest.raises(DatasetError, match="the id 'a' is given twice"):
        list(listed(["a", "b", "a"]))


def test_the_fingerprint_tells_options_and_version() -> None:
    assert listed([], split="test").fingerprint == listed([], split="test").fingerprint
    assert listed([], split="test").fingerprint != listed([], split="val").fingerprint


def test_the_fingerprint_is_of_names_and_contents_not_of_places(tmp_path: Path) -> None:
    def at(folder: str, text: str) -> str:
        file = tmp_path / folder / "a.csv"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        found = StreamedSet(
            lambda left_out: iter(()),
            name="table",
            version=1,
            options={},
            files=lambda: [(file.name, file)],
        )
        return found.fingerprint

    assert at("one", "x") == at("two", "x") != at("two", "y")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"gone\.csv cannot be read"):
        file_digest(tmp_path / "gone.csv")


def test_an_item_that_cannot_be_names_its_place() -> None:
    with pytest.raises(DatasetError, match="line 3: the item 'a' has neither scene"):
        make_item("line 3", id="a")
    with pytest.raises(DatasetError, match="line 4: id"):
        make_item("line 4", id="", prompt="x")

"""Pictures held in memory, and a store of images that leaves the flushing to another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image

from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageError, ImageStore

KEY = "ab" * 32
BYTES = 3 * 8 * 6


def picture(color: str = "red") -> Image.Image:
    return Image.new("RGB", (8, 6), color)


def test_what_was_put_or_read_is_held_and_each_caller_gets_a_copy(tmp_path: Path) -> None:
    store = ImageStore(tmp_path, held_bytes=10 * BYTES)
    source = picture()
    name = store.put(source)
    source.putpixel((0, 0), (1, 2, 3))
    held = store.cached(name)
    assert held is not None
    held.putpixel((0, 0), (1, 2, 3))
    assert store.get(name).tobytes() == picture().tobytes()
    again = ImageStore(tmp_path, held_bytes=10 * BYTES)
    assert again.cached(name) is None
    again.get(name).putpixel((0, 0), (1, 2, 3))
    found = again.cached(name)
    assert found is not None
    assert found.tobytes() == picture().tobytes()


def test_a_store_holds_nothing_unless_asked(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    name = store.put(picture())
    store.get(name)
    assert store.cached(name) is None


def test_the_pictures_asked_for_last_are_held_up_to_the_limit(tmp_path: Path) -> None:
    store = ImageStore(tmp_path, held_bytes=2 * BYTES)
    red, green = store.put(picture("red")), store.put(picture("green"))
    assert store.cached(red) is not None
    blue = store.put(picture("blue"))
    assert [store.cached(name) is not None for name in (red, green, blue)] == [True, False, True]
    large = store.put(Image.new("RGB", (64, 64)))
    assert store.cached(large) is None
    assert store.cached(red) is not None


def test_a_file_that_changed_or_went_is_not_told_from_memory(tmp_path: Path) -> None:
    store = ImageStore(tmp_path, held_bytes=10 * BYTES)
    one, two = store.put(picture("red")), store.put(picture("blue"))
    store.path(one).write_bytes(b"torn")
    store.path(two).unlink()
    for name, words in ((one, "corrupt"), (two, "no image")):
        assert store.cached(name) is None
        assert not store.sound(name)
        with pytest.raises(ImageError, match=words):
            store.get(name)


def test_a_flusher_is_told_of_files_instead_of_waiting_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Path] = []
    flusher = Flusher()
    monkeypatch.setattr(flusher, "note", lambda *paths: noted.extend(paths))
    monkeypatch.setattr(os, "fsync", lambda handle: pytest.fail("waited for the disk"))
    store = ImageStore(tmp_path, flusher=flusher)
    name = store.put(picture())
    assert not store.noted(KEY)
    store.remember(KEY, name, {})
    assert store.noted(KEY)
    note = tmp_path / "requests" / f"{KEY}.json"
    assert noted == [store.path(name), tmp_path, note, note.parent]
    assert store.sound(name)
    assert ImageStore(tmp_path).recall(KEY) == (name, {})

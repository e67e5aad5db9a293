"""A plain folder: pictures with what is known of them in files beside.

``NAME.json`` is the scene of ``NAME.jpg`` in any format that :mod:`scenewright.core.formats` reads,
``NAME.txt`` its caption; either may lie there without a picture. The id of an item is its path in
the folder without the ending; the first folder of it is the group, the second the category. Files
are read in the order of their names, hidden ones are passed over.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from scenewright.core.formats import FormatWarning, load_scene
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.captions import check_parse, said_of
from scenewright.evals.datasets.reading import opened
from scenewright.evals.datasets.stream import StreamedSet, make_item, unreadable

VERSION = 1
NAME = "folder"
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
SCENE = ".json"
CAPTION = ".txt"
_MOST_OF_A_CAPTION = 100_000


def load(path: Path | None, *, recursive: bool = True, parse: str = "none") -> StreamedSet:
    """The items of the folder ``path``.

    With ``recursive`` those of the folders in it, too. ``parse`` (``rules``) makes scenes of
    captions without one. Raises ``DatasetError`` for no folder; on iteration for a folder without
    items, two pictures of one name, and a scene or caption that cannot be read.
    """
    check_parse(parse)
    if path is None or not path.is_dir():
        raise DatasetError(
            f"{NAME} is read from a folder of pictures, scenes (.json) and captions (.txt): "
            + ("name it (path)" if path is None else f"{path} is none")
        )
    return StreamedSet(
        partial(_entries, path, bool(recursive), parse),
        name=NAME,
        version=VERSION,
        options={"recursive": bool(recursive), "parse": parse},
        files=lambda: [
            (file.relative_to(path).as_posix(), file)
            for group in _groups(path, bool(recursive))
            for file in group
        ],
        unique=True,
    )


def _groups(root: Path, recursive: bool) -> Iterator[list[Path]]:
    """The files of each item, in the order of the items."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        by_name: dict[str, list[Path]] = {}
        inner: list[Path] = []
        try:
            for entry in sorted(folder.iterdir()):
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    inner.append(entry)
                elif entry.suffix.lower() in PICTURES | {SCENE, CAPTION}:
                    by_name.setdefault(entry.stem, []).append(entry)
        except OSError as error:
            raise unreadable(folder, error) from error
        yield from by_name.values()
        waiting += reversed(inner) if recursive else []


def _entries(root: Path, recursive: bool, parse: str, left_out: Counter[str]) -> Iterator[Item]:
    found = False
    for files in _groups(root, recursive):
        found = True
        yield _item(root, files, parse)
    if not found:
        raise DatasetError(f"{root} holds no pictures, scenes (.json) or captions (.txt)")


def _item(root: Path, files: list[Path], parse: str) -> Item:
    place = os.fspath(files[0])
    pictures = [file for file in files if file.suffix.lower() in PICTURES]
    if len(pictures) > 1:
        raise DatasetError(
            f"{pictures[0]} and {pictures[1].name} have one name: an item has one picture, so "
            "rename one"
        )
    beside = {file.suffix.lower(): file for file in files}
    scene = _scene(beside[SCENE]) if SCENE in beside else None
    caption = _caption(beside[CAPTION]) if CAPTION in beside else ""
    said = said_of(caption, parse if caption and scene is None else "none")
    within = files[0].relative_to(root)
    folders = within.parent.parts
    return make_item(
        place,
        id=within.with_suffix("").as_posix(),
        image=str(pictures[0]) if pictures else None,
        group=folders[0] if folders else "",
        category=folders[1] if len(folders) > 1 else "",
        **({"scene": scene} | said if scene is not None else said),
    )


def _scene(file: Path) -> SceneGraph:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            return load_scene(file)
    except SceneError as error:
        raise DatasetError(
            f"{error}; a .json file in this folder is the scene of the picture of its name"
        ) from error


def _caption(file: Path) -> str:
    with opened(file) as text:
        said = text.read(_MOST_OF_A_CAPTION + 1)
    if len(said) > _MOST_OF_A_CAPTION:
        raise DatasetError(f"{file} is too long for a caption: describe one picture")
    return " ".join(said.split())

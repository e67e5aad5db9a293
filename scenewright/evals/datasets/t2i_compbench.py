"""T2I-CompBench (Huang et al., NeurIPS 2023): a folder of text files, one prompt a line.

The name of a file says its category and split: ``color_val.txt``, ``3d_spatial_train.txt``;
``color.txt`` without a split is the whole of a category. Categories are grouped as in the paper:
attribute binding, object relationships, numeracy, complex.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.captions import check_parse, said_of
from scenewright.evals.datasets.reading import lines_of, one_of
from scenewright.evals.datasets.sources import given_or_default
from scenewright.evals.datasets.stream import StreamedSet, make_item

VERSION = 1
NAME = "t2i-compbench"
GROUPS: dict[str, str] = {
    **dict.fromkeys(("color", "shape", "texture"), "attribute binding"),
    **dict.fromkeys(("spatial", "3d_spatial", "non_spatial"), "object relationships"),
    "numeracy": "numeracy",
    "complex": "complex",
}
"""Category → group of the item."""
SPLITS = ("val", "train", "all")
REPEATED = "prompt that its category has already"
_NAME = re.compile(r"(?P<category>.+?)(?:_(?P<split>train|val))?\.txt")


def load(
    path: Path | None,
    *,
    split: str = "val",
    categories: Sequence[str] | None = None,
    parse: str = "rules",
) -> StreamedSet:
    """The prompts of the folder ``path`` (or of one file), category by category.

    ``split``: ``val``, ``train``, or ``all`` (both, or the file without a split where a category
    has neither). ``categories``: those to read (default all). ``parse``: ``rules`` or ``none``.
    A prompt that its category has already is left out and counted. Raises ``DatasetError`` for a
    folder without such files, here or on iteration.
    """
    check_parse(parse)
    one_of("split", split, SPLITS)
    named = [categories] if isinstance(categories, str) else categories
    files = _files(path, split, named)
    return StreamedSet(
        partial(_entries, files, parse),
        name=NAME,
        version=VERSION,
        options={"split": split, "categories": sorted(named or ()), "parse": parse},
        files=lambda: [(file.name, file) for _, file in files],
        unique=True,
    )


def _files(
    path: Path | None, split: str, categories: Sequence[str] | None
) -> list[tuple[str, Path]]:
    """(category, file) of all that is read."""
    path = given_or_default(path, NAME)
    found: dict[str, dict[str, Path]] = {}
    for file in [path] if path.is_file() else sorted(path.iterdir()):
        match = _NAME.fullmatch(file.name)
        # Other text files lie beside them in the release.
        if match and (match["category"] in GROUPS or path.is_file()):
            found.setdefault(match["category"], {})[match["split"] or ""] = file
    if path.is_file():
        return [(name, file) for name, held in found.items() for file in held.values()]
    unknown = sorted(set(categories or ()) - set(found))
    if unknown:
        there = ", ".join(found) or "none"
        raise DatasetError(f"{path} has no category {unknown[0]!r}: it has {there}")
    chosen = []
    for category, held in found.items():
        if categories is not None and category not in categories:
            continue
        parts = ["val", "train"] if split == "all" else [split]
        files = [held[part] for part in parts if part in held]
        if not files and split == "all":
            files = list(held.values())
        chosen += [(category, file) for file in files]
    if not chosen:
        raise DatasetError(
            f"{path} has no files of the split {split}: it needs files such as color_{split}.txt"
        )
    return chosen


def _entries(files: list[tuple[str, Path]], parse: str, left_out: Counter[str]) -> Iterator[Item]:
    seen: set[str] = set()
    last = ""
    for category, file in files:
        if category != last:
            seen, last = set(), category
        for number, line in lines_of(file):
            prompt = " ".join(line.split())
            if prompt in seen:
                left_out[REPEATED] += 1
                continue
            seen.add(prompt)
            yield make_item(
                f"{file}, line {number}",
                id=f"{file.stem}-{number:05d}",
                group=GROUPS.get(category, ""),
                category=category,
                **said_of(prompt, parse),
            )

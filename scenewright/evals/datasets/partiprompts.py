"""PartiPrompts (Yu et al., 2022): prompts by category and challenge.

Read as released: ``PartiPrompts.tsv`` with columns Prompt, Category, Challenge and Note, cells
without quoting (a quotation mark is part of its prompt). The category is the item's group, the
challenge its category. Ids count the rows: ``p0001`` is the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from scenewright.evals.datasets.base import Item
from scenewright.evals.datasets.captions import check_parse, said_of
from scenewright.evals.datasets.reading import published_file, rows_of
from scenewright.evals.datasets.stream import StreamedSet, make_item

VERSION = 1
NAME = "partiprompts"
FILE = "PartiPrompts.tsv"
EMPTY = "row without a prompt"


def load(path: Path | None, *, parse: str = "rules") -> StreamedSet:
    """The prompts of the release; ``path`` is the file or its folder; ``parse``: ``rules`` or
    ``none``. Raises ``DatasetError`` for a file of another form, here or on iteration."""
    check_parse(parse)
    file = published_file(path, FILE, NAME)
    return StreamedSet(
        partial(_entries, file, parse),
        name=NAME,
        version=VERSION,
        options={"parse": parse},
        files=lambda: [(file.name, file)],
        unique=True,
    )


def _entries(file: Path, parse: str, left_out: Counter[str]) -> Iterator[Item]:
    rows = rows_of(file, ("Prompt", "Category", "Challenge"), delimiter="\t", quoted=False)
    for at, (place, row) in enumerate(rows, 1):
        prompt = row["Prompt"].strip()
        if not prompt:
            left_out[EMPTY] += 1
            continue
        note = row.get("Note", "").strip()
        yield make_item(
            place,
            id=f"p{at:04d}",
            group=row["Category"].strip(),
            category=row["Challenge"].strip(),
            **said_of(prompt, parse, {"note": note} if note else {}),
        )

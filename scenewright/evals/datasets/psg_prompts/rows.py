"""Prompts as rows of a JSON lines file that grows: what is there is kept and paid for once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from scenewright.agents.parsers.classes import Classes, classify
from scenewright.evals.datasets.base import Item
from scenewright.evals.datasets.psg_prompts import writing
from scenewright.evals.datasets.psg_prompts.templates import Draw, DrawSpec, draw
from scenewright.evals.datasets.psg_prompts.words import PsgError
from scenewright.evals.datasets.psg_prompts.writing import Written
from scenewright.evals.datasets.reading import lines_of
from scenewright.evals.datasets.rows import COLUMNS, item_of, row_of, write_items
from scenewright.evals.datasets.stream import make_item

_COLUMNS = {name: name for name in COLUMNS}


def item_of_draw(drawn: Draw, written: Written, classes: Classes, names: str) -> Item:
    """The item of a prompt: its category of Table 6 is the group, its challenge the category.

    ``meta`` holds template, challenge, names, pair (where it is one of two), who wrote the text
    and, where something went wrong with a model's, what.
    """
    meta = {
        "template": drawn.template,
        "challenge": drawn.challenge,
        "names": names,
        "author": written.author,
        "classified_by": classes.by,
    }
    more = {"pair": drawn.pair, "problem": written.problem, "class_note": classes.note}
    return make_item(
        drawn.id,
        id=drawn.id,
        prompt=written.text,
        scene=drawn.scene,
        group=classes.category,
        category=drawn.challenge,
        meta=meta | {key: value for key, value in more.items() if value},
    )


class RowFile:
    """A JSON lines file of items, written row by row."""

    def __init__(self, path: Path) -> None:
        """``path`` must end in ``.jsonl`` or ``.ndjson``; raises ``PsgError`` otherwise."""
        if path.suffix.lower() not in (".jsonl", ".ndjson"):
            raise PsgError(f"{path} must end in .jsonl: prompts are written as JSON lines")
        self.path = path

    def read(self) -> dict[str, Item]:
        """Id → item of all rows; empty where there is no file.

        A last line that a kill cut off is forgotten, and cut off the file. Raises ``DatasetError``
        for other lines that are no items.
        """
        if not self.path.exists():
            return {}
        found: dict[str, Item] = {}
        lines = list(lines_of(self.path))
        torn = False
        for at, (number, line) in enumerate(lines):
            place = f"{self.path}, line {number}"
            try:
                cells = json.loads(line)
            except ValueError as error:
                if at < len(lines) - 1:
                    raise PsgError(f"{place} is no JSON: name another file, or mend it") from error
                torn = True
                break
            if not isinstance(cells, dict):
                raise PsgError(f"{place} is no JSON object: name another file, or mend it")
            item = item_of(cells, _COLUMNS, place, number, self.path.parent, "none")
            found[item.id] = item
        if torn:
            write_items(found.values(), self.path)
        return found

    def append(self, item: Item) -> None:
        """Write one more row; one of the same id before it counts no more."""
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(row_of(item), ensure_ascii=True) + "\n")
        except OSError as error:
            raise PsgError(
                f"{self.path} cannot be written: {error.strerror or error}: name a writable file"
            ) from error

    def finish(self, items: Iterable[Item]) -> int:
        """Write all rows anew, in their order; how many there are."""
        return write_items(items, self.path)


def synthesized(spec: DrawSpec, n: int) -> Iterator[Item]:
    """The first ``n`` prompts of ``spec`` in the words of the rules."""
    for drawn in draw(spec, n):
        written = writing.by_rules(drawn)
        yield item_of_draw(drawn, written, classify(written.text), spec.names)

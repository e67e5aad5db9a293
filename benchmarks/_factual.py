"""The human-checked captions of FACTUAL, and what another parser makes of them.

FACTUAL (Li et al., ACL 2023) has captions of regions of Visual Genome with scene graphs that
people wrote and checked, such as ``( man , sit on , bench ) , ( bench , is , wooden )``. A folder
of the release is read as it is published: the captions of ``data/factual_sg/random/test.csv`` and
``data/factual_sg/length/test.csv``, and ``tests/test_data/SPICE_parsing_outputs.txt``, which has
what the parser of SPICE (Anderson et al., ECCV 2016) says of captions. Parts of these files do, as
do the development splits by themselves, :data:`DEVELOPMENT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scenewright.core.formats.published_questions import label
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.reading import rows_of

TABLES = ("data/factual_sg/random/test.csv", "data/factual_sg/length/test.csv")
DEVELOPMENT = ("random_dev.csv", "length_dev.csv")
"""Its development splits by themselves: nobody's test captions."""
SPICE = "tests/test_data/SPICE_parsing_outputs.txt"
LONG = 10
"""A caption of this many words is a long one."""
_FACT = re.compile(r"\(([^()]*)\)")

Fact = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Graph:
    """A scene graph of the release."""

    objects: tuple[str, ...]
    """Labels, each once."""
    facts: tuple[Fact, ...] = field(default=())
    """(label, predicate, label) and, with the predicate ``is``, (label, ``is``, value)."""

    @classmethod
    def of(cls, text: str) -> Graph:
        """Return the graph of ``( man , on , bench ) , ( dog )``."""
        objects: dict[str, None] = {}
        facts: dict[Fact, None] = {}
        for match in _FACT.finditer(text):
            parts = [" ".join(part.split()) for part in match[1].split(" , ")]
            if not parts[0]:
                continue
            source = label(parts[0])
            objects[source] = None
            if len(parts) == 3:
                value = parts[1] == "is"
                target = parts[2] if value else label(parts[2])
                if not value:
                    objects[target] = None
                facts[(source, parts[1], target)] = None
        return cls(tuple(objects), tuple(facts))


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption of the release."""

    region: int
    """Number of the region of Visual Genome."""
    text: str
    graph: Graph
    """What people say that it says."""
    spice: Graph | None
    """What the parser of SPICE says; none where the release does not tell."""
    split: str = ""
    """Development split that it comes from; empty for the test captions."""

    @property
    def long(self) -> bool:
        """Whether it has :data:`LONG` words or more."""
        return len(re.findall(r"\w+", self.text)) >= LONG

    @property
    def held_out(self) -> bool:
        """Captions of regions of odd number were not used to mend the rules."""
        return self.region % 2 == 1


def load(folder: Path) -> list[Caption]:
    """Return the captions of the release in ``folder``, each once, in the order of the tables.

    Raises ``DatasetError`` if there is no table, or one of another form.
    """
    tables = [folder / name for name in (*TABLES, *DEVELOPMENT) if (folder / name).is_file()]
    if not tables:
        raise DatasetError(f"{folder} has neither {' nor '.join(TABLES)}: name another folder")
    spice = dict(_spice(folder / SPICE)) if (folder / SPICE).is_file() else {}
    found: dict[str, Caption] = {}
    for table in tables:
        for place, row in rows_of(table, ("region_id", "caption", "scene_graph")):
            if not row["region_id"].isdecimal():
                raise DatasetError(f"{place}: region_id {row['region_id']!r} is not a number")
            text = row["caption"].strip()
            graph = Graph.of(row["scene_graph"])
            split = table.stem.removesuffix("_dev") if table.name in DEVELOPMENT else ""
            caption = Caption(int(row["region_id"]), text, graph, spice.get(text), split)
            found.setdefault(text, caption)
    return list(found.values())


def _spice(path: Path) -> Iterator[tuple[str, Graph]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        text, tab, graph = line.partition("\t")
        if tab:
            yield text.strip(), Graph.of(graph)

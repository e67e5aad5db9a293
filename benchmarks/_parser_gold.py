"""The human-checked facts of DSG-1k as what a scene graph can say of a caption.

The release of Cho et al., "Davidsonian Scene Graph" (ICLR 2024), is read where it lies:
``dsg-1k-anns.csv`` holds one fact a row, such as ``entity - part (man's hat)``,
``attribute - color (hat, red)`` or ``relation - spatial (man, bench, on)``. Here they become
labels, (label, value) pairs and (label, predicate, label) triples, each once a prompt.

- Owners are left off labels: ``man's hat`` is ``hat``, and that the man has it is kept as a part.
- An action without an object (``relation - action (dog, run)``) is an attribute: a scene graph
  has no relation of one thing.
- Left aside, for they are no facts of an object: ``global``, ``other`` (counts are kept apart),
  and attributes that say how the picture is made or that repeat a count (``ASIDE`` of
  :mod:`scenewright.core.formats.published_questions`).
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path

from scenewright.agents.parsers.tagging import NUMBERS
from scenewright.core.formats.published_questions import ASIDE, label, owner, read_tuple

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "dsg"
TABLE = "dsg-1k-anns.csv"
_COLUMNS = ("item_id", "text", "tuple")

Pair = tuple[str, str]
Triple = tuple[str, str, str]


class DataError(ValueError):
    """A table that cannot be used; names the file and the fault."""


@dataclass(slots=True)
class Facts:
    """What a caption says, by class label; each once."""

    objects: dict[str, None] = field(default_factory=dict)
    attributes: dict[Pair, None] = field(default_factory=dict)
    """(label, value)."""
    relations: dict[Triple, None] = field(default_factory=dict)
    """(label, predicate, label)."""
    parts: dict[Pair, None] = field(default_factory=dict)
    """(owner, part)."""
    counts: dict[str, int] = field(default_factory=dict)
    """Label → exact number."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A caption and its human-checked facts."""

    id: str
    text: str
    facts: Facts

    @property
    def category(self) -> str:
        """The data set it comes from, such as ``tifa160`` or ``stanford_paragraph``."""
        return self.id.rpartition("_")[0]

    @property
    def held_out(self) -> bool:
        """Odd item numbers were not looked at while the rules were written."""
        return int(self.id.rpartition("_")[2]) % 2 == 1


def load(folder: Path = DATA) -> list[Prompt]:
    """All prompts, in the order of the table. Raises ``DataError`` for a table of another form."""
    path = folder / TABLE
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise DataError(f"{path}: no column {', '.join(missing)}: take the released table")
            rows = list(reader)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    prompts: dict[str, Prompt] = {}
    for line, row in enumerate(rows, 2):
        if not re.fullmatch(r".+_[0-9]+", row["item_id"] or ""):
            raise DataError(f"{path}, row {line}: item id {row['item_id']!r} ends in no number")
        prompt = prompts.setdefault(
            row["item_id"], Prompt(row["item_id"], row["text"] or "", Facts())
        )
        add_tuple(prompt.facts, row["tuple"] or "")
    if not prompts:
        raise DataError(f"{path} holds no prompts")
    return list(prompts.values())


def add_tuple(facts: Facts, text: str) -> None:
    """Add one fact of the release, such as ``attribute - color (hat, red)``; others are left out.

    Facts that are not of the form of their kind, a handful, are left out too.
    """
    said = read_tuple(text)
    if said is None:
        return
    broad, kind, parts = said.broad, said.kind, said.parts
    if broad == "entity" and kind in ("whole", "part") and parts:
        _add_object(facts, ", ".join(parts))
    elif broad == "attribute" or (broad == "entity" and len(parts) > 1):
        if kind not in ASIDE and len(parts) > 1:
            _add_attribute(facts, parts[0], ", ".join(parts[1:]))
    elif broad == "relation" and len(parts) == 2 and kind == "action":
        _add_attribute(facts, parts[0], parts[1])
    elif broad == "relation" and len(parts) >= 3:
        facts.relations[(label(parts[0]), ", ".join(parts[2:]), label(parts[1]))] = None
    elif broad == "other" and kind == "count" and len(parts) == 2:
        number = parts[1].lstrip("= ").lower()
        if number.isdecimal() or number in NUMBERS:
            facts.counts[label(parts[0])] = NUMBERS.get(number) or int(number)


def _add_object(facts: Facts, name: str) -> None:
    facts.objects[label(name)] = None
    holder = owner(name)
    if holder:
        facts.parts[(holder, label(name))] = None


def _add_attribute(facts: Facts, owner: str, value: str) -> None:
    for part in re.split(r"\s+and\s+|\s*,\s*", value):
        if part:
            facts.attributes[(label(owner), part)] = None

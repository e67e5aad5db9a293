"""Predicates of an evaluation's own set, from which wrong options of questions are chosen.

The relations of the set's scenes are counted and added to the table of the package, as
``scenewright data predicates`` does, so that a question about "pan … hob" is asked with what the
set says of pans and hobs (METHODS: Scene-Bench, "Strict"). They are counted over the whole set,
whatever sample or limit an evaluation takes of it: a larger sample asks the same questions. The
counts are stored in the evaluation's folder and read from there when it is resumed, even after the
set's files have changed.

Nothing is added by a set whose relations the table knows already. Sets that are read over the
network, or that write pictures while they are read, are not counted: reading all of them for a
small sample would cost more than it gives.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from scenewright.core.flushing import write_text
from scenewright.core.predicate_statistics import (
    BUILT_IN,
    DEFAULT,
    PredicateError,
    PredicateStatistics,
    as_json,
    load_predicates,
)
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Dataset, DatasetSpec, Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import PACKAGE

MOST_ITEMS = 50_000
"""Most items of a set that are counted, from its beginning."""
MARK = "predicates"
"""Key of the counts in the manifest."""
_MERGED = "predicates"
"""Folder of the counts with a table of the package, which loops read."""

Predicates = str | PredicateStatistics
"""A name or file of :func:`~scenewright.core.predicate_statistics.load_predicates`, or the counts.
"""


@dataclass(frozen=True)
class DatasetPredicates:
    """Counts of the relations in the scenes of a set."""

    counted: PredicateStatistics
    """Counts of the relations."""
    scenes: int
    """Number of scenes."""
    file: str
    """Name of the file in the evaluation's folder."""

    def over(self, base: str) -> Predicates:
        """Return the table ``base`` with these counts, or ``base`` itself if it knows them all."""
        if base not in self._over:
            known = load_predicates(base)
            new = not all(known.knows(triple) for triple in self.counted.counts)
            self._over[base] = known + self.counted if new else base
        return self._over[base]

    @cached_property
    def _over(self) -> dict[str, Predicates]:
        # Every item asks.
        return {}

    def manifest(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {
            "set": self.counted.name,
            "scenes": self.scenes,
            "relations": self.counted.totals.total(),
            "fingerprint": self.counted.fingerprint,
            "file": self.file,
        }


def asks(item: Item) -> bool:
    """Return whether the wrong options of an item's questions come from the evaluation's counts."""
    return relates(item) and not item.facts


def relates(item: Item) -> bool:
    """Return whether the scene of an item relates things and names no table of its own."""
    return item.scene is not None and bool(item.scene.relations) and not item.predicates


def dataset_predicates(
    said: str,
    spec: DatasetSpec,
    dataset: Dataset,
    folder: Path | None = None,
    *,
    base: str = DEFAULT,
    needed: Callable[[Item], bool] = asks,
) -> DatasetPredicates | None:
    """Return the counts that an evaluation of ``dataset`` adds to ``base``, a table of the package.

    They are read from ``folder``, or else counted now. None if ``said``, the configuration's
    ``predicates``, names a table or switches it off, if no item is ``needed`` it for, or if the
    table knows all relations. Raises ``DatasetError`` for a set that cannot be read, and
    ``PredicateError`` for a damaged file.
    """
    if said:
        return None
    name = _file_of(spec, dataset)
    if folder is not None and (folder / name).exists():
        found = _read(folder / name, dataset.name)
    else:
        counted = _counted(dataset, name, needed)
        if counted is None:
            return None
        found = counted
    return None if found.over(base) == base else found


def _counted(
    dataset: Dataset, name: str, needed: Callable[[Item], bool]
) -> DatasetPredicates | None:
    whole = dataset
    while (part_of := getattr(whole, "whole", None)) is not None:
        whole = part_of
    if not getattr(whole, "light", True) or not any(map(needed, dataset)):
        return None
    scenes = 0

    def read() -> Iterator[SceneGraph]:
        nonlocal scenes
        for item in islice(whole, MOST_ITEMS):
            if item.scene is not None and not item.predicates:
                scenes += 1
                yield item.scene

    found = PredicateStatistics.of(read(), dataset.name)
    return DatasetPredicates(found, scenes, name)


def keep(own: DatasetPredicates, folder: Path, loops: Iterable[str] = ()) -> None:
    """Write the counts into the evaluation's folder.

    ``loops``: tables of the package that loops take their options from. Raises ``EvalError``.
    """
    if not (folder / own.file).exists():
        about = {"set": own.counted.name, "scenes": own.scenes}
        _write(folder / own.file, as_json(own.counted, about))
    # Here and not by the first loop that needs it: many begin at once.
    for base in sorted(set(loops)):
        file_for_loops(own.over(base), folder)


def file_for_loops(table: Predicates, folder: Path) -> str:
    """Return ``table`` for a profile; counts are written below ``folder`` first.

    Raises ``EvalError``.
    """
    if isinstance(table, str):
        return table
    file = folder.resolve() / _MERGED / f"{table.fingerprint}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, as_json(table))
    return str(file)


def mark_of(table: Predicates) -> str:
    """Return the identity of ``table``: a name of the package, or a digest."""
    if isinstance(table, str):
        return table if table in BUILT_IN else load_predicates(table).fingerprint
    return table.fingerprint


def told_of(manifest: Mapping[str, Any]) -> str:
    """Return a sentence about the origin of wrong options, by an evaluation's manifest.

    Empty for one that was made before sets were counted.
    """
    said = manifest.get("config", {}).get("predicates", "")
    own = manifest.get(MARK)
    if own:
        return (
            f"Wrong options of relation questions: from {own['relations']:,} relations in "
            f"{own['scenes']:,} scenes of the set {own['set']}, with the counts of the package "
            f"({own['file']})."
        )
    if MARK not in manifest:
        return ""
    if said and said != PACKAGE:
        return f"Wrong options of relation questions: from {said!r}."
    return "Wrong options of relation questions: from the counts of the package."


def _file_of(spec: DatasetSpec, dataset: Dataset) -> str:
    """Return the same for every sample of a set, another one for each set of a folder."""
    # A fingerprint would change with the set's files, and what was counted is to outlive that.
    said = json.dumps([dataset.name, spec.name, spec.path, spec.options], default=str)
    return f"predicates-{hashlib.sha256(said.encode()).hexdigest()[:8]}.json"


def _read(file: Path, name: str) -> DatasetPredicates:
    counted = load_predicates(str(file))
    try:
        scenes = int(json.loads(file.read_text(encoding="utf-8"))["scenes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PredicateError(
            f"{file} is damaged: remove it, and the set is counted anew"
        ) from error
    return DatasetPredicates(replace(counted, name=name), scenes, file.name)


def _write(file: Path, text: str) -> None:
    try:
        write_text(file, text.rstrip("\n"))
    except OSError as error:
        raise EvalError(f"{file} cannot be written: {error.strerror or error}") from error

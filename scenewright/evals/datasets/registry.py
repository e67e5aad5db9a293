"""Data sets by name, and balanced samples of them.

A sample has as many items of each class as requested. It ranks the items of a class by a hash of
(seed, id) and takes the first ones. So it depends neither on the order of the file nor on the other
classes, and a smaller sample is part of a larger one of the same seed. The set is read twice, once
to rank and once to yield the items in their own order; in between it holds one number and one place
for each item of the sample.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, get_args

from scenewright.core.scene import Level
from scenewright.evals.datasets.base import (
    CATALOGUE,
    Dataset,
    DatasetError,
    DatasetSpec,
    Item,
    SampleSpec,
    SetEntry,
    default_place,
)

T = TypeVar("T")
LEVELS: tuple[str, ...] = get_args(Level)
BY = ("complexity", "group", "category")
_SHOWN = 12


def sampled(dataset: Dataset, spec: SampleSpec) -> Dataset:
    """Return ``dataset`` with the items of the sample ``spec``; itself if that takes all.

    Items without a scene have no complexity and are never selected by it; items without group or
    category likewise. Raises ``DatasetError`` for an invalid ``spec``; on iteration for a class
    with too few items, unless ``spec.short`` is ``take``.
    """
    if spec.by not in BY:
        raise DatasetError(f"a sample is by {', '.join(BY)}, not by {spec.by!r}")
    if not spec.counts and spec.each is None:
        return dataset
    if spec.counts and spec.each is not None:
        raise DatasetError("a sample has counts or each, not both: leave one out")
    for name, count in spec.counts.items():
        if count < 0:
            raise DatasetError(f"{count} items of {name!r} cannot be sampled: use 0 or more")
        if spec.by == "complexity" and name not in LEVELS:
            raise DatasetError(f"there is no level {name!r}: use {', '.join(LEVELS)}")
    return _Sampled(dataset, spec)


def limited(dataset: Dataset, limit: int) -> Dataset:
    """Return the first ``limit`` items of ``dataset``."""
    return _Limited(dataset, limit)


def class_of(item: Item, spec: SampleSpec) -> str:
    """Return the class of ``item`` as ``spec`` counts; empty if it has none."""
    if spec.by == "complexity":
        return "" if item.scene is None else item.scene.level(spec.gamma)
    return item.group if spec.by == "group" else item.category


def rank(seed: int, item_id: str) -> int:
    """Return the place of an item in the draw of ``seed``: 128 bits."""
    said = f"{seed}\x1f{item_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(said, digest_size=16).digest(), "big")


def reservoir(items: Iterable[T], n: int, rng: random.Random) -> tuple[int, list[T]]:
    """Return the number of ``items``, and up to ``n`` of them, each as likely."""
    kept: list[T] = []
    count = 0
    for count, item in enumerate(items, 1):
        if len(kept) < n:
            kept.append(item)
        elif (at := rng.randrange(count)) < n:
            kept[at] = item
    return count, kept


class PartOfSet:
    """A part of another set."""

    def __init__(self, dataset: Dataset, *said: str) -> None:
        """Describe a selection from ``dataset``, for the fingerprint."""
        self.whole = dataset
        self.name, self.source, self.licence = dataset.name, dataset.source, dataset.licence
        self._said = said

    @property
    def fingerprint(self) -> str:
        """Digest of the whole set's fingerprint and of the selection."""
        said = "\x1f".join((self.whole.fingerprint, *self._said))
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def left_out(self) -> Mapping[str, int]:
        """Entries that the whole set leaves out; unselected items are not counted."""
        return self.whole.left_out


class _Limited(PartOfSet):
    def __init__(self, dataset: Dataset, limit: int) -> None:
        super().__init__(dataset, "limit", str(limit))
        self._limit = limit

    def __iter__(self) -> Iterator[Item]:
        """Return the first items."""
        return islice(iter(self.whole), self._limit)


class _Sampled(PartOfSet):
    def __init__(self, dataset: Dataset, spec: SampleSpec) -> None:
        counts = {name: spec.counts[name] for name in sorted(spec.counts)}
        ordered = spec.model_copy(update={"counts": counts})
        super().__init__(dataset, "sample", ordered.model_dump_json())
        self._spec = ordered

    def __iter__(self) -> Iterator[Item]:
        """Yield the items of the sample, in the order of the whole set."""
        chosen = self._chosen()
        for at, item in enumerate(self.whole):
            if at in chosen:
                chosen.discard(at)
                yield item
                if not chosen:
                    return

    def _chosen(self) -> set[int]:
        """Return places of the selected items."""
        # Heaps whose first entry is the last of the draw: (−rank, place).
        heaps: dict[str, list[tuple[int, int]]] = {}
        held: Counter[str] = Counter()
        for at, item in enumerate(self.whole):
            name = class_of(item, self._spec)
            if not name:
                continue
            held[name] += 1
            wanted = self._wanted(name)
            if not wanted:
                continue
            heap = heaps.setdefault(name, [])
            entry = (-rank(self._spec.seed, item.id), at)
            if len(heap) < wanted:
                heapq.heappush(heap, entry)
            else:
                heapq.heappushpop(heap, entry)
        self._check(held)
        return {at for heap in heaps.values() for _, at in heap}

    def _wanted(self, name: str) -> int:
        return self._spec.counts.get(name, 0) if self._spec.each is None else self._spec.each

    def _check(self, held: Counter[str]) -> None:
        if not held:
            raise DatasetError(
                f"no item of {self.name} has a {self._spec.by}: it cannot be sampled by it"
            )
        if self._spec.short == "take":
            return
        lacking = [
            f"{name} has {held[name]}, wanted {self._wanted(name)}"
            for name in sorted({*self._spec.counts, *held})
            if held[name] < self._wanted(name)
        ]
        if lacking:
            more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
            there = ", ".join(f"{name} {n}" for name, n in sorted(held.items())[:_SHOWN])
            raise DatasetError(
                f"{self.name} has too few items for this sample: "
                f"{'; '.join(lacking[:_SHOWN])}{more}. It has {there}: ask for fewer, or take "
                "what there is (short: take)"
            )


def open_dataset(spec: DatasetSpec, root: Path | None = None) -> Dataset:
    """Return the set of ``spec``, sampled and limited.

    Relative paths begin at ``root`` (default: the working folder). A set that reads files and is
    given no path is looked for where ``scenewright data get`` puts it. Raises ``DatasetError`` for
    an unknown name or option, and what the loader raises; a class with too few items to be sampled
    is found on iteration.
    """
    found = open_whole(spec, root)
    if spec.sample is not None:
        found = sampled(found, spec.sample)
    return found if spec.limit is None else limited(found, spec.limit)


def open_whole(spec: DatasetSpec, root: Path | None = None) -> Dataset:
    """Return the set of ``spec`` with all items, whatever it says of sample and limit."""
    loader = loader_of(spec.name)
    unknown = sorted(set(spec.options) - set(loader.options))
    if unknown:
        known = ", ".join(loader.options) or "none"
        raise DatasetError(f"{spec.name} has no option {unknown[0]!r}: it has {known}")
    path = None if spec.path is None else (root or Path()) / Path(spec.path).expanduser()
    if path is not None and not path.exists():
        raise DatasetError(f"there is no file or folder {path}: check the path of {spec.name}")
    make: Callable[..., Any] = getattr(
        import_module(f"scenewright.evals.datasets.{loader.module}"), loader.function
    )
    found: Dataset = make(path, **spec.options)
    return found


def loader_of(name: str) -> SetEntry:
    """Return the loader of that name. Raises ``DatasetError``, which lists the known ones."""
    found = CATALOGUE.get(name)
    if found is None:
        raise DatasetError(f"there is no set {name!r}: use one of {', '.join(sorted(CATALOGUE))}")
    return found


def place_of(name: str) -> Path | None:
    """Return the folder into which ``scenewright data get`` put the set; None if it did not."""
    place = default_place(name)
    return place if loader_of(name).needs_path and place.exists() else None

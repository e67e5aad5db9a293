"""Balanced samples of a set: as many items of each class as asked for, drawn by a seed.

The draw ranks the items of a class by a hash of (seed, id) and takes the first ones. So it depends
neither on the order of the file nor on the other classes, and a smaller sample is part of a larger
one of the same seed. The set is read twice, once to rank and once to give the items in their own
order; what is kept between is one number and one place for each item of the sample.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import get_args

from scenewright.core.scene import Level
from scenewright.evals.datasets.base import Dataset, DatasetError, Item, SampleSpec

"""What to do with a class that has too few items: refuse, or take those that it has."""
LEVELS: tuple[str, ...] = get_args(Level)
BY = ("complexity", "group", "category")
_SHOWN = 12


def sampled(dataset: Dataset, spec: SampleSpec) -> Dataset:
    """``dataset`` with only the items that ``spec`` takes; itself if ``spec`` takes all.

    Items without a scene have no complexity and are never taken by it; items without group or
    category likewise. Raises ``DatasetError`` for a ``spec`` that cannot be; on iteration for a
    class that has too few items, unless ``spec.short`` is ``take``.
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
    """The first ``limit`` items of ``dataset``."""
    return _Limited(dataset, limit)


def class_of(item: Item, spec: SampleSpec) -> str:
    """The class of ``item`` as ``spec`` counts; empty if it has none."""
    if spec.by == "complexity":
        return "" if item.scene is None else item.scene.level(spec.gamma)
    return item.group if spec.by == "group" else item.category


def rank(seed: int, item_id: str) -> int:
    """Place of an item in the draw of ``seed``: 128 bits."""
    said = f"{seed}\x1f{item_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(said, digest_size=16).digest(), "big")


class _Part:
    """A set made of another one."""

    def __init__(self, dataset: Dataset, *said: str) -> None:
        self._whole = dataset
        self._said = said

    @property
    def whole(self) -> Dataset:
        """The set that it is made of."""
        return self._whole

    @property
    def name(self) -> str:
        """That of the whole set."""
        return self._whole.name

    @property
    def source(self) -> str:
        """That of the whole set."""
        return self._whole.source

    @property
    def licence(self) -> str:
        """That of the whole set."""
        return self._whole.licence

    @property
    def fingerprint(self) -> str:
        """Of the whole set's fingerprint and of what is taken."""
        said = "\x1f".join((self._whole.fingerprint, *self._said))
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def left_out(self) -> Mapping[str, int]:
        """What the whole set leaves out; items that are not taken are not counted."""
        return self._whole.left_out


class _Limited(_Part):
    def __init__(self, dataset: Dataset, limit: int) -> None:
        super().__init__(dataset, "limit", str(limit))
        self._limit = limit

    def __iter__(self) -> Iterator[Item]:
        """The first items."""
        return islice(iter(self._whole), self._limit)


class _Sampled(_Part):
    def __init__(self, dataset: Dataset, spec: SampleSpec) -> None:
        counts = {name: spec.counts[name] for name in sorted(spec.counts)}
        ordered = spec.model_copy(update={"counts": counts})
        super().__init__(dataset, "sample", ordered.model_dump_json())
        self._spec = ordered

    def __iter__(self) -> Iterator[Item]:
        """The items of the sample, in the order of the whole set."""
        chosen = self._chosen()
        for at, item in enumerate(self._whole):
            if at in chosen:
                chosen.discard(at)
                yield item
                if not chosen:
                    return

    def _chosen(self) -> set[int]:
        """Places of the items that are taken."""
        # Heaps whose first entry is the last of the draw: (−rank, place).
        heaps: dict[str, list[tuple[int, int]]] = {}
        held: Counter[str] = Counter()
        for at, item in enumerate(self._whole):
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

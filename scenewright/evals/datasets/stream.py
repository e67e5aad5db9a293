"""A set that is read as a stream: identity, counts of what was left out, checks of its items."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.catalogue import CATALOGUE

_BLOCK = 1 << 20

Entries = Callable[[Counter[str]], Iterator[Item]]
"""Reads a set from its beginning; counts in the counter what it leaves out, by reason."""


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of the content of ``path``, read in blocks. ``DatasetError`` if it cannot be
    read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise unreadable(path, error) from error
    return digest.hexdigest()


def unreadable(path: Path, error: OSError) -> DatasetError:
    """The error for a file that the system does not give."""
    return DatasetError(
        f"{path} cannot be read: {error.strerror or error}: check the name and who may read it"
    )


def make_item(place: str, **fields: Any) -> Item:
    """The item of ``fields``; ``DatasetError`` that begins with ``place`` if it cannot be one."""
    try:
        return Item(**fields)
    except ValidationError as error:
        raise DatasetError(f"{place}: {first_problem(error)}") from error


class StreamedSet:
    """A set of items that a function reads anew for each iteration."""

    def __init__(
        self,
        entries: Entries,
        *,
        name: str,
        version: int,
        options: Mapping[str, Any],
        files: Callable[[], Sequence[tuple[str, Path]]] = tuple,
        state: Callable[[], str] = str,
        unique: bool = False,
        light: bool = True,
    ) -> None:
        """``name`` is one of the catalogue, ``version`` the loader's own number, ``options`` are
        plain values, and ``files`` gives (name, path) of all that ``entries`` reads. ``state`` is
        asked with the fingerprint for what is known late, such as a commit. ``unique`` says that
        ids cannot repeat, for example because they count the rows: they are then not
        remembered. ``light``: reading all of it costs no more than time; one that is read over the
        net, or writes pictures as it is read, is not."""
        self._entries = entries
        self._name = name
        self._about = CATALOGUE[name]
        self._identity = {"name": name, "version": version, "options": dict(options)}
        self._files = files
        self._state = state
        self._unique = unique
        self.light = light
        self._left_out: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """As in ``scenewright data list``."""
        return self._name

    @property
    def source(self) -> str:
        """Where it comes from."""
        return self._about.source

    @property
    def licence(self) -> str:
        """Its licence, as its makers name it; empty if they name none."""
        return self._about.licence

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of loader, options, and the names and contents of all files.

        It is worked out once; raises ``DatasetError`` for a file that cannot be read.
        """
        files = [[name, file_digest(path)] for name, path in self._files()]
        said = json.dumps(
            {**self._identity, "files": files, "state": self._state()}, sort_keys=True, default=str
        )
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def left_out(self) -> Mapping[str, int]:
        """Why entries of the newest iteration were left out → how many; grows while it lasts."""
        return dict(self._left_out)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order. Raises ``DatasetError`` for what cannot be read, and for an
        id that is given twice."""
        self._left_out = Counter()
        found = self._entries(self._left_out)
        return found if self._unique else self._checked(found)

    def _checked(self, items: Iterator[Item]) -> Iterator[Item]:
        # Eight bytes an id: two of a million ids share them once in 10^7 sets.
        seen: set[int] = set()
        for item in items:
            short = hashlib.blake2b(item.id.encode("utf-8", "surrogatepass"), digest_size=8)
            key = int.from_bytes(short.digest(), "big")
            if key in seen:
                raise DatasetError(
                    f"{self._name}: the id {item.id!r} is given twice: results are kept by id, so "
                    "give every item its own"
                )
            seen.add(key)
            yield item

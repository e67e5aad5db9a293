"""Values by picture, kept in a journal: no picture is read or scored twice by the same model."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from scenewright.evals.errors import EvalError
from scenewright.evals.store.journal import Journal, Unit, open_journal
from scenewright.evals.store.results import JOURNAL

T = TypeVar("T")
R = TypeVar("R")
_KIND = "picture"


class PictureValues(Generic[T]):
    """Values by picture: in memory, and in a folder's journal for other processes.

    A value that cannot be read counts as absent.
    """

    def __init__(
        self,
        folder: Path | None,
        read: Callable[[Mapping[str, Any]], T],
        *,
        what: str,
        wrong: type[Exception],
        most: int = 512,
    ) -> None:
        """Keep values in ``folder``, or in memory only.

        Args:
            folder: made with the first value.
            read: makes a value of what was kept; its errors mean that it is damaged.
            what: the values in words, for the error message.
            wrong: error to raise if a value cannot be written.
            most: values in memory.
        """
        self.folder = folder
        self._read, self._what, self._wrong, self._most = read, what, wrong, most
        self._memory: OrderedDict[str, T] = OrderedDict()
        self._opened: Journal | None = None
        self._opening = threading.Lock()
        # A lock exists only while it is waited for, so that event loops do not share one.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, picture: str) -> asyncio.Lock:
        """Return the lock of a picture."""
        return self._locks.setdefault(picture, asyncio.Lock())

    async def get(self, picture: str) -> T | None:
        """Return the value of ``picture``, if there is one."""
        found = self._memory.get(picture)
        return await asyncio.to_thread(self._load, picture) if found is None else found

    async def put(self, picture: str, value: T, data: Mapping[str, Any] | None = None) -> None:
        """Keep the value of ``picture``, with ``data`` in the journal as well."""
        self._memory[picture] = value
        self._memory.move_to_end(picture)
        while len(self._memory) > self._most:
            self._memory.popitem(last=False)
        if data is not None and self.folder is not None:
            unit = Unit(picture, _KIND, facts=data)
            await asyncio.to_thread(self._use, lambda journal: journal.put([unit]))

    def forget(self, picture: str) -> None:
        """Forget the value of ``picture``."""
        self._memory.pop(picture, None)
        if self._exists:
            self._use(lambda journal: journal.put([Unit(picture, _KIND, "failed", "forgotten")]))

    def clear(self) -> None:
        """Clear the memory and close the journal; what is kept stays."""
        self._memory.clear()
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    @property
    def _exists(self) -> bool:
        return self.folder is not None and (self.folder / JOURNAL).exists()

    def _load(self, picture: str) -> T | None:
        unit = self._use(lambda journal: journal.get(picture)) if self._exists else None
        if unit is not None and unit.state == "done":
            with suppress(ValueError, KeyError, TypeError, AttributeError, self._wrong):
                return self._read(unit.facts)
        return None

    def _use(self, work: Callable[[Journal], R]) -> R:
        """Return the result of ``work`` on the journal, which is opened once."""
        assert self.folder is not None
        try:
            with self._opening:
                if self._opened is None:
                    self._opened = open_journal(self.folder / JOURNAL)
                return work(self._opened)
        except EvalError as error:
            raise self._wrong(
                f"{self._what} cannot be kept in {self.folder}: {error}. Choose a folder that you "
                "may write in, or free some space"
            ) from error

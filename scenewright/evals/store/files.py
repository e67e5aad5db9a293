"""Files of evaluations: checked TOML, parquet files that are whole or absent."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from scenewright.core.flushing import replacing
from scenewright.core.suggestions import suggestion
from scenewright.core.user_files import read_user_toml
from scenewright.core.validation import first_problem
from scenewright.evals.errors import ConfigError, EvalError

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_FORMAT = 1
_NAME = re.compile(r"[0-9a-f]{16,128}")


def read_toml(path: str | Path, model: type[M], wrong: type[EvalError] = ConfigError) -> M:
    """Return the file ``path`` as a ``model``.

    Raises ``wrong`` with the file for what cannot be read, and with the field for what does not
    fit.
    """
    file = Path(path)
    data = read_user_toml(file, wrong)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise wrong(f"{file}: {first_problem(error)}{suggestion(error, model)}") from error


@contextmanager
def drafted(folder: Path, table: str) -> Iterator[Path]:
    """Yield the draft of the parquet file of ``table``, which is renamed when it is whole.

    Raises ``EvalError`` if it cannot be written.
    """
    try:
        with replacing(folder / f"{table}.parquet") as draft:
            yield draft
    except (OSError, pa.ArrowException) as error:
        raise EvalError(
            f"the results cannot be written to {folder}: {error}. Make room, then run the same "
            "again: what is done is kept in the journal"
        ) from error


class PictureFiles(Generic[T]):
    """Values by picture: in memory, and as JSON files in a folder for other processes.

    A file is written whole or not at all; a damaged one counts as absent.
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
            folder: made with the first file.
            read: makes a value of a file's content; its errors mean a damaged file.
            what: the values in words, for the error message.
            wrong: error to raise if a file cannot be written.
            most: values in memory.
        """
        self.folder = folder
        self._read, self._what, self._wrong, self._most = read, what, wrong, most
        self._memory: OrderedDict[str, T] = OrderedDict()
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
        """Keep the value of ``picture``, with ``data`` in its file as well."""
        self._memory[picture] = value
        self._memory.move_to_end(picture)
        while len(self._memory) > self._most:
            self._memory.popitem(last=False)
        if data is not None and self.folder is not None:
            await asyncio.to_thread(self._write, picture, data)

    def forget(self, picture: str) -> None:
        """Delete the value of ``picture``."""
        self._memory.pop(picture, None)
        if self.folder is not None:
            self._place(picture).unlink(missing_ok=True)

    def clear(self) -> None:
        """Clear the memory; files stay."""
        self._memory.clear()

    def _place(self, picture: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{hash_name(picture)}.json"

    def _load(self, picture: str) -> T | None:
        if self.folder is None:
            return None
        try:
            kept = json.loads(self._place(picture).read_text(encoding="utf-8"))
            if (kept["format"], kept["image"]) != (_FORMAT, picture):
                return None
            return self._read(kept)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, self._wrong):
            # Absent, or damaged by a crash of the machine: it is made anew.
            return None

    def _write(self, picture: str, data: Mapping[str, Any]) -> None:
        place = self._place(picture)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with replacing(place) as draft:
                kept = {"format": _FORMAT, "image": picture, **data}
                draft.write_text(json.dumps(kept), encoding="utf-8")
        except OSError as error:
            raise self._wrong(
                f"{self._what} cannot be kept in {place.parent}: {error.strerror or error}. "
                "Choose a folder that you may write in, or free some space"
            ) from error


def hash_name(text: str) -> str:
    """Return ``text`` if it is a hash, else its hash, as the name of a file."""
    return text if _NAME.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()

"""Large annotation files: JSON read element by element, and rows stored on disk.

Annotation files are one array, or one object with arrays under a few keys, of up to gigabytes. The
text slides through a buffer and each element is decoded in place, in memory that does not grow with
the file. Files do not group their boxes by image and may be larger than the memory:
:class:`RowStore` finds them again.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from scenewright.core.user_files import LONGEST_MARK, encoding_of
from scenewright.evals.datasets.base import DatasetError, unreadable

BLOCK = 1 << 16
"""Bytes that are read at a time."""
MOST_IN_AN_ELEMENT = 64 * 1024 * 1024
"""Most characters of one element; a longer one cannot be an image or a box."""
_SPACE = re.compile(r"[ \t\n\r]*")
_TAIL = 32
"""Characters before the buffer's end in which an error may mean that the rest is still to come:
more than the longest word (``-Infinity``) or escape (a pair of ``\\uXXXX``)."""


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_constant)


@contextmanager
def opened_binary(path: Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """Open the bytes of ``path``: unpacked if it ends in ``.gz``, and of ``member`` if in ``.zip``.

    Without ``member`` the archive must hold one JSON file. Raises ``DatasetError`` for what cannot
    be opened or has no such member.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as packed:
                yield packed  # type: ignore[misc]
        elif path.suffix == ".zip":
            with (
                zipfile.ZipFile(path) as archive,
                archive.open(_member(archive, path, member)) as f,
            ):
                yield f
        else:
            with path.open("rb") as file:
                yield file
    except zipfile.BadZipFile as error:
        raise DatasetError(
            f"{path} is not a complete zip archive ({error}): fetch it again"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


def _member(archive: zipfile.ZipFile, path: Path, member: str | None) -> str:
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if member is not None:
        if member in names:
            return member
        raise DatasetError(
            f"{path} holds no {member}: it holds {', '.join(names[:8]) or 'nothing'}"
        )
    found = [name for name in names if name.endswith(".json")]
    if len(found) != 1:
        raise DatasetError(
            f"{path} holds {len(found)} JSON files, one is needed: unpack it and name the file"
        )
    return found[0]


def elements(path: Path, member: str | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (number from 0, element) of the array that the JSON file ``path`` is.

    Raises ``DatasetError`` with the byte and the line for text that is no JSON array, an element of
    more than :data:`MOST_IN_AN_ELEMENT` characters, and one that nests too deep.
    """
    with opened_binary(path, member) as file:
        text = JsonText(file, str(path))
        yield from text.array()
        text.end()


def sections(
    path: Path,
    needed: Collection[str],
    member: str | None = None,
) -> Iterator[tuple[str, int, Any]]:
    """Yield (key, number from 0, element) of the arrays under some keys of the object ``path`` is.

    They come in the order of the file; what stands under other keys is passed over. Raises
    ``DatasetError`` as :func:`elements` does, and for a needed key that is not there.
    """
    with opened_binary(path, member) as file:
        text = JsonText(file, str(path))
        seen: set[str] = set()
        for key in text.keys():  # noqa: SIM118
            if key in needed:
                if key in seen:
                    raise text.error(f'the key "{key}" is given twice')
                seen.add(key)
                for number, element in text.array():
                    yield key, number, element
            else:
                text.skip()
        text.end()
        lost = [key for key in needed if key not in seen]
        if lost:
            raise DatasetError(
                f'{path} has no "{lost[0]}": take the file of annotations as it was published'
            )


def values(path: Path, member: str | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (number from 0, value) of JSON Lines, of an array, or of the file's only value.

    Raises ``DatasetError`` as :func:`elements` does, and for an empty file.
    """
    with opened_binary(path, member) as file:
        text = JsonText(file, str(path))
        if text.peek() == "[":
            yield from text.array()
            text.end()
            return
        number = 0
        while text.peek() or not number:
            yield number, text.value()
            number += 1


class JsonText:
    """JSON text that slides through a buffer."""

    def __init__(
        self,
        file: IO[bytes],
        place: str,
        block: int = BLOCK,
        most: int = MOST_IN_AN_ELEMENT,
    ) -> None:
        """Read ``file`` in blocks of ``block`` bytes.

        ``place`` begins every error; ``most`` is the limit of an element in characters.
        """
        self._file, self._place, self._block, self._most = file, place, block, most
        self._decoder: codecs.IncrementalDecoder | None = None
        self._text, self._at, self._ended = "", 0, False
        self._bytes = self._lines = 0
        self._fill()
        if self._text.startswith("\ufeff"):
            self._at = 1

    def error(self, problem: str, at: int | None = None) -> DatasetError:
        """Return the error for ``problem`` at ``at`` of the buffer (default: the current place)."""
        before = self._text[: self._at if at is None else at]
        byte = self._bytes + len(before.encode("utf-8", "surrogatepass"))
        line = self._lines + before.count("\n") + 1
        return DatasetError(f"{self._place}, line {line} (byte {byte}): {problem}")

    def _fill(self) -> None:
        """Drop what was read, and read on.

        It doubles the buffer, so that a long element is not decoded many times.
        """
        done = self._text[: self._at]
        self._bytes += len(done) if done.isascii() else len(done.encode("utf-8", "surrogatepass"))
        self._lines += done.count("\n")
        rest = self._text[self._at :]
        self._text, self._at = rest, 0
        if len(rest) > self._most:
            raise self.error(f"an element of more than {self._most} characters")
        try:
            block = self._file.read(max(self._block, len(rest)))
            self._ended = not block
            if self._decoder is None:
                marked = encoding_of(block[:LONGEST_MARK])
                # The mark of UTF-8 counts among the bytes of an error's place.
                encoding = marked.removesuffix("-sig")
                self._decoder = codecs.getincrementaldecoder(encoding)()
            self._text = rest + self._decoder.decode(block, final=self._ended)
        except UnicodeDecodeError as error:
            raise self.error(
                f"not {error.encoding.upper()} text ({error.reason}), some bytes on: fetch the "
                "file again",
                len(rest),
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
            raise self.error(f"the packed file is damaged ({error}): fetch it again") from error
        except OSError as error:
            raise DatasetError(
                f"{self._place} cannot be read: {error.strerror or error}"
            ) from error

    def peek(self) -> str:
        """Return the next character that is no space; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._fill()

    def _take(self, allowed: str) -> str:
        found = self.peek()
        if not found:
            raise self.error("the text ends too early: the file is cut off; fetch it again")
        if found not in allowed:
            words = " or ".join(f'"{c}"' for c in allowed)
            raise self.error(f"expected {words}, found {self._text[self._at : self._at + 20]!r}")
        self._at += 1
        return found

    def end(self) -> None:
        """Raise ``DatasetError`` if more than space is left."""
        if self.peek():
            raise self.error(f"more text after the end: {self._text[self._at : self._at + 20]!r}")

    def value(self) -> Any:
        """Return the next value."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                unterminated = error.msg.startswith("Unterminated string")
                if self._ended or not (unterminated or error.pos >= len(self._text) - _TAIL):
                    raise self._undecodable(error) from None
            except RecursionError:
                raise self.error("the JSON nests too deep for annotations") from None
            except ValueError as error:
                raise self.error(f"a value that cannot be read: {error}") from None
            else:
                if end - self._at > self._most:
                    raise self.error(f"an element of more than {self._most} characters")
                # Digits may go on in the next block; so may "1." and "1e+".
                if self._ended or not isinstance(value, int | float) or end < len(self._text) - 2:
                    self._at = end
                    return value
            self._fill()

    def _undecodable(self, error: json.JSONDecodeError) -> DatasetError:
        if self._ended and (
            error.pos >= len(self._text.rstrip()) or error.msg.startswith("Unterminated string")
        ):
            return self.error("the text ends too early: the file is cut off; fetch it again")
        near = self._text[error.pos : error.pos + 20]
        return self.error(f"no JSON ({error.msg}) near {near!r}", error.pos)

    def array(self) -> Iterator[tuple[int, Any]]:
        """Yield (number from 0, element) of the next array."""
        self._take("[")
        number = 0
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            yield number, self.value()
            number += 1
            if self._take(",]") == "]":
                return

    def keys(self) -> Iterator[str]:
        """Yield the keys of the next object; the caller reads each value."""
        self._take("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if self.peek() != '"':
                self._take('"')
            key = str(self.value())
            self._take(":")
            yield key
            if self._take(",}") == "}":
                return

    def skip(self) -> None:
        """Skip the next value, without keeping it."""
        match self.peek():
            case "[":
                for _ in self.array():
                    pass
            case "{":
                for _ in self.keys():
                    self.skip()
            case _:
                self.value()


Key = int | str
T = TypeVar("T")
_BATCH = 2000


class RowStore:
    """Rows (key, text) of several kinds in a temporary SQLite database without a name.

    It is deleted when it is closed or its process ends. Rows are added first, then :meth:`finish`
    makes them findable.
    """

    def __init__(self, kinds: tuple[str, ...]) -> None:
        """Make a store of ``kinds``, which are plain words.

        Memory is that of SQLite's page cache (2 MB); the rest goes to the folder of temporary files
        (``SQLITE_TMPDIR``, ``TMPDIR``).
        """
        self._kinds = kinds
        self._waiting: dict[str, list[tuple[Key, str]]] = {kind: [] for kind in kinds}
        # Items may be taken in another thread than the one that began, one after the other.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for line in ("journal_mode = OFF", "synchronous = OFF", "temp_store = FILE"):
            self._database.execute(f"PRAGMA {line}")
        for kind in kinds:
            # Without a type, 1 and "1" stay two keys.
            self._database.execute(f"CREATE TABLE {kind} (key, text TEXT)")

    def add(self, kind: str, key: Key, text: str) -> None:
        """Add a row.

        Raises ``DatasetError`` for a number of more than 64 bits, and if the disk of temporary
        files is full.
        """
        waiting = self._waiting[kind]
        waiting.append((_key(key), text))
        if len(waiting) >= _BATCH:
            self._write(kind)

    def finish(self) -> None:
        """Write the remaining rows and index all. Raises ``DatasetError`` if the disk is full."""
        for kind in self._kinds:
            self._write(kind)
            with _errors():
                self._database.execute(f"CREATE INDEX {kind}_by_key ON {kind} (key)")

    def _write(self, kind: str) -> None:
        with _errors():
            self._database.execute("BEGIN")
            self._database.executemany(f"INSERT INTO {kind} VALUES (?, ?)", self._waiting[kind])
            self._database.execute("COMMIT")
        self._waiting[kind].clear()

    def texts(self, kind: str, key: Key) -> list[str]:
        """Return texts of the rows of ``key`` in the order of :meth:`add`."""
        found = self._database.execute(
            f"SELECT text FROM {kind} WHERE key = ? ORDER BY rowid", (_key(key),)
        )
        return [text for (text,) in found]

    def rows(self, kind: str) -> Iterator[tuple[Key, str]]:
        """Yield all rows in the order in which they were added."""
        yield from self._database.execute(f"SELECT key, text FROM {kind} ORDER BY rowid")

    def keys(self, kind: str) -> Iterator[Key]:
        """Yield each key once, in ascending order."""
        for (key,) in self._database.execute(f"SELECT DISTINCT key FROM {kind} ORDER BY key"):
            yield key

    def repeated(self, kind: str) -> Key | None:
        """Return a key of two rows; None if all differ."""
        found = self._database.execute(
            f"SELECT key FROM {kind} GROUP BY key HAVING COUNT(*) > 1 LIMIT 1"
        ).fetchone()
        return None if found is None else found[0]

    def without(self, kind: str, other: str) -> int:
        """Return how many rows of ``kind`` have a key that no row of ``other`` has."""
        (count,) = self._database.execute(
            f"SELECT COUNT(*) FROM {kind} WHERE key NOT IN (SELECT key FROM {other})"
        ).fetchone()
        return int(count)

    def close(self) -> None:
        """Delete the database; the store cannot be used afterwards."""
        self._database.close()


def _key(key: Key) -> Key:
    if isinstance(key, int) and not -(2**63) <= key < 2**63:
        raise DatasetError(f"the number {key} of an image is too large: take the published file")
    return key


@contextmanager
def _errors() -> Iterator[None]:
    """Turn SQLite's failures into an error with a remedy."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise DatasetError(
            f"the index of the annotations could not be written ({error}): make room in the "
            "folder of temporary files, or name a larger one in TMPDIR"
        ) from error


class FileIndex(Generic[T]):
    """Row store of annotation files, filled on first use and anew if a file changes."""

    def __init__(
        self, kinds: tuple[str, ...], files: Sequence[Path], fill: Callable[[RowStore], T]
    ) -> None:
        """Fill stores of ``kinds`` with ``fill``, which reads ``files`` and may return more."""
        self._kinds, self.files, self._fill = kinds, tuple(files), fill
        self._found: tuple[RowStore, T] | None = None
        self._signatures: list[tuple[int, int]] = []

    def open(self) -> tuple[RowStore, T]:
        """Return the store and the result of ``fill``. Raises ``DatasetError``."""
        now = [signature(file) for file in self.files]
        if self._found is None or now != self._signatures:
            if self._found is not None:
                self._found[0].close()
            self._found = None
            rows = RowStore(self._kinds)
            try:
                more = self._fill(rows)
                rows.finish()
            except BaseException:
                rows.close()
                raise
            self._found, self._signatures = (rows, more), now
        return self._found


def signature(path: Path) -> tuple[int, int]:
    """Return size and time of change of ``path``, by which a row store of it is still valid."""
    try:
        found = path.stat()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or error}") from error
    return found.st_size, found.st_mtime_ns

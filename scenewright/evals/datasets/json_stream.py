"""Huge JSON files, read element by element in memory that does not grow with the file.

Annotation files are one array, or one object with arrays under a few keys, of up to gigabytes.
The text slides through a buffer and each element is decoded where it stands.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.stream import unreadable

BLOCK = 1 << 16
"""Bytes that are read at a time."""
MOST_IN_AN_ELEMENT = 64 * 1024 * 1024
"""Characters that one element may have; a longer one is no image and no box."""
_SPACE = re.compile(r"[ \t\n\r]*")
_TAIL = 32
"""Characters before the buffer's end in which an error may mean that the rest is still to come:
more than the longest word (``-Infinity``) or escape (a pair of ``\\uXXXX``)."""


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_constant)


@contextmanager
def opened_binary(path: Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """The bytes of ``path``: unpacked if it ends in ``.gz``, and of ``member`` if in ``.zip``.

    Without ``member`` the archive must hold one JSON file. Raises ``DatasetError`` for what
    cannot be opened or has no such member.
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
        raise DatasetError(f"{path} is no whole zip archive ({error}): fetch it again") from error
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
    """(number from 0, element) of the array that the JSON file ``path`` is.

    Raises ``DatasetError`` with the byte and the line for text that is no JSON array, an element
    of more than :data:`MOST_IN_AN_ELEMENT` characters, and one that nests too deep.
    """
    with opened_binary(path, member) as file:
        text = JsonText(file, str(path))
        yield from text.array()
        text.end()


def sections(
    path: Path,
    needed: Collection[str],
    optional: Collection[str] = (),
    member: str | None = None,
) -> Iterator[tuple[str, int, Any]]:
    """(key, number from 0, element) of the arrays under some keys of the object ``path`` is.

    They come in the order of the file; what stands under other keys is passed over. Raises
    ``DatasetError`` as :func:`elements` does, and for a needed key that is not there.
    """
    with opened_binary(path, member) as file:
        text = JsonText(file, str(path))
        seen: set[str] = set()
        for key in text.keys():  # noqa: SIM118
            if key in needed or key in optional:
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
    """(number from 0, value) of JSON Lines, of the array that the file is, or of its one value.

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
        """``place`` begins every error; ``block`` is in bytes, ``most`` in characters."""
        self._file, self._place, self._block, self._most = file, place, block, most
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at, self._ended = "", 0, False
        self._bytes = self._lines = 0
        self._fill()
        if self._text.startswith("\ufeff"):
            self._at = 1

    def error(self, problem: str, at: int | None = None) -> DatasetError:
        """The error for ``problem`` at ``at`` of the buffer, by default where the reading is."""
        before = self._text[: self._at if at is None else at]
        byte = self._bytes + len(before.encode("utf-8", "surrogatepass"))
        line = self._lines + before.count("\n") + 1
        return DatasetError(f"{self._place}, line {line} (byte {byte}): {problem}")

    def _fill(self) -> None:
        """Drop what was read, and read on; doubles what is looked at, so that a long element is
        not decoded many times."""
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
            self._text = rest + self._decoder.decode(block, final=self._ended)
        except UnicodeDecodeError as error:
            raise self.error(
                f"not UTF-8 text ({error.reason}), some bytes on: fetch the file again", len(rest)
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
            raise self.error(f"the packed file is damaged ({error}): fetch it again") from error
        except OSError as error:
            raise DatasetError(
                f"{self._place} cannot be read: {error.strerror or error}"
            ) from error

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
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
        """Raises ``DatasetError`` if more than space is left."""
        if self.peek():
            raise self.error(f"more text after the end: {self._text[self._at : self._at + 20]!r}")

    def value(self) -> Any:
        """The value that stands next."""
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
        """(number from 0, element) of the array that stands next."""
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
        """The keys of the object that stands next; the caller reads each value."""
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
        """Pass over the value that stands next, without keeping it."""
        match self.peek():
            case "[":
                for _ in self.array():
                    pass
            case "{":
                for _ in self.keys():
                    self.skip()
            case _:
                self.value()

"""Archives from elsewhere, unpacked without trusting them: nothing lands outside of the folder, no
links or devices are made, and no small archive fills the disk."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from scenewright.evals.datasets.transfer import DownloadError
from scenewright.providers.hub.needs import free_bytes, size_words

MOST_TIMES_LARGER = 200
"""How much larger than its archive the content may be; annotations pack to about a tenth."""
ALWAYS_ALLOWED = 64 * 2**20
"""Bytes that any archive may hold, however small it is."""
MOST_FILES = 3_000_000
_BLOCK = 1 << 20
_Member = tuple[str, int, Callable[[], IO[bytes]]]


def unpack(
    archive: Path, folder: Path, moved: Callable[[int], None] = lambda count: None
) -> list[str]:
    """The files of ``archive`` (``.zip``, ``.tar``, ``.tar.gz``, …) below ``folder``; their names.

    They are written beside their places and moved there when all are whole. ``moved`` hears of
    bytes. Raises ``DownloadError`` for an archive that is damaged, would write elsewhere, holds
    links or devices, or is larger inside than an honest one; nothing of it is kept then.
    """
    allowed = max(ALWAYS_ALLOWED, MOST_TIMES_LARGER * archive.stat().st_size)
    apart = folder / f".unpacking-{archive.name}"
    shutil.rmtree(apart, ignore_errors=True)
    names: list[str] = []
    total = 0
    try:
        for name, size, opened in _members(archive):
            total += size
            if total > allowed or len(names) >= MOST_FILES:
                raise DownloadError(
                    f"{archive} holds more than {size_words(allowed)} or {MOST_FILES} files, which "
                    "is no honest archive of its size: unpack it by hand if you trust it"
                )
            if size > (free := free_bytes(folder)):
                raise DownloadError(
                    f"{name} of {archive.name} needs {size_words(size)}, but {folder} has only "
                    f"{size_words(free)} free: free some space, or name a larger disk with --out"
                )
            place = apart.joinpath(*PurePosixPath(name).parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            with opened() as source, place.open("wb") as target:
                _copy(source, target, size, f"{name} of {archive}", moved)
            names.append(name)
        for name in names:
            place = folder.joinpath(*PurePosixPath(name).parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(apart.joinpath(*PurePosixPath(name).parts), place)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError) as error:
        if isinstance(error, DownloadError):
            raise
        why = str(error).split("\n", 1)[0].rstrip(":") or type(error).__name__
        raise DownloadError(
            f"{archive} is damaged ({why}): delete it and fetch it again"
        ) from error
    except OSError as error:
        raise DownloadError(
            f"{archive} cannot be unpacked into {folder}: {error.strerror or error}"
        ) from error
    finally:
        shutil.rmtree(apart, ignore_errors=True)
    return names


def _copy(
    source: IO[bytes], target: IO[bytes], size: int, what: str, moved: Callable[[int], None]
) -> None:
    left = size
    while block := source.read(min(_BLOCK, left + 1)):
        left -= len(block)
        if left < 0:
            raise DownloadError(f"{what} is larger than the archive says: it is not trusted")
        target.write(block)
        moved(len(block))
    if left:
        raise DownloadError(f"{what} is smaller than the archive says: fetch it again")


def _members(archive: Path) -> Iterator[_Member]:
    """(name, bytes, how to open it) of each file; folders are passed over."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                mode = stat.S_IFMT(info.external_attr >> 16)
                if mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise _refused(archive, info.filename, "is a link or a device")
                _check_name(archive, info.filename)
                if not info.is_dir():
                    yield info.filename, info.file_size, _zip_opener(packed, info)
        return
    with tarfile.open(archive, "r:*") as tape:
        for member in tape:
            _check_name(archive, member.name)
            if member.isdir():
                continue
            if not member.isreg():
                raise _refused(archive, member.name, "is a link or a device")
            yield member.name, member.size, _tar_opener(tape, member)


def _zip_opener(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: packed.open(info)


def _tar_opener(tape: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        found = tape.extractfile(member)
        assert found is not None, "a regular file has content"
        return found

    return opened


def _check_name(archive: Path, name: str) -> None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or ".." in parts or parts[0] == "/" or ":" in parts[0] or "\0" in name:
        raise _refused(archive, name, "would be written outside of the folder")
    if "\\" in name:
        raise _refused(archive, name, "has a name that is a path on other systems")


def _refused(archive: Path, name: str, why: str) -> DownloadError:
    return DownloadError(f"{archive} is refused: {name!r} {why}; nothing of it was unpacked")

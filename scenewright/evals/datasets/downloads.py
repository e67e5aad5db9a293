"""Downloads of public sets: resumable transfers, checksums, and safe unpacking.

A file's digest is that of the table of sources where it has one. For other files the first download
counts: ``checksums.json`` in the set's folder keeps its SHA-256, and later files must have the
same.

A transfer grows as ``NAME.incomplete``; ``NAME.incomplete.json`` beside it names the address and
version. A server is asked for the rest of that version only (``Range`` with ``If-Range``); one that
knows no ranges, or has another version by now, sends all of it anew. Archives are not trusted:
nothing is written outside of the folder, no links or devices are made, and no small archive fills
the disk.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import ssl
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

import httpx2
from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

from scenewright.core.error_text import error_text
from scenewright.core.errors import ScenewrightError
from scenewright.core.flushing import flush, replacing
from scenewright.evals.datasets.base import Source, SourceFile, default_place, find_source
from scenewright.providers.hub.needs import PARTIAL, free_bytes, sha256_of, size_words
from scenewright.providers.hub.pull import PullCallbacks

CONNECT_SECONDS, READ_SECONDS = 20.0, 60.0
TRIES = 5
"""Consecutive breaks of a transfer without any progress that are tolerated."""
PAUSE_SECONDS = 1.0
"""Pause before the second try; doubled for each further one."""
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class DownloadError(ScenewrightError, RuntimeError):
    """A failed download; the message has the reason, what is kept, and the remedy."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's headers of a file."""

    size: int | None
    """Bytes; None if unknown."""
    version: str
    """Strong ETag or date of the last change; empty if unknown."""


@cache
def _certificates() -> ssl.SSLContext:
    # Reading them takes longer than a small file.
    return httpx2.create_ssl_context()


def make_client() -> httpx2.Client:
    """Return a client for large files; proxies come from the environment."""
    return httpx2.Client(
        verify=_certificates(),
        follow_redirects=True,
        timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        headers={"Accept-Encoding": "identity", "User-Agent": "scenewright"},
    )


def ask(client: httpx2.Client, address: str) -> Answer | None:
    """Return the server's headers of ``address``; None if it cannot be reached."""
    try:
        answer = client.head(address)
    except httpx2.HTTPError:
        return None
    return _answer(answer.headers, 0) if answer.status_code == 200 else Answer(None, "")


def partial_of(place: Path) -> Path:
    """Return the partial file of ``place``."""
    return place.with_name(place.name + PARTIAL)


def discard(place: Path) -> None:
    """Delete the received part of ``place``."""
    partial_of(place).unlink(missing_ok=True)
    _note(place).unlink(missing_ok=True)


def _note(place: Path) -> Path:
    return place.with_name(place.name + PARTIAL + ".json")


def _answer(headers: Any, already: int) -> Answer:
    length = headers.get("Content-Length", "")
    encoded = headers.get("Content-Encoding", "identity") not in ("", "identity")
    size = already + int(length) if length.isdigit() and not encoded else None
    etag = headers.get("ETag", "")
    # A weak ETag does not promise equal bytes.
    return Answer(size, etag if etag.startswith('"') else headers.get("Last-Modified", ""))


def fetch(
    client: httpx2.Client,
    address: str,
    place: Path,
    watch: PullCallbacks,
    *,
    sure: bool,
    expected: int | None,
) -> Path:
    """Fetch ``address`` into the file beside ``place`` of :func:`partial_of`, and return it.

    ``sure`` says that the caller knows its digest, so that any beginning may be continued;
    ``expected`` is then its size in bytes. Raises ``DownloadError``; received data is kept.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    partial, failures = partial_of(place), 0
    while True:
        before = _size(partial)
        try:
            if _receive(client, address, place, watch, sure=sure, expected=expected):
                flush(partial)
                return partial
            problem = "the transfer broke off"
        except httpx2.HTTPError as error:
            problem = error_text(error)
        except _Later as error:
            problem = str(error)
        except OSError as error:
            raise _unwritable(error, place) from error
        failures = 0 if _size(partial) > before else failures + 1
        if failures >= TRIES:
            here = _size(partial)
            kept = f" {size_words(here)} of it are here and stay." if here else ""
            raise DownloadError(
                f"{address} cannot be fetched ({problem}).{kept} Check the network or the proxy "
                "(HTTPS_PROXY) and call again, or fetch it elsewhere and put it here by hand, "
                f"where it will be checked: {place}"
            )
        time.sleep(PAUSE_SECONDS * 2 ** max(0, failures - 1))


class _Later(Exception):
    """A status after which the request is sent again."""


def _receive(
    client: httpx2.Client,
    address: str,
    place: Path,
    watch: PullCallbacks,
    *,
    sure: bool,
    expected: int | None,
) -> bool:
    """Send one request; return whether all data has come."""
    partial = partial_of(place)
    have, headers = _size(partial), {}
    version = _version(place, address)
    if have and not (version or sure):
        discard(place)
        watch.moved(-have)
        have = 0
    if have:
        headers["Range"] = f"bytes={have}-"
        if version:
            headers["If-Range"] = version
    with client.stream("GET", address, headers=headers) as answer:
        status = answer.status_code
        if status == 416:
            return _beyond(answer.headers.get("Content-Range", ""), have, place, watch)
        if status in _AGAIN:
            raise _Later(f"the server answers {status}")
        if status not in (200, 206):
            raise DownloadError(
                f"{address}: the server answers {status}: the file may have moved. Look at the "
                f"page of its makers, and put it here by hand, where it will be checked: {place}"
            )
        if status == 206 and not _continues(answer.headers.get("Content-Range", ""), have):
            raise DownloadError(f"{address}: the server sends another part than it was asked for")
        if status == 200 and have:
            watch.message(f"{place.name} comes anew: the server has no rest of what is here")
            watch.moved(-have)
            have = 0
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            raise DownloadError(
                f"{address}: a page came in place of the file (a log-in page of the network, or "
                "the file has moved). Fetch it elsewhere and put it here, where it will be "
                f"checked: {place}"
            )
        said = _answer(answer.headers, have)
        if expected is not None and said.size is not None and said.size != expected:
            raise DownloadError(
                f"{address} has {said.size} bytes, {expected} are expected: its makers changed "
                "it, or a page of the network came in its place. Nothing was kept of it"
            )
        _check_disk(place, said.size, have)
        note = {"address": address, "version": said.version}
        _note(place).write_text(json.dumps(note), encoding="utf-8")
        with partial.open("ab" if status == 206 else "wb") as file:
            # In pieces as they come: of a larger piece a break would lose all.
            for block in answer.iter_bytes():
                file.write(block)
                watch.moved(len(block))
        return said.size is None or _size(partial) >= said.size


def _version(place: Path, address: str) -> str:
    """Return the version of the partial file; empty if unknown."""
    try:
        note = json.loads(_note(place).read_text(encoding="utf-8"))
        return str(note["version"]) if note["address"] == address else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _continues(content_range: str, have: int) -> bool:
    found = re.match(r"bytes (\d+)-", content_range)
    return found is not None and int(found[1]) == have


def _beyond(content_range: str, have: int, place: Path, watch: PullCallbacks) -> bool:
    """Return whether the partial file is complete; otherwise discard it.

    The server has answered that nothing follows.
    """
    if content_range == f"bytes */{have}":
        return True
    discard(place)
    watch.moved(-have)
    return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _check_disk(place: Path, size: int | None, have: int) -> None:
    free = free_bytes(place.parent)
    if size is not None and size - have > free:
        raise DownloadError(
            f"{size_words(size - have)} of {place.name} are still to come, but {place.parent} has "
            f"only {size_words(free)} free: free some space, or name a larger disk with --out"
        )


def _unwritable(error: OSError, place: Path) -> DownloadError:
    if error.errno == errno.ENOSPC:
        return DownloadError(
            f"the disk of {place.parent} is full: free some space, or name a larger one with "
            "--out; what has come stays"
        )
    return DownloadError(f"{error.filename or place} cannot be written: {error.strerror or error}")


def settle(partial: Path, place: Path) -> None:
    """Move a checked file to its place; a part of it is never visible there."""
    os.replace(partial, place)
    _note(place).unlink(missing_ok=True)
    flush(place.parent)


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
    """Return the files of ``archive`` (``.zip``, ``.tar``, ``.tar.gz``, …) below ``folder``.

    Their names.

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
                    "is far more than its own size: unpack it by hand if you trust it"
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
    """Yield (name, bytes, function to open it) of each file; folders are skipped."""
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


RECORD = "checksums.json"
WRONG = ".wrong"
"""Suffix of files with a wrong digest."""
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One file of a plan."""

    file: SourceFile
    place: Path
    """Target file."""
    size: int | None
    """Bytes; None if unknown."""
    here: int
    """Bytes already here, checked or not."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Files to fetch of a set."""

    name: str
    source: Source
    folder: Path
    files: tuple[Wanted, ...]

    @property
    def rest(self) -> int:
        """Bytes still to be fetched, as far as sizes are known."""
        return sum(max(0, (wanted.size or 0) - wanted.here) for wanted in self.files)

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """Names of files of unknown size."""
        return tuple(wanted.file.name for wanted in self.files if wanted.size is None)


@dataclass(slots=True)
class Done:
    """Result of a download: names of files."""

    fetched: list[str] = field(default_factory=list)
    """Files of this download."""
    checked: list[str] = field(default_factory=list)
    """Files that existed and are intact."""
    first: list[str] = field(default_factory=list)
    """Files without a published digest: theirs was recorded now."""
    unpacked: dict[str, int] = field(default_factory=dict)
    """Archive → number of unpacked files."""


def plan_of(name: str, folder: Path | None = None, only: Iterable[str] = ()) -> Plan:
    """Return the download plan of ``name``: the files of ``only``, by default all but extras.

    Servers are asked for sizes that the table does not know; where none can be reached they stay
    unknown. Raises ``DatasetError`` for a set or a file that the table does not have.
    """
    source = find_source(name)
    root = default_place(name) if folder is None else folder
    wanted, reached = [], True
    record = Record(root / RECORD)
    with make_client() as client:
        for file in source.chosen(tuple(only)):
            place, size = root / file.name, file.bytes
            partial = partial_of(place)
            if place.is_file():
                size = here = place.stat().st_size
            elif record.was_unpacked(file):
                size = here = 0
            else:
                here = partial.stat().st_size if partial.is_file() else 0
                if file.sha256 is None and reached:
                    said = ask(client, file.address)
                    reached = said is not None
                    size = (said.size if said is not None else None) or size
            wanted.append(Wanted(file, place, size, here))
    return Plan(name, source, root, tuple(wanted))


def check_disk(plan: Plan) -> None:
    """Raise ``DownloadError`` if the rest of the download does not fit on the folder's disk."""
    free = free_bytes(plan.folder)
    if plan.rest > free:
        raise DownloadError(
            f"{size_words(plan.rest)} are still to come, but {plan.folder} has only "
            f"{size_words(free)} free: free some space, or name a larger disk with --out"
        )


def download(plan: Plan, watch: PullCallbacks | None = None) -> Done:
    """Fetch, check and unpack the files of ``plan``, one after the other.

    Raises ``DownloadError``: what was whole by then stays, a file that breaks off is continued by
    the next call, and one with a wrong digest is kept apart as ``NAME.wrong``.
    """
    watch, done = watch or PullCallbacks(), Done()
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(plan.folder / _LOCK), make_client() as client:
            record = Record(plan.folder / RECORD)
            for wanted in plan.files:
                _get(client, wanted, record, watch, done)
    except OSError as error:
        raise DownloadError(
            f"{error.filename or plan.folder} cannot be written: {error.strerror or error}: name "
            "another folder with --out"
        ) from error
    return done


def _get(client: Any, wanted: Wanted, record: Record, watch: PullCallbacks, done: Done) -> None:
    file, place = wanted.file, wanted.place
    right = file.sha256 or record.digest(file.name)
    if not place.is_file() and record.was_unpacked(file):
        watch.message(
            f"{file.name} was unpacked and deleted: to fetch it again, delete its entry in "
            f"{record.path}"
        )
        done.checked.append(file.name)
        return
    if place.is_file():
        found = sha256_of(place, watch.checked)
        if right is None or found == right:
            _settled(file, place, found, record, watch, done, done.checked, known=right)
            return
        apart = _put_apart(place, place)
        watch.message(f"{place} is not as it should be: it is kept as {apart.name} and comes again")
        watch.moved(-wanted.here)
    watch.message(f"{file.name} from {file.address}")
    partial = fetch(
        client,
        file.address,
        place,
        watch,
        sure=right is not None,
        expected=file.bytes if file.sha256 else None,
    )
    found = sha256_of(partial, watch.checked)
    if right is not None and found != right:
        apart = _put_apart(partial, place)
        discard(place)
        raise DownloadError(_mismatch(file, place, apart, found, right))
    settle(partial, place)
    _settled(file, place, found, record, watch, done, done.fetched, known=right)


def _mismatch(file: SourceFile, place: Path, apart: Path, found: str, right: str) -> str:
    said = f"{file.address} came with SHA-256 {found}, expected is {right}: "
    if file.sha256:
        how = "it changed on the way or at its source; call again, or ask its makers"
    else:
        how = (
            "it is another file than the first time; if its makers say so, delete its entry in "
            f"{place.parent / RECORD} and call again"
        )
    return f"{said}{how}. What came is kept as {apart}"


def _settled(
    file: SourceFile,
    place: Path,
    found: str,
    record: Record,
    watch: PullCallbacks,
    done: Done,
    group: list[str],
    known: str | None,
) -> None:
    group.append(file.name)
    if known is None:
        done.first.append(file.name)
    entry = {"sha256": found, "bytes": place.stat().st_size, "address": file.address}
    entry["vouched"] = "table" if file.sha256 else "first download"
    unpacked = record.entry(file.name).get("unpacked")
    if file.unpack and unpacked != found:
        names = unpack(place, place.parent)
        done.unpacked[file.name] = len(names)
        watch.message(f"{file.name}: {len(names)} files unpacked; you may delete the archive now")
        unpacked = found
    record.put(file.name, entry | ({"unpacked": unpacked} if unpacked else {}))


def _put_apart(what: Path, place: Path) -> Path:
    apart = place.with_name(place.name + WRONG)
    os.replace(what, apart)
    return apart


class Record:
    """The file ``checksums.json``: name → digest, size and address of each complete file."""

    def __init__(self, path: Path) -> None:
        """Read the record at ``path``. Raises ``DownloadError`` if it is damaged."""
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {}
        if not path.is_file():
            return
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            self.entries = {str(name): dict(entry) for name, entry in data["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DownloadError(
                f"{path} is not a record of digests ({error}): fix it, or delete it to trust the "
                "files that are there"
            ) from error

    def entry(self, name: str) -> dict[str, Any]:
        """Return the entry of the file ``name``; empty if it was never fetched."""
        return self.entries.get(name, {})

    def digest(self, name: str) -> str | None:
        """Return SHA-256 of the file ``name`` at its first download; None without one."""
        found = self.entry(name).get("sha256")
        return found if isinstance(found, str) else None

    def was_unpacked(self, file: SourceFile) -> bool:
        """Return whether ``file`` is an unpacked archive, so that it may be deleted."""
        return file.unpack and bool(self.entry(file.name).get("unpacked"))

    def put(self, name: str, entry: dict[str, Any]) -> None:
        """Write the entry of ``name``; readers find the old record or the new one."""
        self.entries[name] = entry
        text = json.dumps({"files": dict(sorted(self.entries.items()))}, indent=2) + "\n"
        with replacing(self.path) as draft:
            draft.write_text(text, encoding="utf-8")

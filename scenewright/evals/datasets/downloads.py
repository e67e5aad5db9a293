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
import shutil
import ssl
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self

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

    @classmethod
    def of(cls, headers: Any, already: int = 0) -> Self:
        """Read the headers of a reply that begins at byte ``already``."""
        length = headers.get("Content-Length", "")
        encoded = headers.get("Content-Encoding", "identity") not in ("", "identity")
        size = already + int(length) if length.isdigit() and not encoded else None
        etag = headers.get("ETag", "")
        # A weak ETag does not promise equal bytes.
        return cls(size, etag if etag.startswith('"') else headers.get("Last-Modified", ""))


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
    return Answer.of(answer.headers) if answer.status_code == 200 else Answer(None, "")


def need_space(size: int | None, folder: Path, what: str) -> None:
    """Raise ``DownloadError`` if ``size`` bytes more do not fit on the disk of ``folder``."""
    free = free_bytes(folder)
    if size is not None and size > free:
        raise DownloadError(
            f"{size_words(size)} {what}, but {folder} has only {size_words(free)} free: free some "
            "space, or name a larger disk with --out"
        )


class _Later(Exception):
    """A status after which the request is sent again."""


class Transfer:
    """The transfer of one file, which goes on where an earlier one stopped."""

    def __init__(self, address: str, place: Path, watch: PullCallbacks) -> None:
        """Fetch ``address`` for ``place``, into a file beside it."""
        self.address, self.place, self._watch = address, place, watch
        self.partial = place.with_name(place.name + PARTIAL)
        self._note = place.with_name(place.name + PARTIAL + ".json")

    @property
    def have(self) -> int:
        """Bytes that are here."""
        return self.partial.stat().st_size if self.partial.is_file() else 0

    def discard(self, begin_anew: bool = False) -> None:
        """Delete what is here."""
        if begin_anew:
            self._watch.moved(-self.have)
        self.partial.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def settle(self) -> None:
        """Move the checked file to its place; a part of it is never visible there."""
        os.replace(self.partial, self.place)
        self._note.unlink(missing_ok=True)
        flush(self.place.parent)

    def fetch(self, client: httpx2.Client, *, sure: bool, expected: int | None) -> None:
        """Fetch the file into :attr:`partial`.

        ``sure`` says that the caller knows its digest, so that any beginning may be continued;
        ``expected`` is then its size in bytes. Raises ``DownloadError``; received data is kept.
        """
        self.place.parent.mkdir(parents=True, exist_ok=True)
        failures = 0
        while True:
            before = self.have
            try:
                if self._receive(client, sure, expected):
                    flush(self.partial)
                    return
                problem = "the transfer broke off"
            except httpx2.HTTPError as error:
                problem = error_text(error)
            except _Later as error:
                problem = str(error)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise DownloadError(
                        f"the disk of {self.place.parent} is full: free some space, or name a "
                        "larger one with --out; what has come stays"
                    ) from error
                raise DownloadError(
                    f"{error.filename or self.place} cannot be written: {error.strerror or error}"
                ) from error
            failures = 0 if self.have > before else failures + 1
            if failures >= TRIES:
                kept = f" {size_words(self.have)} of it are here and stay." if self.have else ""
                raise DownloadError(
                    f"{self.address} cannot be fetched ({problem}).{kept} Check the network or the "
                    "proxy (HTTPS_PROXY) and call again, or fetch it elsewhere and put it here by "
                    f"hand, where it will be checked: {self.place}"
                )
            time.sleep(PAUSE_SECONDS * 2 ** max(0, failures - 1))

    def _receive(self, client: httpx2.Client, sure: bool, expected: int | None) -> bool:
        """Send one request; return whether all data has come."""
        version = self._version()
        if self.have and not (version or sure):
            self.discard(begin_anew=True)
        have, headers = self.have, {}
        if have:
            headers["Range"] = f"bytes={have}-"
            if version:
                headers["If-Range"] = version
        with client.stream("GET", self.address, headers=headers) as answer:
            status, part = answer.status_code, answer.headers.get("Content-Range", "")
            if status == 416:
                # Nothing follows: it is complete, or no beginning of this file.
                if part != f"bytes */{have}":
                    self.discard(begin_anew=True)
                return bool(self.have)
            if status in _AGAIN:
                raise _Later(f"the server answers {status}")
            if status not in (200, 206):
                raise DownloadError(
                    f"{self.address}: the server answers {status}: the file may have moved. Look "
                    "at the page of its makers, and put it here by hand, where it will be "
                    f"checked: {self.place}"
                )
            if status == 206 and not part.startswith(f"bytes {have}-"):
                raise DownloadError(
                    f"{self.address}: the server sends another part than it was asked for"
                )
            if status == 200 and have:
                self._watch.message(
                    f"{self.place.name} comes anew: the server has no rest of what is here"
                )
                self._watch.moved(-have)
                have = 0
            if answer.headers.get("Content-Type", "").startswith("text/html"):
                raise DownloadError(
                    f"{self.address}: a page came in place of the file (a log-in page of the "
                    "network, or the file has moved). Fetch it elsewhere and put it here, where it "
                    f"will be checked: {self.place}"
                )
            said = Answer.of(answer.headers, have)
            if expected is not None and said.size is not None and said.size != expected:
                raise DownloadError(
                    f"{self.address} has {said.size} bytes, {expected} are expected: its makers "
                    "changed it, or a page of the network came in its place. Nothing was kept of it"
                )
            rest = None if said.size is None else said.size - have
            need_space(rest, self.place.parent, f"of {self.place.name} are still to come")
            note = {"address": self.address, "version": said.version}
            self._note.write_text(json.dumps(note), encoding="utf-8")
            with self.partial.open("ab" if status == 206 else "wb") as file:
                # In pieces as they come: of a larger piece a break would lose all.
                for block in answer.iter_bytes():
                    file.write(block)
                    self._watch.moved(len(block))
            return said.size is None or self.have >= said.size

    def _version(self) -> str:
        """Return the version of the partial file; empty if unknown."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            return str(note["version"]) if note["address"] == self.address else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""


MOST_TIMES_LARGER = 200
"""How much larger than its archive the content may be; annotations pack to about a tenth."""
ALWAYS_ALLOWED = 64 * 2**20
"""Bytes that any archive may hold, however small it is."""
MOST_FILES = 3_000_000
_BLOCK = 1 << 20
_Member = tuple[str, int, Callable[[], Any]]


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
            need_space(size, folder, f"are needed for {name} of {archive.name}")
            place = apart / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with opened() as source, place.open("wb") as target:
                _copy(source, target, size, f"{name} of {archive}", moved)
            names.append(name)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(apart / name, folder / name)
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
                _check(archive, info.filename, mode in (0, stat.S_IFREG, stat.S_IFDIR))
                if not info.is_dir():
                    yield info.filename, info.file_size, partial(packed.open, info)
        return
    with tarfile.open(archive, "r:*") as tape:
        for member in tape:
            _check(archive, member.name, member.isdir() or member.isreg())
            if not member.isdir():
                yield member.name, member.size, partial(tape.extractfile, member)


def _check(archive: Path, name: str, plain: bool) -> None:
    """Raise ``DownloadError`` for a member that is not a ``plain`` file in the folder."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    why = ""
    if not parts or ".." in parts or parts[0] == "/" or ":" in parts[0] or "\0" in name:
        why = "would be written outside of the folder"
    elif "\\" in name:
        why = "has a name that is a path on other systems"
    elif not plain:
        why = "is a link or a device"
    if why:
        raise DownloadError(f"{archive} is refused: {name!r} {why}; nothing of it was unpacked")


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
            if place.is_file():
                size = here = place.stat().st_size
            elif record.was_unpacked(file):
                size = here = 0
            else:
                here = Transfer(file.address, place, PullCallbacks()).have
                if file.sha256 is None and reached:
                    said = ask(client, file.address)
                    reached = said is not None
                    size = (said.size if said is not None else None) or size
            wanted.append(Wanted(file, place, size, here))
    return Plan(name, source, root, tuple(wanted))


def check_disk(plan: Plan) -> None:
    """Raise ``DownloadError`` if the rest of the download does not fit on the folder's disk."""
    need_space(plan.rest, plan.folder, "are still to come")


def download(plan: Plan, watch: PullCallbacks | None = None) -> Done:
    """Fetch, check and unpack the files of ``plan``, one after the other.

    Raises ``DownloadError``: what was whole by then stays, a file that breaks off is continued by
    the next call, and one with a wrong digest is kept apart as ``NAME.wrong``.
    """
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(plan.folder / _LOCK), make_client() as client:
            made = _Download(client, Record(plan.folder / RECORD), watch or PullCallbacks())
            for wanted in plan.files:
                made.get(wanted)
    except OSError as error:
        raise DownloadError(
            f"{error.filename or plan.folder} cannot be written: {error.strerror or error}: name "
            "another folder with --out"
        ) from error
    return made.done


@dataclass(slots=True)
class _Download:
    client: httpx2.Client
    record: Record
    watch: PullCallbacks
    done: Done = field(default_factory=Done)

    def get(self, wanted: Wanted) -> None:
        """Have one file whole and checked in its place."""
        file, place, record = wanted.file, wanted.place, self.record
        right = file.sha256 or record.entry(file.name).get("sha256")
        if not place.is_file() and record.was_unpacked(file):
            self.watch.message(
                f"{file.name} was unpacked and deleted: to fetch it again, delete its entry in "
                f"{record.path}"
            )
            self.done.checked.append(file.name)
            return
        apart = place.with_name(place.name + WRONG)
        if place.is_file():
            found = sha256_of(place, self.watch.checked)
            if right in (None, found):
                self.done.checked.append(file.name)
                self._settled(file, place, found, right is None)
                return
            os.replace(place, apart)
            self.watch.message(
                f"{place} is not as it should be: it is kept as {apart.name} and comes again"
            )
            self.watch.moved(-wanted.here)
        self.watch.message(f"{file.name} from {file.address}")
        transfer = Transfer(file.address, place, self.watch)
        size = file.bytes if file.sha256 else None
        transfer.fetch(self.client, sure=right is not None, expected=size)
        found = sha256_of(transfer.partial, self.watch.checked)
        if right not in (None, found):
            os.replace(transfer.partial, apart)
            transfer.discard()
            if file.sha256:
                how = "it changed on the way or at its source; call again, or ask its makers"
            else:
                how = (
                    "it is another file than the first time; if its makers say so, delete its "
                    f"entry in {place.parent / RECORD} and call again"
                )
            raise DownloadError(
                f"{file.address} came with SHA-256 {found}, expected is {right}: {how}. What came "
                f"is kept as {apart}"
            )
        transfer.settle()
        self.done.fetched.append(file.name)
        self._settled(file, place, found, right is None)

    def _settled(self, file: SourceFile, place: Path, found: str, first: bool) -> None:
        """Record a file that is in its place, and unpack it if that is needed."""
        if first:
            self.done.first.append(file.name)
        entry = {"sha256": found, "bytes": place.stat().st_size, "address": file.address}
        entry["vouched"] = "table" if file.sha256 else "first download"
        unpacked = self.record.entry(file.name).get("unpacked")
        if file.unpack and unpacked != found:
            names = unpack(place, place.parent)
            self.done.unpacked[file.name] = len(names)
            self.watch.message(
                f"{file.name}: {len(names)} files unpacked; you may delete the archive now"
            )
            unpacked = found
        self.record.put(file.name, entry | ({"unpacked": unpacked} if unpacked else {}))


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

    def was_unpacked(self, file: SourceFile) -> bool:
        """Return whether ``file`` is an unpacked archive, so that it may be deleted."""
        return file.unpack and bool(self.entry(file.name).get("unpacked"))

    def put(self, name: str, entry: dict[str, Any]) -> None:
        """Write the entry of ``name``; readers find the old record or the new one."""
        self.entries[name] = entry
        text = json.dumps({"files": dict(sorted(self.entries.items()))}, indent=2) + "\n"
        with replacing(self.path) as draft:
            draft.write_text(text, encoding="utf-8")

"""Fetching public sets: what is here, what is to come, digests, and one record of all of it.

A file's digest is that of the table where the table has one. Of others the first download counts:
``checksums.json`` in the set's folder keeps its SHA-256, and what comes or lies there later must
have the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

from scenewright.evals.datasets.sources import Source, SourceFile, default_place, find_source
from scenewright.evals.datasets.transfer import (
    DownloadError,
    ask,
    discard,
    fetch,
    make_client,
    partial_of,
    settle,
)
from scenewright.evals.datasets.unpacking import unpack
from scenewright.providers.hub.needs import free_bytes, sha256_of, size_words
from scenewright.providers.hub.pull import PullCallbacks

RECORD = "checksums.json"
WRONG = ".wrong"
"""Suffix of what came with another content than it should."""
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One file of a plan."""

    file: SourceFile
    place: Path
    """Where it goes."""
    size: int | None
    """Bytes of it; none if nobody says."""
    here: int
    """Bytes of it that are here, checked or not."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is fetched of a set."""

    name: str
    source: Source
    folder: Path
    files: tuple[Wanted, ...]

    @property
    def rest(self) -> int:
        """Bytes that are still to come, as far as sizes are known."""
        return sum(max(0, (wanted.size or 0) - wanted.here) for wanted in self.files)

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """Names of files that are to come and whose size nobody says."""
        return tuple(wanted.file.name for wanted in self.files if wanted.size is None)


@dataclass(slots=True)
class Done:
    """What was done; names of files."""

    fetched: list[str] = field(default_factory=list)
    """Came now."""
    checked: list[str] = field(default_factory=list)
    """Were here and are as they should be."""
    first: list[str] = field(default_factory=list)
    """Nobody vouches for these: their digest was written down now."""
    unpacked: dict[str, int] = field(default_factory=dict)
    """Archive → files that it gave."""


def plan_of(name: str, folder: Path | None = None, only: Iterable[str] = ()) -> Plan:
    """What ``name`` comes to: the files of ``only``, by default all but extras.

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
    """Raises ``DownloadError`` if what is still to come does not fit on the folder's disk."""
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
        watch.told(
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
        watch.told(f"{place} is not as it should be: it is kept as {apart.name} and comes again")
        watch.moved(-wanted.here)
    watch.told(f"{file.name} from {file.address}")
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
        watch.told(f"{file.name}: {len(names)} files unpacked; you may delete the archive now")
        unpacked = found
    record.put(file.name, entry | ({"unpacked": unpacked} if unpacked else {}))


def _put_apart(what: Path, place: Path) -> Path:
    apart = place.with_name(place.name + WRONG)
    os.replace(what, apart)
    return apart


class Record:
    """``checksums.json``: name → digest, size and address of each file that was once whole."""

    def __init__(self, path: Path) -> None:
        """Raises ``DownloadError`` for a record that cannot be read."""
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {}
        if not path.is_file():
            return
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            self.entries = {str(name): dict(entry) for name, entry in data["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DownloadError(
                f"{path} is no record of digests ({error}): mend it, or delete it to trust the "
                "files that are there"
            ) from error

    def entry(self, name: str) -> dict[str, Any]:
        """What is known of the file ``name``; empty if it never came."""
        return self.entries.get(name, {})

    def digest(self, name: str) -> str | None:
        """SHA-256 of the file ``name`` when it first came; none if it never did."""
        found = self.entry(name).get("sha256")
        return found if isinstance(found, str) else None

    def was_unpacked(self, file: SourceFile) -> bool:
        """Whether ``file`` is an archive whose content was written, so that it may be deleted."""
        return file.unpack and bool(self.entry(file.name).get("unpacked"))

    def put(self, name: str, entry: dict[str, Any]) -> None:
        """Write the entry of ``name``; readers find the old record or the new one."""
        self.entries[name] = entry
        text = json.dumps({"files": dict(sorted(self.entries.items()))}, indent=2) + "\n"
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, self.path)

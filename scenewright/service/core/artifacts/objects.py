"""The port of what keeps artifacts: named bytes, in a folder or wherever fsspec reaches.

An object is written whole or not at all, and whoever reads or lists after that finds it. S3,
Google Cloud Storage and Azure promise this.

Files put in their places whole.

Where the files of a run lie in the store, and which of its event logs is the run's.

::

    runs/ID/manifest.json
    runs/ID/images/HASH.png
    runs/ID/requests/KEY.json        which image a request gave
    runs/ID/answers/HASH.jsonl       answers that were paid for, some in each
    runs/ID/events/NUMBER-TOKEN.jsonl
    runs/ID/result.json
    sent/TENANT/HASH.png             pictures that people have sent

Every server that takes the run over writes an event log of its own, with a higher number. Nobody
writes another's, so a server that has lost the run without knowing it harms nothing: its log is not
the run's any longer.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from scenewright.config.profiles import SettingsError
from scenewright.graphs.errors import RunInterrupted

T = TypeVar("T")

PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds between the tries of a call to a store that fails."""
_CONNECT_SECONDS = 5
_READ_SECONDS = 30
_HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


class StoreAway(RunInterrupted):
    """The store of artifacts cannot be used now; says why."""


class Objects(Protocol):
    """Named bytes. A key is a path with ``/``, without a leading one. Safe for threads.

    Every method raises ``StoreAway`` where the store cannot be used, after some tries.
    """

    where: str
    """The store in words, without secrets."""

    def put(self, key: str, data: bytes) -> None:
        """Keep ``data`` under ``key``, in the place of what was there."""
        ...

    def get(self, key: str) -> bytes | None:
        """Return the bytes stored under ``key``; None if there are none."""
        ...

    def list(self, folder: str) -> Mapping[str, str]:
        """Return the keys below ``folder``, each with a word that changes when its bytes do."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Forget ``keys``, those that are there."""
        ...


def objects_at(url: str, pauses: tuple[float, ...] = PAUSES) -> Objects:
    """Return the store at an fsspec URL, looked at once; a plain path and ``file://`` are a folder.

    Raises ``SettingsError`` if the URL is wrong, its extra is missing or it cannot be reached.
    """
    scheme, _, rest = url.partition("://")
    try:
        if not rest or scheme in ("file", "local"):
            found: Objects = FolderObjects(Path(rest or url), pauses)
        else:
            found = FsspecObjects(url, pauses)
            found.check()
        found.list("runs/-")
    except StoreAway as error:
        raise SettingsError(
            f"the artifacts cannot be kept: {error}. Check SCENEWRIGHT_SERVICE_ARTIFACTS and the "
            "credentials of the store"
        ) from error
    return found


def _steady(call: Callable[[], T], where: str, pauses: tuple[float, ...]) -> T:
    """Return the result of ``call``, tried again after each of ``pauses`` (seconds)."""
    for pause in (*pauses, None):
        try:
            return call()
        except Exception as error:
            # Each file system has errors of its own, not all of them ``OSError``.
            hopeless = isinstance(error, OSError) and error.errno in _HOPELESS
            if pause is None or hopeless or isinstance(error, PermissionError):
                said = str(error).strip() or type(error).__name__
                raise StoreAway(
                    f"the store of artifacts {where} cannot be used: {said[:300]}"
                ) from error
            time.sleep(pause)
    raise AssertionError("unreachable")


class FolderObjects:
    """Objects as files of a folder that all servers reach, each replaced whole."""

    def __init__(self, folder: Path, pauses: tuple[float, ...] = PAUSES) -> None:
        """``folder`` is made when the first object comes."""
        self.where = str(folder)
        self._folder = folder
        self._pauses = pauses

    def put(self, key: str, data: bytes) -> None:
        """As :class:`Objects` says; on the disk when this returns."""

        def write() -> None:
            place = self._folder / key
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_name(f".{secrets.token_hex(8)}.tmp")
            try:
                with open(draft, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, place)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise

        _steady(write, self.where, self._pauses)

    def get(self, key: str) -> bytes | None:
        """As :class:`Objects` says."""

        def read() -> bytes | None:
            try:
                return (self._folder / key).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

        return _steady(read, self.where, self._pauses)

    def list(self, folder: str) -> Mapping[str, str]:
        """As :class:`Objects` says."""

        def walk() -> dict[str, str]:
            found = {}
            for place in sorted((self._folder / folder).rglob("*")):
                if place.name.endswith(".tmp") or place.is_dir():
                    continue
                try:
                    stat = place.stat()
                except FileNotFoundError:
                    continue
                key = place.relative_to(self._folder).as_posix()
                found[key] = f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}"
            return found

        return _steady(walk, self.where, self._pauses)

    def delete(self, keys: Iterable[str]) -> None:
        """As :class:`Objects` says; folders that are left empty go, too."""

        def remove() -> None:
            for key in keys:
                place = self._folder / key
                place.unlink(missing_ok=True)
                for parent in place.parents:
                    if parent == self._folder:
                        break
                    try:
                        parent.rmdir()
                    except OSError:
                        break

        keys = list(keys)
        _steady(remove, self.where, self._pauses)


class FsspecObjects:
    """Objects of any file system of fsspec that replaces a file whole."""

    def __init__(self, url: str, pauses: tuple[float, ...] = PAUSES) -> None:
        """Raise ``SettingsError`` for a URL of no kind that is known, or without its extra."""
        import fsspec

        scheme = url.partition("://")[0]
        self.where = _shown(url)
        self._pauses = pauses
        options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
        if scheme in ("s3", "s3a"):
            # Tries are made here; botocore's own would multiply them.
            # More would ask for the size of every object before it is read.
            options["max_concurrency"] = 1
            options["config_kwargs"] = {
                "connect_timeout": _CONNECT_SECONDS,
                "read_timeout": _READ_SECONDS,
                "retries": {"max_attempts": 1},
            }
        try:
            self._files, root = fsspec.core.url_to_fs(url, **options)
        except ImportError as error:
            extra = "'scenewright[s3]'" if scheme in ("s3", "s3a") else "the package it names"
            raise SettingsError(
                f"artifacts at {self.where} need a package that is missing ({error}): "
                f"pip install {extra}"
            ) from error
        except (ValueError, TypeError) as error:
            raise SettingsError(
                f"{self.where} cannot hold artifacts ({error}): write s3://BUCKET/FOLDER, or "
                "another URL of fsspec"
            ) from error
        self._root = str(root).rstrip("/")
        if scheme in ("s3", "s3a"):
            # As above: s3fs has tries of its own, too.
            self._files.retries = 1
        self._bucket = self._root.partition("/")[0] if scheme in ("s3", "s3a") else None

    def check(self) -> None:
        """Raise ``StoreAway`` without the bucket: to lists it looks like an empty one."""
        bucket = self._bucket
        if bucket is not None and not _steady(
            lambda: self._files.exists(bucket), self.where, self._pauses
        ):
            raise StoreAway(f"there is no bucket {bucket} for {self.where}: make it first")

    def put(self, key: str, data: bytes) -> None:
        """As :class:`Objects` says."""
        _steady(
            lambda: self._files.pipe_file(f"{self._root}/{key}", data), self.where, self._pauses
        )

    def get(self, key: str) -> bytes | None:
        """As :class:`Objects` says."""

        def read() -> bytes | None:
            try:
                return bytes(self._files.cat_file(f"{self._root}/{key}"))
            except FileNotFoundError:
                return None

        return _steady(read, self.where, self._pauses)

    def list(self, folder: str) -> Mapping[str, str]:
        """As :class:`Objects` says."""

        def find() -> dict[str, str]:
            try:
                found = self._files.find(f"{self._root}/{folder}", detail=True)
            except FileNotFoundError:
                return {}
            # Some file systems put a slash before the root.
            cut = len(self._root.strip("/")) + 1
            return {
                name.strip("/")[cut:]: _version(info)
                for name, info in found.items()
                if info.get("type") == "file"
            }

        return _steady(find, self.where, self._pauses)

    def delete(self, keys: Iterable[str]) -> None:
        """As :class:`Objects` says."""

        def remove() -> None:
            for key in keys:
                try:
                    self._files.rm_file(f"{self._root}/{key}")
                except FileNotFoundError:
                    continue

        keys = list(keys)
        _steady(remove, self.where, self._pauses)


def digest_of(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def _version(info: Mapping[str, Any]) -> str:
    known = [info.get(name) for name in ("ETag", "etag", "LastModified", "mtime", "created")]
    return ":".join(str(part) for part in (info.get("size"), *known) if part is not None)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def place_file(place: Path, data: bytes) -> None:
    """Write ``data`` so that the file is either the old one or the whole new one.

    Not flushed: the store has it, and what a power cut spoils is found out and fetched again.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
    try:
        draft.write_bytes(data)
        os.replace(draft, place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def same_digest(place: Path, digest: str) -> bool:
    """Whether the file is there and its SHA-256 (hex) is ``digest``."""
    try:
        return digest_of(place.read_bytes()) == digest
    except FileNotFoundError:
        return False


_LOG = re.compile(r"runs/[^/]+/events/(\d{6})-([0-9a-f]+)\.jsonl")
IMAGE = re.compile(r"runs/[^/]+/images/([0-9a-f]{64})\.png")
"""Key of an image."""
NOTE = re.compile(r"runs/[^/]+/requests/([0-9a-f]{64})\.json")
"""Key of what a request gave."""
PAID = re.compile(r"runs/[^/]+/answers/([0-9a-f]{64})\.jsonl")
"""Key of some answers."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The event log of one server."""

    number: int
    """The highest is the run's."""
    token: str
    """Tells apart two servers that took the same number; only one of them has the run."""

    def key(self, run: str) -> str:
        """Its key."""
        return f"runs/{run}/events/{self.number:06d}-{self.token}.jsonl"


def claims_among(keys: Iterable[str]) -> dict[Claim, str]:
    """Return the event logs among ``keys``."""
    found = {}
    for key in keys:
        match = _LOG.fullmatch(key)
        if match:
            found[Claim(int(match[1]), match[2])] = key
    return found


def newest(claims: Iterable[Claim]) -> list[Claim]:
    """Return the logs with the highest number.

    One, or more where servers met in the taking over.
    """
    claims = list(claims)
    highest = max((claim.number for claim in claims), default=0)
    return [claim for claim in claims if claim.number == highest]


def image_key(run: str, digest: str) -> str:
    """Key of an image of a run."""
    return f"runs/{run}/images/{digest}.png"


def whole_lines(data: bytes) -> bytes:
    """Return ``data`` up to its last line end."""
    return data[: data.rfind(b"\n") + 1]

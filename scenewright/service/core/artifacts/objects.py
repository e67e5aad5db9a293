"""The port of what keeps artifacts: named bytes, in a folder or wherever fsspec reaches.

An object is written whole or not at all, and whoever reads or lists after that finds it. S3,
Google Cloud Storage and Azure promise this.
"""

from __future__ import annotations

import errno
import functools
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import urlsplit

from scenewright.config.profiles import SettingsError
from scenewright.graphs.errors import RunInterrupted
from scenewright.service.core.artifacts.store_layout import digest_of, image_key, place_file

P = ParamSpec("P")
T = TypeVar("T")

PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds between the tries of a call to a store that fails."""
_CONNECT_SECONDS = 5
_READ_SECONDS = 30
_HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


_VERSION = ("size", "ETag", "etag", "LastModified", "mtime", "created")
"""Facts about a file that change when its bytes do, by the names of file systems."""


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

    def delete(self, keys: Collection[str]) -> None:
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


def fetch_image(objects: Objects, run: str, digest: str, place: Path) -> bool:
    """Bring an image of a run to ``place``.

    False without one there: what the store has, if anything, is not what its name tells.
    """
    data = objects.get(image_key(run, digest))
    if data is None or digest_of(data) != digest:
        return False
    place_file(place, data)
    return True


class _SteadyObjects:
    """A store whose calls are tried again."""

    def __init__(self, where: str, pauses: tuple[float, ...]) -> None:
        self.where = where
        self.pauses = pauses


Store = TypeVar("Store", bound=_SteadyObjects)


def _steady(method: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]:
    """Return ``method`` that is tried again after each of the store's pauses (seconds)."""

    @functools.wraps(method)
    def tried(self: Store, /, *args: P.args, **options: P.kwargs) -> T:
        for pause in (*self.pauses, None):
            try:
                return method(self, *args, **options)
            except Exception as error:
                # Each file system has errors of its own, not all of them ``OSError``.
                hopeless = isinstance(error, OSError) and error.errno in _HOPELESS
                if pause is None or hopeless or isinstance(error, PermissionError):
                    said = str(error).strip() or type(error).__name__
                    raise StoreAway(
                        f"the store of artifacts {self.where} cannot be used: {said[:300]}"
                    ) from error
                time.sleep(pause)
        raise AssertionError("unreachable")

    return tried


class FolderObjects(_SteadyObjects):
    """Objects as files of a folder that all servers reach, each replaced whole."""

    def __init__(self, folder: Path, pauses: tuple[float, ...] = PAUSES) -> None:
        """``folder`` is made when the first object comes."""
        super().__init__(str(folder), pauses)
        self._folder = folder

    @_steady
    def put(self, key: str, data: bytes) -> None:
        """As :class:`Objects` says; on the disk when this returns."""
        place_file(self._folder / key, data, flush=True)

    @_steady
    def get(self, key: str) -> bytes | None:
        """As :class:`Objects` says."""
        try:
            return (self._folder / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    @_steady
    def list(self, folder: str) -> Mapping[str, str]:
        """As :class:`Objects` says."""
        found = {}
        for place in sorted((self._folder / folder).rglob("*")):
            if place.name.endswith(".tmp") or place.is_dir():
                continue
            with suppress(FileNotFoundError):
                stat = place.stat()
                key = place.relative_to(self._folder).as_posix()
                found[key] = f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}"
        return found

    @_steady
    def delete(self, keys: Collection[str]) -> None:
        """As :class:`Objects` says; folders that are left empty go, too."""
        for key in keys:
            place = self._folder / key
            place.unlink(missing_ok=True)
            with suppress(OSError):
                for parent in place.parents:
                    if parent == self._folder:
                        break
                    parent.rmdir()


class FsspecObjects(_SteadyObjects):
    """Objects of any file system of fsspec that replaces a file whole."""

    def __init__(self, url: str, pauses: tuple[float, ...] = PAUSES) -> None:
        """Raise ``SettingsError`` for a URL of no kind that is known, or without its extra."""
        import fsspec

        scheme = url.partition("://")[0]
        parts = urlsplit(url)
        # Without what stands before the host: it may be a secret.
        where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        super().__init__(where, pauses)
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
        if self._bucket is not None and not self._exists(self._bucket):
            raise StoreAway(f"there is no bucket {self._bucket} for {self.where}: make it first")

    @_steady
    def _exists(self, path: str) -> bool:
        return bool(self._files.exists(path))

    @_steady
    def put(self, key: str, data: bytes) -> None:
        """As :class:`Objects` says."""
        self._files.pipe_file(f"{self._root}/{key}", data)

    @_steady
    def get(self, key: str) -> bytes | None:
        """As :class:`Objects` says."""
        try:
            return bytes(self._files.cat_file(f"{self._root}/{key}"))
        except FileNotFoundError:
            return None

    @_steady
    def list(self, folder: str) -> Mapping[str, str]:
        """As :class:`Objects` says."""
        try:
            found = self._files.find(f"{self._root}/{folder}", detail=True)
        except FileNotFoundError:
            return {}
        # Some file systems put a slash before the root.
        cut = len(self._root.strip("/")) + 1
        return {
            name.strip("/")[cut:]: ":".join(
                str(info[part]) for part in _VERSION if info.get(part) is not None
            )
            for name, info in found.items()
            if info.get("type") == "file"
        }

    @_steady
    def delete(self, keys: Collection[str]) -> None:
        """As :class:`Objects` says."""
        for key in keys:
            with suppress(FileNotFoundError):
                self._files.rm_file(f"{self._root}/{key}")

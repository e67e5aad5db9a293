"""One file from one address: goes on where it stopped, and appears whole or not at all.

What has come grows as ``NAME.incomplete``; beside it ``NAME.incomplete.json`` says of which version
of which address it is a part. A server is asked for the rest of that version only (``Range`` with
``If-Range``); one that knows no ranges, or has another version by now, sends all of it anew.
"""

from __future__ import annotations

import errno
import json
import os
import re
import ssl
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx2

from scenewright.core.flushing import flush
from scenewright.providers.hub.needs import PARTIAL, free_bytes, size_words
from scenewright.providers.hub.pull import PullCallbacks

CONNECT_SECONDS, READ_SECONDS = 20.0, 60.0
TRIES = 5
"""Times in a row that a transfer may break off without a byte more."""
PAUSE_SECONDS = 1.0
"""Before the second try; doubled for each further one."""
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class DownloadError(RuntimeError):
    """A file that could not be fetched: says why, what is kept, and how to go on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says of a file before it comes."""

    size: int | None
    """Bytes; none if it does not say."""
    version: str
    """Strong ETag or date of the last change; empty if it names none."""


@cache
def _certificates() -> ssl.SSLContext:
    # Reading them takes longer than a small file.
    return httpx2.create_ssl_context()


def make_client() -> httpx2.Client:
    """A client for large files; proxies come from the environment."""
    return httpx2.Client(
        verify=_certificates(),
        follow_redirects=True,
        timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        headers={"Accept-Encoding": "identity", "User-Agent": "scenewright"},
    )


def ask(client: httpx2.Client, address: str) -> Answer | None:
    """What the server says of ``address``; none if it cannot be asked."""
    try:
        answer = client.head(address)
    except httpx2.HTTPError:
        return None
    return _answer(answer.headers, 0) if answer.status_code == 200 else Answer(None, "")


def partial_of(place: Path) -> Path:
    """Where the beginning of ``place`` grows."""
    return place.with_name(place.name + PARTIAL)


def discard(place: Path) -> None:
    """Throw away what has come of ``place``."""
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
    """The whole content of ``address`` as the file beside ``place`` that :func:`partial_of` names.

    ``sure`` says that the caller knows its digest, so that any beginning may be continued;
    ``expected`` is then its size in bytes. Raises ``DownloadError``; what has come by then stays.
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
            problem = f"{type(error).__name__}: {error}".rstrip(": ")
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
    """The server may answer differently in a while."""


def _receive(
    client: httpx2.Client,
    address: str,
    place: Path,
    watch: PullCallbacks,
    *,
    sure: bool,
    expected: int | None,
) -> bool:
    """One request; whether all has come."""
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
            watch.told(f"{place.name} comes anew: the server has no rest of what is here")
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
                "it, or a page of the network stands in its place. Nothing was kept of it"
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
    """Of which version the beginning is that lies here; empty if that is not known."""
    try:
        note = json.loads(_note(place).read_text(encoding="utf-8"))
        return str(note["version"]) if note["address"] == address else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _continues(content_range: str, have: int) -> bool:
    found = re.match(r"bytes (\d+)-", content_range)
    return found is not None and int(found[1]) == have


def _beyond(content_range: str, have: int, place: Path, watch: PullCallbacks) -> bool:
    """Nothing lies behind what is here: that is all of it, or no beginning of it."""
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
    """A file that was checked takes its place; nobody sees a part of it."""
    os.replace(partial, place)
    _note(place).unlink(missing_ok=True)
    flush(place.parent)

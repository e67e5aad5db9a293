"""A file with a line for each paid request: what a lab that is killed has counted until then."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from scenewright.mock_providers.faults import LabError


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was answered."""

    account: str
    """Its account, as reports call it."""
    key: str
    """Its ``Idempotency-Key``; empty without one."""
    asked: str
    """SHA-256 (hex) of what it asked."""
    arrived: float
    """When it was there, Unix seconds."""
    executed: bool
    """Whether a model answered it: what a provider bills. Else it got an earlier one's reply."""


class RequestLog:
    """Adds lines to a file; labs that follow each other may share it."""

    def __init__(self, path: Path) -> None:
        """Makes the file where there is none. Raises ``LabError``."""
        self._path = path
        try:
            self._add(b"")
        except OSError as error:
            raise LabError(
                f"the log of requests {path} cannot be written: {error.strerror}. Name a file in a "
                "folder that is there and writable"
            ) from error

    def note(self, account: str, key: str, asked: str, received: float, *, executed: bool) -> None:
        """Add a request that was ``received`` at that monotonic time, before it is replied to."""
        arrived = time.time() - (time.monotonic() - received)
        line = json.dumps(asdict(Request(account, key, asked, arrived, executed)))
        self._add(f"{line}\n".encode())

    def _add(self, data: bytes) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # One write: a kill leaves no half of a line.
            os.write(file, data)
        finally:
            os.close(file)


def read_requests(path: Path) -> Iterator[Request]:
    """The requests of a log, in the order in which they were answered; none without a file."""
    if not path.exists():
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield Request(**json.loads(line))

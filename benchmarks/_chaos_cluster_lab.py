"""A lab in a process of its own that is killed and started again at its address."""

from __future__ import annotations

import multiprocessing
import socket
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from scenewright.mock_providers.accounts import Request, read_requests
from scenewright.mock_providers.serving import serving_thread
from scenewright.mock_providers.settings import LabSettings


def _serve(pipe: Connection, settings: LabSettings) -> None:
    with serving_thread(settings) as lab:
        pipe.send("serves")
        # Ends with whoever started it, too.
        with suppress(EOFError):
            while True:
                key = pipe.recv()
                pipe.send(lab.report()["accounts"].get(key, {}))


class MortalLab:
    """A lab whose log outlives it, and which always draws the same for the same request."""

    def __init__(self, settings: LabSettings, log: Path) -> None:
        """``log``: the file that gets a line for each request."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        self._settings = replace(settings, port=port, request_log=log, same_pictures=True)
        self._log = log
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self.url = f"http://127.0.0.1:{port}"
        """``http://HOST:PORT``."""
        self.killed: list[float] = []
        """When it was killed, Unix seconds."""

    def start(self) -> None:
        """Start it and wait until it serves."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._settings), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        assert self._process is not None
        self.killed.append(time.time())
        self._ended()

    def stop(self) -> None:
        """End it, if it still runs."""
        if self._process is not None:
            self._ended()

    def account(self, key: str) -> dict[str, Any]:
        """What the lab that runs now has counted for an API key; empty before its first request."""
        assert self._pipe is not None
        self._pipe.send(key)
        found: dict[str, Any] = self._pipe.recv()
        return found

    def answered(self) -> int:
        """How many requests all labs here have answered."""
        return self._log.read_bytes().count(b"\n") if self._log.exists() else 0

    def requests(self) -> list[Request]:
        """What all labs here have answered."""
        return list(read_requests(self._log))

    def _ended(self) -> None:
        assert self._process is not None
        assert self._pipe is not None
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._process = None

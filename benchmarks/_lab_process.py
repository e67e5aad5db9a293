"""A lab in a process of its own, so that it takes no time from the client that is measured."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from scenewright.mock_providers.serving import serving_thread
from scenewright.mock_providers.settings import LabSettings


class LabProcess:
    """A lab in another process."""

    def __init__(self, url: str, pipe: Connection) -> None:
        """``pipe``: to the process."""
        self.url = url
        """``http://HOST:PORT``."""
        self._pipe = pipe

    def account(self, key: str) -> dict[str, Any]:
        """What the lab counted for an API key; empty before its first request."""
        self._pipe.send("report")
        found: dict[str, Any] = self._pipe.recv()["accounts"].get(key, {})
        return found


def _serve(pipe: Connection, settings: LabSettings) -> None:
    with serving_thread(settings) as lab:
        pipe.send(lab.url)
        while pipe.recv() != "stop":
            pipe.send(lab.report())


@contextmanager
def lab_process(settings: LabSettings) -> Iterator[LabProcess]:
    """Serve a lab in a new process; raises ``LabError`` where its address cannot be had."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, settings), daemon=True)
    process.start()
    try:
        theirs.close()
        yield LabProcess(ours.recv(), ours)
        ours.send("stop")
    finally:
        process.join(10)
        if process.is_alive():
            process.terminate()

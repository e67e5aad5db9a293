"""``scenewright serve`` in a process of its own, whose models are all in a lab: to be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2

PAINTER, PANEL, REPORTER = "key-that-draws", "key-that-judges", "key-that-reports"
"""API keys at the lab: an account each, so that the lab counts them apart."""
_START_SECONDS = 60.0
_TOML = """\
profile = "chaos"

[accounts.painter]
provider = "openai"
base_url = "{lab}/v1"
key_variable = "KEY_OF_THE_PAINTER"
attempts = {attempts}

[accounts.panel]
provider = "openai"
base_url = "{lab}/v1"
key_variable = "KEY_OF_THE_PANEL"
attempts = {attempts}

[accounts.reporter]
provider = "anthropic"
base_url = "{lab}"
key_variable = "KEY_OF_THE_REPORTER"
aliases = {{ instant = "reporter" }}   # another model than the panel's
attempts = {attempts}

[profiles.chaos]
backend = {{ kind = "painter", model = "instant-image" }}
judges = ["panel:instant"]
report_judges = ["reporter:instant"]
"""


def environment() -> dict[str, str]:
    """That of a process that calls the lab."""
    return {
        **os.environ,
        "KEY_OF_THE_PAINTER": PAINTER,
        "KEY_OF_THE_PANEL": PANEL,
        "KEY_OF_THE_REPORTER": REPORTER,
        "OMP_NUM_THREADS": "1",
    }


class ServiceProcess:
    """A server that is started, killed and started again on the same port and data."""

    def __init__(
        self,
        folder: Path,
        lab: str,
        *,
        database: str | None,
        running: int,
        attempts: int = 6,
        more: Sequence[str] = (),
    ) -> None:
        """``folder`` is made; ``lab`` is the lab's address, ``running`` the runs driven at once.

        ``attempts``: how often a call is sent; ``more``: further options of the command.
        """
        folder.mkdir(parents=True, exist_ok=True)
        text = _TOML.format(lab=lab, attempts=attempts)
        (folder / "scenewright.toml").write_text(text, encoding="utf-8")
        self._more = more
        self.folder = folder
        self.database = database
        self.running = running
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> float:
        """Start it and wait until it takes work; the seconds that took."""
        begun = time.monotonic()
        process = self._process = self._launched()
        async with httpx2.AsyncClient(timeout=5) as client:
            while time.monotonic() < begun + _START_SECONDS:
                if process.poll() is not None:
                    break
                try:
                    if (await client.get(f"{self.url}/readyz")).status_code == 200:
                        return time.monotonic() - begun
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.02)
        raise RuntimeError(f"the server did not start: see {self.folder / 'server.log'}")

    def _launched(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-m", "scenewright", "serve", "--port", str(self.port),
            "--data", "data", "--running", str(self.running), "--queue", "100000",
            *self._more,
        ]  # fmt: skip
        if self.database is not None:
            command += ["--database", self.database]
        with open(self.folder / "server.log", "ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment(), stdout=log, stderr=log
            )

    async def kill(self, number: int = signal.SIGKILL) -> int:
        """End it by a signal, at once or (SIGTERM) as it likes; its exit status once it ended."""
        assert self._process is not None
        self._process.send_signal(number)
        status = await asyncio.to_thread(self._process.wait, 60)
        self._process = None
        return status

    async def stop(self) -> None:
        """End it, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            await self.kill()

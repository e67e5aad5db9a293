"""Mock providers, servers, workers and clusters in processes of their own, which can be killed."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
import openai
import psutil
from PIL import Image

from scenewright.agents.judges.sheet import TOOL, sheet_of
from scenewright.core.facts import Fact
from scenewright.mock_providers.accounts import Request, read_requests
from scenewright.mock_providers.serving import serving_thread
from scenewright.mock_providers.settings import MockSettings

T = TypeVar("T")
THINGS = ("ball", "dog", "table", "lamp", "house", "car", "tree", "boat", "person", "umbrella")
COLORS = ("red", "green", "blue", "yellow", "purple", "black")
PREDICATES = ("on", "left of", "right of", "above", "near")
"""Words of the benchmarks' scenes, all of them known to the miniature models."""
PAINTER, PANEL, REPORTER = "key-that-draws", "key-that-judges", "key-that-reports"
"""API keys at the mock providers: an account each, so that they are counted apart."""
KEYS = {
    "KEY_OF_THE_PAINTER": PAINTER,
    "KEY_OF_THE_PANEL": PANEL,
    "KEY_OF_THE_REPORTER": REPORTER,
}
"""Environment of a service whose models are all there."""
_START_SECONDS = 60.0


def _serve(pipe: Connection, settings: MockSettings) -> None:
    with serving_thread(settings) as lab:
        pipe.send(lab.url)
        # Ends with the process that started it.
        with suppress(EOFError):
            while True:
                key = pipe.recv()
                pipe.send(lab.report()["accounts"].get(key, {}))


def spawned(target: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """Start ``target(pipe, *arguments)`` in a new process; return it with our end of the pipe."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def apart(work: Callable[..., T], *arguments: Any, prepare: Callable[[], Any] | None = None) -> T:
    """Return ``work(*arguments)`` of a new process, in which ``prepare`` ran before."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, prepare) as pool:
        return pool.submit(work, *arguments).result()


class MockServer:
    """Mock providers in another process: they take no time from the client that is measured."""

    def __init__(self, settings: MockSettings | None = None, log: Path | None = None) -> None:
        """Keep a ``log`` of requests that outlives a kill, and draw the same for equal requests."""
        self._settings = settings or MockSettings()
        self._log = log
        if log is not None:
            self._settings = replace(self._settings, request_log=log, same_pictures=True)
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self.url = ""
        """``http://HOST:PORT``, the same after a kill."""
        self.killed: list[float] = []
        """Times of kills, Unix seconds."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it serves."""
        self._process, self._pipe = spawned(_serve, self._settings)
        self.url = self._pipe.recv()
        self._settings = replace(self._settings, port=int(self.url.rpartition(":")[2]))

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self.killed.append(time.time())
        self.stop()

    def stop(self) -> None:
        """End it, if it still runs."""
        if self._process is not None:
            assert self._pipe is not None
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def account(self, key: str) -> dict[str, Any]:
        """Return the counts of an API key since the last start; empty before its first request."""
        assert self._pipe is not None
        self._pipe.send(key)
        found: dict[str, Any] = self._pipe.recv()
        return found

    def count(self, what: str, keys: Sequence[str]) -> int:
        """Return the sum of one count over ``keys``."""
        return sum(int(self.account(key).get(what, 0)) for key in keys)

    def answered(self) -> int:
        """Count the requests in the log."""
        assert self._log is not None
        return self._log.read_bytes().count(b"\n") if self._log.exists() else 0

    def requests(self) -> list[Request]:
        """Return the requests in the log."""
        assert self._log is not None
        return list(read_requests(self._log))


class Child:
    """A command in another process that is started, killed and started again."""

    def __init__(
        self, command: Sequence[str], folder: Path, log: str, env: Mapping[str, str] | None = None
    ) -> None:
        """Name the command, the folder it runs in and the file there that gets its output."""
        self._command, self._folder, self._log = list(command), folder, folder / log
        self._env = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._env, stdout=log, stderr=log
            )

    def poll(self) -> int | None:
        """Return its exit status; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End it by a signal and return its exit status; ``RuntimeError`` if it had ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"{' '.join(self._command)} ended by itself: {self.said()}")
        self._process.send_signal(number)
        return self._process.wait(60)

    def stop(self) -> None:
        """End it, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def said(self) -> str:
        """Return the end of its output."""
        return self._log.read_text(errors="replace")[-3000:]


class ServiceProcess:
    """``scenewright serve`` with all models at the mock providers, on one port and one folder."""

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
        """Write the settings into ``folder``, which is made.

        ``lab``: address of the mock providers; ``running``: runs driven at once; ``attempts``: how
        often a call is sent; ``more``: further options of the command.
        """
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder, service_settings(lab, attempts=attempts))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{port}"
        command = [
            *(sys.executable, "-m", "scenewright", "serve", "--port", str(port)),
            *("--data", "data", "--running", str(running), "--queue", "100000"),
            *(("--database", database) if database is not None else ()),
            *more,
        ]
        self._child = Child(command, folder, "server.log", KEYS)

    async def start(self) -> float:
        """Start it, wait until it takes work and return the seconds that took."""
        begun = time.monotonic()
        self._child.start()
        async with httpx2.AsyncClient(timeout=5) as client:
            while time.monotonic() < begun + _START_SECONDS and self._child.poll() is None:
                with suppress(httpx2.TransportError):
                    if (await client.get(f"{self.url}/readyz")).status_code == 200:
                        return time.monotonic() - begun
                await asyncio.sleep(0.02)
        raise RuntimeError(f"the server did not start: {self._child.said()}")

    async def kill(self, number: int = signal.SIGKILL) -> int:
        """End it by a signal and return its exit status."""
        return await asyncio.to_thread(self._child.kill, number)

    async def stop(self) -> None:
        """End it, if it still runs."""
        await asyncio.to_thread(self._child.stop)


class MortalCluster:
    """A Ray cluster on this machine: a head and ``nodes`` others with one CPU each."""

    def __init__(self, nodes: int, cpus: int = 1) -> None:
        """Start it in a temporary folder; other clusters of the machine are not touched.

        ``cpus``: those of the head. Keys of accounts must be in the environment by now.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        self._before = os.environ.get("RAY_TMPDIR")
        paths = filter(None, (os.getcwd(), os.environ.get("PYTHONPATH")))
        os.environ |= {
            "RAY_TMPDIR": self._folder.name,
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        from ray.cluster_utils import Cluster

        self._cluster: Any = Cluster(
            initialize_head=True, head_node_args={"num_cpus": cpus, "include_dashboard": False}
        )
        for _ in range(nodes):
            self._cluster.add_node(num_cpus=1)
        self.address: str = self._cluster.address
        """``HOST:PORT``."""

    def workers(self) -> list[int]:
        """Return the ids of the processes of the engine's workers."""
        found = []
        for node in self._cluster.list_all_nodes():
            for started in node.all_processes.get("raylet", ()):
                with suppress(psutil.Error):
                    for one in psutil.Process(started.process.pid).children(recursive=True):
                        with suppress(psutil.Error):
                            if " ".join(one.cmdline()).startswith("ray::Worker"):
                                found.append(one.pid)
        return sorted(found)

    def kill_worker(self, rng: random.Random) -> bool:
        """Kill one worker (SIGKILL); return whether there was one."""
        with suppress(psutil.NoSuchProcess, IndexError):
            psutil.Process(rng.choice(self.workers())).kill()
            return True
        return False

    def kill_node(self, rng: random.Random) -> None:
        """Kill a node that is not the head (SIGKILL to its processes), and add another."""
        nodes = sorted(self._cluster.worker_nodes, key=lambda node: str(node.unique_id))
        self._cluster.remove_node(rng.choice(nodes), allow_graceful=False)
        self._cluster.add_node(num_cpus=1)

    def stop(self) -> None:
        """End all of it."""
        self._cluster.shutdown()
        self._folder.cleanup()
        if self._before is None:
            del os.environ["RAY_TMPDIR"]
        else:
            os.environ["RAY_TMPDIR"] = self._before


@contextmanager
def database(server: str) -> Iterator[str]:
    """Yield the URL of an empty database on ``server``, a URL without a database's name."""
    import psycopg

    name = f"bench_{secrets.token_hex(6)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield f"{server}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def cut_off(url: str) -> int:
    """End all other connections to the database at ``url``; return how many there were."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchall()
    return len(rows)


def account(url: str, variable: str, provider: str = "openai", **more: Any) -> dict[str, Any]:
    """Return an account at the mock providers with that address, as settings have it."""
    base = f"{url}/v1" if provider == "openai" else url
    return {"provider": provider, "base_url": base, "key_variable": variable, **more}


def lab_profile(judge: str, **more: Any) -> dict[str, Any]:
    """Return a profile that draws with the first account of ``more`` or ``lab``."""
    return {"backend": {"kind": "lab", "model": "instant-image"}, "judges": [judge], **more}


def service_settings(lab: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a service whose models are all at the mock providers."""
    painter, panel, reporter = KEYS
    reports = account(lab, reporter, "anthropic", aliases={"instant": "reporter"}, **more)
    return {
        "profile": "lab",
        "accounts": {
            "painter": account(lab, painter, **more),
            "panel": account(lab, panel, **more),
            # Under an alias it is another model than the panel's.
            "reporter": reports,
        },
        "profiles": {
            "lab": lab_profile(
                "panel:instant",
                backend={"kind": "painter", "model": "instant-image"},
                report_judges=["reporter:instant"],
            )
        },
    }


def toml(values: Mapping[str, Any], *path: str) -> str:
    """Return nested tables of plain values as TOML."""
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    plain = [f"{key} = {json.dumps(v)}\n" for key, v in values.items() if key not in tables]
    head = f"[{'.'.join(path)}]\n" if path and plain else ""
    return head + "".join(plain) + "".join(toml(v, *path, key) for key, v in tables.items())


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write ``settings`` to ``scenewright.toml`` in ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenewright.toml").write_text(toml(settings), encoding="utf-8")


def picture(number: int) -> Image.Image:
    """Return a small picture that no other number has."""
    image = Image.new("RGB", (64, 64), (number % 251, number // 251 % 251, 90))
    image.paste((20, 60, 220), (8, 8, 30 + number % 20, 40))
    return image


async def plain_answers(
    client: openai.AsyncOpenAI, model: str, png: str, facts: Sequence[Fact]
) -> list[Any]:
    """Ask all ``facts`` of a picture (base64) as a plain script does, by the provider's SDK."""
    sheet = sheet_of(facts)
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}}
    asked: dict[str, Any] = {
        "messages": [
            {"role": "system", "content": sheet.instructions},
            {"role": "user", "content": [shown, {"type": "text", "text": sheet.text}]},
        ],
        "tools": [{"type": "function", "function": {"name": TOOL, "parameters": sheet.schema}}],
        "tool_choice": {"type": "function", "function": {"name": TOOL}},
    }
    reply = await client.chat.completions.create(model=model, **asked)
    calls: Any = reply.choices[0].message.tool_calls or []
    found: list[Any] = json.loads(calls[0].function.arguments)["answers"]
    return found

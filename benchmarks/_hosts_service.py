"""The service on hosts that share a database and a store of artifacts, and no files."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from PIL import Image

from benchmarks._chaos import ENDED, end_of, request
from benchmarks._hosts import HOME, Host, Lan
from benchmarks._lab_process import lab_process
from benchmarks.chaos import SERVER
from scenewright.core.images import hash_of_image
from scenewright.mock_providers.settings import LabSettings

LATENCY = 0.2
RUNNING = 4
BUCKET = "scenes"
LEASE_SECONDS = 5
_START_SECONDS = 120.0
_END_SECONDS = 240.0
_KEYS = {f"KEY_THAT_{does.upper()}": f"key-that-{does}" for does in ("draws", "judges", "reports")}
_TOML = """\
profile = "hosts"

[accounts.painter]
provider = "openai"
base_url = "{lab}/v1"
key_variable = "KEY_THAT_DRAWS"

[accounts.panel]
provider = "openai"
base_url = "{lab}/v1"
key_variable = "KEY_THAT_JUDGES"

[accounts.reporter]
provider = "anthropic"
base_url = "{lab}"
key_variable = "KEY_THAT_REPORTS"
aliases = {{ instant = "reporter" }}   # another model than the panel's

[profiles.hosts]
backend = {{ kind = "painter", model = "instant-image" }}
judges = ["panel:instant"]
report_judges = ["reporter:instant"]
"""


@dataclass(slots=True)
class Served:
    """What became of the runs."""

    ends: dict[str, Any] = field(default_factory=dict)
    """Idempotency key of a request → how its run ended."""
    pictures: int = 0
    """Pictures of rounds that the API gave out whole."""
    missing: int = 0
    """Pictures that it did not."""
    executed: int = 0
    """Requests that a model answered."""
    twice: int = 0
    """Those whose key had been answered before."""
    replayed: int = 0
    """Requests that got the reply of an earlier one."""
    taken_over: int = 0
    """Runs that the host which was cut off had at work, and others ended."""


@contextmanager
def forwarded(address: str, port: int, to: tuple[str, int]) -> Iterator[int]:
    """A port of ``address`` whose connections lead ``to`` where only this machine reaches."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*to)
        # Its end is that of the block: streams would complain of a connection cut off then.
        with suppress(asyncio.CancelledError):
            await asyncio.gather(pump(reader, back), pump(there, writer))

    async def serve() -> None:
        server = await asyncio.start_server(connect, address, port)
        stop = asyncio.Event()
        listening.set_result(
            (int(server.sockets[0].getsockname()[1]), asyncio.get_running_loop(), stop)
        )
        await stop.wait()
        server.close()

    def run() -> None:
        try:
            asyncio.run(serve())
        except OSError as error:
            listening.set_exception(error)

    listening: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    number, loop, stop = listening.result(30)
    try:
        yield number
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def object_store(address: str) -> Iterator[dict[str, str]]:
    """A server that speaks S3, with an empty bucket; the variables that lead to it."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(address, port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        url, region = f"http://{address}:{port}", "us-east-1"
        secret = {"aws_access_key_id": "own", "aws_secret_access_key": "own"}
        boto3.client("s3", endpoint_url=url, region_name=region, **secret).create_bucket(
            Bucket=BUCKET
        )
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_DEFAULT_REGION": region,
            **{name.upper(): value for name, value in secret.items()},
        }
    finally:
        server.stop()


class Fleet:
    """A server on the first host, a worker on each of the others."""

    def __init__(self, lan: Lan, lab: str, url: str, store: dict[str, str]) -> None:
        """``url``: of the database. Waits until all are ready."""
        self.host, self._workers = lan.hosts[0], lan.hosts[1:]
        self._env = {
            **_KEYS,
            **store,
            "OMP_NUM_THREADS": "1",
            "SCENEWRIGHT_SERVICE_DATABASE": url,
            "SCENEWRIGHT_SERVICE_ARTIFACTS": f"s3://{BUCKET}/service",
            "SCENEWRIGHT_SERVICE_LEASE_SECONDS": str(LEASE_SECONDS),
            "SCENEWRIGHT_SERVICE_RUNNING": str(RUNNING),
        }
        for host in lan.hosts:
            folder = host.path(f"{HOME}/service")
            folder.mkdir()
            (folder / "scenewright.toml").write_text(_TOML.format(lab=lab), encoding="utf-8")
        made = self._made("keys", "create", "bench", "--json")
        self.key = re.findall(r"sw_\w+", made)[0]
        command = ("serve", "--no-work", "--host", self.host.address, "--port", "8642")
        processes = {self.host: self._started(self.host, *command)}
        processes |= {host: self._started(host, "work") for host in self._workers}
        for host, process in processes.items():
            self._wait(host, process)

    def _made(self, *words: str) -> str:
        return self.host.run(
            [sys.executable, "-m", "scenewright", *words], self._env, cwd=f"{HOME}/service"
        )

    def _started(self, host: Host, *words: str) -> subprocess.Popen[str]:
        with _log(host).open("w") as log:
            return host.popen(
                [sys.executable, "-m", "scenewright", *words],
                self._env,
                f"{HOME}/service",
                stdout=log,
                stderr=log,
            )

    def _wait(self, host: Host, process: subprocess.Popen[str]) -> None:
        until = time.monotonic() + _START_SECONDS
        while "Ctrl-C" not in (said := _log(host).read_text()):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{host.name} did not start: {said}")
            time.sleep(0.05)

    def client(self) -> httpx2.Client:
        """A client of the API."""
        return httpx2.Client(
            base_url=f"http://{self.host.address}:8642",
            headers={"authorization": f"Bearer {self.key}"},
            timeout=60,
        )


def served(
    lan: Lan, runs: int, url: str, disturb: Callable[[], None] | None = None, after: int = 0
) -> Served:
    """Have a new fleet do ``runs`` runs with the empty database at ``url``.

    ``disturb`` is called when models have answered more than ``after`` requests. Raises
    ``RuntimeError`` for runs that do not end in time.
    """
    found = Served()
    with ExitStack() as stack:
        server, name = url.removeprefix("postgresql://postgres@").split("/")
        host, _, port = server.partition(":")
        port_here = stack.enter_context(forwarded(lan.address, 0, (host, int(port))))
        reached = f"postgresql://postgres@{lan.address}:{port_here}/{name}"
        store = stack.enter_context(object_store(lan.address))
        lab = stack.enter_context(lab_process(LabSettings(host=lan.address, latency=LATENCY)))
        fleet = Fleet(lan, lab.url, reached, store)
        client = stack.enter_context(fleet.client())

        def count(what: str) -> int:
            return sum(int(lab.account(key).get(what, 0)) for key in _KEYS.values())

        asked = [request(number) for number in range(runs)]
        ids = {one["idempotency_key"]: _posted(client, one) for one in asked}
        orphans: set[str] = set()
        if disturb is not None:
            until = time.monotonic() + _END_SECONDS
            while count("executed") <= after and time.monotonic() < until:
                time.sleep(0.05)
            disturb()
            orphans = at_work(url, lan.hosts[1].name)
        views = {key: _ended(client, run) for key, run in ids.items()}
        found.ends = {key: end_of(view) for key, view in views.items()}
        found.taken_over = sum(
            view["id"] in orphans and view["status"] == "finished" for view in views.values()
        )
        for view in views.values():
            good, bad = _pictures(client, view)
            found.pictures += good
            found.missing += bad
        found.executed, found.twice = count("executed"), count("executed_twice")
        found.replayed = count("replayed")
    return found


def at_work(url: str, host: str) -> set[str]:
    """The runs that ``host`` has at work, as the database at ``url`` says."""
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT id FROM runs WHERE owner LIKE %s", [f"{host}|%"])
        return {row[0] for row in rows.fetchall()}


def _posted(client: httpx2.Client, asked: dict[str, Any]) -> str:
    reply = client.post("/v1/refinements", json=asked)
    if reply.is_error:
        raise RuntimeError(f"a run was refused: {reply.status_code} {reply.text}")
    return str(reply.json()["id"])


def _ended(client: httpx2.Client, run: str) -> dict[str, Any]:
    until = time.monotonic() + _END_SECONDS
    while time.monotonic() < until:
        view: dict[str, Any] = client.get(f"/v1/refinements/{run}").raise_for_status().json()
        if view["status"] in ENDED:
            return view
        time.sleep(0.1)
    raise RuntimeError(f"the run {run} did not end: {view}")


def _pictures(client: httpx2.Client, view: dict[str, Any]) -> tuple[int, int]:
    """How many pictures of a run the API gives out as they were drawn, and how many not."""
    names = [
        one["hash"]
        for round_ in view["rounds"]
        for one in (round_["image"], round_["reference"])
        if one
    ]
    good = 0
    for name in names:
        reply = client.get(f"/v1/refinements/{view['id']}/images/{name}")
        if reply.status_code == 200:
            good += hash_of_image(Image.open(io.BytesIO(reply.content))) == name
    return good, len(names) - good


def _log(host: Host) -> Path:
    return host.path(f"{HOME}/service/log")


@contextmanager
def empty_database() -> Iterator[str]:
    """The URL of an empty database of this machine's PostgreSQL, dropped at the end."""
    import psycopg

    name = f"scenewright_hosts_{secrets.token_hex(4)}"
    with psycopg.connect(f"{SERVER}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{SERVER}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

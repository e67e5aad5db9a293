"""Does what is said of many machines hold where they share no files?

``python -m benchmarks.hosts [--quick]``, as root. Three hosts are made on this machine, each with
a network, file systems, processes and a name of its own; the installation is the same on all and
can only be read. Without root or iproute2 the reason is told and nothing is measured.

A Ray cluster of the three runs an evaluation, whose models are behind the mock, twice: undisturbed,
and while the cable of one host is pulled and, later, all processes of another one are killed.

- ``same.lab``, ``same.disturbed``: share of the rows of all tables that the local engine has too,
  but for the seconds that something took; ``same.miniature`` is that of an evaluation with the
  generator and a judge of this package;
- ``lost``: drawings, scores and pictures that the disturbed one lacks;
- ``repeated_in_flight``: requests that were sent again for the ``in_flight`` items that the lost
  hosts had at work; a loop under way begins anew, so this is more than one an item;
- ``answered_twice``: those of them that a model answered anew. The others got the reply of before,
  by their key;
- ``requests.HOST``: requests of each host in the undisturbed one;
- ``files_elsewhere``: files that evaluations left on hosts other than the one they began on.

The service then does the same runs twice: an API on one host, a worker on each of the others,
PostgreSQL and a store that speaks S3 (moto) on this machine. The second time the cable of a worker
is pulled. ``service.lost`` runs ended otherwise than undisturbed, ``service.taken_over`` were at
work on the lost host and ended on the other, ``service.pictures`` came from the API as they were
drawn. Requests are counted as above. This part needs PostgreSQL on port 5432 and ``moto[server]``.
"""

from __future__ import annotations

import io
import logging
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from PIL import Image

from benchmarks._harness import (
    SERVER,
    Skipped,
    benchmark,
    differences_shown,
    prefixed,
    work_folder,
)
from benchmarks._hosts import HOME, Host, HostsError, Lan, hosts
from benchmarks._mock import (
    KEYS,
    MockServer,
    account,
    database,
    lab_profile,
    service_settings,
    toml,
)
from benchmarks.chaos import ENDED, end_of, request
from scenewright.core.images import hash_of_image
from scenewright.evals.store.results import Results
from scenewright.mock_providers.settings import MockSettings

LATENCY = 0.2
AT_WORK = 4
"""Items at work in a worker, and runs that a worker of the service drives at once."""
LEASE_SECONDS = 5
BUCKET = "scenes"
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}
"""How long the head waits for a machine that does not answer; read by ``ray start``."""
_UNITS = {"rounds": ("item", "arm", "state"), "scores": ("item", "arm", "panel", "metric", "part")}
TABLES = ("items", "rounds", "answers", "verdicts", "scores")
SHARED, OWN = "BENCH_HOSTS_SHARED", "BENCH_HOSTS_OWN"
"""Hold an API key of all hosts, and one of each: its name, so that hosts are counted apart."""
_PORT = 6379
_START_SECONDS = 120.0
_END_SECONDS = 240.0
# The least that Ray takes is 75 MB; pictures go to the store's actor as arguments of calls.
_SMALL = ("--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats")
_SCENEWRIGHT = (sys.executable, "-m", "scenewright")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done."""

    items: int
    """Scenes whose models are mocked."""
    painted: int = 0
    """Scenes that the miniature draws; 0: neither they nor an undisturbed evaluation."""
    runs: int = 0
    """Runs of the service."""


QUICK, FULL = Plan(12), Plan(40, 4, 12)


@dataclass(frozen=True, slots=True)
class Ran:
    """An evaluation that ended."""

    results: Results
    """A copy of its folder."""
    answered: dict[str, int]
    """API key → requests that a model answered."""
    replayed: int
    """Requests that got the reply of an earlier one."""


def environment(host: Host) -> dict[str, str]:
    """Return the environment of Ray and of all that it starts on ``host``."""
    keys = {SHARED: "shared", OWN: host.name}
    return {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", **keys, **HEALTH}


class Evaluations:
    """Evaluations on a Ray cluster of hosts, the first of which is the head.

    Each has mock providers of its own, since they draw another picture when asked the same again.
    """

    def __init__(self, lan: Lan, copies: Path) -> None:
        """Start the cluster; folders of evaluations are copied below ``copies``."""
        self._lan, self._copies, self._head = lan, copies, lan.hosts[0]
        self._start(self._head, "--head", f"--port={_PORT}", "--include-dashboard=false")()
        address = f"--address={self._head.address}:{_PORT}"
        for joined in [self._start(host, address) for host in lan.hosts[1:]]:
            joined()

    def _start(self, host: Host, *options: str) -> Callable[[], None]:
        """Begin to start Ray on ``host``; the result waits until it is up."""
        file = host.path(f"{HOME}/ray.log")
        script = str(Path(sys.executable).parent / "ray")
        command = [script, "start", f"--node-ip-address={host.address}", *options, *_SMALL]
        with file.open("a") as log:
            process = host.popen(command, environment(host), stdout=log, stderr=log)

        def started() -> None:
            if process.wait(_START_SECONDS):
                raise RuntimeError(f"{host.name}: Ray did not start: {file.read_text()}")

        return started

    def run(
        self,
        name: str,
        out: str,
        workers: int | None,
        config: dict[str, Any],
        settings: dict[str, Any],
        disturb: Callable[[subprocess.Popen[str]], None] | None = None,
    ) -> Results:
        """Run ``scenewright eval run`` on the head; without ``workers`` by the local engine.

        Raises ``RuntimeError`` if it fails, leaves something unscored or takes too long.
        """
        folder = self._head.path(f"{HOME}/{name}")
        folder.mkdir(exist_ok=True)
        (folder / "case.toml").write_text(toml({"name": name, **config}), encoding="utf-8")
        (folder / "scenewright.toml").write_text(toml(settings), encoding="utf-8")
        command = [*_SCENEWRIGHT, "eval", "run", "case.toml", "--out", out]
        command += ["--yes", "--quiet", "--json"]
        if workers is not None:
            command += ["--engine", "ray", "--address", "auto", "--workers", str(workers)]
        begun = time.perf_counter()
        with (folder / f"{out}.log").open("w") as log:
            env = environment(self._head)
            process = self._head.popen(command, env, f"{HOME}/{name}", stdout=log, stderr=log)
        if disturb is not None:
            disturb(process)
        try:
            status = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            status = -1
        if status:
            why = "did not end" if status < 0 else f"gave {status}"
            raise RuntimeError(f"{name} {out} {why}: {(folder / f'{out}.log').read_text()}")
        copy = self._copies / f"{name}-{out}"
        shutil.copytree(folder / out, copy)
        print(f"{name} {out}: {time.perf_counter() - begun:.0f} s", flush=True)
        return Results(copy)

    def mocked(
        self,
        out: str,
        items: int,
        workers: int | None = None,
        key: str = SHARED,
        disturb: Callable[[Callable[[], int], subprocess.Popen[str]], None] | None = None,
    ) -> Ran:
        """Run one with mock models; ``disturb`` is given the count of requests so far."""
        keys = ["shared", *(host.name for host in self._lan.hosts)]
        with MockServer(MockSettings(host=self._lan.address, latency=LATENCY)) as lab:
            settings = {
                "accounts": {"lab": account(lab.url, key, concurrent=64)},
                "profiles": {"lab": lab_profile("lab:instant")},
            }
            # What is compared is which worker does it: the judge that steers may report too.
            config = config_of(items, AT_WORK) | {
                "backends": ["lab"],
                "conditions": ["triplets", "feedback"],
                "panels": {"own": {"judges": ["lab:instant"]}},
                "allow_loop_judges": True,
            }
            counted = partial(lab.count, "executed", keys)
            hit = disturb and partial(disturb, counted)
            results = self.run("lab", out, workers, config, settings, hit)
            answered = {key: lab.count("executed", [key]) for key in keys}
            return Ran(results, answered, lab.count("replayed", keys))


def config_of(items: int, concurrency: int) -> dict[str, Any]:
    """Return the configuration of an evaluation of painted scenes."""
    dataset = {"name": "miniature", "options": {"n": items, "seed": 0}}
    return {"dataset": dataset, "size": [128, 128], "concurrency": concurrency}


def until(reached: Callable[[], bool], process: subprocess.Popen[str], what: str) -> None:
    """Wait for ``reached``; ``RuntimeError`` if the process ends before."""
    while not reached():
        if process.poll() is not None:
            raise RuntimeError(f"it ended ({process.returncode}) before {what}")
        time.sleep(0.05)


def compared(found: Results, wanted: Results) -> tuple[float, int]:
    """Return the share of equal rows, and how many drawings, scores and pictures are missing.

    Rows are compared with those of ``wanted`` at the same place, but for their times.
    """
    rows = equal = lost = 0
    for table in TABLES:
        mine, theirs = (
            [{k: v for k, v in row.items() if k != "seconds"} for row in one.rows(table)]
            for one in (found, wanted)
        )
        rows += max(len(mine), len(theirs))
        equal += sum(one == other for one, other in zip(mine, theirs, strict=False))
    # A picture that is drawn again may hold something else, which is then asked about.
    for table, columns in _UNITS.items():
        units = [{tuple(row[c] for c in columns) for row in r.rows(table)} for r in (wanted, found)]
        lost += len(units[0] - units[1])
    names = {row["image"] for row in found.rows("rounds") if row["image"]}
    lost += sum(not (found.folder / "images" / f"{name}.png").is_file() for name in names)
    return equal / rows, lost


def evaluations(lan: Lan, copies: Path, plan: Plan) -> dict[str, Any]:
    """Return the figures of Ray."""
    _, cut, killed = lan.hosts
    ray = Evaluations(lan, copies)
    local = ray.mocked("local", plan.items)
    requests = local.answered["shared"]
    figures: dict[str, Any] = {"hosts": len(lan.hosts), "requests": requests}
    if plan.painted:
        spread = ray.mocked("spread", plan.items, 3, OWN)
        figures["same.lab"] = compared(spread.results, local.results)[0]
        for host in lan.hosts:
            figures[f"requests.{host.name}"] = spread.answered[host.name]
        painted = config_of(plan.painted, 1)
        wanted = ray.run("miniature", "local", None, painted, {})
        figures["same.miniature"] = compared(
            ray.run("miniature", "spread", 3, painted, {}), wanted
        )[0]
        figures["files_elsewhere"] = sum(map(files_of_evaluations, lan.hosts[1:]))

    def disturb(count: Callable[[], int], process: subprocess.Popen[str]) -> None:
        until(lambda: count() > requests // 3, process, "a host could be cut off")
        cut.cut()
        until(lambda: count() > requests // 2, process, "a host could be killed")
        killed.kill()

    disturbed = ray.mocked("disturbed", plan.items, 3, disturb=disturb)
    same, lost = compared(disturbed.results, local.results)
    twice = disturbed.answered["shared"] - requests
    return figures | {
        "same.disturbed": same,
        "lost": lost,
        "repeated_in_flight": twice + disturbed.replayed,
        "answered_twice": twice,
        "in_flight": 2 * AT_WORK,
    }


def files_of_evaluations(host: Host) -> int:
    """Count the files that an evaluation left there."""
    return sum(
        path.is_file()
        for folder in host.path(HOME).iterdir()
        if folder.name in ("lab", "miniature") or folder.name.startswith("scenewright-")
        for path in folder.rglob("*")
    )


@dataclass(slots=True)
class Served:
    """How runs of the service ended."""

    ends: dict[str, Any] = field(default_factory=dict)
    """Idempotency key of a request → how its run ended."""
    pictures: int = 0
    """Pictures of rounds that the API gave out whole."""
    missing: int = 0
    """Pictures that it did not."""
    executed: int = 0
    """Requests that a model answered."""
    replayed: int = 0
    """Requests that got the reply of an earlier one."""
    taken_over: int = 0
    """Runs that the host which was cut off had at work, and others ended."""


class _Forwarding(socketserver.ThreadingTCPServer):
    """Server whose connections lead to another address."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], to: tuple[str, int]) -> None:
        super().__init__(address, _Forwarded)
        self.to = to


class _Forwarded(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        with socket.create_connection(server.to) as there:
            back = threading.Thread(target=_pump, args=(there, self.request), daemon=True)
            back.start()
            _pump(self.request, there)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def forwarded(address: str, port: int, to: tuple[str, int]) -> Iterator[int]:
    """Yield a port of ``address`` whose connections lead ``to`` where only this machine reaches."""
    with _Forwarding((address, port), to) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


@contextmanager
def object_store(address: str) -> Iterator[dict[str, str]]:
    """Serve S3 with an empty bucket and yield the variables that lead to it."""
    import boto3
    from moto.server import ThreadedMotoServer

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


def fleet(lan: Lan, lab: str, url: str, store: dict[str, str]) -> httpx2.Client:
    """Start a server on the first host and a worker on each of the others; return a client.

    ``url``: of the database. Waits until all are ready.
    """
    env = {
        **KEYS,
        **store,
        "OMP_NUM_THREADS": "1",
        "SCENEWRIGHT_SERVICE_DATABASE": url,
        "SCENEWRIGHT_SERVICE_ARTIFACTS": f"s3://{BUCKET}/service",
        "SCENEWRIGHT_SERVICE_LEASE_SECONDS": str(LEASE_SECONDS),
        "SCENEWRIGHT_SERVICE_RUNNING": str(AT_WORK),
    }
    place, server = f"{HOME}/service", lan.hosts[0]
    for host in lan.hosts:
        folder = host.path(place)
        folder.mkdir()
        (folder / "scenewright.toml").write_text(toml(service_settings(lab)), encoding="utf-8")
    made = server.run([*_SCENEWRIGHT, "keys", "create", "bench", "--json"], env, cwd=place)
    serve = ("serve", "--no-work", "--host", server.address, "--port", "8642")
    processes = {}
    for host in lan.hosts:
        words = serve if host is server else ("worker",)
        with host.path(f"{place}/log").open("w") as log:
            processes[host] = host.popen(
                [*_SCENEWRIGHT, *words], env, place, stdout=log, stderr=log
            )
    key = re.findall(r"sw_\w+", made)[0]
    until = time.monotonic() + _START_SECONDS
    for host, process in processes.items():
        while "Ctrl-C" not in (said := host.path(f"{place}/log").read_text()):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{host.name} did not start: {said}")
            time.sleep(0.05)
    return httpx2.Client(
        base_url=f"http://{server.address}:8642",
        headers={"authorization": f"Bearer {key}"},
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
        lab = stack.enter_context(MockServer(MockSettings(host=lan.address, latency=LATENCY)))
        client = stack.enter_context(fleet(lan, lab.url, reached, store))
        accounts = tuple(KEYS.values())
        asked = [request(number) for number in range(runs)]
        ids = {one["idempotency_key"]: _posted(client, one) for one in asked}
        orphans: set[str] = set()
        if disturb is not None:
            until = time.monotonic() + _END_SECONDS
            while lab.count("executed", accounts) <= after and time.monotonic() < until:
                time.sleep(0.05)
            disturb()
            orphans = at_work(url, lan.hosts[1].name)
        views = {key: _ended(client, run) for key, run in ids.items()}
        found.ends = {key: end_of(view) for key, view in views.items()}
        for view in views.values():
            found.taken_over += view["id"] in orphans and view["status"] == "finished"
            good, bad = _pictures(client, view)
            found.pictures += good
            found.missing += bad
        found.executed, found.replayed = (
            lab.count(what, accounts) for what in ("executed", "replayed")
        )
    return found


def at_work(url: str, host: str) -> set[str]:
    """Return the runs that ``host`` has at work by the database at ``url``."""
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
    """Count the pictures of a run that the API gives out as they were drawn, and the others."""
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


def service(runs: int) -> dict[str, Any]:
    """Return the figures of the service."""
    server = str(SERVER.default)
    with hosts(3) as lan, database(server) as url:
        calm = served(lan, runs, url)
    print(f"service undisturbed: {calm.executed} requests", flush=True)
    with hosts(3) as lan, database(server) as url:
        cut = served(lan, runs, url, lan.hosts[1].cut, calm.executed // 3)
    twice = cut.executed - calm.executed
    return {
        "runs": runs,
        "lost": differences_shown("run", calm.ends, cut.ends),
        "taken_over": cut.taken_over,
        "pictures": cut.pictures,
        "pictures_missing": cut.missing,
        "requests": calm.executed,
        "repeated_in_flight": twice + cut.replayed,
        "answered_twice": twice,
        "in_flight": AT_WORK,
    }


@benchmark("few items")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure where this machine can make hosts."""
    plan = QUICK if options.quick else FULL
    try:
        with work_folder(options) as copies, hosts(3) as lan:
            figures = evaluations(lan, copies, plan)
        if plan.runs:
            figures |= prefixed("service.", service(plan.runs))
    except HostsError as error:
        raise Skipped(f"nothing was measured: {error}") from None
    return plan.items, figures


if __name__ == "__main__":
    main()

"""Hosts of the benchmark: what they share, what becomes of them, and how tables are compared."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import _harness
from benchmarks import hosts as benchmark
from benchmarks._hosts import HostsError, Lan, hosts
from benchmarks.hosts import compared, forwarded
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted


@pytest.fixture(scope="module")
def lan() -> Iterator[Lan]:
    try:
        with hosts(2) as found:
            yield found
    except HostsError as error:
        pytest.skip(str(error))


def test_hosts_share_a_network_and_no_files(lan: Lan) -> None:
    one, other = lan.hosts
    one.run(["sh", "-c", "echo mine > /tmp/file"])
    assert one.path("/tmp/file").read_text() == "mine\n"
    assert not other.path("/tmp/file").exists()
    assert {host.run(["hostname"]).strip() for host in lan.hosts} == {"host-a", "host-b"}
    seen = one.run(
        [sys.executable, "-c", "import socket; print(socket.gethostbyname('host-b'))"]
    ).strip()
    assert seen == other.address
    with pytest.raises(RuntimeError, match="Read-only"):
        one.run(["touch", str(Path(__file__).parent / "written")])


def test_a_process_ends_with_its_host_and_nothing_stays() -> None:
    try:
        with hosts(1) as lan:
            [host] = lan.hosts
            process = host.popen(["sleep", "1000"])
            host.kill()
            assert process.wait(60)
            assert not host.path("/tmp").exists()
    except HostsError as error:
        pytest.skip(str(error))
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    assert f"{host.link.rpartition('-')[0]}:" not in links.stdout


def test_a_cut_host_is_not_reached_until_it_is_mended(lan: Lan) -> None:
    host = lan.hosts[0]
    with socket.create_server((lan.address, 0)) as server:
        ask = [
            sys.executable,
            "-c",
            "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)",
            lan.address,
            str(server.getsockname()[1]),
        ]
        host.run(ask)
        host.cut()
        with pytest.raises(RuntimeError, match=r"TimeoutError|No route|unreachable"):
            host.run(ask)
        host.mend()
        host.run([*ask[:2], ask[2].replace("1)", "60)"), *ask[3:]])


def test_a_forwarded_port_leads_there_and_back() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        forwarded("127.0.0.1", 0, ("127.0.0.1", server.getsockname()[1])) as port,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        there, _ = server.accept()
        with there:
            client.sendall(b"asked")
            assert there.recv(16) == b"asked"
            there.sendall(b"answered")
            assert client.recv(16) == b"answered"


def test_without_root_it_says_so_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["hosts"])
    monkeypatch.setattr(_harness, "report", lambda *_: pytest.fail("figures were reported"))
    benchmark.main()
    assert "nothing was measured" in capsys.readouterr().out


async def evaluated(folder: Path, n: int) -> Results:
    return await run_eval(
        config(conditions=["triplets"]),
        folder,
        dataset=ListedSet(scene_items(n)),
        given=scripted(),
    )


async def test_tables_are_compared_row_by_row(tmp_path: Path) -> None:
    whole = await evaluated(tmp_path / "whole", 4)
    again = await evaluated(tmp_path / "again", 4)
    assert compared(again, whole) == (1.0, 0)
    less = await evaluated(tmp_path / "less", 3)
    same, lost = compared(less, whole)
    assert same < 1
    assert lost >= 2
    image = again.rows("rounds")[0]["image"]
    (again.folder / "images" / f"{image}.png").unlink()
    assert compared(again, whole) == (1.0, 1)

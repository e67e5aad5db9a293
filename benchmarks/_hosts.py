"""Hosts on this machine: each has a network, file systems, processes and a name of its own.

Linux namespaces, joined by a bridge. The installation is the same everywhere, as with one image of
a container, but it can only be read; whatever a host writes lies in file systems that no other one
sees. Needs root and iproute2. A host ends with its first process, which reads from a pipe of this
one: nothing stays when this process is killed.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN = ("/tmp", "/var/tmp", "/run", "/dev/shm")
"""Folders that a host has for itself; all others it can only read."""
HOME = "/tmp"
"""Where commands of a host begin."""
_TOOLS = ("ip", "unshare", "nsenter", "mount", "hostname")
# The range that is set aside for benchmarks of networks (RFC 2544).
_NETWORK = "198.18"
_UNSHARED = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")
# The first process of a host: says its number as this machine has it, and ends with the pipe.
# With SIGCHLD ignored the kernel buries what the host's daemons leave behind.
_INIT = """\
set -e
read number rest < /proc/self/stat
hostname "$1"
mount -o remount,bind,ro /
shift
for folder in "$@"; do mount -t tmpfs -o mode=1777 own "$folder"; done
mount -t proc proc /proc
trap '' CHLD
echo "$number"
read end || true
"""
# The cables of hosts that ended are there for a moment longer.
_NUMBERS = itertools.count()
_GUARD = 'read end; ip link delete "$1"'


class HostsError(RuntimeError):
    """This machine cannot make hosts; says why."""


@dataclass(frozen=True, slots=True)
class Host:
    """One of them."""

    name: str
    """Its host name."""
    address: str
    """Its address, which all hosts and this machine reach."""
    first: subprocess.Popen[str]
    """Holds its first process, from outside."""
    number: int
    """The id of its first process, as this machine has it."""
    link: str
    """This machine's end of its cable."""

    def popen(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str = HOME,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start ``command`` there. A signal to what is returned does not reach the command."""
        inherited = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        asked = {**inherited, "HOME": HOME, "TMPDIR": HOME, "PYTHONPATH": _checkout()}
        enter = ["nsenter", f"--target={self.number}", "-n", "-m", "-u", "-i", "-p", "--"]
        return subprocess.Popen(
            [*enter, "env", f"--chdir={cwd}", *command],
            env=asked | dict(env or {}),
            text=True,
            **{"stdin": subprocess.DEVNULL, **options},
        )

    def run(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str = HOME,
        timeout: float = 120,
    ) -> str:
        """Return what ``command`` prints there. ``RuntimeError`` if it fails or takes too long."""
        # Into a file: what it leaves running in the background may hold a pipe open.
        with (Path(self.path(HOME)) / "last-command").open("w+") as out:
            process = self.popen(command, env, cwd, stdout=out, stderr=subprocess.STDOUT)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                status = -1
                process.kill()
                process.wait()
            out.seek(0)
            said = out.read()
        if status:
            why = f"did not end in {timeout} s" if status < 0 else f"gave {status}"
            raise RuntimeError(f"{self.name}: {' '.join(command)} {why}: {said[-2000:]}")
        return said

    def path(self, path: str | Path) -> Path:
        """Where this machine finds the host's absolute ``path``, for as long as the host lives."""
        return Path(f"/proc/{self.number}/root") / str(path).lstrip("/")

    def cut(self) -> None:
        """Pull its cable: nobody is told."""
        _ip("link", "set", self.link, "down")

    def mend(self) -> None:
        """Put its cable back."""
        _ip("link", "set", self.link, "up")

    def kill(self) -> None:
        """Kill all of its processes at once; the host is gone with all that it wrote."""
        self.first.kill()
        self.first.wait()


@dataclass(frozen=True, slots=True)
class Lan:
    """Hosts on one network with this machine."""

    address: str
    """This machine's address there."""
    hosts: tuple[Host, ...]
    """The hosts."""


@contextmanager
def hosts(n: int) -> Iterator[Lan]:
    """Yield ``n`` hosts, which end with the block or with this process. Raises ``HostsError``."""
    _look()
    switch, network = f"sw{os.getpid()}x{next(_NUMBERS)}", _free_network()
    with ExitStack() as stack:
        guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", switch], stdin=subprocess.PIPE, start_new_session=True
        )
        stack.callback(_released, guard)
        _ip("link", "add", switch, "type", "bridge")
        _ip("address", "add", f"{network}.1/24", "dev", switch)
        _ip("link", "set", switch, "up")
        found = tuple(_host(stack, switch, network, at) for at in range(n))
        names = "".join(f"{host.address} {host.name}\n" for host in found)
        for host in found:
            host.path("/run/hosts").write_text(f"127.0.0.1 localhost\n{names}", encoding="ascii")
            host.run(["mount", "--bind", "/run/hosts", "/etc/hosts"])
        yield Lan(f"{network}.1", found)


def _host(stack: ExitStack, switch: str, network: str, at: int) -> Host:
    name, link = f"host-{chr(ord('a') + at)}", f"{switch}-{at}"
    own = [folder for folder in OWN if os.path.isdir(folder)]
    first = subprocess.Popen(
        ["unshare", *_UNSHARED, "sh", "-c", _INIT, "init", name, *own],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    stack.callback(_released, first)
    assert first.stdout is not None
    assert first.stderr is not None
    number = first.stdout.readline().strip()
    if not number:
        raise HostsError(f"no namespaces can be made here: {first.stderr.read().strip()}")
    address = f"{network}.{at + 10}"
    _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", number)
    _ip("link", "set", link, "master", switch, "up")
    inside = ("nsenter", f"--target={number}", "-n")
    _ip("address", "add", f"{address}/24", "dev", "eth0", inside=inside)
    _ip("link", "set", "eth0", "up", inside=inside)
    _ip("link", "set", "lo", "up", inside=inside)
    return Host(name, address, first, int(number), link)


def _released(process: subprocess.Popen[Any]) -> None:
    """End a process that reads from our pipe."""
    assert process.stdin is not None
    process.stdin.close()
    process.wait(30)


def _look() -> None:
    """Raise ``HostsError`` where no hosts can be made."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise HostsError("hosts are network namespaces: they need Linux, and root")
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            raise HostsError(f"there is no `{tool}` here: install iproute2 and util-linux")
    for needed in (_checkout(), sys.prefix, sys.base_prefix):
        if any(Path(needed).is_relative_to(folder) for folder in OWN):
            raise HostsError(
                f"{needed} lies in a folder that each host has for itself ({', '.join(OWN)}): "
                "keep the checkout and its environment elsewhere"
            )


def _free_network() -> str:
    """Return the first three numbers of a network that this machine does not have yet."""
    taken = {
        found["local"].rpartition(".")[0]
        for link in json.loads(_ip("-json", "-4", "address"))
        for found in link.get("addr_info", ())
    }
    # Begins at another place in each process: two that look at once do not meet.
    for at in range(256):
        network = f"{_NETWORK}.{(os.getpid() + at) % 256}"
        if network not in taken:
            return network
    raise HostsError(f"all networks below {_NETWORK}.0.0/16 are taken")


def _ip(*words: str, inside: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [*inside, "ip", *words], capture_output=True, text=True, check=False, timeout=30
    )
    if done.returncode:
        raise HostsError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _checkout() -> str:
    return str(Path(__file__).resolve().parent.parent)

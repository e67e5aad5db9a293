"""Does what is said of many machines hold where they share no files?

``python -m benchmarks.hosts [--quick]``, as root. Three hosts are made on this machine, each with
a network, file systems, processes and a name of its own; the installation is the same on all and
can only be read. Without root or iproute2 the reason is told and nothing is measured.

A Ray cluster of the three runs an evaluation, whose models are behind the lab, twice: undisturbed,
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

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._hosts import HOME, Host, HostsError, Lan, hosts
from benchmarks._hosts_ray import OWN, SHARED, Case, Cluster, compared, until
from benchmarks._hosts_service import RUNNING, empty_database, served
from benchmarks._lab_process import lab_process
from benchmarks._report import report
from scenewright.evals.store.results import Results
from scenewright.mock_providers.settings import LabSettings
from scenewright.runs.folder import differences

LATENCY = 0.2
AT_WORK = 4
_SECONDS = 240
_CONFIG = """\
name = "{name}"
dataset = {{ name = "miniature", options = {{ n = {items}, seed = 0 }} }}
size = [128, 128]
concurrency = {at_work}
"""
# What is compared here is who does the work: the judge that steers may report too.
_LAB = """\
backends = ["lab"]
conditions = ["triplets", "feedback"]
panels = { own = { judges = ["lab:instant"] } }
allow_loop_judges = true
"""
_SETTINGS = """\
[accounts.lab]
provider = "openai"
base_url = "{url}/v1"
key_variable = "{key}"
concurrent = 64

[profiles.lab]
backend = {{ kind = "lab", model = "instant-image" }}
judges = ["lab:instant"]
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done."""

    items: int
    """Scenes whose models are behind the lab."""
    painted: int = 0
    """Scenes that the miniature draws; none: neither they nor an undisturbed evaluation."""
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


class Evaluations:
    """Evaluations on a cluster, each with a lab of its own: a lab draws another picture when it is
    asked the same again."""

    def __init__(self, lan: Lan, copies: Path, items: int) -> None:
        """Starts the cluster; folders of evaluations are copied below ``copies``."""
        self._lan = lan
        self._copies = copies
        self._cluster = Cluster(lan.hosts)
        self._config = _CONFIG.format(name="lab", items=items, at_work=AT_WORK) + _LAB

    def lab(
        self,
        out: str,
        workers: int | None,
        key: str = SHARED,
        disturb: Callable[[Callable[[], int], subprocess.Popen[str]], None] | None = None,
    ) -> Ran:
        """One with models behind the lab; ``disturb`` is given the count of requests so far."""
        keys = ["shared", *(host.name for host in self._lan.hosts)]
        with lab_process(LabSettings(host=self._lan.address, latency=LATENCY)) as lab:

            def count() -> dict[str, int]:
                return {key: int(lab.account(key).get("executed", 0)) for key in keys}

            case = Case("lab", self._config, _SETTINGS.format(url=lab.url, key=key))
            process = self._cluster.evaluation(case, out, workers)
            if disturb is not None:
                disturb(lambda: sum(count().values()), process)
            results = self._ended(process, case, out)
            replayed = sum(int(lab.account(key).get("replayed", 0)) for key in keys)
            return Ran(results, count(), replayed)

    def miniature(self, out: str, workers: int | None, items: int) -> Results:
        """One with models on the processor."""
        config = _CONFIG.format(name="miniature", items=items, at_work=1)
        case = Case("miniature", config, "")
        return self._ended(self._cluster.evaluation(case, out, workers), case, out)

    def _ended(self, process: subprocess.Popen[str], case: Case, out: str) -> Results:
        begun = time.perf_counter()
        copy = self._copies / f"{case.name}-{out}"
        found = self._cluster.finished(process, case, out, copy, _SECONDS)
        print(f"{case.name} {out}: {time.perf_counter() - begun:.0f} s", flush=True)
        return found


def evaluations(lan: Lan, copies: Path, plan: Plan) -> dict[str, Any]:
    """The figures of Ray."""
    _, cut, killed = lan.hosts
    ray = Evaluations(lan, copies, plan.items)
    local = ray.lab("local", None)
    requests = local.answered["shared"]
    figures: dict[str, Any] = {"hosts": len(lan.hosts), "requests": requests}
    if plan.painted:
        spread = ray.lab("spread", 3, OWN)
        figures["same.lab"] = compared(spread.results, local.results)[0]
        for host in lan.hosts:
            figures[f"requests.{host.name}"] = spread.answered[host.name]
        wanted = ray.miniature("local", None, plan.painted)
        painted = ray.miniature("spread", 3, plan.painted)
        figures["same.miniature"] = compared(painted, wanted)[0]
        figures["files_elsewhere"] = sum(map(files_of_evaluations, lan.hosts[1:]))

    def disturb(count: Callable[[], int], process: subprocess.Popen[str]) -> None:
        until(lambda: count() > requests // 3, process, "a host could be cut off")
        cut.cut()
        until(lambda: count() > requests // 2, process, "a host could be killed")
        killed.kill()

    disturbed = ray.lab("disturbed", 3, disturb=disturb)
    same, lost = compared(disturbed.results, local.results)
    twice = disturbed.answered["shared"] - requests
    return figures | {
        "same.disturbed": same,
        "lost": lost,
        "repeated_in_flight": twice + disturbed.replayed,
        "answered_twice": twice,
        "in_flight": 2 * AT_WORK,
    }


def service(runs: int) -> dict[str, Any]:
    """The figures of the service."""
    with hosts(3) as lan, empty_database() as url:
        calm = served(lan, runs, url)
    print(f"service undisturbed: {calm.executed} requests", flush=True)
    with hosts(3) as lan, empty_database() as url:
        cut = served(lan, runs, url, lan.hosts[1].cut, calm.executed // 3)
    lost = [key for key, end in calm.ends.items() if cut.ends[key] != end]
    for key in lost[:3]:
        print(f"{key}: {'; '.join(differences(calm.ends[key], cut.ends[key]))[:1000]}")
    twice = cut.executed - calm.executed
    return {
        "service.runs": runs,
        "service.lost": len(lost),
        "service.taken_over": cut.taken_over,
        "service.pictures": cut.pictures,
        "service.pictures_missing": cut.missing,
        "service.requests": calm.executed,
        "service.repeated_in_flight": twice + cut.replayed,
        "service.answered_twice": twice,
        "service.in_flight": RUNNING,
    }


def files_of_evaluations(host: Host) -> int:
    """Files that an evaluation left there."""
    home = host.path(HOME)
    return sum(
        path.is_file()
        for folder in home.iterdir()
        if folder.name in ("lab", "miniature") or folder.name.startswith("scenewright-")
        for path in folder.rglob("*")
    )


def measure(plan: Plan) -> dict[str, Any]:
    """All figures. Raises ``HostsError`` where there can be no hosts."""
    with ExitStack() as stack:
        lan = stack.enter_context(hosts(3))
        copies = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-hosts-")))
        figures = evaluations(lan, copies, plan)
    return figures | (service(plan.runs) if plan.runs else {})


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few items, writes nothing")
    given = parser.parse_args()
    plan = QUICK if given.quick else FULL
    try:
        figures = measure(plan)
    except HostsError as error:
        print(f"nothing was measured: {error}")
        return
    report("hosts", plan.items, figures, given.quick)


if __name__ == "__main__":
    main()

"""A run over the wire that is killed while its requests are under way: a program of its own,
because it forks.

Each process is killed once its lab has finished one more request and works on the next; the last
one comes to the end. Prints one JSON line. ``python tests/mock_providers/kill_runner.py URL FOLDER
STRATEGY KILLS``, with the API key in ``KEY_OF_THE_LAB``.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

import langchain.agents  # noqa: F401
import langchain_openai  # noqa: F401

# Imported before the forks, or each process would do so anew.
import openai  # noqa: F401

from scenewright.config.profiles import BackendSpec, Profile
from scenewright.config.settings import load_settings
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import Answered, Composed, Generated, Replied
from scenewright.runs.api import refine
from scenewright.runs.folder import EVENTS
from scenewright.runs.result import load_run

SCENE = "red ball left of blue house; green tree"
SECONDS = 60.0


def profile(strategy: str) -> Profile:
    return Profile(
        name="wire",
        backend=BackendSpec(kind="lab", model="instant-image"),
        judges=("lab:instant", "lab:judge-a"),
        report_judges=("lab:judge-b",),
        composer="llm",
        chat="lab:script:director" if strategy == "director" else "lab:script:poet",
        strategy=strategy,
    )


async def drive(url: str, folder: Path, strategy: str) -> None:
    account = {"provider": "openai", "base_url": f"{url}/v1", "key_variable": "KEY_OF_THE_LAB"}
    settings = load_settings(accounts={"lab": account})
    await refine(SCENE, profile(strategy), out=folder, rounds=2, settings=settings)


def start(url: str, folder: Path, strategy: str) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(drive(url, folder, strategy))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


class Watch:
    """What the mock server says of the one account."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url)

    def counts(self) -> dict[str, int]:
        connection = http.client.HTTPConnection(
            self.address.hostname or "", self.address.port, timeout=SECONDS
        )
        try:
            connection.request("GET", "/lab/report")
            accounts = json.loads(connection.getresponse().read())["accounts"]
        finally:
            connection.close()
        (found,) = accounts.values() or ({},)
        return found


def caught_in_flight(watch: Watch, child: int, executed: int) -> bool:
    """Waits until one more request is done and another under way; False if the run is over."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                raise SystemExit("the run failed")
            return False
        counts = watch.counts()
        if counts.get("under_way") and counts["executed"] > executed:
            return True
        time.sleep(0.005)
    raise SystemExit("the run came to nothing in time")


def main() -> None:
    url, folder, strategy, most = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    # A forked process that collects garbage would copy every page of the libraries.
    gc.disable()
    gc.freeze()
    watch, kills, executed = Watch(url), 0, -1
    while kills < most:
        child = start(url, folder, strategy)
        if not caught_in_flight(watch, child, executed):
            break
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
        executed = watch.counts()["executed"]
    if os.waitpid(start(url, folder, strategy), 0)[1]:
        raise SystemExit("the run did not come to its end")
    log = EventLog(folder / EVENTS)
    told = [type(event) for event in log.record.events]
    composed = sum(isinstance(e, Composed) and e.tokens_in > 0 for e in log.record.events)
    log.close()
    print(
        json.dumps(
            {
                "kills": kills,
                "drawn": told.count(Generated),
                "judged": told.count(Answered),
                "replied": told.count(Replied),
                "composed": composed,
                "usage": load_run(folder).totals,
                "lab": watch.counts(),
            }
        )
    )


if __name__ == "__main__":
    main()

"""``langgraph dev`` serves the graph of ``langgraph.json``: tried with the real server.

The server's packages do not go together with all that the tests need in one environment, so the
test looks for a command of another one: `make langgraph` makes it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60.0
RUN_SECONDS = 120.0


def command() -> str:
    """A ``langgraph`` command with the in-memory server; skips where there is none."""
    own = ROOT / ".venv-langgraph" / "bin" / "langgraph"
    found = os.environ.get("LANGGRAPH_COMMAND") or (str(own) if own.exists() else None)
    found = found or shutil.which("langgraph")
    if found is None:
        pytest.skip("no langgraph command: `make langgraph` sets it up")
    python = Path(found).with_name("python")
    tried = subprocess.run(
        [python, "-c", "import langgraph_api, langgraph_runtime_inmem, scenewright"],
        capture_output=True,
    )
    if tried.returncode:
        pytest.skip(
            f"{found} has no in-memory server that can import this package: `make langgraph` sets "
            "one up, or set LANGGRAPH_COMMAND to another"
        )
    return found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server in a folder of its own."""
    langgraph = command()
    folder = tmp_path_factory.mktemp("dev")
    config = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    config["dependencies"] = [str(ROOT)]
    config["graphs"] = {
        name: str(ROOT / place.removeprefix("./")) for name, place in config["graphs"].items()
    }
    (folder / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    with open(log, "wb") as out:
        server = subprocess.Popen(
            [
                *(langgraph, "dev", "--no-browser", "--no-reload", "--allow-blocking"),
                *("--host", "127.0.0.1", "--port", str(port)),
            ],
            cwd=folder,
            env={
                **os.environ,
                "SCENEWRIGHT_RUNS": str(folder / "runs"),
                "OMP_NUM_THREADS": "1",
                "LANGSMITH_TRACING": "false",
            },
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + START_SECONDS
        while True:
            assert server.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < end, log.read_text(errors="replace")[-3000:]
            try:
                if httpx2.get(f"{address}/ok", timeout=1).status_code == 200:
                    break
            except httpx2.TransportError:
                time.sleep(0.1)
        yield address
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def _post(url: str, body: dict[str, Any]) -> Any:
    reply = httpx2.post(url, json=body, timeout=RUN_SECONDS)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.slow
def test_a_run_is_driven_reviewed_and_gone_on_with(url: str) -> None:
    graphs = _post(f"{url}/assistants/search", {})
    assert "refine" in {assistant["graph_id"] for assistant in graphs}
    thread = _post(f"{url}/threads", {})["thread_id"]

    def run(**given: Any) -> Any:
        return _post(f"{url}/threads/{thread}/runs/wait", {"assistant_id": "refine", **given})

    asked = run(
        input={"scene": "red ball", "profile": "miniature", "rounds": 1, "seed": 1, "review": True}
    )
    question = asked["__interrupt__"][0]["value"]
    assert Path(question["image"]).is_file()
    assert question["best_round"] == 0

    again = run(command={"resume": {"missing": "red ball", "rounds": 1, "note": "not round"}})
    question = again["__interrupt__"][0]["value"]
    assert question["problem"] == ""
    events = Path(question["folder"], "events.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = [json.loads(line)["type"] for line in events]
    assert kinds.count("edited") == 1
    assert kinds.count("finished") == 2

    done = run(command={"resume": False})
    assert "__interrupt__" not in done
    assert done["folder"] == question["folder"]

"""``scenewright mock serve``: what it says, what it refuses, how it ends."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys

import pytest
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.cli.mock import serve
from scenewright.mock_providers import Fault
from tests.mock_providers.asking import ROUTES, Client


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["mock", "serve", *arguments])


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "scenewright", "mock", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--latency", "0", "--fault", "503=1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        told = process.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", told)
        assert url
        client = Client(url[0], "mine")
        assert [client.ask(route).status for route in ROUTES] == [503] * 4
        report = client.call("GET", "/lab/report").data
        assert report["accounts"]["mine"]["faults"] == {"503": 4}
        process.send_signal(ending)
        told += process.stdout.read()
        errors = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 0, errors
    assert f"OPENAI_BASE_URL={url[0]}/v1" in told
    assert f"ANTHROPIC_BASE_URL={url[0]} " in told
    assert f"GOOGLE_GEMINI_BASE_URL={url[0]} " in told
    assert f'base_url = "{url[0]}/v1"' in told
    assert errors == "stopped.\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "lab.example"])
def test_a_public_host_must_be_meant(host: str) -> None:
    done = call("--host", host)
    assert done.exit_code == 2
    assert "--allow-remote" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--fault", "nothing=0.1"], "there are 500, 503"),
        (["--like", "ollma"], "there are openrouter"),
        (["--shape", "nothing"], "there are rate-limit-in-200"),
        (["--model", "mine=nobody"], "write NAME=MODEL with one of judge-a"),
        (["--fault", "500=2"], "between 0 and 1"),
        (["--fault", "500"], "KIND=SHARE"),
        (["--fault", "500=0.7", "--fault", "503=0.7"], "sum"),
        (["--requests-per-minute", "0"], "--requests-per-minute"),
        (["--latency", "-1"], "--latency"),
        (["--latency", "nan"], "latency"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], told: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert "Traceback" not in done.output


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = call("--port", str(taken.getsockname()[1]))
    assert done.exit_code == 2
    assert "--port" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_names_every_fault_and_loads_no_server() -> None:
    words = re.findall(r"\w+", serve.__doc__ or "")
    assert {fault.value for fault in Fault} <= set(words)
    code = (
        "import sys; from typer.testing import CliRunner; from scenewright.cli.main import app; "
        "done = CliRunner().invoke(app, ['mock', 'serve', '--help']); "
        "print(done.exit_code, *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    exit_code, *loaded = done.stdout.split()
    assert exit_code == "0"
    assert not {"fastapi", "starlette", "uvicorn", "torch"} & set(loaded)

"""``scenewright mcp``: the official client against a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from typer.testing import CliRunner

from scenewright.cli.main import app
from tests.doubles import CallBook
from tests.service.mcp_killed import models
from tests.service.mcping import SCENE, data, held, refusal

TOML = """
profile = "tiny"

[profiles.tiny]
extends = "miniature"
about = "For a test."
"""


def server(folder: Path, *more: str) -> StdioServerParameters:
    (folder / "scenewright.toml").write_text(TOML)
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "scenewright", "mcp", "--data", str(folder / "data"), *more],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


async def test_the_tools_are_there_and_a_scene_is_read(tmp_path: Path) -> None:
    async with Client(server(tmp_path, "--profile", "tiny"), read_timeout_seconds=60) as client:
        tools = (await client.list_tools()).tools
        assert {"refine_scene", "open_scene", "accept"} <= {tool.name for tool in tools}
        told = data(await client.call_tool("parse_scene", {"triplets": SCENE}))
        assert len(told["facts"]) == 6
        assert data(await client.call_tool("list_runs", {}))["runs"] == []
        other = await client.call_tool("refine_scene", {"triplets": SCENE, "profile": "sdxl"})
        assert "no profile 'sdxl' here: there are tiny" in refusal(other)
    assert (tmp_path / "data" / "service.sqlite").is_file()


@pytest.mark.slow
def test_nothing_but_the_protocol_is_on_standard_output(tmp_path: Path) -> None:
    parameters = server(tmp_path)
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    process = subprocess.Popen(
        [parameters.command, *parameters.args],
        cwd=tmp_path,
        env=parameters.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(hello) + "\n")
        process.stdin.flush()
        reply = json.loads(process.stdout.readline())
        assert reply["result"]["serverInfo"]["name"] == "scenewright"
        # A client that stops the server politely.
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (out, process.returncode) == ("", 0), err
    assert "Traceback" not in err


def test_an_unknown_profile_is_one_line_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "0")
    done = CliRunner().invoke(app, ["mcp", "--data", "data", "--profile", "nobody"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no profile 'nobody'")


def test_the_help_says_how_to_register_it() -> None:
    done = CliRunner().invoke(app, ["mcp", "--help"])
    assert '"mcpServers"' in done.stdout
    assert "claude mcp add" in done.stdout


@pytest.mark.slow
async def test_an_agent_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    killed = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tests.service.mcp_killed", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    async with Client(killed, read_timeout_seconds=60) as client:
        run = data(await client.call_tool("open_scene", {"triplets": SCENE}))["run"]
        await client.call_tool("generate_image", {"run": run})
        with pytest.raises(MCPError):
            await client.call_tool("generate_image", {"run": run, "why": "once more"})
    book = CallBook(tmp_path / "drawn")
    async with held(tmp_path / "data", models(book, killed=False)) as at, at.client() as client:
        # The same call finds the picture that was begun when the server was killed.
        found = await client.call_tool("generate_image", {"run": run, "why": "once more"})
        assert data(found)["told"]["image"] == "r1"
        over = data(await client.call_tool("accept", {"run": run}))["result"]
        assert [one["round"] for one in over["rounds"]] == [0, 1]
        assert over["images"] == 2
    ended = [line for line in (tmp_path / "drawn").read_text().splitlines() if line[:3] == "end"]
    assert len(ended) == 2
    assert len(set(ended)) == 2


@pytest.mark.slow
async def test_an_agent_refines_and_directs_on_the_miniature(tmp_path: Path) -> None:
    heard: list[str] = []

    async def progress(at: float, total: float | None, says: str | None) -> None:
        heard.append(str(says))

    async with Client(server(tmp_path), read_timeout_seconds=120) as client:
        asked = {"triplets": "red ball on table", "rounds": 2}
        told = data(await client.call_tool("refine_scene", asked, progress_callback=progress))
        assert told["status"] == "finished"
        assert any("drawing the picture, step" in line for line in heard)
        run = data(await client.call_tool("open_scene", {"triplets": "red ball on table"}))["run"]
        drawn = await client.call_tool("generate_image", {"run": run})
        assert data(drawn)["told"]["image"] == "r0"
        assert drawn.content[1].type == "image"
    # The client is gone, and with it the process; the run waits.
    async with Client(server(tmp_path), read_timeout_seconds=120) as client:
        assert data(await client.call_tool("get_run", {"run": run}))["status"] == "paused"
        over = data(await client.call_tool("accept", {"run": run}))
        assert over["result"]["stop_reason"] == "accepted"

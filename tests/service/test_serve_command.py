"""``scenewright serve`` as a command: what it says, and how it ends where it cannot serve."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 60


def serve(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A server that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "scenewright", "serve", "--data", "data", *options],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_the_help_teaches(tmp_path: Path) -> None:
    done = serve(tmp_path, "--help")
    assert done.returncode == 0
    for word in ("/openapi.json", "/v1", "/sdapi/v1", "/mcp", "SIGTERM", "SCENEWRIGHT_SERVICE_PORT",
                 "--database", "postgresql://", "--running", "--keys"):  # fmt: skip
        assert word in done.stdout, word
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = serve(tmp_path, "--port", port)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "choose another --port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--profile", "nowhere"), 2, "no profile 'nowhere': there are"),
        (("--database", "mysql://host/name"), 2, "write postgresql://USER:PASSWORD@HOST/NAME"),
        (("--database", "postgresql://u:secret@127.0.0.1:1/x"), 3, "Check that it is there"),
        (("--host", "0.0.0.0"), 2, "scenewright keys create"),
        (("--log-format", "xml"), 2, "log_format: must be one of 'text' or 'json'"),
    ],
)
def test_what_cannot_be_served_says_what_to_do(
    tmp_path: Path, options: tuple[str, ...], status: int, said: str
) -> None:
    done = serve(tmp_path, "--port", "0", *options)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert "serves at" not in done.stdout


def test_a_data_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file", encoding="utf-8")
    done = serve(tmp_path, "--port", "0")
    assert done.returncode in (2, 3)
    assert "data" in done.stderr
    assert "Traceback" not in done.stderr

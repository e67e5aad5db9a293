"""Errors of commands in one line, and what they show of calls to providers."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import scenewright
from scenewright.agents.parsers.unread import CaptionWarning
from scenewright.cli.console import (
    WRONG_INPUT,
    check_writable,
    clear_errors,
    quiet_libraries,
    with_suggestion,
)
from scenewright.cli.main import app
from scenewright.providers.caller import Caller
from scenewright.providers.retry import CallError, PermanentError, Transient
from tests.providers.virtual import Provider, Said, get_caller, put, run

PACKAGE = Path(scenewright.__file__).parent
CALLS = logging.getLogger("scenewright.providers")


@pytest.fixture(autouse=True)
def own_handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(CALLS, "handlers", [])
    level = CALLS.level
    yield
    CALLS.setLevel(level)


async def lose(caller: Caller, *steps: Exception | float, label: str = "mine:m 2 facts") -> None:
    with pytest.raises(CallError):
        await put(caller, Provider(*steps), label=label)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_each_reason_is_shown_once_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        caller = get_caller()
        for seconds in (17, 16, 15):
            await lose(caller, Said(PermanentError(f"no credit, {seconds} s are left")))
        await lose(caller, Said(PermanentError("unknown model")), label="")
        await lose(get_caller(), Said(PermanentError("no credit, 1 s are left")))

    quiet_libraries()
    run(main())
    assert shown(capsys) == [
        "lost: mine:m 2 facts: no credit, 17 s are left",
        "lost: mine: unknown model",
    ]
    quiet_libraries()
    run(main())
    assert len(shown(capsys)) == 2


def test_an_attempt_that_took_long_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    quiet_libraries()
    run(lose(get_caller(timeout=20.0), 60.0, 60.0))
    first, last = shown(capsys)
    told = "mine:m 2 facts: attempt 1 failed after 20 s (no reply within 20 s); the next one in 1 s"
    assert first == told
    assert last == "lost: mine:m 2 facts: no reply within 20 s"


def test_other_messages_are_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    quiet_libraries()
    CALLS.warning("no price is known for %s", "openai:gpt-9")
    assert shown(capsys) == ["warning: no price is known for openai:gpt-9"]
    with clear_errors():
        warnings.warn("'Hund' is not read", CaptionWarning, stacklevel=1)
        warnings.warn("use another argument", FutureWarning, stacklevel=1)
    assert shown(capsys) == ["warning: 'Hund' is not read"]


STOPPED = """
import asyncio, signal, sys, threading, time
from scenewright.cli.console import clear_errors, run_async

signal.signal(signal.SIGINT, signal.default_int_handler)


async def drawing():
    print("drawing", flush=True)
    await asyncio.to_thread(time.sleep, 60)


with clear_errors("The same command continues."):
    run_async(drawing())
"""
LEFT = """
import contextlib, signal, threading, time
import typer
from scenewright.cli.console import clear_errors

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=time.sleep, args=(60,)).start()
with contextlib.suppress(typer.Exit), clear_errors("The same command continues."):
    print("drawing", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("code", "acknowledged"),
    [
        (STOPPED, "stopping: the current step ends first; Ctrl-C again ends at once"),
        (LEFT, "interrupted. The same command continues."),
    ],
)
def test_ctrl_c_is_acknowledged_and_the_second_one_ends_without_a_traceback(
    code: str, acknowledged: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "drawing\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == f"{acknowledged}\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(20) == 130
    assert "Traceback" not in rest
    assert rest.splitlines()[-1] == "ended"


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_writable(tmp_path / "new.json")
    check_writable(tmp_path / "a" / "folder", "folder")
    assert (tmp_path / "a" / "folder").is_dir()
    (tmp_path / "file").touch()
    for wrong, kind in (
        (tmp_path, "file"),
        (tmp_path / "none" / "new.json", "file"),
        (tmp_path / "file" / "folder", "folder"),
    ):
        with pytest.raises(typer.Exit) as left:
            check_writable(wrong, kind)
        assert left.value.exit_code == 2
        assert f"{wrong} cannot be written" in capsys.readouterr().err


def test_debugging_shows_every_call_with_all_that_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "1")
    quiet_libraries()
    failing = Said(Transient("overloaded")), Said(PermanentError("no credit"))
    for _ in range(2):
        run(lose(get_caller(), *failing))
    lines = shown(capsys)
    assert len(lines) == 2
    assert all("outcome=lost attempts=2" in line for line in lines)


def test_every_named_error_is_a_class_of_the_package() -> None:
    defined = {
        name
        for file in PACKAGE.rglob("*.py")
        for name in re.findall(r"^class (\w+)\(", file.read_text("utf-8"), re.MULTILINE)
    }
    assert defined >= WRONG_INPUT


@pytest.mark.parametrize(
    ("message", "suggestion"),
    [
        ("no profile 'sdlx': there are flux, sdxl", "; did you mean 'sdxl'?"),
        ("unknown kind 'chioce': use one of choice, facts or score", "; did you mean 'choice'?"),
        ("--part 'tset': use train or test.", "; did you mean 'test'?"),
        ("no profile 'mine': there are flux, sdxl", ""),
        ("'photo.png' cannot be read: use another file", ""),
    ],
)
def test_a_near_value_is_suggested(message: str, suggestion: str) -> None:
    assert with_suggestion(message) == (message.rstrip(".") if suggestion else message) + suggestion


def test_an_unknown_choice_is_one_line_with_the_valid_ones() -> None:
    done = CliRunner().invoke(app, ["eval", "compare", "mine", "--by", "categroy"])
    assert done.exit_code == 2
    valid = "level, group, category, complexity or none"
    assert done.output == f"error: --by 'categroy': use {valid}; did you mean 'category'?\n"

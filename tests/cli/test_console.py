"""Errors of commands in one line, and what they show of calls to providers."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import scenewright
from scenewright.cli.console import EXITS, quiet_libraries, with_suggestion
from scenewright.cli.main import app
from scenewright.providers.caller import Caller
from scenewright.providers.retry import CallError, PermanentError, Transient
from tests.providers.virtual import Provider, Said, caller_of, put, run

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
        caller = caller_of()
        for seconds in (17, 16, 15):
            await lose(caller, Said(PermanentError(f"no credit, {seconds} s are left")))
        await lose(caller, Said(PermanentError("unknown model")), label="")
        await lose(caller_of(), Said(PermanentError("no credit, 1 s are left")))

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
    run(lose(caller_of(timeout=20.0), 60.0, 60.0))
    first, last = shown(capsys)
    told = "mine:m 2 facts: attempt 1 failed after 20 s (no reply within 20 s); the next one in 1 s"
    assert first == told
    assert last == "lost: mine:m 2 facts: no reply within 20 s"


def test_debugging_shows_every_call_with_all_that_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "1")
    quiet_libraries()
    failing = Said(Transient("overloaded")), Said(PermanentError("no credit"))
    for _ in range(2):
        run(lose(caller_of(), *failing))
    lines = shown(capsys)
    assert len(lines) == 2
    assert all("outcome=lost attempts=2" in line for line in lines)


def test_every_named_error_is_a_class_of_the_package() -> None:
    defined = {
        name
        for file in PACKAGE.rglob("*.py")
        for name in re.findall(r"^class (\w+)\(", file.read_text("utf-8"), re.MULTILINE)
    }
    assert set(EXITS) <= defined


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

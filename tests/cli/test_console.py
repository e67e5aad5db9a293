"""What commands show of calls: lost ones in words and once, all of them with ``--debug``."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from scenewright.cli.console import quiet_libraries
from scenewright.providers.caller import Caller
from scenewright.providers.retry import CallError, PermanentError, Transient
from tests.providers.virtual import Provider, Said, caller_of, put, run

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

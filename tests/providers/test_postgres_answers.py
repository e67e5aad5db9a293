"""Answers that processes share: paid once, freed by who dies, back after the database was away."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scenewright.core.facts import Answer
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.providers import Answers, StoreError, ask, open_answers
from tests.doubles import ScriptedJudge, painted
from tests.providers.postgres import clients, cut_off, database

FACTS = facts_of(load_scene("red ball on table"))
IMAGE = painted((8, 8), (128, 0, 0))
YES = Answer(fact_id="o:x", judge_id="j", state="yes")

TURNS = """
import asyncio, sys
from scenewright.providers import open_answers

async def main():
    store = open_answers(sys.argv[1], None)
    async with store.turn("j", "i"):
        print("in", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    store.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with database() as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[Answers]:
    with closing(open_answers(url, None)) as store:
        yield store


def other_process(url: str) -> subprocess.Popen[str]:
    """One that holds a turn until it is told or killed."""
    found = subprocess.Popen(
        [sys.executable, "-c", TURNS, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert found.stdout is not None
    assert found.stdout.readline() == "in\n"
    return found


@pytest.mark.parametrize("killed", [False, True])
async def test_a_turn_holds_for_other_processes_until_they_leave_or_die(
    url: str, store: Answers, killed: bool
) -> None:
    process = await asyncio.to_thread(other_process, url)

    async def take() -> None:
        async with store.turn("j", "i"):
            pass

    async with store.turn("j", "other"):
        waiting = asyncio.create_task(take())
        await asyncio.sleep(0.15)
        assert not waiting.done()
    if killed:
        process.send_signal(signal.SIGKILL)
    else:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    await asyncio.wait_for(waiting, 60)
    process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if killed else 0)


def test_origins_of_two_runs_are_two_payers(url: str) -> None:
    with (
        closing(open_answers(url, None, payer="run1")) as one,
        closing(open_answers(url, None, payer="run2")) as two,
        closing(open_answers(url, None)) as plain,
    ):
        one.put("payers", "i", [("d", YES)], "r0:answered")
        plain.put("payers", "i", [("e", YES), ("f", YES)], "r0:answered")
        assert one.get("payers", "i", ["d"])["d"] == (YES, "r0:answered")
        for store, fact in ((two, "d"), (plain, "d"), (one, "e"), (two, "e")):
            assert store.get("payers", "i", [fact])[fact][1] != "r0:answered"
        assert plain.get("payers", "i", ["e"])["e"][1] == "r0:answered"


async def test_another_run_finds_the_answers_and_pays_nothing(url: str) -> None:
    judge = ScriptedJudge()
    found = []
    for payer in ("run a", "run b", "run a"):
        with closing(open_answers(url, None, payer=payer)) as store:
            found.append(await ask(judge, "a" * 64, IMAGE, FACTS, store=store, origin="r0"))
    assert [asked.cached for asked in found] == [False, True, False]
    assert [sum(a.tokens_in for a in asked.answers) for asked in found] == [
        judge.tokens * len(FACTS),
        0,
        judge.tokens * len(FACTS),
    ]
    assert len([line for line in judge.book.lines if line.startswith("begin")]) == len(FACTS)


async def test_a_database_that_was_away_for_a_moment_loses_nothing(
    url: str, store: Answers
) -> None:
    store.put("away", "i", [("d", YES)], "here")
    async with store.turn("away", "i"):
        assert cut_off(url) >= 1
        store.put("away", "i", [("e", YES)], "here")
        assert set(store.get("away", "i", ["d", "e"])) == {"d", "e"}
        async with store.turn("away", "j"):
            pass
        # The turn that is held was taken again with the new connection.
        with closing(open_answers(url, None)) as other:
            waiting = asyncio.create_task(held(other, "away", "i"))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait({waiting})
    await asyncio.wait_for(held(store, "away", "i"), 60)


async def test_two_who_ask_together_pay_once(url: str) -> None:
    judge = ScriptedJudge()
    with closing(open_answers(url, None)) as one, closing(open_answers(url, None)) as two:
        asked = await asyncio.gather(
            *(
                ask(judge, "c" * 64, IMAGE, FACTS, store=store, origin=f"{n}")
                for n, store in enumerate((one, two, one, two))
            )
        )
    assert [a.cached for a in asked].count(False) == 1


async def held(store: Answers, judge: str, image: str) -> None:
    async with store.turn(judge, image):
        pass


def test_stores_of_a_process_share_connections_and_the_last_closes_them(url: str) -> None:
    before = clients(url)
    stores = [open_answers(url, None) for _ in range(20)]
    for store in stores:
        store.put("many", "i", [("d", YES)], "")
        asyncio.run(held(store, "many", "i"))
    assert clients(url) - before <= 5
    for store in stores:
        store.close()
        store.close()
    # The server notices a moment later; connections of the test before may have counted at first.
    for _ in range(200):
        if (left := clients(url)) <= before:
            break
        time.sleep(0.05)
    assert left <= before


@pytest.mark.parametrize(
    "place", ["127.0.0.1:1/nowhere", "127.0.0.1:5432/there_is_no_such_database"]
)
def test_a_database_that_is_not_there_is_a_clear_error(url: str, place: str) -> None:
    with pytest.raises(StoreError, match="Check that the database is up") as error:
        open_answers(f"postgresql://postgres:hidden-word@{place}", None)
    assert "hidden-word" not in str(error.value)


async def test_a_table_that_cannot_be_written_is_an_error_and_no_answer(url: str) -> None:
    import psycopg

    with closing(open_answers(url, None)) as store, psycopg.connect(url, autocommit=True) as other:
        other.execute("ALTER TABLE scenewright_answers RENAME TO elsewhere")
        try:
            with pytest.raises(StoreError, match="scenewright_answers"):
                await ask(ScriptedJudge(), "b" * 64, IMAGE, FACTS, store=store)
        finally:
            other.execute("ALTER TABLE elsewhere RENAME TO scenewright_answers")


def test_without_psycopg_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"scenewright\[postgres\]"):
        open_answers("postgresql://postgres@127.0.0.1:1/x", None)

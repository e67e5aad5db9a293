"""What servers understand: found out once, remembered by later processes, and forgotten in time."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from PIL import Image

from scenewright.agents.chat.model import account_chat
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.remote import remote_judge
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import Judge
from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.mock_providers.faults import Quirk, Swap
from scenewright.providers.caller import Caller
from scenewright.providers.clients import negotiation as negotiating
from scenewright.providers.clients.negotiation import SILENT_REPLIES, KnownServer, Negotiation
from scenewright.providers.retry import Backoff
from tests.agents.chat.talking import Plan

DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
KEY = "sk-of-this-account"
WITH_LOGPROBS = {"structured": "schema", "logprobs": True}


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it is remembered, for this test alone."""
    found = tmp_path / "requests" / "servers.sqlite"
    monkeypatch.setattr(negotiating, "found_file", lambda: found)
    return found


@pytest.fixture
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread(MockSettings()) as made:
        yield made


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("test", timeout=60.0, attempts=3, priced=False, backoff=Backoff(initial=0.01))
    yield made
    await made.aclose()


def build_judge(
    lab: ThreadedMockProviders, caller: Caller, provider: str = "openai", **caps: object
) -> Judge:
    """A judge as a new process makes it: all that it knows comes from the file."""
    place = lab.openai_url if provider == "openai" else lab.url
    return remote_judge(provider, "instant", caller, api_key=KEY, base_url=place, overrides=caps)


async def method_of(judge: Judge) -> str | None:
    (answer,) = await judge.answer(Image.new("RGB", (32, 32)), [DOG])
    assert answer.state in ("yes", "no"), answer.reason
    return answer.method


@pytest.mark.parametrize("provider", ["openai", "gemini"])
async def test_a_refusal_of_log_probabilities_is_met_once(
    lab: ThreadedMockProviders, caller: Caller, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = build_judge(lab, caller, provider, **WITH_LOGPROBS)
    assert await method_of(first) == "logprob"
    lab.order_quirk(Quirk.REFUSED_LOGPROBS)
    with caplog.at_level(logging.WARNING, "scenewright.providers"):
        assert await method_of(first) == "verbalized"
    assert caller.totals.attempts == 3
    (told,) = [r.getMessage() for r in caplog.records if "log-probabilities" in r.getMessage()]
    assert told.startswith("instant refuses log-probabilities")
    later = build_judge(lab, caller, provider, **WITH_LOGPROBS)
    assert await method_of(later) == "verbalized"
    assert caller.totals.attempts == 4
    assert first.fingerprint == later.fingerprint


async def test_another_effort_is_another_matter(lab: ThreadedMockProviders, caller: Caller) -> None:
    lab.order_quirk(Quirk.REFUSED_LOGPROBS)
    assert await method_of(build_judge(lab, caller, **WITH_LOGPROBS)) == "verbalized"
    lab.clear_quirks()
    assert await method_of(build_judge(lab, caller, **WITH_LOGPROBS)) == "verbalized"
    other = build_judge(lab, caller, **WITH_LOGPROBS, reasoning_effort="none")
    assert await method_of(other) == "logprob"


async def test_silence_is_believed_after_some_replies(
    lab: ThreadedMockProviders, caller: Caller
) -> None:
    lab.order_quirk(Quirk.NO_LOGPROBS)
    judge = build_judge(lab, caller, **WITH_LOGPROBS)
    for _ in range(SILENT_REPLIES - 1):
        assert await method_of(judge) == "verbalized"
    lab.clear_quirks()
    assert await method_of(judge) == "logprob"
    lab.order_quirk(Quirk.NO_LOGPROBS)
    for _ in range(SILENT_REPLIES):
        assert await method_of(judge) == "verbalized"
    lab.clear_quirks()
    for one in (judge, build_judge(lab, caller, **WITH_LOGPROBS)):
        assert await method_of(one) == "verbalized"
    assert caller.totals.attempts == 2 * SILENT_REPLIES + 2


async def test_another_version_of_the_model_is_asked_anew(
    lab: ThreadedMockProviders, caller: Caller
) -> None:
    lab.order_quirk(Quirk.REFUSED_LOGPROBS)
    assert await method_of(build_judge(lab, caller, **WITH_LOGPROBS)) == "verbalized"
    lab.clear_quirks()
    lab.order_swap(Swap("instant", "instant-2", told="instant-2026-12"))
    judge = build_judge(lab, caller, **WITH_LOGPROBS)
    # Its first reply names the new version.
    assert await method_of(judge) == "verbalized"
    assert await method_of(judge) == "logprob"
    assert await method_of(build_judge(lab, caller, **WITH_LOGPROBS)) == "logprob"


@pytest.mark.parametrize(
    ("quirk", "tries"), [(Quirk.STRING_CHOICE, 2), (Quirk.LOOSE_CHOICE, 2), (Quirk.NO_TOOLS, 3)]
)
async def test_the_way_that_binds_is_found_once(
    lab: ThreadedMockProviders, caller: Caller, quirk: Quirk, tries: int
) -> None:
    lab.order_quirk(quirk)
    await method_of(build_judge(lab, caller))
    assert caller.totals.attempts == tries
    await method_of(build_judge(lab, caller))
    assert caller.totals.attempts == tries + 1


@pytest.mark.parametrize("quirk", [Quirk.STRING_CHOICE, Quirk.NO_TOOLS])
async def test_chats_remember_it_too(
    lab: ThreadedMockProviders, caller: Caller, quirk: Quirk
) -> None:
    lab.order_quirk(quirk)
    counts = []
    for _ in range(2):
        chat = account_chat(
            "openai", "script:echo", caller, api_key=KEY, base_url=lab.openai_url, name="mine"
        )
        assert (await chat.with_structured_output(Plan).ainvoke("draw")).title == "draw"
        counts.append(caller.totals.attempts)
        await chat.aclose()
    assert counts[1] == counts[0] + 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Quirk.STRING_CHOICE, Quirk.NO_TOOLS),
        (Quirk.LOOSE_CHOICE, Quirk.NO_TOOLS),
        (Quirk.NO_TOOLS, Quirk.STRING_CHOICE),
    ],
)
async def test_a_way_that_no_longer_binds_is_unlearnt(
    lab: ThreadedMockProviders, caller: Caller, before: Quirk, after: Quirk
) -> None:
    lab.order_quirk(before)
    await method_of(build_judge(lab, caller))
    lab.clear_quirks()
    lab.order_quirk(after)
    await method_of(build_judge(lab, caller))
    spent = caller.totals.attempts
    await method_of(build_judge(lab, caller))
    assert caller.totals.attempts == spent + 1


def negotiation(server: KnownServer, **caps: object) -> Negotiation:
    return Negotiation(caps_of("openai", "m", caps), "m", server)


def test_what_is_declared_is_neither_recalled_nor_kept(file: Path) -> None:
    server = KnownServer("host/v1", KEY, "m")
    server.keep("tool_choice", "schema")
    assert negotiation(server, tool_choice="named").way == "named"
    assert negotiation(server, tool_choice="probe").way == "schema"
    declared = negotiation(server, tool_choice="required")
    declared.served("m-1")
    declared.served("m-2")
    assert declared.way == "required"
    server.keep("tool_choice", "schema")
    declared.confirm("required")
    assert server.recall("tool_choice") == "schema"
    server.keep("tool_choice", "odd")
    assert negotiation(server, tool_choice="probe").way == "named"


def test_a_remembered_schema_that_is_refused_is_unlearnt(file: Path) -> None:
    server = KnownServer("host/v1", KEY, "m")
    server.keep("tool_choice", "schema")
    probing = negotiation(server, tool_choice="probe")
    sent = probing.terms()
    assert not probing.refused(sent, (), 400, "the prompt is too long")
    assert probing.refused(sent, (), 400, "response_format is not supported", forced=True)
    assert probing.way == "named"
    assert server.recall("tool_choice") is None
    # A request of before the change is sent again in the way that is tried now.
    assert probing.reject("schema")


def test_it_is_kept_by_place_key_model_and_effort_and_expires(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KnownServer("host/v1", KEY, "m").keep("logprobs", "none")
    assert KnownServer("host/v1", KEY, "m").recall("logprobs") == "none"
    for other in (
        KnownServer("host/v2", KEY, "m"),
        KnownServer("host/v1", "sk-other", "m"),
        KnownServer("host/v1", KEY, "m2"),
        KnownServer("host/v1", KEY, "m", "low"),
    ):
        assert other.recall("logprobs") is None
    assert KEY.encode() not in file.read_bytes()
    later = time.time() + negotiating.EXPIRES_SECONDS + 1
    monkeypatch.setattr(negotiating.time, "time", lambda: later)
    assert KnownServer("host/v1", KEY, "m").recall("logprobs") is None


def test_what_was_found_before_the_first_reply_belongs_to_its_version(file: Path) -> None:
    first = KnownServer("host/v1", KEY, "m")
    first.keep("logprobs", "none")
    assert not first.served("m-1")
    second = KnownServer("host/v1", KEY, "m")
    second.recall("logprobs")
    assert not second.served("")
    assert not second.served("m-1")
    assert second.served("m-2")
    assert KnownServer("host/v1", KEY, "m").recall("logprobs") is None


@pytest.mark.parametrize("trouble", ["folder", "damaged", "homeless"])
def test_a_file_that_cannot_be_used_stops_nobody(
    file: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trouble == "folder":
        file.parent.write_text("a file where the folder should be")
    elif trouble == "damaged":
        file.parent.mkdir()
        file.write_bytes(b"no database" * 1000)
    else:
        monkeypatch.setattr(negotiating, "found_file", lambda: None)
    server = KnownServer("host/v1", KEY, "m")
    asking = negotiation(server, **WITH_LOGPROBS)
    assert asking.refused(asking.terms(), (), 400, "Logprobs is not enabled for models/m")
    assert not asking.terms().logprobs
    asking.served("m-1")
    asking.served("m-2")
    assert asking.terms().logprobs


def test_processes_write_side_by_side(file: Path) -> None:
    async def main() -> None:
        servers = [KnownServer("host/v1", KEY, f"m{n}") for n in range(20)]
        await asyncio.gather(*(asyncio.to_thread(s.keep, "logprobs", "none") for s in servers))

    asyncio.run(main())
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT count(*) FROM found").fetchone() == (20,)

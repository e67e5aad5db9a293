"""Keys of paid requests: equal for a repeated one, different for every other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.formats import load_scene
from scenewright.core.ports.judge import unscored
from scenewright.core.questions import facts_of
from scenewright.providers import AnswerStore, ask
from scenewright.providers.caller import Caller
from scenewright.providers.retry import (
    Backoff,
    CallError,
    Decision,
    PermanentError,
    Transient,
    UnusableReply,
)
from scenewright.providers.sdk_clients import (
    HEADER,
    identified,
    identify,
    paid_by,
    paying,
    request_digest,
)
from scenewright.providers.usage import Reply, Usage
from tests.doubles import ScriptedJudge, painted

BUSY = Transient("HTTP 503")
BROKEN = Transient("malformed reply", replied=True)
EMPTY = UnusableReply("empty reply", Usage())


class Provider:
    """Keeps the keys it was sent; each attempt meets the next entry of ``script``."""

    def __init__(self, *script: Decision | UnusableReply) -> None:
        self.keys: list[str | None] = []
        self._script = list(script)
        transport = httpx2.MockTransport(self._answer)
        self._http = httpx2.AsyncClient(transport=transport, event_hooks={"request": [identify]})
        self._caller = Caller("test", backoff=Backoff(initial=0.0), priced=False)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.keys.append(request.headers.get(HEADER))
        return httpx2.Response(200, json={})

    async def ask(self, text: str = "dog?") -> None:
        async def attempt() -> Reply[str]:
            await self._http.post("http://provider/v1/ask", json={"text": text})
            if self._script:
                raise Raised(self._script.pop(0))
            return Reply("yes", Usage())

        async def send() -> Reply[str]:
            try:
                return await attempt()
            except Raised as raised:
                if isinstance(raised.what, UnusableReply):
                    raise raised.what from None
                raise

        await self._caller.call(
            send,
            classify=lambda error: (
            error.what if isinstance(error, Raised) else PermanentError(str(error))
        ),
            provider="p", model="m", tokens=1,
        )  # fmt: skip

    async def fetch(self) -> None:
        await self._http.get("http://elsewhere/picture.png")


class Raised(Exception):
    def __init__(self, what: Decision | UnusableReply) -> None:
        self.what = what


async def test_where_nothing_pays_each_call_has_a_key_of_its_own_for_all_attempts() -> None:
    provider = Provider(BUSY)
    await provider.ask()
    with identified("step"), paying(""), identified("step"):
        await provider.ask()
    first, again, other = provider.keys
    assert first == again != other
    assert other is not None


async def test_a_step_is_part_of_the_step_around_it_and_of_what_pays() -> None:
    provider = Provider()
    for nonce, outer, inner in [
        ("a", "draw", "first"),
        ("b", "draw", "first"),
        ("a", "judge", "first"),
        ("a", "draw", "second"),
    ]:
        with paying(nonce, outer), identified(inner):
            await provider.ask()
    with paying("b"), paying("a"), identified("draw"), identified("first"):
        await provider.ask()
    *told, again = provider.keys
    assert len(set(told)) == 4
    assert again == told[0]


async def test_a_store_pays_with_the_same_keys_until_its_end(tmp_path: Path) -> None:
    provider = Provider()

    async def ask(*, cut_off: bool) -> None:
        with AnswerStore(tmp_path / "answers.db") as store, paid_by(store):
            await provider.ask()
            if cut_off:
                raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await ask(cut_off=True)
    await ask(cut_off=False)
    await ask(cut_off=False)
    first, again, anew = provider.keys
    assert first == again != anew


class Asking(ScriptedJudge):
    """Asks a provider, and can read nothing of its reply."""

    provider: Provider

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        await self.provider.ask(" ".join(fact.question for fact in facts))
        return unscored(self.id, facts, "no answer")


async def test_a_judge_that_is_served_by_another_version_is_asked_anew() -> None:
    judge, store, image = Asking("a"), AnswerStore(None), painted((8, 8))
    judge.provider = Provider()
    facts = facts_of(load_scene("red ball"))[:1]
    for version in ("", "one", "one", "two"):
        if version:
            store.note_version(judge.fingerprint, version)
        with paying("run:step"):
            await ask(judge, "image", image, facts, store=store)
    # A call that was under way when the first version was noted is the same after a kill.
    first, noted, again, exchanged = judge.provider.keys
    assert first == noted == again != exchanged


async def test_what_is_fetched_has_no_key() -> None:
    provider = Provider()
    with paying("run:step"):
        await provider.fetch()
    assert provider.keys == [None]


async def test_a_repeated_step_sends_the_same_key_and_every_other_one_another() -> None:
    provider = Provider()
    for scope, text in [("run:a", "dog?"), ("run:a", "dog?"), ("run:b", "dog?"), ("run:a", "cat?")]:
        with paying(scope):
            await provider.ask(text)
    first, again, *others = provider.keys
    assert first == again
    assert len({first, *others}) == 3
    assert all(key is not None and len(key) == 64 for key in provider.keys)


async def test_the_innermost_scope_counts() -> None:
    provider = Provider()
    with paying("run:inner"):
        await provider.ask()
    with paying("run:outer"):
        with paying("run:inner"):
            await provider.ask()
        await provider.ask()
    inner, again, outer = provider.keys
    assert inner == again != outer


@pytest.mark.parametrize(
    ("script", "keys"),
    [
        # The provider may have done the work: it is not to do it again.
        ([BUSY, BUSY], "aaa"),
        # What came whole would come again under the same key.
        ([EMPTY], "ab"),
        ([BROKEN], "ab"),
        ([BUSY, EMPTY, BUSY], "aabb"),
    ],
)
async def test_attempts_share_a_key_until_a_whole_reply_came(
    script: list[Decision | UnusableReply], keys: str
) -> None:
    provider = Provider(*script)
    with paying("run:step"):
        await provider.ask()
    names: dict[str | None, str] = {}
    assert [names.setdefault(key, "abc"[len(names)]) for key in provider.keys] == list(keys)


async def test_after_a_kill_the_numbers_begin_again() -> None:
    provider = Provider(EMPTY, EMPTY)
    with paying("run:step"):
        await provider.ask()
    told, provider.keys = provider.keys, []
    assert len(set(told)) == 3
    provider._script = [EMPTY, EMPTY]
    with paying("run:step"):
        await provider.ask()
    assert provider.keys == told


async def test_equal_calls_of_one_step_differ_one_after_the_other_and_side_by_side() -> None:
    provider = Provider()
    with paying("run:step"):
        await provider.ask()
        await provider.ask()
    one_after_the_other, provider.keys = set(provider.keys), []
    assert len(one_after_the_other) == 2
    with paying("run:step"):
        await asyncio.gather(provider.ask(), provider.ask())
    assert set(provider.keys) == one_after_the_other


async def test_a_call_that_was_lost_leaves_its_key_to_the_next_one() -> None:
    provider = Provider(PermanentError("HTTP 401"))
    with paying("run:step"):
        with pytest.raises(CallError):
            await provider.ask()
        await provider.ask()
    lost, next_one = provider.keys
    assert lost == next_one


async def test_a_refusal_uses_its_key_up() -> None:
    provider = Provider(UnusableReply("refused", Usage(), retry=False))
    with paying("run:step"):
        with pytest.raises(CallError):
            await provider.ask()
        await provider.ask()
    refused, next_one = provider.keys
    assert refused != next_one


async def test_the_boundary_of_a_form_does_not_count_and_its_content_does() -> None:
    keys: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers[HEADER])
        assert b"picture" in request.read()
        assert request.headers["content-length"] == str(len(request.content))
        return httpx2.Response(200)

    transport = httpx2.MockTransport(answer)
    async with httpx2.AsyncClient(
        transport=transport, event_hooks={"request": [identify]}
    ) as client:
        for file in (b"picture", b"picture", b"other picture"):
            with paying("run:step"):
                await client.post("http://provider/edit", files={"image": ("a.png", file)})
    first, again, other = keys
    assert first == again != other


def test_parts_of_a_form_do_not_run_into_one_another() -> None:
    kind = "multipart/form-data; boundary=b"
    assert request_digest("POST", "/", kind, b"ab--bc") != request_digest(
        "POST", "/", kind, b"a--bbc"
    )

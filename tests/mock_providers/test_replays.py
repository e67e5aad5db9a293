"""A repeated request with an Idempotency-Key gets the first one's reply and is not billed."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from scenewright.mock_providers import Fault, MockSettings, ThreadedMockProviders, serving_thread
from scenewright.mock_providers.accounts import Replays, StoredReply
from scenewright.mock_providers.problems import Problem
from tests.mock_providers.asking import PATHS, ROUTES, Client, Response, body

NAMED = "named-by-its-client"
SECONDS = 60.0


class Repeating(Client):
    """Sends a key along; a keyless request is what :class:`Client` sends."""

    idempotency_key: str = NAMED

    def call(
        self,
        method: str,
        path: str,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = SECONDS,
    ) -> Response:
        named = {**(headers or {}), "Idempotency-Key": self.idempotency_key}
        return super().call(method, path, raw, named, timeout)


@pytest.fixture
def repeating(lab: ThreadedMockProviders, key: str) -> Repeating:
    return Repeating(lab.url, key)


@pytest.fixture
def waiting_lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread(MockSettings(latency=0.4, longest_hang=30.0)) as made:
        yield made


def account(lab: ThreadedMockProviders, key: str) -> dict[str, Any]:
    found: dict[str, Any] = lab.report()["accounts"].get(key, {})
    return found


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


@pytest.mark.parametrize("route", ROUTES)
def test_the_same_reply_comes_again_and_costs_nothing(
    lab: ThreadedMockProviders, repeating: Repeating, route: str
) -> None:
    first = repeating.ask(route)
    spent = account(lab, repeating.key)
    again = repeating.ask(route)
    assert (first.status, again.status, again.data) == (200, 200, first.data)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    found = account(lab, repeating.key)
    counted = {"executed": 1, "answered": 1, "replayed": 1, "arrivals": 2, "executed_twice": 0}
    assert {name: found[name] for name in counted} == counted
    assert spent["tokens_in"] == found["tokens_in"] > 0
    assert spent["tokens_out"] == found["tokens_out"] > 0


def test_pictures_are_drawn_once_although_each_would_be_another(
    lab: ThreadedMockProviders, client: Client, repeating: Repeating
) -> None:
    raw = json.dumps({"model": "instant-image", "prompt": "a dog", "size": "64x64"}).encode()
    headers = {"authorization": f"Bearer {client.key}"}

    def drawn(one: Client) -> Any:
        return one.call("POST", "/v1/images/generations", raw, headers).data["data"]

    assert drawn(client) != drawn(client)
    assert drawn(repeating) == drawn(repeating)
    assert account(lab, client.key)["executed"] == 3


def test_keys_belong_to_an_account(lab: ThreadedMockProviders, repeating: Repeating) -> None:
    repeating.ask("chat")
    other = Repeating(lab.url, f"other-{repeating.key[:16]}")
    assert other.ask("chat").status == 200
    assert (account(lab, other.key)["executed"], account(lab, other.key)["replayed"]) == (1, 0)


@pytest.mark.parametrize(
    ("idempotency_key", "status", "says"),
    [(NAMED, 422, "another request"), ("k" * 256, 400, "255")],
)
def test_a_key_that_cannot_be_is_told(
    lab: ThreadedMockProviders, repeating: Repeating, idempotency_key: str, status: int, says: str
) -> None:
    repeating.ask("chat")
    repeating.idempotency_key = idempotency_key
    told = repeating.ask("chat", text="Is there a cat?")
    assert (told.status, says in told.data["error"]["message"]) == (status, True)
    assert account(lab, repeating.key)["rejected"] == 1


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.RATE_LIMITED])
def test_errors_are_not_kept(
    lab: ThreadedMockProviders, repeating: Repeating, fault: Fault
) -> None:
    lab.schedule(fault, 1, repeating.key)
    assert repeating.ask("chat").status != 200
    assert repeating.ask("chat").status == 200
    found = account(lab, repeating.key)
    assert (found["executed"], found["replayed"], found["executed_twice"]) == (1, 0, 0)


@pytest.mark.parametrize("fault", [Fault.REFUSAL, Fault.EMPTY, Fault.TRUNCATED_JSON])
def test_a_fault_within_a_whole_reply_is_kept(
    lab: ThreadedMockProviders, repeating: Repeating, fault: Fault
) -> None:
    lab.schedule(fault, 1, repeating.key)
    first = repeating.ask("chat")
    assert repeating.ask("chat").data == first.data
    found = account(lab, repeating.key)
    assert (found["executed"], found["replayed"]) == (1, 1)


def test_limits_hold_for_repeated_requests() -> None:
    with serving_thread(MockSettings(requests_per_minute=2)) as lab:
        client = Repeating(lab.url, "mine")
        assert [client.ask("chat").status for _ in range(3)] == [200, 200, 429]
        assert account(lab, "mine")["replayed"] == 1


def test_what_comes_while_the_first_is_worked_on_waits_for_its_reply(
    waiting_lab: ThreadedMockProviders,
) -> None:
    client = Repeating(waiting_lab.url, "mine")
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: client.ask("chat"), range(4)))
    assert all(reply.data == replies[0].data for reply in replies)
    found = account(waiting_lab, "mine")
    assert (found["executed"], found["answered"], found["replayed"]) == (1, 1, 3)
    assert found["most_at_once"] > 1


def test_the_work_of_a_client_that_vanished_is_kept(waiting_lab: ThreadedMockProviders) -> None:
    client = Repeating(waiting_lab.url, "mine")
    with pytest.raises(TimeoutError):
        client.ask("chat", timeout=0.2)
    # It comes back while the work still goes on, and once more when that is done.
    assert client.ask("chat").status == 200
    assert client.ask("chat").headers["idempotent-replayed"] == "true"
    found = account(waiting_lab, "mine")
    assert (found["executed"], found["abandoned"], found["replayed"]) == (1, 1, 2)


def test_a_request_that_hangs_gives_its_key_to_the_next_one(
    waiting_lab: ThreadedMockProviders,
) -> None:
    client = Repeating(waiting_lab.url, "mine")
    waiting_lab.schedule(Fault.TIMEOUT, 1)
    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(client.ask, "chat", timeout=0.6)
        until(lambda: bool(account(waiting_lab, "mine").get("under_way")))
        assert client.ask("chat").status == 200
        assert isinstance(hung.exception(SECONDS), OSError)
    found = account(waiting_lab, "mine")
    assert (found["executed"], found["faults"]) == (1, {"timeout": 1})


def test_a_slow_reply_that_was_broken_off_comes_whole_the_second_time(
    slow_lab: ThreadedMockProviders, key: str
) -> None:
    client = Repeating(slow_lab.url, key)
    slow_lab.schedule(Fault.SLOW_DRIP, 1, key)
    host, port = client.address.hostname or "", client.address.port
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=SECONDS)) as connection:
        headers = {"authorization": f"Bearer {key}", "Idempotency-Key": NAMED}
        connection.request("POST", PATHS["chat"], json.dumps(body("chat")), headers)
        assert len(connection.getresponse().read(5)) == 5
    assert client.ask("chat", timeout=SECONDS).status == 200
    assert account(slow_lab, key)["executed"] == 1


def test_counting_anew_forgets_no_reply(key: str) -> None:
    with serving_thread() as lab:
        client = Repeating(lab.url, key)
        first = client.ask("chat")
        lab.reset()
        assert client.ask("chat").data == first.data
        assert (account(lab, key)["executed"], account(lab, key)["replayed"]) == (0, 1)


@pytest.mark.parametrize("bounds", [{"most": 2}, {"most_bytes": 20}])
async def test_the_oldest_replies_go_first(bounds: dict[str, int]) -> None:
    replays = Replays(**bounds)
    for name in ("a", "b", "c"):
        assert await replays.claim("mine", name, "asked") is None
        assert replays.keep("mine", name, StoredReply(b"0123456789", name))
    assert await replays.claim("mine", "b", "asked") == StoredReply(b"0123456789", "b")
    assert await replays.claim("mine", "a", "asked") is None
    # Worked on again: a client that came too late pays twice, and that is told.
    assert not replays.keep("mine", "a", StoredReply(b"0123456789", "a"))


async def test_a_key_stands_for_one_request_until_there_is_no_reply() -> None:
    replays = Replays()
    assert await replays.claim("mine", "a", "one") is None
    with pytest.raises(Problem, match="new key"):
        await replays.claim("mine", "a", "other")
    replays.release("mine", "a")
    assert await replays.claim("mine", "a", "other") is None


def test_without_a_key_every_request_is_worked_on(
    lab: ThreadedMockProviders, client: Client
) -> None:
    made = body("chat")
    client.ask("chat", made)
    client.ask("chat", made)
    found = account(lab, client.key)
    assert (found["executed"], found["replayed"]) == (2, 0)

"""Limits over sliding minutes, and the books that the mock server keeps."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.mock_providers import Fault, MockSettings, serving_thread
from scenewright.mock_providers.accounts import Account, account_name
from tests.mock_providers.asking import REQUEST_ID, ROUTES, Client

LIMIT, WINDOW = 5, 60


@pytest.mark.parametrize("route", ROUTES)
def test_a_burst_gets_as_many_answers_as_the_limit_allows(route: str) -> None:
    with serving_thread(MockSettings(requests_per_minute=LIMIT)) as lab:
        one, two = Client(lab.url, "one"), Client(lab.url, "two")
        with ThreadPoolExecutor(8) as pool:
            responses = list(pool.map(lambda _: one.ask(route), range(LIMIT + 7)))
        refused = [response for response in responses if response.status == 429]
        assert len(refused) == 7
        assert len([r for r in responses if r.status == 200]) == LIMIT
        for response in refused:
            if route == "gemini":
                details = response.data["error"]["details"]
                delay = next(d["retryDelay"] for d in details if "retryDelay" in d)
                seconds = int(delay.removesuffix("s"))
            else:
                seconds = int(response.headers["retry-after"])
                assert response.headers[REQUEST_ID[route]].startswith("req_")
            assert 1 <= seconds <= WINDOW
        assert [two.ask(route).status for _ in range(LIMIT + 1)] == [200] * LIMIT + [429]
        report = lab.report()["accounts"]
        assert report["one"]["arrivals"] == LIMIT + 7 == report["one"]["most_in_a_window"]
        assert report["one"]["over_limit"] == 7 == report["one"]["rate_limited"]
        assert report["one"]["answered"] == LIMIT
        assert 1 <= report["one"]["most_at_once"] <= 8
        assert report["two"]["over_limit_by"] == {"requests": 1}
        assert report["one"]["first"] <= report["one"]["last"] <= report["two"]["last"]


def test_headers_tell_what_is_left() -> None:
    limits = MockSettings(requests_per_minute=LIMIT, tokens_per_minute=100_000)
    with serving_thread(limits) as lab:
        client = Client(lab.url, "one")
        headers = client.ask("chat").headers
        assert headers["x-ratelimit-limit-requests"] == str(LIMIT)
        assert headers["x-ratelimit-remaining-requests"] == str(LIMIT - 1)
        headers = client.ask("messages").headers
        assert headers["anthropic-ratelimit-requests-remaining"] == str(LIMIT - 2)
        spent = lab.report()["accounts"]["one"]
        left = 100_000 - spent["tokens_in"] - spent["tokens_out"]
        assert headers["anthropic-ratelimit-tokens-remaining"] == str(left)


def test_tokens_a_minute_are_those_that_the_responses_name() -> None:
    with serving_thread() as free:
        usage = Client(free.url, "one").ask("chat").data["usage"]
    room = MockSettings(tokens_per_minute=3 * usage["total_tokens"])
    with serving_thread(room) as lab:
        client = Client(lab.url, "one")
        assert [client.ask("chat").status for _ in range(5)] == [200, 200, 200, 429, 429]
        account = lab.report()["accounts"]["one"]
        assert account["tokens_in"] == 3 * usage["prompt_tokens"]
        assert account["tokens_out"] == 3 * usage["completion_tokens"]
        assert account["over_limit_by"] == {"tokens": 2}


def test_more_at_once_than_allowed() -> None:
    with serving_thread(MockSettings(concurrent=2, latency=0.7)) as lab:
        client = Client(lab.url, "one")
        with ThreadPoolExecutor(6) as pool:
            found = sorted(pool.map(lambda _: client.ask("chat").status, range(6)))
        assert found == [200, 200, 429, 429, 429, 429]
        account = lab.report()["accounts"]["one"]
        assert account["over_limit_by"] == {"concurrent": 4}
        # A refused request is there for a moment too.
        assert 3 <= account["most_at_once"] <= 6


def test_requests_wait_beside_each_other() -> None:
    with serving_thread(MockSettings(latency=0.7)) as lab:
        client = Client(lab.url, "one")
        with ThreadPoolExecutor(10) as pool:
            assert set(pool.map(lambda _: client.ask("chat").status, range(10))) == {200}
        assert lab.report()["accounts"]["one"]["most_at_once"] == 10


def test_the_report_adds_up_and_can_be_begun_anew() -> None:
    with serving_thread() as lab:
        client = Client(lab.url, "one")
        client.ask("chat")
        client.ask("chat", image="")
        client.ask("chat", model="nobody")
        lab.schedule(Fault.EMPTY, 1, "one")
        client.ask("gemini")
        report = client.call("GET", "/lab/report").data
        account = report["accounts"]["one"]
        assert (account["answered"], account["rejected"], account["faults"]) == (1, 2, {"empty": 1})
        assert account["arrivals"] == 4 == report["requests"]
        assert client.call("DELETE", "/lab/report").status == 200
        assert lab.report()["accounts"]["one"]["arrivals"] == 0


def test_a_real_key_is_not_shown() -> None:
    secret = "sk-proj-" + "x1Y2" * 20
    with serving_thread() as lab:
        Client(lab.url, secret).ask("chat")
        assert secret not in json.dumps(lab.report())
        assert list(lab.report()["accounts"]) == [account_name(secret)]
    assert account_name("mine") == "mine"


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 6),
    gaps=st.lists(st.floats(0, 40, allow_nan=False), max_size=60),
)
def test_no_window_of_a_minute_holds_more_than_the_limit(limit: int, gaps: list[float]) -> None:
    account = Account("a", MockSettings(requests_per_minute=limit))
    now, admitted, refused = 0.0, [], 0
    for gap in gaps:
        now += gap
        account.arrive(now)
        refusal = account.admit(now)
        account.finish("answered" if refusal is None else "rate_limited")
        if refusal is None:
            admitted.append(now)
        else:
            refused += 1
            assert 0 < refusal.retry_after <= WINDOW
            # Let in again exactly when the window has moved on by that much.
            later = now + refusal.retry_after
            assert len([t for t in admitted if t > later - WINDOW + 1e-6]) < limit
            assert len([t for t in admitted if t > now - WINDOW]) >= limit
    for end in admitted:
        assert len([t for t in admitted if end - WINDOW < t <= end]) <= limit
    report = account.report()
    assert report["over_limit"] == refused == report["rate_limited"]
    assert report["arrivals"] == len(gaps) == report["answered"] + report["rate_limited"]


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(10, 100),
    calls=st.lists(
        st.tuples(st.floats(0, 40, allow_nan=False), st.integers(1, 60), st.integers(0, 60)),
        max_size=40,
    ),
)
def test_tokens_let_in_fit_the_minute(limit: int, calls: list[tuple[float, int, int]]) -> None:
    account = Account("a", MockSettings(tokens_per_minute=limit))
    now = 0.0
    spent: list[tuple[float, int]] = []
    for gap, tokens_in, tokens_out in calls:
        now += gap
        account.arrive(now)
        assert account.admit(now) is None
        entry = account.entry()
        before = sum(tokens for at, tokens in spent if at > now - WINDOW)
        refusal = account.charge(entry, tokens_in, now)
        assert (refusal is None) == (before + tokens_in <= limit)
        if refusal is None:
            account.charge_output(entry, tokens_out)
            spent.append((now, tokens_in + tokens_out))
        account.finish("answered")
    assert account.report()["tokens_in"] + account.report()["tokens_out"] == sum(
        tokens for _, tokens in spent
    )

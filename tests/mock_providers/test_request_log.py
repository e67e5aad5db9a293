"""The log of requests: a line for each that was answered, whoever kills the mock server."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from scenewright.mock_providers import Fault, MockError, MockSettings, serving_thread
from scenewright.mock_providers.accounts import Request, RequestLog, read_requests
from tests.mock_providers.asking import Client
from tests.mock_providers.test_replays import Repeating


def test_answered_requests_are_there_and_others_are_not(tmp_path: Path) -> None:
    log = tmp_path / "lab.jsonl"
    begun = time.time()
    with serving_thread(MockSettings(request_log=log)) as lab:
        repeating = Repeating(lab.url, "one")
        repeating.ask("chat")
        repeating.ask("chat")
        lab.schedule(Fault.SERVER_ERROR, key="two")
        other = Client(lab.url, "two")
        assert other.ask("chat").status == 500
        assert other.ask("chat").status == 200
    first, again, keyless = read_requests(log)
    assert [one.account for one in (first, again, keyless)] == ["one", "one", "two"]
    assert [one.executed for one in (first, again, keyless)] == [True, False, True]
    assert first.key == again.key == repeating.idempotency_key
    assert keyless.key == ""
    assert first.asked == again.asked
    assert begun <= first.arrived <= again.arrived <= time.time()


def test_labs_that_follow_each_other_share_a_log(tmp_path: Path) -> None:
    log = tmp_path / "lab.jsonl"
    for _ in range(2):
        with serving_thread(MockSettings(request_log=log)) as lab:
            Repeating(lab.url, "one").ask("chat")
    # The second lab knows nothing of the first one's replies.
    assert [one.executed for one in read_requests(log)] == [True, True]


def test_a_log_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(MockError, match="cannot be written"),
        serving_thread(MockSettings(request_log=tmp_path / "none" / "lab.jsonl")),
    ):
        pass


def test_what_is_noted_is_read_back(tmp_path: Path) -> None:
    log = tmp_path / "lab.jsonl"
    assert list(read_requests(log)) == []
    RequestLog(log).note("one", "key", "asked", time.monotonic(), executed=True)
    [found] = read_requests(log)
    assert found == Request("one", "key", "asked", found.arrived, True)


def test_a_lab_that_was_started_again_draws_the_same_where_that_is_asked_for() -> None:
    raw = json.dumps({"model": "instant-image", "prompt": "a dog", "size": "64x64"}).encode()
    headers = {"authorization": "Bearer one"}
    drawn = []
    for _ in range(2):
        with serving_thread(MockSettings(same_pictures=True)) as lab:
            client = Client(lab.url, "one")
            for _ in range(2):
                reply = client.call("POST", "/v1/images/generations", raw, headers)
                drawn.append(reply.data["data"])
    assert drawn == drawn[:1] * 4

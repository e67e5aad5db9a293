"""Every fault on every route: what a client sees on the wire."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.mock_providers import Fault, MockError, MockSettings, ThreadedMockProviders
from scenewright.mock_providers.faults import Chance, FaultPlan, parse_faults
from tests.mock_providers.asking import ROUTES, TWO, Client, answers_of, error_of, parts_of

STATUS = {"500": 500, "503": 503, "529": 529, "rate_limited": 429}
ERRORS = {
    ("chat", 500): "server_error",
    ("chat", 503): "server_error",
    ("chat", 529): "server_error",
    ("chat", 429): "requests",
    ("messages", 500): "api_error",
    ("messages", 503): "overloaded_error",
    ("messages", 529): "overloaded_error",
    ("messages", 429): "rate_limit_error",
    ("gemini", 500): "INTERNAL",
    ("gemini", 503): "UNAVAILABLE",
    ("gemini", 529): "UNAVAILABLE",
    ("gemini", 429): "RESOURCE_EXHAUSTED",
}
CUT = {
    "chat": "length",
    "responses": "max_output_tokens",
    "messages": "max_tokens",
    "gemini": "MAX_TOKENS",
}
DONE = {"chat": "stop", "responses": "completed", "messages": "end_turn", "gemini": "STOP"}


def meet(lab: ThreadedMockProviders, client: Client, fault: Fault, route: str, **given: Any) -> Any:
    lab.schedule(fault, 1, client.key)
    response = client.ask(route, **given)
    assert response.status == 200
    assert lab.report()["accounts"][client.key]["faults"] == {fault.value: 1}
    return response.data


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("fault", STATUS)
def test_errors_have_the_providers_status_and_shape(
    lab: ThreadedMockProviders, client: Client, fault: str, route: str
) -> None:
    lab.schedule(fault, 1, client.key)
    response = client.ask(route)
    assert response.status == STATUS[fault]
    kind, message = error_of(route, response.data)
    assert kind == ERRORS["chat" if route == "responses" else route, response.status]
    assert message
    if fault == "rate_limited" and route != "gemini":
        assert int(response.headers["retry-after"]) == 1
    if fault == "rate_limited" and route == "gemini":
        details = {
            entry["@type"].rpartition(".")[2]: entry for entry in response.data["error"]["details"]
        }
        assert details["RetryInfo"]["retryDelay"] == "1s"
    assert client.ask(route).status == 200
    account = lab.report()["accounts"][client.key]
    assert (account["answered"], account["faults"], account["over_limit"]) == (1, {fault: 1}, 0)


@pytest.mark.parametrize("route", ROUTES)
def test_a_dropped_connection_ends_without_a_byte(
    lab: ThreadedMockProviders, client: Client, route: str
) -> None:
    lab.schedule(Fault.DROP, 1, client.key)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        client.ask(route)
    assert client.ask(route).status == 200


@pytest.mark.parametrize("route", ROUTES)
def test_a_timeout_lasts_until_the_client_leaves(
    lab: ThreadedMockProviders, client: Client, route: str
) -> None:
    lab.schedule(Fault.TIMEOUT, 1, client.key)
    with pytest.raises(TimeoutError):
        client.ask(route, timeout=0.2)
    deadline = time.monotonic() + 60
    while (account := lab.report()["accounts"][client.key])["under_way"]:
        assert time.monotonic() < deadline, "the mock server holds on to a client that has left"
        time.sleep(0.01)
    assert account["faults"] == {"timeout": 1}


@pytest.mark.parametrize("route", ROUTES)
def test_a_slow_drip_is_a_right_answer_that_takes_its_time(
    lab: ThreadedMockProviders, client: Client, route: str
) -> None:
    started = time.monotonic()
    data = meet(lab, client, Fault.SLOW_DRIP, route)
    assert time.monotonic() - started > 0.25
    assert answers_of(route, data) == answers_of(route, client.ask(route).data)


@pytest.mark.parametrize("route", ROUTES)
def test_a_refusal_is_the_providers_own(
    lab: ThreadedMockProviders, client: Client, route: str
) -> None:
    found = parts_of(route, meet(lab, client, Fault.REFUSAL, route))
    assert found["refused"]
    assert not found["text"]
    assert found["arguments"] is None


@pytest.mark.parametrize("route", ROUTES)
def test_an_empty_answer_has_no_content(
    lab: ThreadedMockProviders, client: Client, route: str
) -> None:
    found = parts_of(route, meet(lab, client, Fault.EMPTY, route))
    assert not found["text"]
    assert found["arguments"] is None
    assert found["finish"] == DONE[route]
    assert not found["refused"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("form", ["tool", "json"])
def test_a_truncated_answer_says_why_and_lacks_its_end(
    lab: ThreadedMockProviders, client: Client, route: str, form: str
) -> None:
    found = parts_of(route, meet(lab, client, Fault.TRUNCATED_JSON, route, form=form))
    assert found["finish"] == CUT[route]
    if form == "json":
        assert whole(client, route).startswith(found["text"])
        with pytest.raises(json.JSONDecodeError):
            json.loads(found["text"])
    elif route == "gemini":
        assert found["arguments"] is None
    elif route == "messages":
        assert len(found["arguments"].get("answers", [])) < 2
    else:
        with pytest.raises(json.JSONDecodeError):
            json.loads(found["arguments"])


def whole(client: Client, route: str) -> str:
    text = parts_of(route, client.ask(route, form="json").data)["text"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("form", ["tool", "json"])
def test_invalid_json_is_what_the_provider_would_make_of_it(
    lab: ThreadedMockProviders, client: Client, route: str, form: str
) -> None:
    found = parts_of(route, meet(lab, client, Fault.INVALID_JSON, route, form=form))
    if form == "json":
        assert found["finish"] == DONE[route]
        with pytest.raises(json.JSONDecodeError):
            json.loads(found["text"])
    elif route == "gemini":
        assert found["finish"] == "MALFORMED_FUNCTION_CALL"
        assert found["arguments"] is None
    elif route == "messages":
        assert found["finish"] == "tool_use"
        with pytest.raises(json.JSONDecodeError):
            json.loads(found["arguments"]["answers"])
    else:
        with pytest.raises(json.JSONDecodeError):
            json.loads(found["arguments"])


@pytest.mark.parametrize("route", ROUTES)
def test_answers_outside_the_options(
    lab: ThreadedMockProviders, client: Client, route: str
) -> None:
    answers = answers_of(route, meet(lab, client, Fault.OUTSIDE_OPTIONS, route))
    assert [answer["n"] for answer in answers] == [1, 2]
    assert not {answer["a"] for answer in answers} & {"yes", "no"}


@pytest.mark.parametrize("route", ROUTES)
def test_a_wrong_number_of_answers(lab: ThreadedMockProviders, client: Client, route: str) -> None:
    lab.schedule(Fault.WRONG_NUMBER, 6, client.key)
    numbers = {
        tuple(answer["n"] for answer in answers_of(route, client.ask(route).data)) for _ in range(6)
    }
    # The package's lab counts the requests of all tests: six in a row are odd and even.
    assert numbers == {(1,), (1, 2, 3)}


def test_a_plain_answer_bends_too(lab: ThreadedMockProviders, client: Client) -> None:
    plain = {"text": "Is there a dog in the image?", "form": "text"}
    found = parts_of("chat", meet(lab, client, Fault.OUTSIDE_OPTIONS, "chat", **plain))
    assert found["text"] not in ("yes", "no")


def test_faults_are_ordered_and_cleared_over_http(client: Client) -> None:
    def order(**given: Any) -> Any:
        raw = json.dumps({"key": client.key, **given}).encode()
        return client.call("POST", "/lab/faults", raw)

    assert order(kind="503", next=2).status == 200
    assert [client.ask("chat").status for _ in range(3)] == [503, 503, 200]
    assert order(kind="500", share=1.0).status == 200
    assert [client.ask("messages").status for _ in range(2)] == [500, 500]
    planned = client.call("GET", "/lab/faults").data
    assert {"kind": "500", "share": 1.0, "key": client.key} in planned["shares"]
    assert set(planned["kinds"]) == {fault.value for fault in Fault}
    assert client.call("DELETE", "/lab/faults").data == {"shares": [], "ordered": []}
    assert client.ask("messages").status == 200
    assert order(kind="nothing", next=1).status == 422
    assert order(kind="500").status == 422
    assert order(kind="500", share=1.5).status == 422
    assert order(kind="500", next=0).status == 422


def test_a_bad_request_uses_up_no_ordered_fault(lab: ThreadedMockProviders, client: Client) -> None:
    lab.schedule(Fault.OVERLOADED, 1, client.key)
    assert client.ask("chat", image="").status == 400
    assert client.ask("chat", text=TWO).status == 529


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(), shares=st.dictionaries(st.sampled_from(Fault), st.floats(0, 1 / 13)))
def test_faults_by_share_depend_on_seed_and_number_alone(
    seed: int, shares: dict[Fault, float]
) -> None:
    plans = [FaultPlan(shares), FaultPlan(shares)]
    drawn = [[plan.draw("a", Chance(seed, n)) for n in range(1, 60)] for plan in plans]
    assert drawn[0] == drawn[1]
    assert {fault for fault in drawn[0] if fault} <= {f for f, share in shares.items() if share}


def test_shares_are_met() -> None:
    plan = FaultPlan({Fault.SERVER_ERROR: 0.05, Fault.DROP: 0.2})
    drawn = Counter(plan.draw("a", Chance(3, n)) for n in range(20_000))
    # Four standard deviations of a binomial count.
    assert abs(drawn[Fault.SERVER_ERROR] - 1000) < 4 * (20_000 * 0.05 * 0.95) ** 0.5
    assert abs(drawn[Fault.DROP] - 4000) < 4 * (20_000 * 0.2 * 0.8) ** 0.5


def test_an_account_has_its_own_faults_beside_those_of_all() -> None:
    plan = FaultPlan({Fault.DROP: 0.5})
    plan.set_share(Fault.DROP, 0.0, "calm")
    plan.set_share(Fault.DROP, 0.0, "empty")
    plan.set_share(Fault.EMPTY, 1.0, "empty")
    plan.schedule(Fault.REFUSAL, 1)
    assert plan.draw("calm", Chance(0, 1)) is Fault.REFUSAL
    assert {plan.draw("calm", Chance(0, n)) for n in range(100)} == {None}
    assert {plan.draw("empty", Chance(0, n)) for n in range(100)} == {Fault.EMPTY}
    assert {plan.draw("other", Chance(0, n)) for n in range(100)} == {None, Fault.DROP}
    plan.clear()
    assert {plan.draw("calm", Chance(0, n)) for n in range(100)} == {None, Fault.DROP}


def test_shares_as_text() -> None:
    assert parse_faults(["500=0.02", "drop=0.1"]) == {Fault.SERVER_ERROR: 0.02, Fault.DROP: 0.1}
    for wrong in ("nothing=0.1", "500", "500=much", "500=1.5", "500=-1", "500=nan"):
        with pytest.raises(MockError):
            parse_faults([wrong])
    with pytest.raises(MockError, match="sum"):
        parse_faults(["500=0.6", "503=0.6"])
    with pytest.raises(MockError):
        MockSettings(latency=-1.0)


def test_every_fault_is_explained() -> None:
    assert all(fault.about for fault in Fault)

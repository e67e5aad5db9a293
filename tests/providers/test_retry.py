"""When a failed call is sent again, and what an HTTP error means."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.providers.retry import (
    Backoff,
    Decision,
    PermanentError,
    RateLimited,
    Retries,
    Transient,
    classify_http,
    rate_limit_reset,
    retry_after,
    unreachable,
)
from tests.providers.virtual import REPEATABLE, STEADY


def waits(decision: Decision, *, attempts: int = 5, max_wait: float = 100.0) -> list[float]:
    """The waits between attempts that all end with ``decision``."""
    retries = Retries(attempts, max_wait, STEADY)
    found: list[float] = []
    while (failed := retries.after(decision)).wait is not None:
        found.append(failed.wait)
    return found


def test_a_final_decision_ends_at_once() -> None:
    assert waits(PermanentError("wrong key")) == []


def test_transient_failures_wait_ever_longer_and_are_bounded_by_attempts() -> None:
    assert waits(Transient("503"), attempts=7) == [1, 2, 4, 8, 8, 8]


def test_rate_limits_are_bounded_by_patience_alone() -> None:
    assert waits(RateLimited("429"), attempts=1, max_wait=40) == [1, 2, 4, 8, 8, 8, 8]
    assert waits(RateLimited("429", 10), attempts=1, max_wait=40) == [10, 10, 10, 10]


@pytest.mark.parametrize("hint", [None, 0.0, 0.2])
def test_no_hint_switches_the_backoff_off(hint: float | None) -> None:
    assert waits(RateLimited("429", hint), max_wait=40) == [1, 2, 4, 8, 8, 8, 8]
    retries = Retries(6, 600.0, Backoff(jitter=0.0))
    refused = 0
    while retries.after(RateLimited("429", hint)).wait is not None:
        refused += 1
    assert refused < 30


@pytest.mark.parametrize("decision", [RateLimited("429", 30), Transient("503", 30)])
def test_the_time_the_provider_asks_for_is_given(decision: Decision) -> None:
    assert waits(decision)[0] == 30


@pytest.mark.parametrize("kind", [RateLimited, Transient])
def test_a_wait_beyond_the_patience_ends_with_the_reason(
    kind: type[RateLimited] | type[Transient],
) -> None:
    retries = Retries(5, 100.0, STEADY)
    assert retries.after(kind("busy", 70)).wait == 70
    failed = retries.after(kind("busy", 70))
    assert failed.wait is None
    assert isinstance(failed.decision, kind)
    assert failed.decision.reason == (
        "busy; the next attempt would be in 70 s; the retry budget (max_wait = 100 s) has 30 s left"
    )


def test_an_unusable_reply_is_tried_twice_more_at_most() -> None:
    retries = Retries(5, 100.0, STEADY)
    assert retries.unusable("no JSON", True).wait == 0
    assert retries.unusable("no JSON", True).wait == 0
    again = retries.unusable("no JSON", True)
    assert again.wait is None
    assert again.decision == PermanentError("no JSON")
    assert Retries(5, 100.0, STEADY).unusable("a refusal", False).wait is None
    assert Retries(1, 100.0, STEADY).unusable("no JSON", True).wait is None


def test_what_took_all_its_time_is_tried_once_more_at_most() -> None:
    late = Transient("no reply within 120 s", timed_out=True)
    assert waits(late, attempts=6) == [1]
    retries = Retries(6, 100.0, STEADY)
    decisions = [late, Transient("503"), Transient("503"), late]
    assert [retries.after(one).wait for one in decisions] == [1, 2, 4, None]


def test_the_same_words_of_a_500_twice_are_final() -> None:
    own = classify_http(500, {}, "image input is not supported - hint: if this is unexpected, …")
    assert isinstance(own, Transient)
    retries = Retries(6, 100.0, STEADY)
    assert retries.after(own).wait == 1
    last = retries.after(own)
    assert last.wait is None
    assert isinstance(last.decision, PermanentError)
    assert last.decision.reason.endswith("; the same answer came twice")
    retries = Retries(6, 100.0, STEADY)
    other = classify_http(500, {}, "out of slots")
    assert [retries.after(one).wait for one in (own, other, own, own)] == [1, 2, 4, None]


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        (500, {}, "The server had an error while processing your request. Sorry about that!"),
        (500, {}, "Internal server error"),
        (500, {}, "An internal error has occurred. Please retry or report in https://…"),
        (500, {}, ""),
        (500, {"retry-after": "1"}, "no slot"),
        (503, {}, "no slot"),
        (529, {}, "Overloaded"),
    ],
)
def test_what_passes_is_tried_again_whatever_it_says(
    status: int, headers: dict[str, str], reason: str
) -> None:
    assert len(waits(classify_http(status, headers, reason), attempts=4)) == 3


def _raised(*errors: BaseException) -> BaseException:
    """The first error, each raised from the next."""
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            _raised(
                RuntimeError("Connection error."),
                OSError("All connection attempts failed"),
                ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)"),
            ),
            "connection refused: check that the server runs, and base_url",
        ),
        (
            _raised(RuntimeError("Connection error."), socket.gaierror(-2, "not known")),
            "the name cannot be resolved: check the network, and base_url",
        ),
        (
            _raised(RuntimeError("Connection error."), ConnectionResetError(104, "reset")),
            "Connection reset by peer",
        ),
        (_raised(RuntimeError("Connection error."), ValueError("")), "RuntimeError: Connection"),
        (_raised(RuntimeError("outer"), ValueError("inner")), "ValueError: inner"),
    ],
)
def test_no_reply_is_told_by_the_innermost_error(error: BaseException, said: str) -> None:
    assert unreachable(error).startswith(said)


@REPEATABLE
@given(st.integers(1, 2000))
def test_jitter_stays_within_its_share(failures: int) -> None:
    backoff = Backoff(initial=0.5, maximum=30, jitter=0.5)
    longest = min(30, 0.5 * 2 ** min(failures - 1, 20))
    assert longest / 2 <= backoff.seconds(failures) <= longest


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, RateLimited)]
    + [(status, Transient) for status in (408, 409, 500, 502, 503, 504, 520, 529)]
    + [(status, PermanentError) for status in (400, 401, 402, 403, 404, 413, 418, 422, 501)],
)
def test_what_a_status_means(status: int, kind: type[Decision]) -> None:
    decision = classify_http(status, {"Retry-After": "7"}, "said so")
    assert isinstance(decision, kind)
    assert decision.reason.startswith(f"HTTP {status}: said so")
    if not isinstance(decision, PermanentError):
        assert decision.retry_after == 7


@pytest.mark.parametrize(("status", "hint"), [(401, "API key"), (404, "model's name")])
def test_a_final_status_says_what_to_do(status: int, hint: str) -> None:
    assert hint in classify_http(status, {}, "no").reason


def test_the_provider_may_say_itself_whether_to_try_again() -> None:
    assert isinstance(classify_http(429, {"X-Should-Retry": "false"}, "quota"), PermanentError)
    assert isinstance(classify_http(503, {"x-should-retry": "false"}, "gone"), PermanentError)
    assert isinstance(classify_http(400, {"x-should-retry": "true"}, "flaky"), Transient)


NOW = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after-ms": "0", "retry-after": "1"}, 1),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "1"}, 1),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 01 Nov 2026 11:00:00 GMT"}, None),
        (
            {
                "retry-after": "Sun, 01 Nov 2026 13:00:30 GMT",
                "date": "Sun, 01 Nov 2026 13:00:00 GMT",
            },
            30,
        ),
    ],
)
def test_reading_when_to_come_back(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"reset-requests": "6m0s", "remaining-requests": "0"}, 360),
        ({"reset-tokens": "17ms", "remaining-tokens": "0"}, 0.017),
        ({"reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"reset-requests": "6m0s", "remaining-requests": "12"}, None),
        ({"reset-requests": "1s", "reset-tokens": "7.66s"}, 7.66),
        ({"reset": "30"}, 30),
        ({"reset": str(int(NOW.timestamp()) + 45)}, 45),
        ({"reset": str((int(NOW.timestamp()) + 45) * 1000), "remaining": "0"}, 45),
        ({"reset": str(int(NOW.timestamp()) - 45)}, None),
        ({"reset": "soon"}, None),
        ({"reset": "-1"}, None),
    ],
)
def test_reading_when_a_limit_is_reset(headers: dict[str, str], seconds: float | None) -> None:
    found = {f"x-ratelimit-{name}": value for name, value in headers.items()}
    assert rate_limit_reset(found, NOW) == pytest.approx(seconds)
    decision = classify_http(429, {**found, "Retry-After": "2"}, "slow down")
    assert isinstance(decision, RateLimited)
    assert decision.retry_after == 2


def test_a_reset_counts_where_nothing_else_is_said() -> None:
    headers = {"X-RateLimit-Reset-Requests": "20s", "Retry-After": "0"}
    decision = classify_http(429, headers, "slow down")
    assert isinstance(decision, RateLimited)
    assert decision.retry_after == 20


@REPEATABLE
@given(st.text())
def test_any_text_of_a_header_is_read_without_an_error(text: str) -> None:
    seconds = retry_after({"retry-after": text, "date": text, "retry-after-ms": text}, NOW)
    assert seconds is None or seconds >= 0


@REPEATABLE
@given(st.integers(1, 10**6))
def test_every_date_is_read_back(seconds: int) -> None:
    until = datetime.fromtimestamp(NOW.timestamp() + seconds, UTC)
    assert retry_after({"retry-after": format_datetime(until, usegmt=True)}, NOW) == seconds

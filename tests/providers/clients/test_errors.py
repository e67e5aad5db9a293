"""What an error between us and a provider means."""

from __future__ import annotations

import json

import pytest

from scenewright.core.error_text import hidden
from scenewright.providers.clients.base import MalformedReply, RequestError
from scenewright.providers.clients.reading import StatusError, of_connection, of_other, of_status
from scenewright.providers.retry import PermanentError, RateLimited, Transient

KEY = "a plain-looking key"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MalformedReply("x"), Transient),
        (ConnectionResetError("x"), Transient),
        (TimeoutError(), Transient),
        (json.JSONDecodeError("x", "y", 0), Transient),
        (KeyError("choices"), Transient),
        (UnicodeEncodeError("ascii", "é", 0, 1, "x"), PermanentError),
        (RequestError("x"), PermanentError),
        (RuntimeError("x"), PermanentError),
        (StatusError(404, "x"), PermanentError),
        (StatusError(503, "x"), Transient),
        (StatusError(429, "x"), RateLimited),
    ],
)
def test_what_another_try_may_mend(error: Exception, kind: type) -> None:
    assert isinstance(of_other(error, KEY), kind)


def test_no_reason_holds_the_key() -> None:
    assert hidden(f"bad: {KEY}!", KEY) == "bad: [hidden]!"
    assert hidden("a b c", "b") == "a b c"
    error = ConnectionError(f"proxy said {KEY}")
    decisions = [
        of_other(StatusError(500, f"told you: {KEY}"), KEY),
        of_other(MalformedReply(KEY), KEY),
        of_other(RequestError(KEY), KEY),
        of_connection(error, KEY),
        of_other(ValueError(KEY), KEY),
        of_status(429, {"retry-after": "2"}, f"slow down, {KEY}", KEY),
    ]
    assert not any(KEY in decision.reason for decision in decisions)
    limited = decisions[-1]
    assert isinstance(limited, RateLimited)
    assert limited.retry_after == 2.0


def test_a_request_that_does_not_fit_says_how_long_it_may_be() -> None:
    message = "This model's maximum context length is 4096 tokens. However, you requested 5230."
    decision = of_status(400, {}, message, "")
    assert isinstance(decision, PermanentError)
    assert "the request of 5230 tokens does not fit into the model's context of 4096" in (
        decision.reason
    )

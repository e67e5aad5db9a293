"""What an error between us and a provider means."""

from __future__ import annotations

import json

import pytest

from scenewright.agents.judges.reading import (
    MalformedReply,
    hidden,
    of_connection,
    of_other,
    of_status,
)
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
        (RuntimeError("x"), PermanentError),
    ],
)
def test_what_another_try_may_mend(error: Exception, kind: type) -> None:
    assert isinstance(of_other(error, KEY), kind)


def test_no_reason_holds_the_key() -> None:
    assert hidden(f"bad: {KEY}!", KEY) == "bad: [hidden]!"
    assert hidden("a b c", "b") == "a b c"
    error = ConnectionError(f"proxy said {KEY}")
    decisions = [
        of_connection(error, KEY),
        of_other(ValueError(KEY), KEY),
        of_status(429, {"retry-after": "2"}, f"slow down, {KEY}", KEY),
    ]
    assert not any(KEY in decision.reason for decision in decisions)
    assert isinstance(decisions[2], RateLimited)
    assert decisions[2].retry_after == 2.0

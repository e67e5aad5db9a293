"""What a log may hold: no keys, no images, one short line."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.providers.retry import scrubbed
from tests.providers.virtual import REPEATABLE

SECRET = "Zq8xVt3nLw7Kp2Rb9Yc4"
SECRETS = {
    "openai": f"Incorrect API key provided: sk-{SECRET}. You can find it at example.org",
    "openai project": f"bad key sk-proj-{SECRET}_{SECRET}",
    "half hidden": f"Incorrect API key provided: {SECRET}****abcd.",
    "bearer": f"headers: Authorization: Bearer {SECRET}, Accept: */*",
    "a dictionary": f"{{'Authorization': 'Bearer {SECRET}', 'a': 1}}",
    "another dictionary": f'{{"x-api-key": "{SECRET}"}}',
    "google": f"GET /v1beta/models?key={SECRET}&alt=json failed",
    "google's shape": f"API_KEY_INVALID AIza{SECRET}",
    "google's header": f"x-goog-api-key: {SECRET}",
    "a password": f"proxy http://me:{SECRET}@proxy.example.org:3128 refused",
    "alone": f"Bearer {SECRET}",
    "a token": f"access_token={SECRET}",
}


@pytest.mark.parametrize("case", SECRETS)
def test_keys_are_hidden(case: str) -> None:
    text = scrubbed(SECRETS[case])
    assert SECRET not in text
    assert "[hidden]" in text
    assert scrubbed(text) == text


@pytest.mark.parametrize("prefix", ["data:image/png;base64,", "image: "])
def test_image_data_is_left_out(prefix: str) -> None:
    data = base64.b64encode(bytes(range(256)) * 50).decode()
    text = scrubbed(f"400: invalid {prefix}{data} in the request")
    assert text.startswith("400: invalid")
    assert text.endswith("[data] in the request")


@pytest.mark.parametrize(
    "text",
    [
        "HTTP 429: Rate limit reached for gpt-4o in organization org-abc on tokens per min (TPM): "
        "Limit 30000, Used 29500, Requested 1200. Please try again in 1.4s.",
        "HTTP 404: models/gemini-none is not found for API version v1beta",
        f"image {'0a' * 32}: no reply within 60 s",
    ],
)
def test_what_explains_an_error_stays(text: str) -> None:
    assert scrubbed(text) == text


def test_a_text_becomes_one_short_line() -> None:
    assert scrubbed("one\r\ntwo\x1b[31m\tthree\u2028four") == "one two [31m three four"
    assert len(scrubbed("word " * 1000)) == 300


def test_a_cut_leaves_no_half_secret() -> None:
    text = scrubbed("A" * 99_992 + f" sk-{SECRET}" + "B" * 1000)
    assert text == "[data]"


@REPEATABLE
@given(st.text(max_size=400), st.integers(1, 300))
def test_any_text_is_shortened_to_printable_characters(text: str, limit: int) -> None:
    result = scrubbed(text, limit)
    assert len(result) <= limit
    assert all(c.isprintable() for c in result)

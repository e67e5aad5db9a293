"""Errors in words; what a log may hold: no keys, no images, one short line."""

from __future__ import annotations

import base64
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scenewright
from scenewright.core.error_text import error_text, library_texts_withheld, scrubbed
from scenewright.core.ports.judge import JudgeError
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


class Timeout(Exception):
    """As some libraries name theirs."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (JudgeError("the folder\n  is empty: copy it"), "the folder is empty: copy it"),
        (JudgeError(), "JudgeError"),
        (RuntimeError("CUDA error:\n  no kernel"), "RuntimeError: CUDA error: no kernel"),
        (ValueError(), "ValueError"),
        (KeyError("x"), "KeyError: 'x'"),
        (Timeout("in 5 s"), "Timeout: in 5 s"),
        (ExceptionGroup("two", [ValueError("one"), KeyError("x")]), "ValueError: one"),
        (RuntimeError(f"bad key sk-{SECRET}"), "RuntimeError: bad key [hidden]"),
    ],
)
def test_an_error_is_told_in_words(error: Exception, said: str) -> None:
    assert error_text(error) == said


def test_a_text_is_cut_and_a_key_hidden() -> None:
    assert error_text(ValueError("x " * 400), 20) == "ValueError: x x x x…"
    assert len(error_text(JudgeError("x" * 900))) == 500
    assert error_text(ValueError("at my-own-key"), key="my-own-key") == "ValueError: at [hidden]"


def test_texts_of_libraries_go_to_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    def cleaned(error: BaseException) -> str:
        return f"{error}".replace("/srv/", "")

    told: list[str] = []

    def fail() -> None:
        told.append(error_text(RuntimeError("no kernel in /srv/x.py")))

    with library_texts_withheld(cleaned):
        with library_texts_withheld(str):
            pass
        for _ in range(3):
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()
        assert set(told) == {"RuntimeError: the service's log says more"}
        assert error_text(Timeout("/srv/x")) == "Timeout: the service's log says more"
        assert error_text(JudgeError("no file /srv/x")) == "no file x"
        assert "no file /srv/x" in caplog.text
        assert error_text(JudgeError("no such model")) == "no such model"
        assert "no such model" not in caplog.text
    logged = [one.getMessage() for one in caplog.records]
    assert sum("no kernel in /srv/x.py" in one for one in logged) == 1
    assert error_text(RuntimeError("no kernel")) == "RuntimeError: no kernel"


def test_a_key_is_not_in_the_log_either(caplog: pytest.LogCaptureFixture) -> None:
    with library_texts_withheld(str):
        try:
            raise ValueError("refused my-own-key at once")
        except ValueError as error:
            error_text(error, key="my-own-key")
    assert "refused [hidden] at once" in caplog.text
    assert "my-own-key" not in caplog.text


def test_no_other_place_puts_a_library_s_error_in_words() -> None:
    written = re.compile(r"\{type\(error\)\.__name__\}: ")
    sources = Path(scenewright.__file__).parent
    # The command line tells all: nobody else reads it.
    found = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*.py")
        if written.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"cli/console.py"}

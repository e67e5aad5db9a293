"""Proxy variables: which proxy a request passes, and what is said where it cannot."""

from __future__ import annotations

import asyncio
import socket

import pytest

from scenewright.agents.judges.remote import remote_judge
from scenewright.core.questions import facts_of
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff, PermanentError, TransportError
from scenewright.providers.transport import http_client, proxy_for
from tests.agents.judges.conformance import picture, scene
from tests.providers.raw_server import RawRequest, raw_server, reply

PROXY = "http://proxy.example:3128"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def used(url: str, **environ: str) -> str | None:
    found = proxy_for(url, environ)
    return found and found.variable


@pytest.mark.parametrize(
    ("url", "environ", "variable"),
    [
        ("http://api.example/v1", {"HTTP_PROXY": PROXY}, "HTTP_PROXY"),
        ("https://api.example/v1", {"HTTP_PROXY": PROXY}, None),
        ("https://api.example/v1", {"https_proxy": PROXY, "HTTPS_PROXY": "x://"}, "https_proxy"),
        ("https://api.example/v1", {"ALL_PROXY": PROXY}, "ALL_PROXY"),
        ("https://api.example", {"ALL_PROXY": "socks://h:1", "HTTPS_PROXY": PROXY}, "HTTPS_PROXY"),
        ("http://api.example/v1", {"HTTP_PROXY": "proxy.example:3128"}, "HTTP_PROXY"),
        ("http://api.example/v1", {"HTTP_PROXY": " "}, None),
        # This machine is reached directly.
        ("http://127.0.0.1:8000/v1", {"HTTP_PROXY": PROXY}, None),
        ("http://[::1]:8000/v1", {"HTTP_PROXY": PROXY}, None),
        ("http://localhost:8000/v1", {"ALL_PROXY": "socks://h:1"}, None),
    ],
)  # fmt: skip
def test_the_variable_of_an_address(
    url: str, environ: dict[str, str], variable: str | None
) -> None:
    assert used(url, **environ) == variable


@pytest.mark.parametrize(
    ("entry", "url", "direct"),
    [
        ("*", "http://api.example", True),
        ("api.example", "http://api.example", True),
        ("example", "http://api.example", True),
        (".example", "http://api.example", True),
        ("*.example", "http://api.example:81", True),
        ("API.Example.", "http://api.example", True),
        ("pi.example", "http://api.example", False),
        ("other, api.example", "http://api.example", True),
        ("other api.example", "http://api.example", True),
        ("api.example:81", "http://api.example:81", True),
        ("api.example:81", "http://api.example", False),
        ("api.example:80", "http://api.example", True),
        ("http://api.example", "http://api.example", True),
        ("10.0.0.0/8", "http://10.1.2.3:8000", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.0.0.0/8", "http://api.example", False),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("10.1.2.3:81", "http://10.1.2.3:81", True),
        ("[fd00::1]", "http://[fd00::1]:8000", True),
        ("fd00::1", "http://[fd00::1]:8000", True),
        ("[fd00::1]:81", "http://[fd00::1]:81", True),
        ("[fd00::1]:81", "http://[fd00::1]:82", False),
        ("fd00::/8", "http://[fd00::1]", True),
        ("[fd00::]/8", "http://[fd00::1]", True),
        ("[::1", "http://api.example", False),
        ("", "http://api.example", False),
        (",.,", "http://api.example", False),
    ],
)
def test_addresses_without_a_proxy(entry: str, url: str, direct: bool) -> None:
    assert (used(url, HTTP_PROXY=PROXY, NO_PROXY=entry) is None) is direct
    assert (used(url, HTTP_PROXY=PROXY, no_proxy=entry) is None) is direct


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("socks://proxy.example:1080", "write socks5://host:port"),
        ("socks4://proxy.example:1080", "write socks5://host:port"),
        ("ftp://proxy.example", "write http://host:port"),
        ("http://", "write http://host:port"),
        ("http://proxy.example:port", "write http://host:port"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named(value: str, remedy: str) -> None:
    with pytest.raises(TransportError) as caught:
        proxy_for("https://api.example", {"ALL_PROXY": value})
    assert isinstance(caught.value.decision, PermanentError)
    assert str(caught.value).startswith("the proxy variable ALL_PROXY ")
    assert remedy in str(caught.value)


def test_socks_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenewright.providers.transport.find_spec", lambda _: None)
    with pytest.raises(TransportError, match="pip install socksio"):
        proxy_for("https://api.example", {"HTTPS_PROXY": "socks5://proxy.example"})


async def test_requests_pass_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(reply({"ok": True})) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", "//user:secret@"))
        async with http_client("http://api.example/v1") as client:
            response = await client.post("http://api.example/v1/chat", json={})
    assert response.json() == {"ok": True}
    assert proxy.received[0].target == "http://api.example/v1/chat"
    assert proxy.received[0].headers["proxy-authorization"].startswith("Basic ")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def ask(provider: str, base_url: str) -> tuple[str, int]:
    """Why a judge did not answer, and how often it was asked."""
    caller = Caller("mine", backoff=Backoff(0.001, 0.001))
    judge = remote_judge(provider, "some-model", caller, api_key="a key", base_url=base_url)
    try:
        (answer,) = await judge.answer(picture(), facts_of(scene())[:1])
    finally:
        await judge.aclose()
    assert answer.state == "unscored"
    return answer.reason, caller.totals.attempts


@pytest.mark.parametrize("provider", ["openai", "gemini", "anthropic"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_dead_proxy_is_named_after_two_attempts(
    provider: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, variable = f"127.0.0.1:{free_port()}", f"{scheme.upper()}_PROXY"
    monkeypatch.setenv(variable, f"http://user:secret@{address}")
    reason, attempts = await ask(provider, f"{scheme}://api.example/v1")
    assert attempts == 2
    assert f"the proxy of {variable} ({address}) refuses connections" in reason
    assert "NO_PROXY" in reason
    assert "secret" not in reason


@pytest.mark.parametrize("provider", ["openai", "gemini", "anthropic"])
async def test_a_wrong_variable_is_named_without_an_attempt_more(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks://127.0.0.1:1080")
    reason, attempts = await ask(provider, "https://api.example/v1")
    assert attempts == 1
    assert "the proxy variable ALL_PROXY begins with socks://" in reason


async def test_a_proxy_s_refusal_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        assert request.method == "CONNECT"
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with raw_server(refuse) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        reason, attempts = await ask("openai", "https://api.example/v1")
    assert attempts == 1
    assert "the proxy of HTTPS_PROXY" in reason
    assert "user name and a password" in reason

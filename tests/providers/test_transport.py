"""The guarded transport: where a request goes, and which replies are taken."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import socket
import ssl
import tracemalloc
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from scenewright.providers import transport
from scenewright.providers.retry import (
    CallError,
    PermanentError,
    TransportError,
    transport_decision,
)
from scenewright.providers.transport import (
    fetch_picture,
    http_client,
    is_public,
    listen_for_parts,
    part_received,
    screen,
)
from scenewright.providers.usage import Reply, Usage
from tests.providers.raw_server import RawRequest, gzipped, head, parts, raw_server, reply, zeros
from tests.providers.virtual import classify, get_caller, now, run

KEY = "sk-secret-of-the-tests-0123456789"
MIB = 2**20


async def post(url: str, max_bytes: int = MIB) -> httpx2.Response:
    headers = {"authorization": f"Bearer {KEY}"}
    async with http_client(url, headers=headers, max_bytes=max_bytes) as client:
        return await client.post(f"{url}/chat/completions", json={"prompt": "a red ball"})


async def refusal(url: str, max_bytes: int = MIB) -> str:
    with pytest.raises(TransportError) as caught:
        await post(url, max_bytes)
    assert isinstance(caught.value.decision, PermanentError)
    return str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    async with raw_server(reply({"choices": []})) as other:
        there = f"{other.url.replace('127.0.0.1', 'localhost')}/v1?token=1"
        async with raw_server(reply(b"", status, Location=there)) as server:
            text = await refusal(f"{server.url}/v1")
        assert other.connections == 0
    assert there.partition("?")[0] in text
    assert "set base_url to that address if you trust it" in text
    assert "token" not in text


async def test_nothing_goes_to_another_server() -> None:
    async with raw_server(reply({})) as own, raw_server(reply({})) as other:
        async with http_client(own.url) as client:
            with pytest.raises(TransportError, match="is not the server of base_url"):
                await client.post(other.url, json={})
        assert other.connections == 0


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_small_file_that_inflates_is_not_read_to_its_end(encoding: str) -> None:
    packed = zeros(64, encoding)
    assert len(packed) < 100_000
    async with raw_server(reply(packed, Content_Encoding=encoding)) as server:
        tracemalloc.start()
        try:
            text = await refusal(server.url)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert "limit is 1,048,576" in text
    assert most < 8 * MIB


async def test_a_length_beyond_the_limit_is_refused_before_it_is_read() -> None:
    async with raw_server(reply(b"{", length=5 * MIB)) as server:
        assert "5,242,880" in await refusal(server.url)


async def test_a_stream_is_bounded_too() -> None:
    long = parts(b"data: " + b"x" * 65536 + b"\n\n" for _ in range(40))
    async with (
        raw_server(long) as server,
        http_client(server.url, max_bytes=MIB) as client,
        client.stream("POST", server.url, json={}) as response,
    ):
        assert response.status_code == 200
        with pytest.raises(TransportError, match="limit is 1,048,576"):
            async for _ in response.aiter_lines():
                pass


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
async def test_compressions_that_were_not_asked_for_are_refused(encoding: str) -> None:
    async with raw_server(reply(b"x", Content_Encoding=encoding)) as server:
        assert "gzip and deflate" in await refusal(server.url)
    assert server.received[0].headers["accept-encoding"] == "gzip, deflate"


async def test_a_compressed_reply_is_read() -> None:
    body = {"choices": [{"message": {"content": "a ball"}}]}
    async with raw_server(reply(gzipped(body), Content_Encoding="gzip")) as server:
        response = await post(server.url)
    assert response.json() == body
    assert "content-encoding" not in response.headers


async def test_each_part_is_reported() -> None:
    seen = []
    events = [b": wait\n\n", b"data: 1\n\n", b"data: 2\n\n"]
    async with raw_server(parts(events)) as server, http_client(server.url) as client:
        with listen_for_parts(lambda: seen.append(len(seen))):
            async with client.stream("POST", server.url, json={}) as response:
                await response.aread()
    assert len(seen) >= 2


class TestSilence:
    """The timeout of an attempt, in virtual time."""

    @staticmethod
    async def call(*pauses: float) -> tuple[str, float]:
        async def send() -> Reply[str]:
            for pause in pauses:
                await asyncio.sleep(pause)
                part_received()
            return Reply("whole", Usage())

        caller = get_caller(timeout=10.0, attempts=1)
        begun = now()
        call = caller.call(
            send, classify=classify, provider="openai", model="gpt-4o-mini", tokens=1
        )
        try:
            return (await call).value, now() - begun
        except CallError as error:
            return str(error), now() - begun

    def test_a_reply_that_keeps_coming_is_waited_for(self) -> None:
        value, seconds = run(self.call(*[9.0] * 10))
        assert value == "whole"
        assert seconds == pytest.approx(90, abs=0.1)

    def test_silence_ends_it(self) -> None:
        assert run(self.call(11.0))[0] == "no reply within 10 s"
        text, seconds = run(self.call(5.0, 11.0))
        assert text == "the reply stopped: nothing more came for 10 s"
        assert seconds == pytest.approx(15, abs=0.1)

    def test_signs_of_life_do_not_extend_it_for_ever(self) -> None:
        text, seconds = run(self.call(*[1.0] * 1000))
        assert text == "the reply was not complete after 100 s"
        assert seconds == pytest.approx(100, abs=0.1)


async def test_a_page_is_named() -> None:
    page = "<html><head><title>Sign in &amp; go on</title></head><body>…</body></html>"
    async with raw_server(reply(page, kind="text/html; charset=utf-8")) as server:
        text = await refusal(f"{server.url}/v1")
    assert f"base_url {server.url}/v1 answers with a page ('Sign in & go on')" in text
    assert "asks to sign in" in text
    async with raw_server(reply("<html><title>Hi</title></html>")) as server:
        assert "base_url should end in /v1" in await refusal(server.url)


async def test_json_that_calls_itself_a_page_is_read() -> None:
    async with raw_server(reply({"choices": []}, kind="text/html")) as server:
        assert (await post(server.url)).json() == {"choices": []}


async def test_an_error_page_keeps_its_status_and_loses_its_bulk() -> None:
    page = "<html><title>524: A timeout occurred</title>" + "<p>x</p>" * 10_000
    async with raw_server(reply(page, 524, kind="text/html", Retry_After="7")) as server:
        response = await post(server.url)
    assert response.status_code == 524
    assert response.headers["retry-after"] == "7"
    message = response.json()["error"]["message"]
    assert "a page ('524: A timeout occurred')" in message
    assert "a proxy or gateway" in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "slow down", "code": 429}, "choices": None}, 429),
        ({"error": "the model crashed"}, 500),
        ({"error": {"message": "a warning"}, "choices": [{"message": {"content": "x"}}]}, 200),
        ({"error": None, "output": []}, 200),
        ([{"error": 1}], 200),
        ("error", 200),
    ],
)
def test_an_error_inside_a_200_has_a_status(body: Any, status: int) -> None:
    sent = json.dumps(body).encode()
    found, headers, content = screen(sent)
    assert (found, headers) == (status, {})
    assert content == sent if status == 200 else json.loads(content)["error"]["message"]


async def test_the_status_and_the_hints_of_a_gateway_reach_the_client() -> None:
    inner = {"message": "slow", "code": 429, "metadata": {"headers": {"Retry-After": "3"}}}
    async with raw_server(reply({"error": inner})) as server:
        response = await post(server.url)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "3"


def test_a_missing_v1_is_named() -> None:
    body = json.dumps({"error": "Unexpected endpoint or method. (POST /chat/completions)"})
    _, _, content = screen(body.encode())
    assert "base_url should end in /v1" in json.loads(content)["error"]["message"]


def test_json_that_cannot_be_read_is_left_to_the_reader() -> None:
    for body in (b'{"error"', b"[" * 100_000 + b'"error"'):
        assert screen(body) == (200, {}, body)


def test_the_decision_is_found_under_a_library_s_error() -> None:
    stopped = TransportError(PermanentError("no"))
    outer, inner = RuntimeError("Connection error."), OSError("lost")
    outer.__cause__, inner.__context__ = inner, stopped
    assert transport_decision(outer) is stopped.decision
    assert transport_decision(RuntimeError()) is None


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700:4700::1111", True),
        ("127.0.0.1", False), ("10.1.2.3", False), ("169.254.169.254", False),
        ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False),
        ("::1", False), ("fe80::1%eth0", False), ("fd00::1", False),
        ("::ffff:127.0.0.1", False), ("2002:7f00:1::", False),
    ],
)  # fmt: skip
def test_private_addresses(address: str, public: bool) -> None:
    assert is_public(address) is public


class TestPictures:
    """Pictures that a server names by an address."""

    BASE = "http://api.example/v1"

    async def refusal(self, url: str, base_url: str = BASE) -> str:
        with pytest.raises(TransportError) as caught:
            await fetch_picture(url, base_url, MIB)
        assert isinstance(caught.value.decision, PermanentError)
        return str(caught.value)

    async def test_of_the_server_itself(self) -> None:
        async with raw_server(reply(b"a file", kind="image/png")) as server:
            data = await fetch_picture(f"{server.url}/1.png", f"{server.url}/v1", MIB)
        assert data == b"a file"
        assert "authorization" not in server.received[0].headers

    async def test_plain_http_to_others_is_refused(self) -> None:
        async with raw_server(reply(b"a file")) as other:
            assert "let the server send b64_json" in await self.refusal(f"{other.url}/1.png")
        assert other.connections == 0
        assert "ftp" in await self.refusal("ftp://api.example/1.png")

    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "[::1]", "localhost", "169.254.169.254", "[::ffff:10.0.0.1]"]
    )
    async def test_private_addresses_are_refused(self, host: str) -> None:
        assert "a private address" in await self.refusal(f"https://{host}/1.png")

    async def test_a_name_is_judged_by_all_of_its_addresses(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolve_to(monkeypatch, "8.8.8.8", "10.0.0.1")
        assert "(10.0.0.1), a private address" in await self.refusal("https://cdn.example/1.png")

    async def test_the_address_that_was_checked_is_connected_to(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        context = certified(tmp_path, monkeypatch, "cdn.example")
        async with raw_server(reply(b"a file"), context) as server:
            resolved = resolve_to(monkeypatch, "127.0.0.1")
            monkeypatch.setattr(transport, "is_public", lambda _: True)
            port = server.url.rpartition(":")[2]
            data = await fetch_picture(f"https://cdn.example:{port}/1.png", self.BASE, MIB)
        assert data == b"a file"
        # One look at the name; the certificate and the request are still the name's.
        assert resolved == ["cdn.example"]
        assert server.received[0].headers["host"] == f"cdn.example:{port}"

    async def test_redirects_statuses_and_sizes(self) -> None:
        async with raw_server(reply(b"", 302, Location="http://10.0.0.1/1.png")) as server:
            assert "redirects to http://10.0.0.1/1.png" in await self.refusal(
                server.url, server.url
            )
        async with raw_server(reply(b"", 403)) as server:
            assert "HTTP 403" in await self.refusal(server.url, server.url)
        async with raw_server(reply(b"x" * (MIB + 1))) as server:
            assert "1,048,57" in await self.refusal(server.url, server.url)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Resolve every name to ``addresses``; returns the names that were looked up."""
    names: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            names.append(host)
            return [entry for one in addresses for entry in real(one, port, *args, **options)]
        return real(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


def certified(folder: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> ssl.SSLContext:
    """A server's context for ``host``, whose certificate clients trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_a_truncated_reply_is_a_lost_connection() -> None:
    async def cut(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"Content-Type": "application/json", "Content-Length": "99"}) + b"{")

    async with raw_server(cut) as server:
        with pytest.raises(httpx2.RemoteProtocolError):
            await post(server.url)

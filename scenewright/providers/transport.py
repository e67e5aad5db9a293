"""Guarded HTTP transport under all clients of providers.

A request carries a key, prompts and pictures, so it goes to the host of the account's ``base_url``
and nowhere else: no redirects, no other hosts. A reply is bounded after decompression. A 200 that
is none (an error inside, a page of HTML) gets the status that it means, so that every SDK raises
its own error. Each received part of a reply is reported to :func:`listen_for_parts`, which makes a
timeout one of silence.

``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` (lower case wins, as in curl) are
read here for all clients, because libraries differ in what they understand. Unlike curl and like
Go, an address of this machine is reached directly: a company's proxy cannot reach it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx2

from scenewright.core.sockets import is_loopback
from scenewright.providers.replies import page_problem, status_inside
from scenewright.providers.retry import (
    PermanentError,
    Transient,
    TransportError,
    causes,
    unreachable,
)
from scenewright.providers.sdk_clients import identify
from scenewright.providers.usage import within

_PORTS = {"http": 80, "https": 443}
_SOCKS = ("socks5", "socks5h")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy and the variable that names it."""

    variable: str
    """Name of the environment variable."""
    url: str = field(repr=False)
    """Address, perhaps with a password."""

    def __str__(self) -> str:
        """Return a description without user name and password."""
        return f"the proxy of {self.variable} ({urlsplit(self.url).netloc.rpartition('@')[2]})"

    def failure(self, error: Exception, host: str) -> TransportError | None:
        """Return the error of a failed connection to ``host``; None if the proxy did its part."""
        chain = list(causes(error))
        if any(isinstance(one, ssl.SSLError) for one in chain) and self.url.startswith("http:"):
            return None
        text = str(error)
        if "407" in text:
            return TransportError(
                PermanentError(f"{self} wants a user name and a password: http://user:password@…")
            )
        refused = any(isinstance(one, ConnectionRefusedError) for one in chain)
        what = "refuses connections" if refused else f"failed: {unreachable(error)}"
        reason = (
            f"{self} {what}: correct or unset {self.variable}, or add {host} to NO_PROXY if it is "
            "reached directly"
        )
        return TransportError(Transient(reason, lasts_if_repeated=True))


def proxy_for(url: str, environ: Mapping[str, str] = os.environ) -> Proxy | None:
    """Return the proxy for requests to ``url``; None if they go directly.

    Raises ``TransportError``, which names the variable, for a proxy that cannot be used.
    """
    there = urlsplit(url)
    host = there.hostname or ""
    if is_loopback(host) or _bypassed(there, environ):
        return None
    for kind in (there.scheme, "all"):
        for variable in (f"{kind}_proxy", f"{kind}_proxy".upper()):
            if value := environ.get(variable, "").strip():
                address = value if "://" in value else f"http://{value}"
                _check(variable, address)
                return Proxy(variable, address)
    return None


def _check(variable: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        # Reading the port raises where it is not a number.
        scheme, whole = parts.scheme, bool(parts.hostname) and parts.port != 0
    except ValueError:
        scheme, whole = "", False
    if not whole:
        problem = "is not the address of a proxy: write http://host:port"
    elif scheme.startswith("socks") and scheme not in _SOCKS:
        problem = f"begins with {scheme}://, which is not supported: write socks5://host:port"
    elif scheme in _SOCKS and find_spec("socksio") is None:
        problem = f"begins with {scheme}://, which needs a package: pip install socksio"
    elif scheme not in (*_PORTS, *_SOCKS):
        problem = f"begins with {scheme}://: write http://host:port or socks5://host:port"
    else:
        return
    raise TransportError(PermanentError(f"the proxy variable {variable} {problem}, or unset it"))


def _bypassed(there: SplitResult, environ: Mapping[str, str]) -> bool:
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    host = (there.hostname or "").rstrip(".")
    port = there.port or _PORTS.get(there.scheme)
    # curl also takes spaces between entries.
    return any(_matches(entry, host, port) for entry in listed.replace(",", " ").split())


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Return whether an entry of ``NO_PROXY`` covers ``host`` and ``port``."""
    if entry == "*":
        return True
    entry = entry.rpartition("://")[2].lower()
    name, colon, number = entry.rpartition(":")
    if colon and number.isdecimal() and (name.endswith("]") or ":" not in name):
        return port == int(number) and _matches(name, host, port)
    bare = entry.replace("[", "").replace("]", "")
    try:
        network = ipaddress.ip_network(bare, strict=False)
    except ValueError:
        pass
    else:
        try:
            return ipaddress.ip_address(host) in network
        except ValueError:
            return False
    suffix = entry.removeprefix("*").strip(".")
    return bool(suffix) and (host == suffix or host.endswith(f".{suffix}"))


MAX_REPLY_BYTES = 96 * 2**20
"""Largest decompressed reply: the largest picture in base64, and some text."""
MAX_ERROR_BYTES = 2**20
"""Largest reply that is searched for an error."""
ENCODINGS = ("gzip", "deflate")
"""Compressions that are asked for: both are inflated in bounded pieces."""

_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5))
        if hasattr(socket, name)
    ),
]
_TRUSTED = (
    " (key, prompt and pictures would go there): set base_url to that address if you trust it"
)
_JSON = ("", "application/json", "text/json", "text/plain")
"""Media types under which servers send JSON."""
_INLINE = "let the server send b64_json"

_PARTS: ContextVar[Callable[[], None] | None] = ContextVar("scenewright_parts", default=None)


def listen_for_parts(received: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``received`` for each part of a reply to a request of this task and its subtasks."""
    return within(_PARTS, received)


def part_received() -> None:
    """Tell who waits for a reply of this task that it is still coming."""
    received = _PARTS.get()
    if received is not None:
        received()


def http_client(
    base_url: str, *, headers: Mapping[str, str] | None = None, max_bytes: int = MAX_REPLY_BYTES
) -> httpx2.AsyncClient:
    """Return the HTTP client of an account's server at ``base_url``.

    It has no timeout, which is the caller's matter, and adds idempotency keys to paid requests.
    ``max_bytes`` bounds a decompressed reply. Raises ``TransportError`` for proxy variables that
    cannot be used.
    """
    return httpx2.AsyncClient(
        headers=headers,
        timeout=None,
        trust_env=False,
        follow_redirects=False,
        transport=GuardedTransport(base_url, max_bytes),
        event_hooks={"request": [identify]},
    )


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Transport to the origin of one ``base_url``; see the module."""

    def __init__(self, base_url: str, max_bytes: int) -> None:
        """See :func:`http_client`."""
        self._base_url = base_url
        self._max_bytes = max_bytes
        self._proxy = proxy_for(base_url)
        self._inner = _transport(self._proxy)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the reply to ``request``; raises ``TransportError`` where it is not taken."""
        if origin(str(request.url)) != origin(self._base_url):
            raise _final(
                f"a request to {request.url.host} was not sent: it is not the server of base_url "
                f"({urlsplit(self._base_url).netloc.rpartition('@')[2]})"
            )
        response = await _exchange(self._inner, self._proxy, request)
        try:
            body = Body(response, self._max_bytes)
            _refuse_redirect(request, response)
            headers = _decoded_headers(response)
            return await self._screened(response, headers, body)
        except BaseException:
            await response.aclose()
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def _screened(
        self, response: httpx2.Response, headers: httpx2.Headers, body: Body
    ) -> httpx2.Response:
        status = response.status_code
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/html" and (status != 200 or kind not in _JSON):
            return httpx2.Response(
                status, headers=headers, stream=body, extensions=response.extensions
            )
        content = await body.whole()
        if kind == "text/html" or content.lstrip()[:1] == b"<":
            problem = page_problem(kind, content, self._base_url)
            if problem and status < 400:
                raise _final(problem)
            if problem:
                # Whole pages would fill the error's message.
                content, kind = _error({}, problem), "application/json"
        if status == 200 and len(content) <= MAX_ERROR_BYTES:
            status, more, content = screen(content)
            headers.update(more)
        for name in ("content-length", "transfer-encoding"):
            headers.pop(name, None)
        if kind:
            headers["content-type"] = kind
        return httpx2.Response(
            status, headers=headers, content=content, extensions=response.extensions
        )


class Body(httpx2.AsyncByteStream):
    """Decompressed parts of a reply, bounded and reported as they come."""

    def __init__(self, response: httpx2.Response, max_bytes: int, what: str = "the reply") -> None:
        """Raise ``TransportError`` for a compression that was not asked for, or a long reply."""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity", *ENCODINGS):
            raise _final(
                f"{what} is compressed by {encoding[:40]}, which was not asked for (only "
                f"{' and '.join(ENCODINGS)} are read): check the server or a gateway before it"
            )
        self._response = response
        self._max_bytes = max_bytes
        self._what = what
        length = response.headers.get("content-length", "")
        self._check(int(length) if length.isdecimal() else 0)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the parts."""
        read = 0
        part_received()
        async for part in self._response.aiter_bytes():
            part_received()
            read += len(part)
            self._check(read)
            yield part

    async def whole(self) -> bytes:
        """Return all parts together."""
        return b"".join([part async for part in self])

    async def aclose(self) -> None:
        """Close the reply."""
        await self._response.aclose()

    def _check(self, length: int) -> None:
        if length > self._max_bytes:
            raise _final(
                f"{self._what} has {length:,} bytes or more after decompression, the limit is "
                f"{self._max_bytes:,}: it was not read any further"
            )


def screen(body: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return the status that the ``body`` of a 200 means, headers to add, and the body.

    An error without any content is not a reply; its message gets the remedy where that is known.
    """
    try:
        found = json.loads(body)
        inside = status_inside(found) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        return 200, {}, body
    if inside is None:
        return 200, {}, body
    error = found.get("error")
    details = error if isinstance(error, dict) else {}
    return inside[0], _named_headers(details), _error(details, inside[1])


def _error(details: Mapping[str, Any], message: str) -> bytes:
    """Return an error's body in the form that all SDKs read."""
    return json.dumps({"error": {**details, "message": message}}).encode()


def _named_headers(details: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that a gateway (OpenRouter) puts into an error: hints how long to wait."""
    metadata = details.get("metadata")
    inner = metadata.get("headers") if isinstance(metadata, dict) else None
    return {
        name: str(value)
        for name, value in (inner.items() if isinstance(inner, dict) else ())
        if re.fullmatch(r"(?i)retry-after(?:-ms)?|x-ratelimit-[a-z-]+", name)
    }


async def fetch_picture(url: str, base_url: str, max_bytes: int) -> bytes:
    """Return the file at ``url``, an address that the server at ``base_url`` gave.

    No key is sent. Raises ``TransportError`` for what is not fetched: plain HTTP and private
    addresses, but those of the server itself; a redirect; a file of more than ``max_bytes``.
    """
    there, own = urlsplit(url), urlsplit(base_url)
    own_origin = origin(url) == origin(base_url)
    if there.scheme != "https" and not own_origin:
        raise _final(
            f"the picture lies at a {there.scheme or 'strange'} address "
            f"({there.hostname or 'no host'}), which is not fetched: {_INLINE}"
        )
    proxy = proxy_for(url)
    request = httpx2.Request("GET", url, headers={"accept-encoding": ", ".join(ENCODINGS)})
    hosts = [request.url.host]
    if there.hostname != own.hostname:
        # The address that was checked is connected to: a name may mean another one the next time.
        hosts = await _public_addresses(hosts[0], request.url.port or 443, proxy)
    transport = _transport(proxy)
    try:
        for at, host in enumerate(hosts, start=1):
            pinned = httpx2.Request(
                "GET",
                request.url.copy_with(host=host),
                headers=request.headers,
                extensions={"sni_hostname": request.url.host},
            )
            try:
                response = await _exchange(transport, proxy, pinned)
            except httpx2.ConnectError:
                if at == len(hosts):
                    raise
                continue
            return await _file(request, response, max_bytes)
    finally:
        await transport.aclose()
    raise AssertionError("a name without an address")


async def _file(request: httpx2.Request, response: httpx2.Response, max_bytes: int) -> bytes:
    try:
        _refuse_redirect(request, response, f": {_INLINE}")
        if response.status_code != 200:
            reason = f"the picture could not be fetched: HTTP {response.status_code}"
            raise TransportError(
                Transient(reason, replied=True)
                if response.status_code >= 500
                else PermanentError(reason)
            )
        return await Body(response, max_bytes, "the picture's file").whole()
    finally:
        await response.aclose()


async def _public_addresses(host: str, port: int, proxy: Proxy | None) -> list[str]:
    """Return the addresses of ``host``; raises ``TransportError`` if one of them is not public."""
    if proxy is not None and not _is_address(host) and host.rpartition(".")[2] != "localhost":
        # The proxy resolves names: behind it this machine often cannot.
        return [host]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if private := [address for address in addresses if not is_public(address)]:
        raise _final(
            f"the picture lies at {host} ({private[0]}), a private address, which is not fetched: "
            f"{_INLINE}"
        )
    return addresses


def is_public(address: str) -> bool:
    """Return whether ``address`` belongs to the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and (inner := ip.ipv4_mapped or ip.sixtofour):
        ip = inner
    return ip.is_global and not ip.is_multicast


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of ``url``."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


def _transport(proxy: Proxy | None) -> httpx2.AsyncHTTPTransport:
    return httpx2.AsyncHTTPTransport(
        verify=_ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        limits=_LIMITS,
        proxy=None if proxy is None else proxy.url,
        socket_options=_KEEPALIVE,
    )


@cache
def _ssl_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return the context for the variables' values: made once, because that takes a while."""
    return httpx2.create_ssl_context()


async def _exchange(
    transport: httpx2.AsyncHTTPTransport, proxy: Proxy | None, request: httpx2.Request
) -> httpx2.Response:
    request.headers["accept-encoding"] = ", ".join(ENCODINGS)
    try:
        return await transport.handle_async_request(request)
    except (httpx2.ConnectError, httpx2.ProxyError) as error:
        failure = None if proxy is None else proxy.failure(error, request.url.host)
        if failure is None:
            raise
        raise failure from error


def _refuse_redirect(
    request: httpx2.Request, response: httpx2.Response, remedy: str = _TRUSTED
) -> None:
    if not 300 <= response.status_code < 400:
        return
    source = request.url.copy_with(query=None)
    target = urlsplit(urljoin(str(request.url), response.headers.get("location", "")))
    whither = f"{target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}"
    raise _final(
        f"HTTP {response.status_code}: {source} redirects to {whither}, "
        f"which was not followed{remedy}"
    )


def _decoded_headers(response: httpx2.Response) -> httpx2.Headers:
    """Return the headers of the decompressed reply."""
    headers = httpx2.Headers(response.headers)
    if headers.pop("content-encoding", None) is not None:
        headers.pop("content-length", None)
    return headers


def _final(reason: str) -> TransportError:
    return TransportError(PermanentError(reason))

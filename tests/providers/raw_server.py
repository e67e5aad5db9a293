"""A server of raw bytes on the loopback: it sends what no web framework would.

A behaviour writes to the connection of one request and returns; the connection is closed then.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RawRequest:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes

    gone: Callable[[], Awaitable[object]]
    """Waits until the client has closed the connection."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Behaviour = Callable[[RawRequest, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawServer:
    """Where it is, what it was sent, and what it does with a request."""

    behave: Behaviour
    url: str = ""
    received: list[RawRequest] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            try:
                request = await _request(reader)
                self.received.append(request)
                await self.behave(request, writer)
            finally:
                writer.close()


async def _request(reader: asyncio.StreamReader) -> RawRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return RawRequest(method, target, headers, body, reader.read)


@asynccontextmanager
async def raw_server(
    behave: Behaviour, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """The server, in the running loop, with a connection for each request."""
    server = RawServer(behave)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls, limit=2**26)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()


def head(status: int | str, headers: dict[str, str]) -> bytes:
    """The first lines of a reply."""
    lines = [f"HTTP/1.1 {status}{'' if isinstance(status, str) else ' X'}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def reply(
    body: bytes | str | Any = b"",
    status: int = 200,
    *,
    kind: str = "application/json",
    length: int | None = None,
    **headers: str,
) -> Behaviour:
    """Send ``body`` (bytes, text, or an object as JSON); ``length``: another Content-Length."""
    content = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else None
    data = json.dumps(body).encode() if content is None else content
    named = {"Content-Type": kind, "Content-Length": str(len(data) if length is None else length)}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(head(status, named) + data)
        await writer.drain()

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Behave so, one after the other; the last one stays."""
    left = list(behaviours)

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(request, writer)

    return behave


async def drop(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """Close the connection without a word."""


def parts(pieces: Iterable[bytes], kind: str = "text/event-stream", **headers: str) -> Behaviour:
    """Send ``pieces`` as chunks, each in a packet of its own."""
    named = {"Content-Type": kind, "Transfer-Encoding": "chunked"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, named))
        for piece in pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return behave


@functools.cache
def zeros(megabytes: int, encoding: str) -> bytes:
    """A JSON text of so many megabytes of zeros, compressed."""
    wbits = {"gzip": 31, "deflate": 15}[encoding]
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    packed = [packer.compress(b'{"choices": "')]
    packed += [packer.compress(b"0" * 2**20) for _ in range(megabytes)]
    return b"".join([*packed, packer.compress(b'"}'), packer.flush()])


def gzipped(body: Any) -> bytes:
    return gzip.compress(json.dumps(body).encode())

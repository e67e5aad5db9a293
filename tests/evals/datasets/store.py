"""A server of files on the loopback, which can cut transfers off, change its mind and lie."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Store:
    """What is served, how it fails, and what was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    """Name → content."""
    cut: dict[str, list[int]] = field(default_factory=dict)
    """Name → bytes after which each next transfer of it breaks off."""
    ranges: bool = True
    """Whether it knows ranges."""
    versions: bool = True
    """Whether it names an ETag."""
    lengths: bool = True
    """Whether it says how long a file is."""
    status: dict[str, list[int]] = field(default_factory=dict)
    """Name → what its next requests are answered with."""
    kind: str = "application/octet-stream"
    requests: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    """Method, name, Range and If-Range of what was asked."""

    def ranges_of(self, name: str) -> list[str | None]:
        """What was asked of the file, in order."""
        return [
            asked for method, path, asked, _ in self.requests if (method, path) == ("GET", name)
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store: Store

    def log_message(self, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        store, name = self.store, self.path.lstrip("/")
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        store.requests.append((self.command, name, asked, condition))
        content = store.files.get(name)
        told = store.status.get(name)
        if told and self.command == "GET":
            return self.send(told.pop(0), b"", {})
        if content is None:
            return self.send(404, b"", {})
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = {"Content-Type": store.kind} | ({"ETag": etag} if store.versions else {})
        begin, status = 0, 200
        if asked and store.ranges and condition in (None, etag):
            found = re.fullmatch(r"bytes=(\d+)-", asked)
            assert found is not None
            begin, status = int(found[1]), 206
            if begin >= len(content):
                return self.send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        cuts = store.cut.get(name)
        upto = cuts.pop(0) if cuts and self.command == "GET" else None
        return self.send(status, content[begin:], headers, upto)

    def send(
        self, status: int, body: bytes, headers: dict[str, str], upto: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.store.lengths:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:upto])
        if upto is not None or not self.store.lengths:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has seen enough hangs up: nothing to tell."""


@contextmanager
def serving() -> Iterator[Store]:
    """A store on a free port, in threads of its own."""
    store = Store()
    handler = type("Handler", (_Handler,), {"store": store})
    server = _Server(("127.0.0.1", 0), handler)
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)

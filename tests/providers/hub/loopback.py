"""A hub on the loopback: the routes that huggingface_hub uses, over folders of this machine.

Large files redirect to another path, as the hub redirects to its store, and can be asked for in
ranges. It can refuse, cut transfers off and send wrong content.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = {".safetensors", ".bin"}
TOKEN = "hf_of_the_test"


def is_large(name: str) -> bool:
    """Whether the hub keeps a file of that name outside of git."""
    return Path(name).suffix in LARGE


def blob_id(content: bytes) -> str:
    """Git's object id of a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Hub:
    """What is served, how it fails, and what was asked."""

    url: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Repository → file → content."""
    cards: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Repository → metadata of its model card."""
    gated: set[str] = field(default_factory=set)
    """Repositories that want :data:`TOKEN`."""
    cut: dict[str, int] = field(default_factory=dict)
    """File → bytes after which its transfer breaks off; then it is refused with 503."""
    wrong: dict[str, int] = field(default_factory=dict)
    """File → how often it still comes with another content."""
    status: int | None = None
    """What every request is answered with; None: as it should be."""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and range of what was asked."""

    def add(self, repository: str, folder: Path, **card: Any) -> None:
        """Serve the files of ``folder``."""
        self.repositories[repository] = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        self.cards[repository] = card

    def asked(self, name: str, method: str = "GET") -> list[str | None]:
        """Ranges of the requests for the content of files of that name."""
        return [r for m, path, r in self.requests if m == method and path.endswith(f"/{name}")]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: Hub

    def log_message(self, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        url = urlsplit(self.path)
        path, query = unquote(url.path), parse_qs(url.query)
        self.hub.requests.append((self.command, path, self.headers.get("Range")))
        if self.hub.status is not None:
            return self.send({"error": "as told"}, self.hub.status)
        if match := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)(/.*)?", path):
            return self.api(match[1], match[2] or "", query)
        if match := re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)", path):
            return self.resolve(match[1], match[3])
        if match := re.fullmatch(r"/store/([\w.-]+/[\w.-]+)/(.+)", path):
            return self.content(self.hub.repositories[match[1]][match[2]], match[2])
        return self.send({"error": "no such route"}, 404)

    def refused(self, repository: str) -> bool:
        if repository not in self.hub.repositories:
            self.send({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        elif repository in self.hub.gated and TOKEN not in self.headers.get("authorization", ""):
            told = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."}
            self.send({"error": "Access is restricted."}, 401, told)
        else:
            return False
        return True

    def api(self, repository: str, rest: str, query: dict[str, list[str]]) -> None:
        # A gated repository tells of itself to everybody.
        if (rest == "/auth-check" or repository not in self.hub.repositories) and self.refused(
            repository
        ):
            return None
        files = self.hub.repositories[repository]
        if rest == "/auth-check":
            return self.send({})
        if rest.startswith("/tree/"):
            assert query.get("recursive") == ["true"], query
            return self.send([_entry(name, content) for name, content in files.items()])
        return self.send(
            {
                "id": repository,
                "sha": COMMIT,
                "gated": "auto" if repository in self.hub.gated else False,
                "cardData": self.hub.cards[repository],
                "siblings": [{"rfilename": name} for name in files],
            }
        )

    def resolve(self, repository: str, name: str) -> None:
        if self.refused(repository):
            return None
        content = self.hub.repositories[repository].get(name)
        if content is None:
            return self.send({"error": "no"}, 404, {"X-Error-Code": "EntryNotFound"})
        headers = {"X-Repo-Commit": COMMIT}
        if not is_large(name):
            headers["ETag"] = f'"{blob_id(content)}"'
            return self.content(content, name, headers)
        headers["X-Linked-ETag"] = f'"{hashlib.sha256(content).hexdigest()}"'
        headers["X-Linked-Size"] = str(len(content))
        # Another host, as the hub's store is: the library follows no further to ask for metadata.
        other = self.hub.url.replace("127.0.0.1", "localhost")
        headers["Location"] = f"{other}/store/{repository}/{name}"
        return self.send_bytes(302, b"", headers)

    def content(self, content: bytes, name: str, headers: dict[str, str] | None = None) -> None:
        headers = dict(headers or {})
        if self.command == "GET" and self.hub.wrong.get(name, 0) > 0:
            self.hub.wrong[name] -= 1
            content = bytes([content[0] ^ 255]) + content[1:]
        start, status = 0, 200
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start, status = int(match[1]), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        left = self.hub.cut.get(name)
        if left is None or self.command == "HEAD":
            return self.send_bytes(status, content[start:], headers)
        if left <= 0:
            return self.send({"error": "busy"}, 503)
        self.hub.cut[name] = 0
        self.send_bytes(status, content[start:], headers, upto=left)
        self.close_connection = True
        return None

    def send(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_bytes(status, body, {"Content-Type": "application/json"} | (headers or {}))

    def send_bytes(
        self, status: int, body: bytes, headers: dict[str, str], upto: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:upto])


def _entry(name: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "file", "path": name, "size": len(content), "oid": blob_id(content),
    }  # fmt: skip
    if is_large(name):
        entry["lfs"] = {
            "oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134,
        }  # fmt: skip
    return entry


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub on a free port, in threads of its own."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)

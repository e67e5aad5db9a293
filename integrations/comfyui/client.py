"""A small client of the scenewright service, on the standard library only.

The API key comes from the environment, never from a workflow: workflows are shared. It is sent to
this machine and to the server that the environment names, not to one that a workflow names.
"""

from __future__ import annotations

import ipaddress
import json
import os
import queue
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

DEFAULT_SERVER = "http://127.0.0.1:8642"
SERVER = "SCENEWRIGHT_URL"
"""Variable of the environment that names the server."""
KEY = "SCENEWRIGHT_API_KEY"
"""Variable of the environment that holds the API key."""
_LARGEST_REPLY = 256 * 2**20
_TICK = 0.2
_BUSY = (429, 503)
_SILENCE = 60.0
"""Seconds without a byte after which a connection counts as lost."""


class ServiceError(RuntimeError):
    """The service refused, or cannot be reached: what is wrong, and how to mend it."""

    def __init__(self, message: str, status: int | None = None, retry_after: float = 1.0) -> None:
        """``status``: of the reply; None: there was none."""
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Client:
    """Client of one service, with a deadline.

    ``check`` is called at least every 0.2 seconds while the client waits, and may raise to give up.
    """

    def __init__(self, server: str, timeout: float, check: Callable[[], None]) -> None:
        """``server``: ``http://HOST:PORT``; empty: that of the environment, or this machine's."""
        self.url = address_of(server)
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._check = check
        self._headers = {"User-Agent": "scenewright-comfyui"}
        key = os.environ.get(KEY, "").strip()
        if key and may_have_key(self.url):
            self._headers["Authorization"] = f"Bearer {key}"
        # An environment's proxy is not asked for this machine itself.
        proxies = urllib.request.ProxyHandler({} if is_local(self.url) else None)
        self._opener = urllib.request.build_opener(proxies, _NoRedirects())

    def get(self, path: str) -> Any:
        """A JSON reply; a lost connection is tried again until the deadline."""
        return json.loads(self._again("GET", path, None, {}, lost=True))

    def read(self, path: str) -> bytes:
        """The bytes of a reply; likewise."""
        return self._again("GET", path, None, {}, lost=True)

    def post(self, path: str, body: dict[str, Any], idempotency_key: str | None = None) -> Any:
        """Send JSON and return the JSON of the reply.

        A busy service is asked again; with an idempotency key a lost connection is retried too.
        """
        headers = {"Content-Type": "application/json"}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        data = json.dumps(body).encode()
        return json.loads(
            self._again("POST", path, data, headers, lost=idempotency_key is not None)
        )

    def upload(self, path: str, fields: dict[str, str], name: str, png: bytes) -> Any:
        """Send a form with a PNG file, get JSON."""
        boundary = uuid.uuid4().hex
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in fields.items()
        ]
        parts.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="image.png"'
            "\r\nContent-Type: image/png\r\n\r\n"
        )
        data = "".join(parts).encode() + png + f"\r\n--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return json.loads(self._again("POST", path, data, headers, lost=False))

    def cancel(self, path: str) -> None:
        """Send an empty POST once and look away: for a run that nobody waits for any longer."""
        try:
            request = urllib.request.Request(
                self.url + path, data=b"", headers=self._headers, method="POST"
            )
            self._opener.open(request, timeout=5).close()
        except (OSError, ValueError):
            return

    def events(self, path: str, after: int) -> Iterator[tuple[int | None, str, str]]:
        """Yield server-sent events after number ``after`` as (number, type, data).

        Ends when the service ends them or the connection is lost.
        """
        request = urllib.request.Request(
            f"{self.url}{path}?after={after}",
            headers={**self._headers, "Accept": "text/event-stream"},
        )
        told: queue.Queue[bytes | None] = queue.Queue(maxsize=1000)
        left = threading.Event()

        def listen() -> None:
            try:
                with self._opener.open(request, timeout=_SILENCE) as reply:
                    for line in reply:
                        told.put(line)
                        if left.is_set():
                            return
            except (OSError, ValueError):
                # Where it stands is looked up, and what was missed is asked for again.
                return
            finally:
                left.set()
                told.put(None)

        threading.Thread(target=listen, daemon=True).start()
        number, kind, data = None, "message", []
        try:
            while True:
                try:
                    line = told.get(timeout=_TICK)
                except queue.Empty:
                    self.tick()
                    continue
                if line is None:
                    return
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                if not text:
                    if data:
                        yield number, kind, "\n".join(data)
                        self.tick()
                    number, kind, data = None, "message", []
                    continue
                name, _, value = text.partition(":")
                value = value[1:] if value.startswith(" ") else value
                if name == "id" and value.isdecimal():
                    number = int(value)
                elif name == "event":
                    kind = value
                elif name == "data":
                    data.append(value)
        finally:
            left.set()
            # The thread may wait for room.
            while not told.empty():
                told.get_nowait()

    def tick(self) -> None:
        """Raise if the person has interrupted, or if the time is over."""
        self._check()
        if time.monotonic() > self._deadline:
            raise ServiceError(
                f"{self.url} was not done within {self._timeout:g} seconds: give the node a "
                "longer timeout, or fewer rounds"
            )

    def wait(self, seconds: float) -> None:
        """Sleep, and raise as :meth:`tick` does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick()
            time.sleep(min(_TICK, max(0.0, end - time.monotonic())))
        self.tick()

    def _again(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], lost: bool
    ) -> bytes:
        """Ask until there is a reply; ``lost``: whether a lost connection is tried again."""
        tries = 0
        while True:
            try:
                return self._patiently(method, path, data, headers)
            except ServiceError as error:
                tries += 1
                gone = error.status is None and lost and tries < 30
                if error.status not in _BUSY and not gone:
                    raise
                self.wait(error.retry_after)

    def _patiently(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> bytes:
        """One request in a thread of its own, so that an interruption need not wait for it."""
        found: list[bytes | ServiceError] = []

        def ask() -> None:
            found.append(self._once(method, path, data, headers))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_TICK)
            if thread.is_alive():
                self.tick()
        reply = found[0]
        if isinstance(reply, ServiceError):
            raise reply
        return reply

    def _once(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> bytes | ServiceError:
        request = urllib.request.Request(
            self.url + path, data=data, headers={**self._headers, **headers}, method=method
        )
        try:
            with self._opener.open(request, timeout=max(_SILENCE, self._timeout)) as reply:
                body = reply.read(_LARGEST_REPLY + 1)
        except urllib.error.HTTPError as error:
            return _refused(self.url, error)
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            return ServiceError(
                f"{self.url} cannot be reached ({reason}): start it with `scenewright serve`, or "
                f"set the node's server or the variable {SERVER}"
            )
        if len(body) > _LARGEST_REPLY:
            return ServiceError(f"{self.url} sent more than 256 MiB: ask for smaller pictures", 200)
        return body


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key must not follow a redirect to another server."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def address_of(server: str) -> str:
    """``http://HOST:PORT`` of what a person wrote; raises ``ServiceError`` for anything else."""
    text = server.strip() or os.environ.get(SERVER, "").strip() or DEFAULT_SERVER
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - a wrong port is told here
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ServiceError(f"{text!r} is no server: write http://HOST:PORT")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_local(url: str) -> bool:
    """Whether ``url`` is on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_have_key(url: str) -> bool:
    """Return whether the API key may be sent to ``url``.

    It may be sent to this machine, and to the server that the environment names.
    """
    named = os.environ.get(SERVER, "").strip()
    return is_local(url) or (bool(named) and address_of(named) == url)


def _refused(url: str, error: urllib.error.HTTPError) -> ServiceError:
    with error:
        body = error.read(100_000)
        try:
            retry = float(error.headers.get("Retry-After") or 1.0)
        except ValueError:
            retry = 1.0
    try:
        detail = str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        detail = str(error.reason)
    if error.code == 401:
        detail += f" (set the variable {KEY} where ComfyUI is started"
        detail += "" if may_have_key(url) else f", and {SERVER}={url}: keys go nowhere else"
        detail += ")"
    if 300 <= error.code < 400:
        detail = "it sends elsewhere, which is not followed: write the address that it sends to"
    return ServiceError(f"{url}: {detail}", error.code, min(max(retry, 0.2), 60.0))

"""Proxy variables: which proxy a request to an address passes, and what is wrong with it.

``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` (lower case wins, as in curl) are
read here for all clients, because libraries differ in what they understand. Unlike curl and like
Go, an address of this machine is reached directly: a company's proxy cannot reach it.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

from scenewright.core.sockets import is_loopback
from scenewright.providers.retry import (
    PermanentError,
    Transient,
    TransportError,
    causes,
    unreachable,
)

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

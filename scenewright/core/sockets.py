"""Listening sockets, hosts of addresses, and loopback checks."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return whether ``host`` names this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> tuple[str | None, int | None]:
    """Return host (lower case, without brackets) and port; None for an invalid host.

    ``url`` is an origin, or ``//HOST`` for a ``Host`` header.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None, None
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        return None, None
    return (parts.hostname or "").rstrip(".") or None, port


def listening(host: str, port: int, backlog: int, wrong: type[Exception]) -> socket.socket:
    """Return a listening socket; port 0 takes a free port.

    Raises ``wrong`` with the remedy if that fails.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where the protocol is named does asyncio turn Nagle's algorithm off, which would hold
    # every answer back for 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(backlog)
    except OSError as error:
        made.close()
        raise wrong(
            f"cannot listen on {host}:{port}: {error.strerror or error}; "
            "choose another --port (0 takes a free one) or stop what listens there"
        ) from error
    made.setblocking(False)
    return made


def url_of(host: str, port: int) -> str:
    """Return ``http://HOST:PORT`` for a client on this machine.

    IPv6 addresses are in brackets.
    """
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

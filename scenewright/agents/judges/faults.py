"""What an error between us and a provider means, whichever library raised it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from scenewright.agents.judges.reading import MalformedReply
from scenewright.providers.decisions import Decision, PermanentError, Transient
from scenewright.providers.http_status import classify_http, unreachable
from scenewright.providers.scrubbing import scrubbed

_TRANSPORTS = ("httpx", "httpx2", "httpcore", "httpcore2", "aiohttp")
_SHORTEST_SECRET = 6


def hidden(text: str, key: str) -> str:
    """``text`` fit for a log: without ``key`` and whatever else looks like a secret."""
    if len(key) >= _SHORTEST_SECRET:
        text = text.replace(key, "[hidden]")
    return scrubbed(text)


def of_status(status: int, headers: Mapping[str, str], message: str, key: str) -> Decision:
    """The decision for a reply with an HTTP error ``status``."""
    return classify_http(status, headers, hidden(message, key))


def of_connection(error: BaseException, key: str, place: str = "") -> Decision:
    """The decision for a request that got no reply; ``place`` is the address that was asked.

    The libraries wrap such an error several times, each saying less: the innermost says why.
    """
    host = urlsplit(place).netloc.rpartition("@")[2]
    whither = f" to {host}" if host else ""
    return Transient(hidden(f"no connection{whither}: {unreachable(error)}", key))


def of_other(error: Exception, key: str, place: str = "") -> Decision:
    """The decision for an error that is not the library's word for an HTTP status.

    A lost connection and a reply out of its wire format may be mended by another try. ``place`` is
    the address that was asked.
    """
    text = hidden(f"{type(error).__name__}: {error}".rstrip(": "), key)
    if isinstance(error, MalformedReply):
        return Transient(hidden(f"malformed reply: {error}", key), replied=True)
    if isinstance(error, UnicodeError):
        return PermanentError(f"the request cannot be sent: {text}")
    if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _TRANSPORTS:
        return of_connection(error, key, place)
    # The libraries take a reply apart without looking: what is missing in it raises these.
    if isinstance(error, ValueError | TypeError | LookupError | AttributeError):
        return Transient(f"malformed reply: {text}", replied=True)
    return PermanentError(text)

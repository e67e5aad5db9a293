"""Whether a request comes from where it may: against web pages that drive a service of ours.

A page of another site can have a browser send requests here. It cannot read the replies, for there
are no CORS headers, but a request that changes something has done so by then; and a name that
the page's owner points at 127.0.0.1 (DNS rebinding) makes the page one of *this* site. So the
name under which the service is asked must be its own, and so must the page that asks.
"""

from __future__ import annotations

from starlette.datastructures import Headers

from scenewright.core.sockets import host_of, is_loopback
from scenewright.service.core.errors import Forbidden
from scenewright.service.core.settings import ServiceSettings

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_PORTS = {"http": 80, "https": 443}


def check_host(headers: Headers, settings: ServiceSettings) -> None:
    """Raises ``Forbidden`` unless ``Host`` names this machine or one of the trusted hosts."""
    given = headers.getlist("host")
    name = host_of(f"//{given[0]}")[0] if len(given) == 1 else None
    if name is None or not _ours(name, settings):
        shown = given[0][:100] if given else "no host"
        raise Forbidden(
            f"the service is asked as {shown!r}, a name that it does not know: ask 127.0.0.1 or "
            "localhost, or name the host in SCENEWRIGHT_SERVICE_TRUSTED_HOSTS"
        )


def check_origin(method: str, headers: Headers, scheme: str, settings: ServiceSettings) -> None:
    """Raises ``Forbidden`` for what a web page of another origin has a browser send.

    Such a page may lead people here (a link), but neither load nor send anything.
    """
    site = headers.get("sec-fetch-site")
    if method in SAFE_METHODS:
        if site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            raise Forbidden("a page of another site may not load this: open it in its own tab")
        return
    origin = headers.get("origin")
    if site not in (None, "same-origin", "none"):
        raise _foreign(origin or "another site")
    # Without a referrer policy of ours a browser says null for a form; it says the site then.
    if origin is None or (origin == "null" and site == "same-origin"):
        return
    if not _same(origin, headers.get("host", ""), scheme, settings):
        raise _foreign(origin)


def _foreign(origin: str) -> Forbidden:
    return Forbidden(
        f"a page of {origin[:200]!r} may not send this: use the service's own pages, or send an "
        "API key in the header Authorization; a reverse proxy's name belongs in "
        "SCENEWRIGHT_SERVICE_TRUSTED_HOSTS"
    )


def _same(origin: str, host: str, scheme: str, settings: ServiceSettings) -> bool:
    theirs = origin.partition("://")[0].lower()
    if theirs not in _PORTS or (scheme == "https" and theirs != "https"):
        return False
    name, port = host_of(origin)
    own, own_port = host_of(f"//{host}")
    if name is None:
        return False
    if name in _trusted(settings):
        return True
    # A proxy that ends TLS may say http to us: the port that goes without saying is the page's.
    usual = _PORTS[theirs]
    return name == own and (port or usual) == (own_port or usual)


def _ours(name: str, settings: ServiceSettings) -> bool:
    return is_loopback(name) or name in _trusted(settings)


def _trusted(settings: ServiceSettings) -> set[str]:
    return {host.lower().rstrip(".") for host in settings.trusted_hosts}

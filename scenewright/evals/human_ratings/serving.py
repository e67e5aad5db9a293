"""The rating pages on a socket."""

from __future__ import annotations

import contextlib
import secrets
import string
from collections.abc import AsyncIterator

import uvicorn

from scenewright.core.servers import GuestServer, running
from scenewright.core.sockets import is_loopback, listening, url_of
from scenewright.evals.human_ratings.app import create_app
from scenewright.evals.human_ratings.opening import store_of
from scenewright.evals.human_ratings.security_middleware import SHORTEST_TOKEN
from scenewright.evals.human_ratings.study import RatingError, StudyFolder

_BACKLOG = 512
_GRACE_SECONDS = 5
_PLAIN = frozenset(string.ascii_letters + string.digits + "-_")


def token_for(host: str, given: str | None) -> str | None:
    """The token that a server on ``host`` demands: the one ``given``, else a new one if other
    machines reach it, else none. Raises ``RatingError`` for one that can be guessed."""
    if given is not None and len(given) < SHORTEST_TOKEN:
        raise RatingError(
            f"the token has {len(given)} signs, which can be guessed: give {SHORTEST_TOKEN} or "
            "more, or leave it out and one is made"
        )
    if given is not None and not set(given) <= _PLAIN:
        raise RatingError("a token is made of letters, digits, - and _: it stands in an address")
    return given or (None if is_loopback(host) else secrets.token_urlsafe(24))


@contextlib.asynccontextmanager
async def serving(
    folder: StudyFolder, host: str = "127.0.0.1", port: int = 0, token: str | None = None
) -> AsyncIterator[str]:
    """Serve the study in the running loop; gives the address that raters open.

    Requests under way have some seconds to end. Raises ``RatingError`` if the address cannot be
    had or would be open to others without a token, ``StoreFailed`` if ratings cannot be kept.
    """
    token = token_for(host, token)
    store = store_of(folder)
    try:
        place = listening(host, port, _BACKLOG, RatingError)
        url = url_of(host, place.getsockname()[1])
        server = GuestServer(
            uvicorn.Config(
                create_app(folder, store, token),
                http="h11",
                lifespan="off",
                log_config=None,
                log_level="error",
                # The address holds the raters' keys, and the token once.
                access_log=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_GRACE_SECONDS,
                forwarded_allow_ips="127.0.0.1,::1",
            )
        )
        async with running(server, place):
            yield f"{url}/" + (f"?token={token}" if token else "")
    finally:
        store.close()

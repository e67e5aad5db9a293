"""Errors of the service and their HTTP form (``application/problem+json``)."""

from __future__ import annotations

import http
import math
from collections.abc import Sequence

from scenewright.core.errors import ScenewrightError
from scenewright.core.intent import Passage


class ServiceError(ScenewrightError):
    """A request that cannot be served: a status, what is wrong and how to mend it."""

    status = 400

    def __init__(
        self, detail: str, *, retry_after: float | None = None, unread: Sequence[Passage] = ()
    ) -> None:
        """``retry_after``: seconds after which the same request may succeed.

        ``unread``: passages of its text that no scene can hold.
        """
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after
        self.unread = tuple(unread)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the reply."""
        if self.retry_after is None:
            return {}
        return {"Retry-After": str(max(1, math.ceil(self.retry_after)))}


class Unauthorized(ServiceError):
    """No API key, or a wrong one."""

    status = 401

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the reply: which scheme is wanted."""
        return {**super().headers, "WWW-Authenticate": "Bearer"}


class Forbidden(ServiceError):
    """The key must not do that."""

    status = 403


class NotFound(ServiceError):
    """There is no such thing, or it is somebody else's."""

    status = 404


class Conflict(ServiceError):
    """The run is not where that can be done."""

    status = 409


class KeyReused(Conflict):
    """An idempotency key that came with another request before."""

    def __init__(self, key: str | None, run: str) -> None:
        """``key`` as the caller knows it; ``run``: the run of the earlier request."""
        super().__init__(
            f"the idempotency key {key!r} was used for another request (run {run}): use a new key "
            "for a new request"
        )
        self.run = run


class TooLarge(ServiceError):
    """A body, file or picture over the limits."""

    status = 413


class Unprocessable(ServiceError):
    """A well-formed request that makes no sense: a wrong scene, profile or picture."""

    status = 422


class Busy(ServiceError):
    """The queue is full, or a limit is reached; come again later."""

    status = 429


class UnsupportedMediaType(ServiceError):
    """A body of another kind than the route takes, or of one that is not named."""

    status = 415

    @classmethod
    def sent(cls, said: str, *taken: str) -> UnsupportedMediaType:
        """Return the error of a body with the ``Content-Type`` ``said`` (empty: none).

        ``taken`` are the media types that the route takes: of JSON or of forms.
        """
        given = f"has the Content-Type {said[:100]!r}" if said else "has no Content-Type"
        kinds = " or ".join(
            f"{'JSON' if one.endswith('json') else 'a form'} with the header Content-Type: {one}"
            for one in taken
        )
        return cls(f"the body {given}: send {kinds}")


class DamagedRun(Conflict):
    """A run whose event log cannot be read."""

    def __init__(self, run: str, line: int | None = None) -> None:
        """``line``: the first damaged line of the log, from 1."""
        place = "" if line is None else f" at line {line}"
        super().__init__(
            f"the event log of run {run} is damaged{place}, so that its rounds cannot be shown: "
            "have the service's operator restore events.jsonl in the run's folder from a backup, "
            "or ask for the scene anew and delete this run"
        )
        self.run = run


class TooSlow(ServiceError):
    """A body that does not come."""

    status = 408


class Fault(ServiceError):
    """An error of the service itself."""

    status = 500


class InsufficientStorage(ServiceError):
    """There is no room to keep what is asked for."""

    status = 507


class Unavailable(ServiceError):
    """The service ends, or something it needs is not there."""

    status = 503


def problem(status: int, detail: str, unread: Sequence[Passage] = ()) -> dict[str, object]:
    """Return the body of an error, with the passages of a text that it is about."""
    try:
        title = http.HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    body: dict[str, object] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
    }
    return body | ({"unread": [passage.model_dump() for passage in unread]} if unread else {})

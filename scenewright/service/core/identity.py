"""Identity and scopes of a caller: every route names the scope that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from fastapi import Request

from scenewright.service.core.errors import Forbidden

Scope = Literal["refine", "read", "score", "parse", "admin"]
"""``refine``: begin, edit and cancel runs; ``read``: see runs, events and images; ``score`` and
``parse``: the routes of these names; ``admin``: metrics and everything else."""
SCOPES: tuple[Scope, ...] = ("refine", "read", "score", "parse", "admin")


@dataclass(frozen=True, slots=True)
class Identity:
    """Caller of a request."""

    tenant: str
    """Tenant whose runs it sees: no other tenant's."""
    key_id: str | None = None
    """The API key's id; none where no key is demanded."""
    scopes: tuple[Scope, ...] = SCOPES
    """Scopes that it has."""


LOCAL = Identity("local")
"""Whoever sits at this machine, where no key is demanded."""


def allow(scope: Scope) -> Callable[[Request], Awaitable[Identity]]:
    """Return a dependency: the identity of the request, which must have ``scope``."""

    async def allowed(request: Request) -> Identity:
        return require_scope(request.state.identity, scope)

    return allowed


def require_scope(identity: Identity, scope: Scope) -> Identity:
    """``identity`` if it has ``scope``; ``Forbidden`` otherwise."""
    if scope not in identity.scopes:
        raise Forbidden(
            f"this key has no scope {scope!r} (it has {', '.join(identity.scopes) or 'none'}): "
            "use another, or have one made with `scenewright keys create`"
        )
    return identity

"""API keys: made once, shown once, kept as SHA-256 only.

Browsers that signed in: a page's images and event streams can send a cookie, but no header.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from scenewright.config.profiles import SettingsError
from scenewright.service.core import database
from scenewright.service.core.database import KEYS, READING, SESSIONS, SPENDING
from scenewright.service.core.errors import NotFound, Unprocessable
from scenewright.service.core.identity import Identity, Scope
from scenewright.service.core.settings import ServiceSettings

USUAL: tuple[Scope, ...] = ("refine", "read", "score", "parse")
"""Scopes of a key for which none are named."""
KNOWN_SECONDS = 3.0
"""Seconds that a key is known without looking it up, and so that a revoked one may still open."""
_SHAPE = re.compile(r"sw_([0-9a-f]{16})_[0-9a-f]{48}")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,79}")
_MOST_KNOWN = 4096

LASTS_SECONDS = 7 * 86_400.0
"""Time that a browser stays signed in."""
_TOKEN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key's row, without its hash."""

    id: str
    """Names the key; no secret."""
    tenant: str
    """Tenant whose runs it opens."""
    label: str
    """Purpose in words."""
    scopes: tuple[Scope, ...]
    """Scopes that it has."""
    requests_per_minute: int | None
    """Most requests in any 60 seconds; none: no limit."""
    usd: float | None
    """US dollars that it may spend in all; none: no limit."""
    images: int | None
    """Images that it may have drawn in all; none: no limit."""
    running: int | None
    """Runs that may wait or be driven at once; none: no limit."""
    created: float
    """Unix time."""
    expires: float | None
    """Unix time after which it opens nothing; none: never."""
    revoked: float | None
    """Unix time since when it opens nothing."""

    @property
    def identity(self) -> Identity:
        """Identity of the key's bearer."""
        return Identity(self.tenant, self.id, self.scopes)

    def opens(self, now: float) -> bool:
        """Whether it may be used at Unix time ``now``."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class KeyStore:
    """The tables of keys and of the browsers that signed in with them. One event loop uses it."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], float] = time.time) -> None:
        """``clock`` gives Unix time in seconds."""
        self._engine = engine
        self._reading = engine.execution_options(**READING)
        self._clock = clock
        self._known: dict[str, tuple[float, tuple[ApiKey, str] | None]] = {}
        self._sessions: dict[str, tuple[float, str, float]] = {}

    async def create(
        self,
        tenant: str,
        *,
        label: str = "",
        scopes: Sequence[Scope] = USUAL,
        requests_per_minute: int | None = None,
        usd: float | None = None,
        images: int | None = None,
        running: int | None = None,
        days: float | None = None,
    ) -> tuple[ApiKey, str]:
        """Return a new key, and its text, which is told this once.

        ``days``: how long it opens.

        Raises ``Unprocessable`` for a tenant's name of another form.
        """
        if not _TENANT.fullmatch(tenant):
            raise Unprocessable(
                f"the tenant {tenant[:90]!r} has no good name: use letters, digits and . _ @ -, "
                "at most 80 of them, a letter or digit first"
            )
        now = self._clock()
        number = secrets.token_hex(8)
        text = f"sw_{number}_{secrets.token_hex(24)}"
        values: dict[str, Any] = {
            "id": number,
            "tenant": tenant,
            "label": label[:200],
            "scopes": list(dict.fromkeys(scopes)),
            "requests_per_minute": requests_per_minute,
            "usd": usd,
            "images": images,
            "running": running,
            "created": now,
            "expires": None if days is None else now + days * 86_400,
            "revoked": None,
        }
        async with self._engine.begin() as connection:
            await connection.execute(KEYS.insert().values(**values, hash=digest_of(text)))
        self._known.pop(number, None)
        return ApiKey(**{**values, "scopes": tuple(values["scopes"])}), text

    async def all(self, tenant: str | None = None) -> list[ApiKey]:
        """Return the keys (of a tenant), oldest first."""
        wanted = select(KEYS).order_by(KEYS.c.created, KEYS.c.id)
        if tenant is not None:
            wanted = wanted.where(KEYS.c.tenant == tenant)
        async with self._reading.connect() as connection:
            return [_key(row)[0] for row in await connection.execute(wanted)]

    async def revoke(self, number: str) -> ApiKey:
        """Have the key of this id open nothing any more; ``NotFound`` if there is none.

        Browsers that signed in with it are signed out.
        """
        now = self._clock()
        async with self._engine.begin() as connection:
            await connection.execute(
                update(KEYS)
                .where(KEYS.c.id == number, KEYS.c.revoked.is_(None))
                .values(revoked=now)
            )
            await connection.execute(SESSIONS.delete().where(SESSIONS.c.key_id == number))
            row = (await connection.execute(select(KEYS).where(KEYS.c.id == number))).one_or_none()
        self._known.pop(number, None)
        if row is None:
            raise NotFound(f"there is no key {number[:60]!r}: `scenewright keys list` shows them")
        return _key(row)[0]

    async def check(self, text: str) -> ApiKey | None:
        """Return the key of this text; none if it is wrong, expired or revoked."""
        shape = _SHAPE.fullmatch(text)
        if shape is None:
            return None
        found = await self._look_up(shape.group(1))
        # Compared in any case, so that an unknown id takes as long as a wrong secret.
        right = hmac.compare_digest(digest_of(text), found[1] if found is not None else "0" * 64)
        return found[0] if found is not None and right and found[0].opens(self._clock()) else None

    async def get(self, number: str) -> ApiKey | None:
        """Return the key of this id if it may be used; for who has shown it before."""
        found = await self._look_up(number)
        return found[0] if found is not None and found[0].opens(self._clock()) else None

    async def spent(self) -> dict[str, tuple[float, int]]:
        """US dollars and images of all that was asked for, by key id."""
        wanted = select(
            SPENDING.c.key_id, func.sum(SPENDING.c.usd), func.sum(SPENDING.c.images)
        ).where(SPENDING.c.key_id.is_not(None))
        async with self._reading.connect() as connection:
            rows = await connection.execute(wanted.group_by(SPENDING.c.key_id))
            return {str(key): (float(usd), int(images)) for key, usd, images in rows}

    async def any(self) -> bool:
        """Whether there is a key that may be used."""
        now = self._clock()
        usable = (
            select(func.count())
            .select_from(KEYS)
            .where(KEYS.c.revoked.is_(None), or_(KEYS.c.expires.is_(None), KEYS.c.expires > now))
        )
        async with self._reading.connect() as connection:
            return bool((await connection.execute(usable)).scalar_one())

    async def begin_session(self, key: ApiKey) -> str:
        """Return a session of ``key``: its token, which only the browser keeps."""
        token, now = secrets.token_hex(32), self._clock()
        async with self._engine.begin() as connection:
            await connection.execute(SESSIONS.delete().where(SESSIONS.c.expires < now))
            await connection.execute(
                SESSIONS.insert().values(
                    hash=digest_of(token), key_id=key.id, created=now, expires=now + LASTS_SECONDS
                )
            )
        return token

    async def session_key(self, token: str) -> ApiKey | None:
        """Return the key with which the browser signed in; none if it has to do so anew."""
        if not _TOKEN.fullmatch(token):
            return None
        digest, now = digest_of(token), self._clock()
        known = self._sessions.get(digest)
        if known is None or not now - KNOWN_SECONDS < known[0] <= now:
            async with self._reading.connect() as connection:
                wanted = select(SESSIONS.c.key_id, SESSIONS.c.expires)
                found = await connection.execute(wanted.where(SESSIONS.c.hash == digest))
            row = found.one_or_none()
            if row is None:
                # Unknown ones are not remembered: they are for who guesses.
                self._sessions.pop(digest, None)
                return None
            if len(self._sessions) >= _MOST_KNOWN:
                self._sessions.clear()
            known = self._sessions[digest] = (now, str(row.key_id), float(row.expires))
        return None if self._clock() >= known[2] else await self.get(known[1])

    async def end_session(self, token: str) -> None:
        """Forget a session."""
        digest = digest_of(token)
        self._sessions.pop(digest, None)
        async with self._engine.begin() as connection:
            await connection.execute(SESSIONS.delete().where(SESSIONS.c.hash == digest))

    async def _look_up(self, number: str) -> tuple[ApiKey, str] | None:
        known = self._known.get(number)
        now = self._clock()
        if known is not None and now - KNOWN_SECONDS < known[0] <= now:
            return known[1]
        async with self._reading.connect() as connection:
            row = (await connection.execute(select(KEYS).where(KEYS.c.id == number))).one_or_none()
        found = None if row is None else _key(row)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[number] = (now, found)
        return found


def digest_of(text: str) -> str:
    """SHA-256 of a key or token, in hex. Their secrets are random, so that no salt is needed."""
    return hashlib.sha256(text.encode()).hexdigest()


def holds_key(text: str) -> bool:
    """Whether something of the form of a key stands anywhere in ``text``."""
    return _SHAPE.search(text) is not None


async def demand_some(settings: ServiceSettings) -> None:
    """Raise ``SettingsError`` if there is no key with which the service could be used."""
    async with database.open_database(settings) as engine:
        if await KeyStore(engine).any():
            return
    place = "" if settings.database is not None else f" --data {settings.data}"
    database_option = "" if settings.database is None else " --database URL"
    raise SettingsError(
        f"{settings.host} requires API keys, and no usable key exists: make one with "
        f"`scenewright keys create TENANT{place}{database_option}`, or listen on 127.0.0.1"
    )


def _key(row: Row[Any]) -> tuple[ApiKey, str]:
    values = dict(row._mapping)
    digest = str(values.pop("hash"))
    return ApiKey(**{**values, "scopes": tuple(values["scopes"])}), digest

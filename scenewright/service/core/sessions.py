"""Browsers that signed in: a page's images and event streams can send a cookie, but no header."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from scenewright.service.core.database import READING
from scenewright.service.core.keys import KNOWN_SECONDS, ApiKey, KeyStore, digest_of
from scenewright.service.core.tables import SESSIONS

LASTS_SECONDS = 7 * 86_400.0
"""How long a browser stays signed in."""
_TOKEN = re.compile(r"[0-9a-f]{64}")
_MOST_KNOWN = 4096


class SessionStore:
    """The table of sessions. One event loop uses it."""

    def __init__(
        self, engine: AsyncEngine, keys: KeyStore, *, clock: Callable[[], float] = time.time
    ) -> None:
        """``clock`` gives Unix time in seconds."""
        self._engine = engine
        self._reading = engine.execution_options(**READING)
        self._keys = keys
        self._clock = clock
        self._known: dict[str, tuple[float, str, float]] = {}

    async def begin(self, key: ApiKey) -> str:
        """A session of ``key``: its token, which only the browser keeps."""
        token, now = secrets.token_hex(32), self._clock()
        async with self._engine.begin() as connection:
            await connection.execute(SESSIONS.delete().where(SESSIONS.c.expires < now))
            await connection.execute(
                SESSIONS.insert().values(
                    hash=digest_of(token), key_id=key.id, created=now, expires=now + LASTS_SECONDS
                )
            )
        return token

    async def key_of(self, token: str) -> ApiKey | None:
        """The key with which the browser signed in; none if it has to do so anew."""
        if not _TOKEN.fullmatch(token):
            return None
        found = await self._look_up(digest_of(token))
        if found is None or self._clock() >= found[1]:
            return None
        return await self._keys.get(found[0])

    async def end(self, token: str) -> None:
        """Forget a session."""
        digest = digest_of(token)
        self._known.pop(digest, None)
        async with self._engine.begin() as connection:
            await connection.execute(SESSIONS.delete().where(SESSIONS.c.hash == digest))

    async def _look_up(self, digest: str) -> tuple[str, float] | None:
        """Key id and expiry. Unknown ones are not remembered: they are for who guesses."""
        now = self._clock()
        known = self._known.get(digest)
        if known is not None and now - KNOWN_SECONDS < known[0] <= now:
            return known[1], known[2]
        async with self._reading.connect() as connection:
            wanted = select(SESSIONS.c.key_id, SESSIONS.c.expires)
            row = (await connection.execute(wanted.where(SESSIONS.c.hash == digest))).one_or_none()
        if row is None:
            self._known.pop(digest, None)
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest] = (now, str(row.key_id), float(row.expires))
        return str(row.key_id), float(row.expires)

"""Client of decision models behind System One's protocol, and requests of plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2

from scenewright.config.accounts import NO_KEY
from scenewright.core.error_text import hidden
from scenewright.providers.clients.base import RawReply
from scenewright.providers.clients.client import ProviderClient
from scenewright.providers.clients.reading import StatusError, of_other, status_error
from scenewright.providers.retry import Decision, PermanentError, Transient
from scenewright.providers.transport import http_client


class SystemOneClient(ProviderClient[httpx2.AsyncClient]):
    """Decision models of one host.

    No client of the protocol is among our dependencies: the makers' own (typesafe-sdk,
    perplexityai) speak to one host each, and send no pictures.
    """

    def __init__(
        self,
        model: str,
        *,
        provider: str,
        title: str,
        url: str,
        api_key: str,
        base_url: str,
        headers: Mapping[str, str],
        lasting_codes: Sequence[int | str] = (),
    ) -> None:
        """``title``: the host's name in messages; ``url``: where questions are posted.

        ``lasting_codes``: the host's error codes that make retries useless.
        """
        self.provider, self.default_url = provider, base_url
        super().__init__(model, api_key=api_key, base_url=base_url)
        self._title, self._url = title, url
        self._headers, self._lasting_codes = dict(headers), frozenset(lasting_codes)

    async def decide(self, body: Mapping[str, Any]) -> RawReply:
        """Return the unread reply to ``body``. Raises ``StatusError`` for an HTTP error."""
        return await post_json(self._clients.get(), self._url, body)

    def classify(self, error: Exception) -> Decision:
        """Return the decision for an error, by HTTP status and by the host's own codes."""
        key = self._key.get_secret_value()
        place = hidden(f"{self._title} at {self._url}", key)
        if isinstance(error, StatusError):
            told = f"{place}: {hidden(error.message, key)}"
            if not self._lasting_codes.isdisjoint(error.codes):
                return PermanentError(told)
            if error.status == 200:
                return Transient(told, replied=True)
            error = StatusError(error.status, told, error.headers)
            return of_other(error, key)
        found = of_other(error, key)
        return replace(found, reason=f"{place}: {found.reason}")

    def _client(self) -> httpx2.AsyncClient:
        key = self._key.get_secret_value()
        keyed = {} if key == NO_KEY else {"authorization": f"Bearer {key}"}
        return http_client(self.base_url, headers=self._headers | keyed)

    @staticmethod
    async def _close(client: httpx2.AsyncClient) -> None:
        await client.aclose()


async def post_json(client: httpx2.AsyncClient, url: str, body: Mapping[str, Any]) -> RawReply:
    """Return the unread reply to ``body``. Raises ``StatusError`` for an HTTP error."""
    reply = await client.post(url, json=body)
    if reply.status_code != 200:
        raise status_error(reply)
    return RawReply(reply.text, {name.lower(): value for name, value in reply.headers.items()})

"""What all wires have in common, of judges, chats and pictures: a model at a place, a key, a
client a loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from pydantic import SecretStr

from scenewright.providers.idempotency import identify
from scenewright.providers.loops import PerLoop

CapsT = TypeVar("CapsT")
C = TypeVar("C")


def http_settings() -> dict[str, Any]:
    """How the HTTP client of every SDK is made: no timeout, which is the caller's matter, and
    keys for paid requests (``calls/idempotency.py``)."""
    return {"timeout": None, "event_hooks": {"request": [identify]}}


class SdkWire(ABC, Generic[CapsT, C]):
    """A model of a provider, reached through its SDK; C is the client, CapsT what the model can
    do."""

    provider: str
    """``openai``, ``gemini`` or ``anthropic``."""
    default_url: str
    """Where the provider's own API is."""

    def __init__(
        self, model: str, caps: CapsT, *, api_key: str, base_url: str | None = None
    ) -> None:
        """``base_url``: another server, in the form of :attr:`default_url`."""
        self.model = model
        self.base_url = base_url or self.default_url
        self._caps = caps
        self._key = SecretStr(api_key)
        self._clients: PerLoop[C] = PerLoop(self._client, self._close)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    @abstractmethod
    def _client(self) -> C:
        """A client for the running loop; its own retries are off."""

    @staticmethod
    @abstractmethod
    async def _close(client: C) -> None:
        """Close ``client``."""

"""The one factory of clients: a provider's SDK is imported when its first client is made."""

from __future__ import annotations

from typing import Any

from scenewright.providers.clients.base import ClientSettings
from scenewright.providers.clients.client import ModelClient


def make_client(
    provider: str,
    model: str,
    settings: ClientSettings | None = None,
    *,
    api_key: str,
    base_url: str | None = None,
) -> ModelClient[Any]:
    """Return the client of ``provider``'s ``model``; ``settings``: of a chat model.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own.
    """
    if provider == "openai":
        from scenewright.providers.clients.openai import OpenAIClient

        return OpenAIClient(model, settings, api_key=api_key, base_url=base_url)
    if provider == "gemini":
        from scenewright.providers.clients.gemini import GeminiClient

        return GeminiClient(model, settings, api_key=api_key, base_url=base_url)
    if provider == "anthropic" and settings is not None:
        from scenewright.providers.clients.anthropic import AnthropicClient

        return AnthropicClient(model, settings, api_key=api_key, base_url=base_url)
    raise ValueError(f"no client of {provider} for {model}")

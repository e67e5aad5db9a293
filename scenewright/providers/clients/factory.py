"""The one factory of clients: a provider's SDK is imported when its first client is made."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from scenewright.providers.clients.base import ClientSettings
from scenewright.providers.clients.client import ModelClient

_CLIENTS = {"openai": "OpenAIClient", "gemini": "GeminiClient", "anthropic": "AnthropicClient"}
"""Provider → class in the module of its name."""


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
    name = _CLIENTS.get(provider)
    if name is None or (provider == "anthropic" and settings is None):
        raise ValueError(f"no client of {provider} for {model}")
    module = import_module(f"scenewright.providers.clients.{provider}")
    client: type[ModelClient[Any]] = getattr(module, name)
    return client(model, settings, api_key=api_key, base_url=base_url)

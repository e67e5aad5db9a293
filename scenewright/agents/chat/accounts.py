"""LangChain chat models of accounts."""

from __future__ import annotations

from collections.abc import Mapping

from scenewright.agents.chat.model import AccountChat
from scenewright.agents.judges.models import caps_of
from scenewright.config.accounts import missing_key
from scenewright.config.profiles import Role, SettingsError, output_limit
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.caller import Caller
from scenewright.providers.clients.client import make_client


def account_chat(
    provider: str,
    model: str,
    caller: Caller,
    *,
    api_key: str | None,
    base_url: str | None = None,
    name: str | None = None,
    overrides: Mapping[str, object] | None = None,
    role: Role | None = None,
    output_tokens: Mapping[Role, int] | None = None,
) -> AccountChat:
    """Return the chat model ``provider:model``, of ``openai``, ``gemini`` or ``anthropic``.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own.
    ``name``: the account, in place of the provider in the model's id. ``overrides``: keys of
    :class:`~scenewright.agents.judges.models.ModelCaps`, in place of what the table of facts says:
    ``api``, ``sampling``, ``max_output_tokens``, ``image_tokens``, and ``structured = "schema"``
    for a Claude that answers an error to a forced tool. ``role``: what it is for, which bounds its
    output; ``output_tokens``: the bounds that settings give to roles. The provider's library is
    imported here. Raises ``SettingsError`` for a missing key, an unknown provider or a setting that
    cannot be.
    """
    try:
        caps = caps_of(provider, model, overrides, chats=True)
    except JudgeError as error:
        raise SettingsError(str(error)) from error
    limit = output_limit(
        role,
        caps.max_output_tokens,
        declared="max_output_tokens" in (overrides or {}),
        thinks=caps.thinks or caps.thinks_by_setting,
        given=output_tokens,
    )
    caps = caps.model_copy(update={"max_output_tokens": limit.tokens})
    key = (api_key or "").strip()
    if not key:
        raise SettingsError(missing_key(provider, name))
    client = make_client(provider, model, caps, api_key=key, base_url=base_url)
    account = name or provider
    # Another server's models are not the provider's, whatever they are called.
    priced_as = provider if base_url is None else account
    return AccountChat(
        client, caller, caps, account=account, priced_as=priced_as, limit=limit.set_by
    )

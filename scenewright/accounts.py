"""Accounts at providers: whose API, which key, and how fast it may be asked.

Three stand ready: ``openai``, ``gemini`` and ``anthropic``, each with the key of its
environment variable. Others, and other limits, stand in ``scenewright.toml``::

    [accounts.vllm]
    provider = "openai"
    base_url = "http://127.0.0.1:8000/v1"
    key_variable = ""
    concurrent = 64

A judge is then named ``vllm:MODEL``. Models that ``scenewright models serve`` serves are reached
through an account with ``provider = "serve"``::

    [accounts.cluster]
    provider = "serve"
    base_url = "http://127.0.0.1:8001"

A judge there is named ``cluster:local:miniature/judge-a``, a backend
``cluster:diffusers:miniature``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Provider = Literal["openai", "gemini", "anthropic", "serve"]
SERVE = "serve"
"""The provider of models that ``scenewright models serve`` serves."""
SERVE_KEY_VARIABLE = "SCENEWRIGHT_SERVE_KEY"
"""Where their key is, if their server asks for one."""
KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY",),
}
ACCOUNT_NAME = re.compile(r"[a-z][a-z0-9_-]*")
NO_KEY = "none"
"""Sent to servers that want no key: the SDKs insist on one."""


def missing_key(provider: str, name: str | None) -> str:
    """What to tell where ``provider``'s key is missing, for the account ``name``."""
    return (
        f"no API key for {name or provider}: set {' or '.join(KEY_VARIABLES[provider])} "
        "(a server that asks for none takes any text)"
    )


class AccountSpec(BaseModel):
    """One account, as data."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    provider: Provider
    """Whose wire format it speaks."""
    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """Where the API is; None: the provider's own address."""
    key_variable: str | None = None
    """Environment variable that holds the key; None: the provider's usual one; empty: the server
    wants no key."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Most requests in any minute; None: no limit is known, 429 is obeyed."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Most tokens (in and out) in any minute; None likewise."""
    window: float = Field(default=60.0, gt=0, le=60)
    """Seconds over which the provider counts requests; smaller where it wants them spread."""
    concurrent: int = Field(default=32, ge=1, le=4096)
    """Most calls under way at once; fewer while the provider says that it is too much."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds for one attempt of a call; None: the setting ``judge_timeout``."""
    attempts: int = Field(default=6, ge=1, le=100)
    """How often a call that fails for a passing reason is sent."""
    patience: float = Field(default=600.0, gt=0)
    """Seconds that a call may wait between its attempts, all waits together."""
    models: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """What its models can do where the table that ships with scenewright does not know it or is
    wrong: model → capability → value (``logprobs``, ``facts_per_call``, …)."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """The model behind a name that does not tell it, such as that of an Azure deployment: name →
    the maker's name of the model (``gpt-4o``). Decides which judges are one model."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.key_variable == "" and self.base_url is None:
            raise ValueError("an account without a key needs the base_url of its server")
        if self.provider == SERVE and self.base_url is None:
            raise ValueError(
                "an account of served models needs the base_url that `scenewright models serve` "
                "prints"
            )
        return self

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables in which the key is looked for, in this order."""
        if self.key_variable is None:
            return KEY_VARIABLES.get(self.provider, (SERVE_KEY_VARIABLE,))
        return (self.key_variable,) if self.key_variable else ()

    def key(self) -> str | None:
        """The key from the environment; None if it is not there."""
        found = next((key for name in self.key_variables if (key := os.environ.get(name))), None)
        # Servers of models ask for a key only where one was set for them.
        optional = not self.key_variables or (self.provider == SERVE and self.key_variable is None)
        return NO_KEY if found is None and optional else found


BUILT_IN_ACCOUNTS: Mapping[str, AccountSpec] = {
    "openai": AccountSpec(provider="openai"),
    "gemini": AccountSpec(provider="gemini"),
    "anthropic": AccountSpec(provider="anthropic"),
}

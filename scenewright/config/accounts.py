"""Accounts at providers: address, key and limits.

``openai``, ``gemini`` and ``anthropic`` exist by default, each with the key of its environment
variable. Others, and other limits, are set in ``scenewright.toml``::

    [accounts.vllm]
    provider = "openai"
    base_url = "http://127.0.0.1:8000/v1"
    key_variable = ""
    concurrent = 64

A judge is then named ``vllm:MODEL``.

Decision models are named ``decision:ACCOUNT/MODEL``. Besides the accounts of OpenAI and Gemini,
each host of System One is an account by its name: ``decision:typesafe/jev-latest``,
``decision:vllm/MODEL``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scenewright.core.flushing import replacing
from scenewright.core.user_files import decoded

Provider = Literal[
    "openai", "gemini", "anthropic",
    "systemone", "transformers", "vllm", "sglang", "llamacpp", "ollama", "litellm",
    "typesafe", "perplexity", "openrouter", "cloudflare",
]  # fmt: skip
KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY",),
}
ADDRESS_VARIABLES: Mapping[str, str] = {
    "openai": "OPENAI_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
}
"""Environment variables by which the providers' own SDKs are sent to another server."""
OWN_HOSTS: Mapping[str, tuple[str, ...]] = {
    "systemone": (),
    "transformers": (),
    "vllm": ("VLLM_API_KEY",),
    "sglang": ("SGLANG_API_KEY",),
    "llamacpp": ("LLAMA_API_KEY",),
    "ollama": (),
    "litellm": ("LITELLM_API_KEY",),
}
"""Self-hosted servers that serve decision models by System One, and the variables of their keys."""
DECISION_HOSTS: Mapping[str, tuple[str, ...]] = {
    **OWN_HOSTS,
    "typesafe": ("TYPESAFE_API_KEY",),
    "perplexity": ("PERPLEXITY_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "cloudflare": ("CLOUDFLARE_API_TOKEN",),
}
"""Self-hosted servers, and the providers that need a key."""
DAY_ZONES: Mapping[str, str] = {"gemini": "America/Los_Angeles"}
"""Time zone in which a provider counts requests of a day; others: UTC."""
_VARIABLES = {**KEY_VARIABLES, **DECISION_HOSTS}
ACCOUNT_NAME = re.compile(r"[a-z][a-z0-9_-]*")
DECISION_KIND = "decision"
"""Prefix of the names of decision judges: ``decision:ACCOUNT/MODEL``."""
NO_KEY = "none"
"""Sent to servers without keys, because the SDKs require one."""


def missing_key(provider: str, name: str | None) -> str:
    """Return the message for a missing key of ``provider``, for the account ``name``."""
    account = name or provider
    return (
        f"no API key for {account}: set {' or '.join(_VARIABLES[provider])}, or store it with "
        f"`scenewright keys set {account}` (a server that asks for none takes any text)"
    )


class AccountSpec(BaseModel):
    """An account at a provider."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    provider: Provider
    """Provider whose wire format it speaks."""
    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """Base URL of the API; None: that of :data:`ADDRESS_VARIABLES`, else the provider's own."""
    key_variable: str | None = None
    """Environment variable of the key; None: the provider's usual one; empty: no key is needed."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Most requests in any minute; None: unknown, 429 replies are obeyed."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Most tokens (in and out) in any minute; None likewise."""
    requests_per_day: int | None = Field(default=None, ge=1, exclude_if=lambda limit: limit is None)
    """Most requests from one midnight to the next, of all processes of this machine together; None
    likewise."""
    day_zone: str | None = Field(default=None, exclude_if=lambda zone: zone is None)
    """IANA name of the time zone whose midnight ends a day; None: the provider's
    (:data:`DAY_ZONES`).
    """
    window: float = Field(default=60.0, gt=0, le=60)
    """Seconds over which the provider counts requests; smaller where it wants them spread out."""
    concurrent: int = Field(default=32, ge=1, le=4096)
    """Most calls in flight; fewer after a refusal for too many."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds for one attempt of a call; None: the setting ``judge_timeout``."""
    attempts: int = Field(default=6, ge=1, le=100)
    """Most attempts of a call that fails for a temporary reason."""
    patience: float = Field(default=600.0, gt=0)
    """Most seconds that a call may wait between its attempts, in total."""
    models: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Abilities of its models where the built-in table lacks them or is wrong: model → capability →
    value (``logprobs``, ``facts_per_call``, …).
    """
    decisions: dict[str, dict[str, Any]] = Field(
        default_factory=dict, exclude_if=lambda models: not models
    )
    """The same for its decision models: model → capability → value (``orders``, ``detail``, …)."""
    host: str | None = Field(default=None, exclude_if=lambda host: host is None)
    """Host of decision models whose form of System One its server uses; None: the ``provider``'s.
    For a server that serves both kinds, such as vLLM with ``provider = "openai"``.
    """
    host_settings: dict[str, Any] = Field(
        default_factory=dict, exclude_if=lambda settings: not settings
    )
    """Differences of its server from that host: key of ``hosts.toml`` → value."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Model behind a name that does not reveal it, such as an Azure deployment: name → the maker's
    name (``gpt-4o``). Decides which judges are the same model.
    """

    @field_validator("provider", mode="before")
    @classmethod
    def _check_provider(cls, value: Any) -> Any:
        if value == "serve":
            raise ValueError(
                "'serve' was the provider of `scenewright models serve`, which was removed: serve "
                "judges with vLLM, SGLang or `transformers serve`, set provider = 'openai' and the "
                "base_url of that server, and name them by their model there (docs/scaling.md)"
            )
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.key_variable == "" and self.base_url is None:
            raise ValueError("an account without a key needs the base_url of its server")
        if self.provider == "systemone" and self.base_url is None:
            raise ValueError("an account of a System One server needs its base_url")
        if self.host is not None and self.host not in DECISION_HOSTS:
            raise ValueError(f"host {self.host!r}: use one of {', '.join(DECISION_HOSTS)}")
        if self.host_settings and self.decisions_of not in DECISION_HOSTS:
            raise ValueError(
                f"host_settings: {self.decisions_of} does not speak System One; name the host"
            )
        if self.requests_per_day is not None or self.day_zone is not None:
            try:
                ZoneInfo(self.zone_of_day)
            except (ZoneInfoNotFoundError, ValueError):
                raise ValueError(
                    f"day_zone: no time zone {self.zone_of_day!r} is known here; give one such as "
                    "'UTC' or 'Europe/Berlin' (a system without time zones has them after "
                    "`pip install tzdata`)"
                ) from None
        return self

    def addressed(self) -> Self:
        """Return the account with the base URL that the provider's own variable names, if any.

        A ``base_url`` of its own stays. Raises ``ValueError`` for a variable that holds no URL.
        """
        variable = ADDRESS_VARIABLES.get(self.provider)
        url = os.environ.get(variable, "").strip() if variable else ""
        if self.base_url is not None or not url:
            return self
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{variable} is {url!r}: it must begin with http:// or https://")
        return self.model_copy(update={"base_url": url})

    @property
    def self_hosted(self) -> bool:
        """Whether its server is one's own, where calls cost nothing.

        It needs no key, or is on this machine or in a private network.
        """
        if self.key_variable == "":
            return True
        if self.base_url is None:
            return self.provider in OWN_HOSTS
        host = urlsplit(self.base_url).hostname or ""
        try:
            return not ip_address(host).is_global
        except ValueError:
            return "." not in host or host.endswith((".local", ".localhost", ".internal"))

    @property
    def zone_of_day(self) -> str:
        """IANA name of the time zone in which its requests of a day are counted."""
        return self.day_zone or DAY_ZONES.get(self.provider, "UTC")

    def identity(self, name: str) -> str:
        """Return ``name`` and a digest of provider, address and key.

        Two keys are two accounts, whatever name their owners give them.
        """
        whose = f"{self.provider} {self.base_url} {self.key()}"
        return f"{name} {hashlib.sha256(whose.encode()).hexdigest()[:16]}"

    def priced_as(self, account: str) -> str:
        """Return the provider in the table of prices.

        Another server's models are not the provider's, whatever they are called: they are priced
        under the name of the ``account``.
        """
        return self.provider if self.base_url is None else account

    @property
    def decisions_of(self) -> str:
        """Provider or host whose way of asking decision models it uses."""
        return self.host or self.provider

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables in which the key is looked for, in this order."""
        if self.key_variable is None:
            return _VARIABLES[self.provider]
        return (self.key_variable,) if self.key_variable else ()

    def key(self) -> str | None:
        """Return the key from the environment, else from the user's file of keys, else None."""
        stored = stored_keys() if self.key_variables else {}
        every = (os.environ.get(name) or stored.get(name) for name in self.key_variables)
        found = next((key for key in every if key), None)
        # Servers of models ask for a key only where one was set for them.
        own = self.provider in OWN_HOSTS and self.key_variable is None
        optional = not self.key_variables or own
        return NO_KEY if found is None and optional else found


def keys_file() -> Path:
    """Return the file of the user's keys: ``~/.config/scenewright/keys.json``.

    It is below ``XDG_CONFIG_HOME`` where that is set. Raises ``RuntimeError`` where the user has no
    home folder.
    """
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "scenewright" / "keys.json"


def stored_keys() -> dict[str, str]:
    """Return the keys of :func:`keys_file` by variable; none where there is no such file.

    Raises ``ValueError`` for a file that cannot be read.
    """
    try:
        found = json.loads(decoded(keys_file().read_bytes(), str(keys_file())))
    except (FileNotFoundError, NotADirectoryError, RuntimeError):
        return {}
    except (OSError, ValueError) as error:
        # The text of a fault could show a key.
        why = getattr(error, "strerror", None) or "it is not JSON"
        raise ValueError(f"the file of keys {keys_file()} cannot be read: {why}") from error
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found.values()):
        raise ValueError(f"the file of keys {keys_file()} must map names of variables to keys")
    return found


def store_key(variable: str, key: str | None) -> Path:
    """Put a key into :func:`keys_file`, which only its owner may read; None takes it out.

    Raises ``OSError`` where it cannot be written; the file of before then stays.
    """
    place = keys_file()
    found = {name: one for name, one in stored_keys().items() if name != variable}
    if key is not None:
        found[variable] = key
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(place) as draft:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1, sort_keys=True)
    return place


BUILT_IN_ACCOUNTS: Mapping[str, AccountSpec] = {
    "openai": AccountSpec(provider="openai"),
    "gemini": AccountSpec(provider="gemini"),
    "anthropic": AccountSpec(provider="anthropic"),
}
DECISION_ACCOUNTS: Mapping[str, AccountSpec] = {
    name: AccountSpec.model_validate({"provider": name})
    for name in DECISION_HOSTS
    if name != "systemone"
}
"""Accounts that serve only decision models."""

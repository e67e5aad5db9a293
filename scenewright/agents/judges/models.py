"""Abilities of providers' chat models, as data; ends of models by providers' own lists.

The table of facts (:mod:`scenewright.providers.model_facts`) has the abilities, and an account may
override them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date
from importlib import import_module
from typing import TypeVar

from pydantic import BaseModel, Field

from scenewright.agents.judges.pictures import PictureCaps
from scenewright.agents.judges.sheet import Reasons
from scenewright.config.accounts import DECISION_HOSTS, KEY_VARIABLES, AccountSpec, missing_key
from scenewright.core.ports.judge import JudgeCaps, JudgeError
from scenewright.providers.clients.base import ClientSettings
from scenewright.providers.clients.reading import of_other
from scenewright.providers.model_facts import (
    ModelEnd,
    ModelTableError,
    checked,
    model_facts,
    row_of,
)

M = TypeVar("M", bound=BaseModel)
_MEDIA_TOKENS = {"low": "media-280", "medium": "media-560", "high": "media-1120"}


class ModelCaps(PictureCaps, ClientSettings):
    """Abilities and limits of one model."""

    facts_per_call: int = Field(ge=1, le=512)
    """Most facts asked in one call."""
    pictures: bool = True
    """Whether it accepts pictures; without them it may still compose and direct."""
    thinks: bool = False
    """Whether it thinks by default; thoughts count as output, so limits of roles do not apply."""
    reasons: Reasons
    """Answers with a reason: ``none``, ``doubted`` (no, or unsure) or ``all``."""
    stems: bool
    """Whether words shared by questions are written once."""

    @property
    def judge_caps(self) -> JudgeCaps:
        """Abilities in the form of the judge protocol."""
        return JudgeCaps(
            facts_per_call=self.facts_per_call,
            probability="logprob" if self.logprobs else "verbalized",
            max_side=self.max_side,
            local=False,
            images_per_call=self.images_per_call,
            structured=self.structured,
            sampling=tuple(sorted(self.sampling)),
            bounds_calls=True,
            counts=True,
        )


def caps_of(
    provider: str, model: str, overrides: Mapping[str, object] | None = None, *, chats: bool = False
) -> ModelCaps:
    """Return the abilities of ``provider``'s ``model``; ``overrides`` replace single keys.

    A row's table ``when_thinking`` holds what changes while the model thinks: with a
    ``reasoning_effort`` other than "none", and for language models that converse (``chats``), which
    think as long as the model does by itself unless an override says otherwise.

    Raises ``JudgeError`` for an unknown provider, an unknown key or a value that cannot be.
    """
    if provider in DECISION_HOSTS:
        raise JudgeError(
            f"{provider} serves decision models here: name one decision:{provider}/{model}, or "
            'give its chat models an account with provider = "openai"'
        )
    if provider not in KEY_VARIABLES:
        raise JudgeError(f"no provider {provider!r}: use one of {', '.join(KEY_VARIABLES)}")
    name = f"{provider}:{model}"
    own = overrides or {}
    row = row_of(model_facts().rows("chat"), name)
    thinking = row.pop("when_thinking", None)
    if isinstance(thinking, Mapping):
        if chats:
            row["reasoning_effort"] = ""
        if own.get("reasoning_effort", row.get("reasoning_effort", "")) != "none":
            row.update(thinking)
    row.update(own)
    if own.get("media_resolution") and "image_tokens" not in own:
        row["image_tokens"] = _MEDIA_TOKENS.get(str(row["media_resolution"]), row["image_tokens"])
    return checked_row(ModelCaps, row, name)


def checked_row(kind: type[M], row: Mapping[str, object], name: str) -> M:
    """Return ``row`` as a model of ``kind``.

    Raises ``JudgeError`` for an unknown key or a value that cannot be.
    """
    try:
        return checked(kind, row, name)
    except ModelTableError as error:
        raise JudgeError(str(error)) from error


_SECONDS = 20.0
_LISTS: Mapping[str, tuple[str, str, dict[str, int]]] = {
    "openai": ("OpenAI", "shutdown_date", {}),
    "anthropic": ("Anthropic", "retires_at", {"limit": 1000}),
}
"""Provider → class of its library's client, a listed model's end, and parameters of the list."""


def listed_ends(
    name: str, account: AccountSpec, models: Iterable[str]
) -> tuple[dict[str, ModelEnd], str]:
    """Return announced ends of ``models`` from an account's own list of models, by spec.

    One request (``GET /v1/models``) to OpenAI's or Anthropic's address, or the account's; other
    providers list no dates and are not asked. The second value says why nothing could be read; else
    it is empty. A model without an announced end is left out.
    """
    key = account.key()
    if key is None:
        return {}, missing_key(account.provider, name)
    if account.provider not in _LISTS:
        return {}, ""
    kind, end, parameters = _LISTS[account.provider]
    wanted = set(models)
    try:
        sdk = import_module(account.provider)
        with getattr(sdk, kind)(
            api_key=key,
            base_url=account.base_url,
            max_retries=0,
            timeout=_SECONDS,
            # The key must not follow a redirect to another host.
            http_client=sdk.DefaultHttpxClient(follow_redirects=False),
        ) as client:
            listed = client.models.list(**parameters)
            days = {one.id: str(getattr(one, end))[:10] for one in listed if one.id in wanted}
    except Exception as error:
        reason = of_other(error, key).reason
        return {}, f"{name} was asked for its list of models and failed: {reason}"
    ends = {}
    for model, day in days.items():
        # Most have no date.
        with suppress(ValueError):
            source = f"the list of models of {name}"
            ends[f"{name}:{model}"] = ModelEnd(ends=date.fromisoformat(day), source=source)
    return ends, ""

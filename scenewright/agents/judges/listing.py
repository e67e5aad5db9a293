"""What the providers' own lists of models say of their ends."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime

from scenewright.agents.judges.faults import of_other
from scenewright.config.accounts import AccountSpec, missing_key
from scenewright.providers.model_ends import ModelEnd

_SECONDS = 20.0


def listed_ends(
    name: str, account: AccountSpec, models: Iterable[str]
) -> tuple[dict[str, ModelEnd], str]:
    """Return the ends of ``models`` that an account's own list of models tells, by spec.

    One request (``GET /v1/models``) to OpenAI's or Anthropic's address, or the account's; others
    tell no dates and are not asked. The second value says why nothing could be read; empty if it
    could. Without an announced end a model is left out.
    """
    key = account.key()
    if key is None:
        return {}, missing_key(account.provider, name)
    wanted = set(models)
    try:
        if account.provider == "openai":
            listed = _openai_ends(key, account.base_url)
        elif account.provider == "anthropic":
            listed = _anthropic_ends(key, account.base_url)
        else:
            return {}, ""
    except Exception as error:
        reason = of_other(error, key).reason
        return {}, f"{name} was asked for its list of models and failed: {reason}"
    return {
        f"{name}:{model}": ModelEnd(ends=ends, source=f"the list of models of {name}")
        for model, ends in listed.items()
        if model in wanted
    }, ""


def _openai_ends(key: str, base_url: str | None) -> dict[str, date]:
    import openai

    with openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=_SECONDS) as client:
        ends = {model.id: _day(model.shutdown_date) for model in client.models.list()}
    return {model: day for model, day in ends.items() if day is not None}


def _anthropic_ends(key: str, base_url: str | None) -> dict[str, date]:
    import anthropic

    with anthropic.Anthropic(
        api_key=key, base_url=base_url, max_retries=0, timeout=_SECONDS
    ) as client:
        ends = {model.id: _day(model.retires_at) for model in client.models.list(limit=1000)}
    return {model: day for model, day in ends.items() if day is not None}


def _day(told: datetime | str | None) -> date | None:
    """Return the day of a date as providers write them; None for none and for what is no date."""
    if isinstance(told, datetime):
        return told.date()
    try:
        return date.fromisoformat(str(told)[:10])
    except ValueError:
        return None

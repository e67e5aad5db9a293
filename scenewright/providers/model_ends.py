"""When providers end models: a dated table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from pydantic import BaseModel, ConfigDict

from scenewright.config.accounts import DECISION_KIND, AccountSpec
from scenewright.providers.model_table import best_key, rows_of

WARNING_DAYS = 60
"""How long before its end a model is warned of."""


class ModelEnd(BaseModel):
    """The end of one model, as announced."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ends: date
    """First day without the model."""
    successor: str = ""
    """The model that its provider names instead, as ``provider:model``."""
    then: str = ""
    """What happens to calls afterwards, where they do not fail."""
    source: str = ""
    """Where it was announced."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A model in use that ends soon or has ended."""

    spec: str
    """As the profile names it, ``account:model``."""
    end: ModelEnd
    """When, and what comes after."""
    days: int
    """Days left; 0 or less: it has ended."""

    @property
    def text(self) -> str:
        """A sentence that says when it ends and what to name instead."""
        when = f"ended on {self.end.ends}" if self.days <= 0 else (
            f"ends on {self.end.ends}, in {self.days} day{'s' if self.days != 1 else ''}"
        )  # fmt: skip
        then = f", then {self.end.then}" if self.end.then else ""
        instead = f": name another, such as {self.end.successor}" if self.end.successor else ""
        return f"{self.spec} {when}{then}{instead}"


def end_of(provider: str, model: str) -> ModelEnd | None:
    """Return the announced end of a provider's own model; None if the table knows none."""
    table = _table()
    key = best_key(table, f"{provider}:{model}")
    return None if key is None else table[key]


def endings(
    specs: Iterable[str],
    accounts: Mapping[str, AccountSpec],
    *,
    today: date | None = None,
    told: Mapping[str, ModelEnd] | None = None,
) -> list[Ending]:
    """Return which of ``specs`` (``account:model``) end within :data:`WARNING_DAYS`, soonest first.

    ``accounts``: by name, the built-in ones included. One with an address of its own serves what it
    likes under a name, and is left out. ``told``: ends that the providers themselves told, by spec
    (:func:`scenewright.agents.judges.listing.listed_ends`); they go before the table.
    """
    today = today or date.today()
    found = []
    for spec in dict.fromkeys(specs):
        name, _, model = spec.partition(":")
        if name == DECISION_KIND:
            name, _, model = model.partition("/")
        account = accounts.get(name)
        end = (told or {}).get(spec)
        if end is None and account is not None and account.base_url is None:
            end = end_of(account.provider, model)
        if end is not None and (days := (end.ends - today).days) <= WARNING_DAYS:
            found.append(Ending(spec, end, days))
    return sorted(found, key=lambda ending: ending.days)


@cache
def _table() -> dict[str, ModelEnd]:
    rows = rows_of("scenewright.providers", "model_ends.toml")
    return {key: ModelEnd.model_validate(row) for key, row in rows.items()}

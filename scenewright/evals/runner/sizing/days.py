"""Forecasts against the requests that accounts may send in a day."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scenewright.config.settings import Settings, SettingsError
from scenewright.evals.runner.sizing.tables import account_of
from scenewright.runs.model_factory.profiles import limits_of


@dataclass(frozen=True, slots=True)
class DayLimit:
    """An account whose requests of a day do not suffice."""

    account: str
    """Its name."""
    calls: int
    """Requests that are expected, at most."""
    per_day: int
    """Requests that it may send in a day."""
    left: int
    """Requests of today that are left, on this machine."""
    zone: str
    """IANA time zone in which its day ends."""

    @property
    def pauses(self) -> int:
        """How often the account pauses until midnight."""
        return math.ceil((self.calls - self.left) / self.per_day)

    @property
    def text(self) -> str:
        """A sentence without its end."""
        until = (
            f"until midnight ({self.zone})"
            if self.pauses == 1
            else f"until midnight ({self.zone}) {self.pauses:,} times"
        )
        return (
            f"{self.account} takes up to {self.calls:,} requests and may send {self.per_day:,} a "
            f"day, of which {self.left:,} are left today: it pauses {until}; calls that have less "
            "patience are unscored, and --retry or the same command asks them another day"
        )


def short_days(calls: Iterable[tuple[str, float]], settings: Settings) -> tuple[DayLimit, ...]:
    """Return the accounts that would send more requests than a day of theirs has left.

    ``calls``: id of a model and how often it is called, at most. Names of no known account, such as
    those of models on this machine, are left out.
    """
    total: dict[str, float] = {}
    for model, count in calls:
        account = account_of(model)
        total[account] = total.get(account, 0.0) + count
    found = []
    for account, count in sorted(total.items()):
        try:
            spec = settings.account(account)
        except SettingsError:
            continue
        quota = limits_of(account, spec).day_quota()
        if quota is None or spec.requests_per_day is None or count <= (left := quota.left()):
            continue
        found.append(
            DayLimit(account, math.ceil(count), spec.requests_per_day, left, spec.zone_of_day)
        )
    return tuple(found)

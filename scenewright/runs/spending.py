"""Spending limits that can be kept: every paid model of a run has a known price."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import (
    LOCAL_BACKEND,
    Profile,
    SettingsError,
    reached_by,
    split_judge,
)
from scenewright.config.settings import Settings
from scenewright.providers.usage import PriceTable

if TYPE_CHECKING:
    from scenewright.runs.plan import RunPlan


def unkept_limit(models: Iterable[str], limit: str) -> str:
    """Return why ``limit`` cannot be kept with ``models`` of unknown prices, and the remedy."""
    return (
        f"no price is known for {', '.join(models)}, so the limit of {limit} cannot be kept: put "
        "the price into a file (the setting prices; docs/api-models.md), get newer prices with "
        "`scenewright models update`, or set allow_unpriced = true to count these models as 0"
    )


def check_limit(plan: RunPlan) -> None:
    """Raise ``SettingsError`` for a plan with a limit in dollars that cannot be kept."""
    usd = plan.options.budget.usd
    if usd is None or usd == math.inf or plan.settings.allow_unpriced:
        return
    if found := unpriced_models(plan.profile, plan.settings, plan.replaced):
        raise SettingsError(unkept_limit(found, f"${usd:g}"))


def unpriced_models(
    profile: Profile, settings: Settings, replaced: Collection[str] = ()
) -> list[str]:
    """Return the models of a profile that cost money and have no known price.

    ``replaced``: fields of the profile whose models others stand in for.
    """
    groups = ("judges", "report_judges", "realism_judges", "realism_report_judges")
    models = [spec for name in groups if name not in replaced for spec in getattr(profile, name)]
    if profile.chat is not None and "chat" not in replaced:
        models.append(profile.chat)
    if profile.backend.kind != LOCAL_BACKEND and "backend" not in replaced:
        models.append(f"{profile.backend.kind}:{profile.backend.model}")
    return without_price(models, settings)


def without_price(models: Iterable[str], settings: Settings) -> list[str]:
    """Return those of ``models`` (``account:model``) that cost money and have no known price.

    Other names are left out: of models on this machine, and of models that a caller built.
    """
    prices = PriceTable.load(*([settings.prices] if settings.prices else []))
    found: dict[str, None] = {}
    for spec in models:
        with suppress(SettingsError):
            name, model = reached_by(spec)
            account = settings.account(name)
            if account.self_hosted:
                continue
            named = account.priced_as(name)
            decides = split_judge(spec)[0] == DECISION_KIND
            asked = (DECISION_KIND, f"{named}/{model}") if decides else (named, model)
            if prices.price(*asked) is None:
                found[spec] = None
    return [*found]

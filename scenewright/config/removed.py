"""Options and strategies that earlier versions had, with what replaces each.

A stored run that names one still opens; a profile or a request that does is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BEST_OF_N = "use strategy = 'best-of-n', which keeps the best of several whole pictures"
REMOVED_OPTIONS: Mapping[str, str] = {
    "drafts": _BEST_OF_N,
    "draft_steps": _BEST_OF_N,
    "draft_strength": _BEST_OF_N,
    "guided_share": "leave it out, and set fewer steps or the backend's cache to save work",
    "crop_scale": "leave it out: with crop = true a crop is drawn at its own size",
    "reference_steps": "leave it out: a reference image takes the steps of every picture",
    "realism_repair": "leave it out: realism is judged and breaks ties; to choose among more "
    "pictures use strategy = 'best-of-n'",
}
"""Option → what to do instead."""
REMOVED_STRATEGIES: Mapping[str, str] = {
    "schedule": "use 'feedback'",
    "masked": "use 'feedback' with repair = 'region'",
    "emphasis": "use 'edit', which tells a model what failed or repeats it in the prompt",
}
"""Strategy → what to use instead."""


def check_removed_options(data: Any) -> None:
    """Raise ``ValueError`` if ``data`` is a mapping that sets a removed option."""
    if isinstance(data, Mapping):
        for name in data:
            if name in REMOVED_OPTIONS:
                raise ValueError(f"{name} was removed: {REMOVED_OPTIONS[name]}")


def without_removed_options(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a stored run without those that are no more."""
    return {name: value for name, value in stored.items() if name not in REMOVED_OPTIONS}

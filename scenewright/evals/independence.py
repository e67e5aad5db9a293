"""Self-reports of an evaluation: panels with models that steered the loops which they judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scenewright.accounts import AccountSpec
from scenewright.agents.independence import identity_of_judge
from scenewright.evals.arms import Arm
from scenewright.evals.cast import Cast
from scenewright.model_identity import ModelIdentity, identity_of_spec, shared_names

SELF_REPORTS = "self_reports"
"""Key of a manifest: panel → arm → models that steered the arm's loops and judge its pictures."""
SelfReports = Mapping[str, Mapping[str, tuple[str, ...]]]


def self_reports_of(cast: Cast, accounts: Mapping[str, AccountSpec]) -> dict[str, Any]:
    """Panel → arm → models on both sides, for the manifest; empty where all are apart.

    May read the weights of local models, which takes seconds.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for seat in cast.seats:
        judges = [identity_of_judge(judge, accounts) for judge in seat.judges]
        for arm in cast.arms:
            artist = cast.artists[arm.name]
            if artist is None or not arm.loops:
                continue
            steers = [identity_of_judge(judge, accounts) for judge in artist.judges]
            steers += directors((arm,), accounts)
            if shared := shared_names(steers, judges):
                found.setdefault(seat.name, {})[arm.name] = list(shared)
    return found


def directors(
    arms: Iterable[Arm], accounts: Mapping[str, AccountSpec] | None
) -> list[ModelIdentity]:
    """The chat models that direct loops of ``arms``."""
    found = [arm.profile.identities(accounts)[2] for arm in arms if arm.loops]
    return [director for director in found if director is not None]


def told_self_reports(manifest: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, ...]]]:
    """What a manifest says of self-reports; of one that was written without, what its models
    tell."""
    told = manifest.get(SELF_REPORTS)
    if isinstance(told, Mapping):
        return {
            str(panel): {str(arm): tuple(map(str, names)) for arm, names in arms.items()}
            for panel, arms in told.items()
            if isinstance(arms, Mapping)
        }
    models = manifest.get("models")
    panels, arms = ((models or {}).get(key) or {} for key in ("panels", "arms"))
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for panel, judges in panels.items():
        for arm, drawn in arms.items():
            if shared := shared_names(
                identities_listed(drawn.get("judges")), identities_listed(judges)
            ):
                found.setdefault(str(panel), {})[str(arm)] = shared
    return found


def identities_listed(models: Any) -> list[ModelIdentity]:
    """The identities of judges that are listed as data: id and fingerprint of each."""
    found = []
    for model in models if isinstance(models, list | tuple) else ():
        named = identity_of_spec(str(model.get("id") or ""))
        name = "" if named is None else named.name
        mark = str(model.get("fingerprint") or "")
        found.append(ModelIdentity(str(model.get("id") or ""), name, fingerprint=mark))
    return found

"""Whether the models of a profile can run on this machine, without building any of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.util import find_spec

from scenewright.config.profiles import (
    CHAT_KINDS,
    JUDGE_KINDS,
    LOCAL_BACKEND,
    Profile,
    SettingsError,
    local_model_of,
    reached_by,
)
from scenewright.config.settings import Settings
from scenewright.providers.hub.cache import PULL, survey
from scenewright.providers.hub.needs import needs_of
from scenewright.runs.model_factory.local_models import LIBRARIES, NO_LOCAL


def lacking(
    profile: Profile, settings: Settings, replaced: Collection[str] = ()
) -> tuple[str, ...]:
    """Return what a run of ``profile`` lacks on this machine, each with its remedy; empty: nothing.

    Looks for the files of models, for packages and for the keys of accounts. ``replaced`` names
    models (``backend``, ``judges``, ``report_judges``, …) that others take the place of. Nothing is
    loaded, and no network is used.
    """
    return tuple(dict.fromkeys(_lacking(profile, settings, replaced)))


def _lacking(profile: Profile, settings: Settings, replaced: Collection[str]) -> Iterator[str]:
    wanted = {name: name not in replaced for name in ("backend", "judges", "report_judges")}
    specs = [
        spec
        for name in ("judges", "report_judges")
        for spec in (getattr(profile, name) if wanted[name] else ())
    ]
    drawn_here = wanted["backend"] and profile.backend.kind == LOCAL_BACKEND
    here = drawn_here or any(local_model_of(spec) is not None for spec in specs)
    if here and any(find_spec(name) is None for name in LIBRARIES):
        yield NO_LOCAL
    absent = [need.repository for need in needs_of(profile, **wanted) if not survey(need).complete]
    if absent:
        yield (
            f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not on this machine: fetch "
            f"with `{PULL} {profile.name}`"
        )
    if profile.chat is not None and "composer" not in replaced:
        specs.append(profile.chat)
    kinds = {reached_by(spec)[0] for spec in specs}
    if wanted["backend"]:
        kinds.add(profile.backend.kind)
    for kind in sorted(kinds - {LOCAL_BACKEND, *JUDGE_KINDS, *CHAT_KINDS}):
        try:
            account = settings.account(kind)
        except SettingsError as error:
            yield str(error)
            continue
        if account.key() is None:
            yield f"no key of the account {kind}: set {' or '.join(account.key_variables)}"

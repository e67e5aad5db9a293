"""Which profile a tenant has chosen, kept in a file each."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from scenewright.runs.folder import write_json
from scenewright.service.core.errors import Unavailable, Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.requests import profiles_of
from scenewright.service.core.service import Service

CHECKPOINT = "sd_model_checkpoint"
_FOLDER = "automatic1111"
_AROUND = re.compile(r"(\.(safetensors|ckpt))?(\s*\[[^\]]*\])?$")


def options_of(service: Service, identity: Identity) -> dict[str, Any]:
    """The options that have a meaning here, by AUTOMATIC1111's names."""
    return {
        CHECKPOINT: chosen_profile(service, identity),
        "sd_checkpoint_hash": "",
        "samples_format": "png",
        "CLIP_stop_at_last_layers": 1,
        "enable_pnginfo": True,
    }


def choose(service: Service, identity: Identity, given: dict[str, Any]) -> None:
    """Keep the profile that ``given`` names, if it names one; the other options have no effect.

    Raises ``Unprocessable`` for a profile that may not be asked for.
    """
    named = given.get(CHECKPOINT)
    if named is None:
        return
    profile = known_profile(service, named)
    place = _place(service, identity)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_json(place, {CHECKPOINT: profile})
    except OSError as error:
        raise Unavailable(f"the choice cannot be kept: {error.strerror or error}") from error


def chosen_profile(service: Service, identity: Identity) -> str:
    """The tenant's profile, else the service's default, else the first that may be asked for."""
    known = profiles_of(service.base, service.settings.profiles)
    try:
        kept = json.loads(_place(service, identity).read_text(encoding="utf-8"))[CHECKPOINT]
    except (OSError, ValueError, KeyError, TypeError):
        kept = None
    for name in (kept, service.base.profile):
        if name in known:
            return str(name)
    return next(iter(known), service.base.profile)


def known_profile(service: Service, named: object) -> str:
    """The profile of a model's title, as plug-ins write it; ``Unprocessable`` lists them."""
    known = profiles_of(service.base, service.settings.profiles)
    name = _AROUND.sub("", named) if isinstance(named, str) else None
    if name not in known:
        raise Unprocessable(
            f"no model {str(named)[:100]!r} here: there are {', '.join(sorted(known))}, the "
            "service's profiles"
        )
    return str(name)


def _place(service: Service, identity: Identity) -> Path:
    name = hashlib.sha256(identity.tenant.encode()).hexdigest()[:32]
    return service.settings.data / _FOLDER / f"{name}.json"

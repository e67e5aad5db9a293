"""Before a run: are the models of its profile on this machine?"""

from __future__ import annotations

from scenewright.config.profiles import Profile
from scenewright.core.ports.backend import BackendError
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.hub.cache import PULL, how_to_get, survey
from scenewright.providers.hub.needs import needs_of

_DRAWING = {"backend", "adapter", "image encoder"}


def demand_models(
    profile: Profile,
    *,
    backend: bool = True,
    judges: bool = True,
    report_judges: bool = True,
    realism_judges: bool = False,
    realism_report_judges: bool = False,
) -> None:
    """Check that what ``profile`` needs from the hub is on this machine; asks no network.

    The flags leave out what somebody else brings, or nobody asks for. Raises ``BackendError``, or
    ``JudgeError`` if only judges lack: with every repository, its size, its licence and how to
    get it.
    """
    lost = [
        present
        for need in needs_of(
            profile,
            backend=backend,
            judges=judges,
            report_judges=report_judges,
            realism_judges=realism_judges,
            realism_report_judges=realism_report_judges,
        )
        if not (present := survey(need)).complete
    ]
    if not lost:
        return
    own = (
        f"Or name folders of yours in scenewright.toml: [profiles.mine] extends = "
        f'"{profile.name}", backend = "diffusers:/folder", judges = ["local:/folder"].'
    )
    command = f"{PULL} {profile.name}"
    text = (
        f"the profile {profile.name!r} needs models that are not on this machine:\n"
        f"{how_to_get(lost, command, own)}"
    )
    if any(_DRAWING & set(present.need.parts) for present in lost):
        raise BackendError(text)
    raise JudgeError(text)

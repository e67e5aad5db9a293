"""Which profiles can run here, for doors that list them as models."""

from __future__ import annotations

from scenewright.core.scene import SceneGraph
from scenewright.runs.readiness import lacking
from scenewright.service.core.admission import lacking_words
from scenewright.service.core.requests import profiles_of
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service

_ANY = SceneGraph()


def runnable_profiles(service: Service) -> dict[str, tuple[str, ...]]:
    """Return the profiles that may be asked for, each with what it lacks; empty: it can run.

    Where other machines may drive the runs, what is here says nothing of them: none lacks anything.
    """
    found = profiles_of(service.base, service.settings.profiles)
    if not service.drives:
        return dict.fromkeys(found, ())
    return {
        name: lacking(profile, service.base, replaced=_replaced(service, name))
        for name, profile in found.items()
    }


def check_runnable(service: Service, profile: str) -> str | None:
    """Return why ``profile``, which may be asked for, cannot run here; none: it can."""
    if not service.drives:
        return None
    known = profiles_of(service.base, service.settings.profiles)[profile]
    lost = lacking(known, service.base, replaced=_replaced(service, profile))
    return lacking_words(profile, lost) if lost else None


def _replaced(service: Service, profile: str) -> tuple[str, ...]:
    if service.models is None:
        return ()
    return tuple(service.models(RefinementRequest(scene=_ANY, profile=profile)))

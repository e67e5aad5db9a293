"""Choices of a request: profiles, their judges, and strategies."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from pydantic import BaseModel

from scenewright.config.profiles import DIRECTOR, Profile
from scenewright.graphs.strategies.registry import strategies
from scenewright.runs.readiness import obstacle, this_machine
from scenewright.service.api.common import Core, HeadRoute, Reader
from scenewright.service.core.requests import profiles_of
from scenewright.service.core.service import Service

router = APIRouter(prefix="/v1", tags=["profiles"], route_class=HeadRoute)


class ProfileInfo(BaseModel):
    """A profile that may be asked for."""

    name: str
    """Name."""
    about: str
    """One sentence."""
    judges: tuple[str, ...]
    """Judges of the loop."""
    report_judges: tuple[str, ...]
    """Judges of the report."""
    strategy: str
    """Repair that it makes."""
    default: bool
    """Whether it is used where none is named."""
    obstacle: str = ""
    """Why it cannot run here and what to do, in one line; empty where it can, and where workers on
    other machines may draw it."""


class Choices(BaseModel):
    """Choices of a request."""

    profiles: tuple[ProfileInfo, ...]
    """The profiles."""
    strategies: dict[str, str]
    """Strategies by name, each with a sentence."""


@router.get("/profiles", summary="List profiles and strategies", response_model=Choices)
async def choices(service: Core, identity: Reader) -> Choices:
    """Return the profiles and strategies of this service."""
    found, obstacles = await asyncio.to_thread(profiles_here, service)
    ways = {name: strategy.about for name, strategy in strategies().items()}
    return Choices(
        profiles=tuple(
            ProfileInfo(
                name=name,
                about=profile.about,
                judges=profile.judges,
                report_judges=profile.report_judges,
                strategy=profile.strategy,
                default=name == service.base.profile,
                obstacle=obstacles[name],
            )
            for name, profile in found.items()
        ),
        strategies={**ways, DIRECTOR: "a language model decides each step with tools"},
    )


def profiles_here(service: Service) -> tuple[dict[str, Profile], dict[str, str]]:
    """Return the profiles by name, and what keeps each of them from running here."""
    found = profiles_of(service.base, service.settings.profiles)
    settings = service.settings
    if service.models is not None or settings.shared or not settings.work:
        # Models of the caller's own, or workers whose machines are not this one.
        return found, dict.fromkeys(found, "")
    machine = this_machine()
    return found, {name: obstacle(one, service.base, machine) for name, one in found.items()}

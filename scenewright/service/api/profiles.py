"""What may be asked for: profiles, their judges, and strategies."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from pydantic import BaseModel

from scenewright.config.profiles import DIRECTOR
from scenewright.graphs.strategies.registry import strategies
from scenewright.service.api.common import Core, Reader
from scenewright.service.core.requests import profiles_of

router = APIRouter(prefix="/v1", tags=["profiles"])


class ProfileInfo(BaseModel):
    """A profile that may be asked for."""

    name: str
    """How it is called."""
    about: str
    """One sentence."""
    judges: tuple[str, ...]
    """Judges of the loop."""
    report_judges: tuple[str, ...]
    """Judges of the report."""
    strategy: str
    """How it repairs."""
    default: bool
    """Whether it is used where none is named."""


class Choices(BaseModel):
    """What may be asked for."""

    profiles: tuple[ProfileInfo, ...]
    """The profiles."""
    strategies: dict[str, str]
    """Strategies by name, each with a sentence."""


@router.get("/profiles", summary="List profiles and strategies", response_model=Choices)
async def choices(service: Core, identity: Reader) -> Choices:
    """Return the profiles and strategies of this service."""
    found = await asyncio.to_thread(profiles_of, service.base, service.settings.profiles)
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
            )
            for name, profile in found.items()
        ),
        strategies={**ways, DIRECTOR: "a language model decides each step with tools"},
    )

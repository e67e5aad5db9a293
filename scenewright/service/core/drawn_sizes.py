"""From the size that somebody wants to one that the backend draws well."""

from __future__ import annotations

import asyncio
import math

from scenewright.core.ports.backend import BackendError, BackendFeatures
from scenewright.runs.model_factory.profiles import backend_of
from scenewright.service.core.errors import Unavailable
from scenewright.service.core.requests import profile_of
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service

_GRID = 16
"""All models draw sides that are multiples of it."""
_LEAST, _MOST = 0.5, 2.0
"""Shares of a model's own number of pixels between which it draws well: far from what they were
trained on, diffusion models repeat things or lose them."""
_LONGEST = 4.0
"""Most times that one side is as long as the other, likewise."""

Size = tuple[int, int]
"""(width, height) in pixels."""


async def features_of(service: Service, request: RefinementRequest) -> BackendFeatures:
    """What the backend of ``request`` can do; raises ``ServiceError`` if it is not there."""

    def read() -> BackendFeatures:
        given = service.models(request).get("backend") if service.models is not None else None
        if given is not None:
            features: BackendFeatures = given.features
            return features
        profile = profile_of(request, service.base, service.settings.profiles)
        return backend_of(profile.backend, service.base).features

    try:
        return await asyncio.to_thread(read)
    except BackendError as error:
        raise Unavailable(str(error)) from error


def drawn_size(wanted: Size, features: BackendFeatures) -> Size | None:
    """The size to draw for a picture of ``wanted``; none: the backend's own.

    ``wanted`` itself if the backend draws it well; else a size of much the same shape, from which
    the picture is scaled.
    """
    found = _nearest(wanted, features)
    return None if found == features.default_size else found


def _nearest(wanted: Size, features: BackendFeatures) -> Size:
    width, height = wanted
    if features.sizes is not None:
        return min(
            features.sizes,
            key=lambda size: (
                round(abs(math.log(size[0] * height / (size[1] * width))), 3),
                abs(math.log(size[0] * size[1] / (width * height))),
            ),
        )
    own = features.default_size[0] * features.default_size[1]
    shape, area = width / height, width * height
    if not 1 / _LONGEST <= shape <= _LONGEST or not _LEAST <= area / own <= _MOST:
        shape = min(max(shape, 1 / _LONGEST), _LONGEST)
        width, height = round(math.sqrt(own * shape)), round(math.sqrt(own / shape))
    return _on_grid(width), _on_grid(height)


def _on_grid(side: int) -> int:
    return max(1, round(side / _GRID)) * _GRID

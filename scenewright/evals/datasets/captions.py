"""The scene of a prompt, where a set gives text alone."""

from __future__ import annotations

from typing import Any

from scenewright.core.scene import SceneError
from scenewright.evals.datasets.reading import one_of

PARSES = ("rules", "none")
"""Ways from a prompt to a scene: the rules of :mod:`scenewright.agents.parsers.rules`, or none."""


def check_parse(value: object) -> str:
    """``value`` if it is one of :data:`PARSES`; ``DatasetError`` otherwise."""
    return one_of("parse", value, PARSES)


def said_of(prompt: str, parse: str, meta: dict[str, str] | None = None) -> dict[str, Any]:
    """Fields ``prompt``, ``scene`` and ``meta`` of the item of ``prompt``.

    A prompt that the rules find no object in stays without a scene; ``meta["no_scene"]`` then says
    why.
    """
    kept = dict(meta or {})
    if parse == "none":
        return {"prompt": prompt, "meta": kept}
    from scenewright.agents.parsers.rules import parse_caption

    try:
        return {"prompt": prompt, "scene": parse_caption(prompt), "meta": kept}
    except SceneError as error:
        return {"prompt": prompt, "meta": {**kept, "no_scene": str(error)}}

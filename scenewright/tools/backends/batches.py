"""Which requests may be drawn in one batch."""

from __future__ import annotations

from collections.abc import Sequence

from scenewright.core.ports.backend import BackendFeatures, GenerationRequest
from scenewright.tools.backends.families import Family
from scenewright.tools.backends.long_prompts import chunk_count
from scenewright.tools.backends.prompt_length import PromptReader

MOST = 4
"""Most pictures in one batch: beyond it a device that is kept busy gains nothing."""


def batches(
    requests: Sequence[GenerationRequest],
    features: BackendFeatures,
    family: Family,
    reader: PromptReader,
    most: int,
) -> list[list[int]]:
    """Places of ``requests`` in batches of at most ``most``, every place once.

    Requests share a batch if size, steps and guidance are equal and each is drawn from its prompt
    alone: references of different prompts would blend, start pictures and emphasis are state of
    the pipeline. Only of families that fill all prompts up to one length, and only prompts of
    which ``reader`` makes equally much, because filling up shorter ones would change their
    pictures.
    """
    found: list[list[int]] = []
    open_ones: dict[object, list[int]] = {}
    for place, request in enumerate(requests):
        alone = request.references or request.start is not None or request.emphasis
        if alone or not family.text or most < 2:
            found.append([place])
            continue
        key = (
            (request.width, request.height) if request.width else features.default_size,
            request.steps or features.default_steps,
            features.default_guidance if request.guidance is None else request.guidance,
            bool(request.negative_prompt),
            chunk_count(reader, (request.prompt, request.negative_prompt)),
            reader.length((request.prompt, request.negative_prompt)),
        )
        batch = open_ones.get(key)
        if batch is None or len(batch) == most:
            batch = open_ones[key] = []
            found.append(batch)
        batch.append(place)
    return found

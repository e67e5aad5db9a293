"""What a round of feedback changes: the whole picture, or the places of what is missing.

The paper (Scene-Bench, Sec. 4) draws the whole picture again from another seed with both
references everywhere; what was right may get lost. Where the composer says which place it
planned for each object, and the backend takes masks and patches of noise, a round can be
kept to the places of the missing graph: there the noise becomes that of I1 and I1 acts, elsewhere
the noise stays and I0 acts. What was right stays, what I1 shows right tends to come out the same,
and rounds add up.
"""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from scenewright.agents.composer import Composer
from scenewright.graphs.state import LoopOptions, round_seed
from scenewright.images import ImageStore
from scenewright.regions import covered, inverted, mask_of
from scenewright.scene import SceneGraph
from scenewright.tools.backends.base import (
    BackendFeatures,
    GenerationRequest,
    NoisePatch,
    Reference,
)

MOST_COVERED = 0.7
"""Share of the picture from which on there is little left to keep: all of it is drawn anew."""


@dataclass(frozen=True, slots=True)
class Redrawing:
    """How the next candidate differs from the first one besides its number."""

    seed: int
    """Seed of its noise."""
    references: tuple[Reference, ...]
    """I0 and I1, as many as the backend takes."""
    noise_patches: tuple[NoisePatch, ...] = ()
    """Where the noise is not that of ``seed``."""


def redrawing(
    options: LoopOptions,
    features: BackendFeatures,
    composer: Composer,
    images: ImageStore,
    *,
    round: int,
    scene: SceneGraph,
    missing: SceneGraph,
    best: tuple[str, GenerationRequest],
    shown: str,
) -> Redrawing:
    """The redrawing of ``round``: ``best`` is the kept image with its request, ``shown`` is I1.

    Its masks are kept in ``images``.
    """
    seed = round_seed(options.seed, round, "candidate")
    image, request = best
    mask = _mask(options, features, composer, request, scene, missing)
    inside = outside = None
    if mask is not None:
        inside, outside = images.put(mask), images.put(inverted(mask))
    references: tuple[Reference, ...] = (
        Reference(image=image, weight=options.weight_best, mask=outside),
        Reference(image=shown, weight=options.weight_missing, mask=inside),
    )
    # A backend with room for one gets I1: I0 alone lowers the score (Scene-Bench, ablation).
    references = references[-features.references :]
    if inside is None:
        return Redrawing(seed, references)
    # I1 was drawn from this noise, with its things in the same places.
    noise = round_seed(options.seed, round, "reference")
    patches = (*request.noise_patches, NoisePatch(seed=noise, mask=inside))
    return Redrawing(request.seed, references, patches)


def _mask(
    options: LoopOptions,
    features: BackendFeatures,
    composer: Composer,
    request: GenerationRequest,
    scene: SceneGraph,
    missing: SceneGraph,
) -> Image.Image | None:
    """White where ``missing`` is planned; None if the whole picture must be drawn anew."""
    if options.repair == "whole" or not (features.masks and features.noise_patches):
        return None
    # The seed of the candidates' prompt, which said these places.
    planned = composer.places(scene, round_seed(options.seed, 0, "candidate"))
    regions = [planned[item.id] for item in missing.objects if item.id in planned]
    if len(regions) < len(missing.objects):
        return None
    width, height = features.default_size
    mask = mask_of(regions, (request.width or width, request.height or height))
    return mask if covered(mask) <= MOST_COVERED else None

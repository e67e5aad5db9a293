"""What a round of feedback changes: the whole picture, or the places of what is missing.

The paper (Scene-Bench, Sec. 4) draws the whole picture again from another seed with both
references everywhere; what was right may get lost. Where the composer says which place it
planned for each object, and the backend can start from a picture and keep a part of it, a
round can be kept to the places of the missing graph: it starts from the best picture with those
places cut out of I1, and I1 acts there as a reference too. What was right stays as it is, what I1
shows right comes out much the same, and rounds add up.
"""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from scenewright.agents.composer import Composer
from scenewright.graphs.state import LoopOptions, round_seed
from scenewright.images import ImageStore
from scenewright.regions import Region, inverted, mask_of
from scenewright.scene import SceneGraph
from scenewright.tools.backends.base import BackendFeatures, Reference, Start


@dataclass(frozen=True, slots=True)
class Redrawing:
    """How the next candidate differs from the first one besides its seed."""

    references: tuple[Reference, ...]
    """I0 and I1, as many as the backend takes."""
    start: Start | None = None
    """What it begins with in place of noise alone."""


def redrawing(
    options: LoopOptions,
    features: BackendFeatures,
    composer: Composer,
    images: ImageStore,
    *,
    scene: SceneGraph,
    missing: SceneGraph,
    best: str,
    shown: str | None,
) -> Redrawing:
    """The next redrawing: ``best`` is the kept image, ``shown`` is I1, if it was drawn.

    Its masks and the picture it starts from are kept in ``images``.
    """
    regions = _regions(options, features, composer, scene, missing)
    inside = outside = start = None
    if regions is not None:
        picture = images.get(best)
        mask = mask_of(regions, picture.size)
        inside = images.put(mask)
        if options.weight_best:
            outside = images.put(inverted(mask))
        # Without I1 only noise is free of what is wrong there.
        start = Start(image=best, strength=1.0, mask=inside)
        if shown is not None:
            right = images.get(shown).resize(picture.size)
            pasted = images.put(Image.composite(right, picture, mask))
            start = Start(image=pasted, strength=options.repair_strength, mask=inside)
    references: tuple[Reference, ...] = (
        Reference(image=best, weight=options.weight_best, mask=outside),
    )
    if shown is not None:
        references += (Reference(image=shown, weight=options.weight_missing, mask=inside),)
    # A backend with room for one gets I1: I0 alone lowers the score (Scene-Bench, ablation).
    return Redrawing(references[-features.references :], start)


def _regions(
    options: LoopOptions,
    features: BackendFeatures,
    composer: Composer,
    scene: SceneGraph,
    missing: SceneGraph,
) -> list[Region] | None:
    """Where ``missing`` is planned; None if the whole picture must be drawn anew."""
    if options.repair == "whole" or not (features.masks and features.edit):
        return None
    # The seed of the candidates' prompt, which said these places.
    planned = composer.places(scene, round_seed(options.seed, 0, "candidate"))
    regions = [planned[item.id] for item in missing.objects if item.id in planned]
    return regions if len(regions) == len(missing.objects) else None

"""Feedback (Scene-Bench, Sec. 4): the best picture and one of what is missing as references, Eq. 5.

The paper draws the whole picture again from another seed with both references everywhere; what
was right may get lost. Where the composer says which place it planned for each object, and the
backend can start from a picture and keep a part of it, a round can be kept to the places of the
missing graph (``repair = "region"``): it starts from the best picture with those places cut out
of I1, and I1 acts there as a reference too. What was right stays as it is, what I1 shows right
comes out much the same, and rounds add up.
"""

from __future__ import annotations

from PIL import Image

from scenewright.graphs.strategies.base import Move, Redrawing, Situation
from scenewright.graphs.strategies.places import planned_regions
from scenewright.graphs.strategies.words import listed
from scenewright.regions import Region, inverted, mask_of
from scenewright.tools.backends.base import BackendFeatures, Reference, Start


class Feedback:
    """Redraws with the best picture (λ0) and one of the missing graph (λ1) as references."""

    name = "feedback"
    about = "Redraw with the best picture and one of what is missing as references (Eq. 5)."
    stops_when_satisfied = True

    def lacks(self, features: BackendFeatures) -> str | None:
        """References."""
        return None if features.references else "it takes no reference images"

    def move(self, situation: Situation) -> Move:
        """With references, and a picture of the missing graph unless its weight is 0."""
        options, missing = situation.options, situation.missing
        if self.lacks(situation.features):
            does, why = (
                "draws the prompt again from another seed",
                "the backend takes no references",
            )
            return Move(self.name, does, why)
        # With a weight of 0 nothing of a reference would be seen.
        shows = options.weight_missing != 0
        where = "the places of what is missing" if self._regions(situation) else "the whole picture"
        does = f"draws {where} again with references, λ0 {options.weight_best:g}"
        if shows:
            does += f" and, of what is missing, λ1 {options.weight_missing:g}"
        why = f"not confirmed: {listed(situation)}"
        return Move(self.name, does, why, missing if shows else None)

    def redraw(self, situation: Situation, move: Move, shown: str | None) -> Redrawing:
        """The references, and in regions the picture to begin with."""
        features, options, images = situation.features, situation.options, situation.images
        if not features.references:
            return Redrawing()
        best = situation.best
        regions = self._regions(situation)
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

    def _regions(self, situation: Situation) -> list[Region] | None:
        features = situation.features
        if situation.options.repair == "whole" or not (features.masks and features.edit):
            return None
        return planned_regions(situation, situation.missing)

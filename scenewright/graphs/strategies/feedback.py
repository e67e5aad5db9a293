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

from scenewright.core.ports.backend import BackendFeatures, Reference, Start
from scenewright.core.regions import Region, mask_of
from scenewright.graphs.strategies.base import Move, Redrawing, Situation
from scenewright.graphs.strategies.places import (
    mask_in,
    planned_regions,
    regions_of,
    rest_of,
)
from scenewright.graphs.strategies.words import listed


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
        options, lacking = situation.options, Feedback.lacks(self, situation.features)
        if lacking:
            return Move(self.name, "draws the prompt again from another seed", lacking)
        # With a weight of 0 nothing of a reference would be seen.
        shows = options.weight_missing != 0
        reference = situation.missing if shows else None
        return Move(self.name, self._does(situation), listed(situation), reference)

    def redraw(self, situation: Situation, move: Move, shown: str | None) -> Redrawing:
        """The references, and in regions the picture to begin with."""
        if not situation.features.references:
            return Redrawing()
        options, best = situation.options, situation.best
        regions = self._regions(situation)
        if regions is not None:
            return self._in_places(situation, regions, shown)
        kept = Reference(image=best, weight=options.weight_best)
        new = None
        if shown is not None:
            new = Reference(image=shown, weight=options.weight_missing)
        return Redrawing(_as_taken(situation, kept, new))

    def _in_places(
        self, situation: Situation, regions: list[Region], shown: str | None
    ) -> Redrawing:
        """Outside of ``regions`` the best picture itself stays, so that as a reference it has
        nothing to add: it goes along without weight, to tell what the picture was made from."""
        options, images, best = situation.options, situation.images, situation.best
        picture = images.get(best)
        mask = mask_of(regions, picture.size)
        inside = images.put(mask)
        kept = Reference(image=best, weight=0.0)
        if shown is None:
            # Without I1 only noise is free of what is wrong there.
            return Redrawing((kept,), Start(image=best, strength=1.0, mask=inside))
        right = images.get(shown).resize(picture.size)
        pasted = images.put(Image.composite(right, picture, mask))
        new = Reference(image=shown, weight=options.weight_missing, mask=inside)
        start = Start(image=pasted, strength=options.repair_strength, mask=inside)
        return Redrawing(_as_taken(situation, kept, new), start)

    def _does(self, situation: Situation) -> str:
        best, missing = situation.options.weight_best, situation.options.weight_missing
        if self._regions(situation) is not None:
            shown = f" with a picture of it, λ1 {missing:g}" if missing else " from noise"
            return f"draws the places of what is missing again{shown}"
        return f"draws the whole picture again with references, λ0 {best:g}, λ1 {missing:g}"

    def _regions(self, situation: Situation) -> list[Region] | None:
        features = situation.features
        if situation.options.repair == "whole" or not (features.masks and features.edit):
            return None
        return planned_regions(situation, situation.missing)


class ScheduledFeedback(Feedback):
    """Feedback of the whole picture whose weights change over the rounds and over the steps.

    A diffusion model decides what stands where in its first steps and how it looks in its last
    ones: I1 weighs most at the beginning, I0 at the end. Every round without a better picture
    weakens I0, which shows what is wrong, by half, and strengthens I1 by a quarter, up to 1.5.
    """

    name = "schedule"
    about = "Feedback whose weights change over the rounds and the denoising steps."
    early = (1.5, 1.0, 0.5)
    """Factors of λ1 over the denoising."""
    late = (0.5, 1.0, 1.5)
    """Factors of λ0 over the denoising."""

    def redraw(self, situation: Situation, move: Move, shown: str | None) -> Redrawing:
        """The references with their schedules."""
        if not situation.features.references:
            return Redrawing()
        best, missing = self._weights(situation)
        steps = situation.features.schedules
        kept = Reference(image=situation.best, weight=best, schedule=self.late if steps else ())
        new = None
        if shown is not None:
            new = Reference(image=shown, weight=missing, schedule=self.early if steps else ())
        return Redrawing(_as_taken(situation, kept, new))

    def _does(self, situation: Situation) -> str:
        best, missing = self._weights(situation)
        over = " and over the steps" if situation.features.schedules else ""
        return (
            f"draws the whole picture again with references, λ0 {best:g}, λ1 {missing:g}, which "
            f"change over the rounds{over}"
        )

    def _weights(self, situation: Situation) -> tuple[float, float]:
        options, failures = situation.options, situation.failures
        return (
            options.weight_best * 0.5**failures,
            options.weight_missing * min(1.5, 1 + 0.25 * failures),
        )


class MaskedFeedback(Feedback):
    """Feedback of the whole picture in which I0 acts only where confirmed objects are planned,
    and I1 only where they are not: there a missing thing may go."""

    name = "masked"
    about = "Feedback whose references act only where what they show may stand."

    def lacks(self, features: BackendFeatures) -> str | None:
        """References with masks."""
        return super().lacks(features) or (None if features.masks else "it takes no masks")

    def redraw(self, situation: Situation, move: Move, shown: str | None) -> Redrawing:
        """The references with their masks; without planned places they act everywhere."""
        if not situation.features.references:
            return Redrawing()
        options = situation.options
        boxes = self._boxes(situation)
        held = free = None
        if boxes is not None:
            held, free = mask_in(situation, boxes), rest_of(situation, boxes)
        kept = Reference(image=situation.best, weight=options.weight_best, mask=held)
        new = None
        if shown is not None:
            new = Reference(image=shown, weight=options.weight_missing, mask=free)
        return Redrawing(_as_taken(situation, kept, new))

    def _does(self, situation: Situation) -> str:
        boxes = self._boxes(situation)
        if boxes is None:
            lacking = self.lacks(situation.features) or "no places are planned"
            return f"draws the whole picture again with references, which act everywhere: {lacking}"
        return (
            "draws the whole picture again with references, the one of what is missing outside "
            f"of {len(boxes)} places that hold what was confirmed"
        )

    def _boxes(self, situation: Situation) -> list[Region] | None:
        if not situation.features.masks:
            return None
        lost = {item.id for item in situation.missing.objects}
        return regions_of(situation, (o.id for o in situation.scene.objects if o.id not in lost))


def _as_taken(
    situation: Situation, kept: Reference, new: Reference | None
) -> tuple[Reference, ...]:
    """As many references as the backend takes, with masks only where it takes these."""
    both: tuple[Reference, ...] = (kept,) if new is None else (kept, new)
    if not situation.features.masks:
        both = tuple(reference.model_copy(update={"mask": None}) for reference in both)
    # A backend with room for one gets I1: I0 alone lowers the score (Scene-Bench, ablation).
    return both[-situation.features.references :]

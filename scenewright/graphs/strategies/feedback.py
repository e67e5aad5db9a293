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

from scenewright.core.layout import Region, mask_of
from scenewright.core.ports.backend import BackendFeatures, Reference
from scenewright.graphs.strategies.base import (
    GenerationOverrides,
    RepairPlan,
    RoundContext,
    failure_line,
    planned_regions,
    start_within,
)


class Feedback:
    """Redraws with the best picture (λ0) and one of the missing graph (λ1) as references."""

    name = "feedback"
    about = "Redraw with the best picture and one of what is missing as references (Eq. 5)."
    stops_when_satisfied = True

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Report missing support for references."""
        return None if features.references else "it takes no reference images"

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """With references, and a picture of the missing graph unless its weight is 0."""
        options, lacking = (
            round_context.options,
            self.unsupported_reason(round_context.features),
        )
        if lacking:
            return RepairPlan(self.name, "draws the prompt again from another seed", lacking)
        # With a weight of 0 nothing of a reference would be seen.
        shows = options.weight_missing != 0
        reference = round_context.missing if shows else None
        return RepairPlan(
            self.name, self._does(round_context), failure_line(round_context), reference
        )

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Return the references, and in regions the picture to begin with."""
        if not round_context.features.references:
            return GenerationOverrides()
        options, best = round_context.options, round_context.best
        regions = self._regions(round_context)
        if regions is not None:
            return self._in_places(round_context, regions, shown)
        kept = Reference(image=best, weight=options.weight_best)
        new = None
        if shown is not None:
            new = Reference(image=shown, weight=options.weight_missing)
        return GenerationOverrides(_as_taken(round_context, kept, new))

    def _in_places(
        self, round_context: RoundContext, regions: list[Region], shown: str | None
    ) -> GenerationOverrides:
        """Return the references of a repair within ``regions``.

        Outside of ``regions`` the best picture itself stays, so that I0 has nothing to add: it is
        passed with weight 0, as a record of the source.
        """
        options, images, best = round_context.options, round_context.images, round_context.best
        picture = images.get(best)
        mask = mask_of(regions, picture.size)
        inside = images.put(mask)
        kept = Reference(image=best, weight=0.0)
        if shown is None:
            # Without I1 only noise is free of what is wrong there.
            return GenerationOverrides((kept,), start_within(round_context, best, 1.0, inside))
        right = images.get(shown).resize(picture.size)
        pasted = images.put(Image.composite(right, picture, mask))
        new = Reference(image=shown, weight=options.weight_missing, mask=inside)
        start = start_within(round_context, pasted, options.repair_strength, inside)
        return GenerationOverrides(_as_taken(round_context, kept, new), start)

    def _does(self, round_context: RoundContext) -> str:
        best, missing = round_context.options.weight_best, round_context.options.weight_missing
        if self._regions(round_context) is not None:
            shown = f" with a picture of it, weight {missing:g}" if missing else " from noise"
            return f"draws the places of what is missing again{shown}"
        return (
            f"draws the whole picture again with references: the best picture, weight {best:g}, "
            f"and what is missing, weight {missing:g}"
        )

    def _regions(self, round_context: RoundContext) -> list[Region] | None:
        features = round_context.features
        if round_context.options.repair == "whole" or not (features.masks and features.edit):
            return None
        return planned_regions(round_context, round_context.missing)


def _as_taken(
    round_context: RoundContext, kept: Reference, new: Reference | None
) -> tuple[Reference, ...]:
    """As many references as the backend takes, with masks only where it takes these."""
    both: tuple[Reference, ...] = (kept,) if new is None else (kept, new)
    if not round_context.features.masks:
        both = tuple(reference.model_copy(update={"mask": None}) for reference in both)
    # A backend with room for one gets I1: I0 alone lowers the score (Scene-Bench, ablation).
    return both[-round_context.features.references :]

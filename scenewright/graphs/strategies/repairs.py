"""Repairs by a region drawn anew or by an instruction, and the controls without feedback."""

from __future__ import annotations

from dataclasses import replace

from scenewright.core.ports.backend import BackendFeatures, Reference, Start
from scenewright.core.scene import SceneGraph
from scenewright.graphs.strategies.base import (
    GenerationOverrides,
    RepairPlan,
    RoundContext,
    absent_objects,
    clauses,
    failed_regions,
    failure_line,
    instruction,
    mask_in,
    start_within,
)


class Inpaint:
    """Draws the places of what failed anew from noise, and keeps the rest of the best picture."""

    name = "inpaint"
    about = "Draw only the places of what failed anew, keep the rest of the best picture."
    stops_when_satisfied = True

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Report missing support for starting from a picture."""
        return None if features.edit else "it cannot start from a picture"

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """Plan to redraw the places of failed facts."""
        lacking = self.unsupported_reason(round_context.features)
        if lacking:
            return RepairPlan(self.name, "draws the prompt again from another seed", lacking)
        regions = failed_regions(round_context)
        if regions is None:
            does = "draws the whole picture anew from under noise: no places are planned"
        else:
            does = f"draws {len(regions)} of the planned places anew, keeps the rest"
        return RepairPlan(self.name, does, failure_line(round_context))

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Return the best picture to begin with, and a mask of what may change."""
        if self.unsupported_reason(round_context.features):
            return GenerationOverrides()
        options = round_context.options
        regions = failed_regions(round_context)
        if regions is None:
            start = Start(image=round_context.best, strength=options.repair_strength)
        else:
            # What is wrong there must not shine through.
            mask = mask_in(round_context, regions)
            start = start_within(round_context, round_context.best, 1.0, mask)
        return GenerationOverrides(start=start)


class Edit:
    """Repair by an instruction to an edit model.

    Another model draws the picture again from under noise with the words of what failed.
    """

    name = "edit"
    about = "Tell an edit model what to change in the best picture."
    stops_when_satisfied = True

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Instructions."""
        return None if features.instructions else "it takes no instructions"

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """One instruction for all that failed, with a picture of what is absent."""
        features = round_context.features
        if features.instructions:
            reference = self._reference(round_context)
            asked = instruction(round_context, shown=reference is not None)
            return RepairPlan(
                self.name, f"asks for: {asked}", failure_line(round_context), reference
            )
        if features.edit:
            does = "draws the best picture again from under noise, with what failed said again"
        else:
            does = "draws again from another seed, with what failed said again"
        return RepairPlan(
            self.name, does, f"{failure_line(round_context)} ({self.unsupported_reason(features)})"
        )

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Return the picture and the instruction."""
        features = round_context.features
        if features.instructions:
            start = Start(image=round_context.best, strength=1.0, instruct=True)
            return GenerationOverrides(
                references=() if shown is None else (Reference(image=shown, weight=1.0),),
                start=start,
                prompt=instruction(round_context, shown=shown is not None),
            )
        said = repeat_failures(round_context)
        if not features.edit:
            return GenerationOverrides(prompt=said)
        strength = round_context.options.repair_strength
        return GenerationOverrides(
            start=Start(image=round_context.best, strength=strength), prompt=said
        )

    def _reference(self, round_context: RoundContext) -> SceneGraph | None:
        """Return the graph to draw for the model to see beside the picture.

        None where nothing is absent, the model sees one picture, or the budget has no room.
        """
        left = round_context.images_left
        if not round_context.features.edit_references or (left is not None and left < 2):
            return None
        return round_context.missing if absent_objects(round_context) else None


class ComposeEdit(Edit):
    """Feedback for models that edit from several pictures.

    The kept picture and the one of the missing graph are shown as they are, each named by its role,
    in place of the two references of Eq. 5. Where the composer planned the places of what is
    missing, only these may change: drawn anew after the picture of what is missing if the backend
    has such a form, else edited within a mask.
    """

    name = "compose-edit"
    about = "Show an edit model the best picture and one of what is missing, each by its role."

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Report missing support for instructions with several pictures."""
        lacking = super().unsupported_reason(features)
        return lacking or (None if features.edit_references else "it edits from one picture alone")

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """Plan one order for all that failed, within the places of what is missing."""
        repair_plan = super().plan_repair(round_context)
        lacking = self.unsupported_reason(round_context.features)
        if lacking is None and (regions := failed_regions(round_context)):
            place = "place" if len(regions) == 1 else "places"
            return replace(
                repair_plan, does=f"{repair_plan.does} Changes {len(regions)} {place} alone."
            )
        return repair_plan

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Return the pictures, the order, and a mask of what may change."""
        changes = super().redraw(round_context, repair_plan, shown)
        regions = failed_regions(round_context)
        if changes.start is None or not changes.start.instruct or not regions:
            return changes
        mask = mask_in(round_context, regions)
        if shown is not None and round_context.features.start_references:
            start = start_within(round_context, round_context.best, 1.0, mask)
            return GenerationOverrides(references=changes.references, start=start)
        start = start_within(round_context, round_context.best, 1.0, mask, instruct=True)
        return replace(changes, start=start)


def repeat_failures(round_context: RoundContext) -> str:
    """Return the prompt of the scene with what failed at its end once more."""
    return f"{round_context.prompt}, with {', '.join(clauses(round_context))}"


class Resample:
    """The same prompt from another seed, until nothing is missing."""

    name = "resample"
    about = "Draw the same prompt from another seed until nothing is missing."
    stops_when_satisfied = True

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Nothing: a backend without seeds gives another picture each time by itself."""
        return None

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """Return a new seed."""
        does = "draws the same prompt from another seed"
        return RepairPlan(self.name, does, "it looks at no feedback")

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Nothing but the round's own seed."""
        return GenerationOverrides()


class BestOfN(Resample):
    """All pictures of the budget, whatever the judges say of them; the best one is kept."""

    name = "best-of-n"
    about = "Draw the same prompt as often as rounds and images allow, keep the best picture."
    stops_when_satisfied = False

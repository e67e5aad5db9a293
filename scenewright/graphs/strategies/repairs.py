"""Repairs without a reference image: a region drawn anew, an instruction, words that weigh more."""

from __future__ import annotations

from scenewright.core.ports.backend import BackendFeatures, Emphasis, Start
from scenewright.core.questions import noun_phrase
from scenewright.core.regions import Region
from scenewright.graphs.strategies.base import GenerationOverrides, RepairPlan, RoundContext
from scenewright.graphs.strategies.places import mask_in, objects_of, regions_of
from scenewright.graphs.strategies.realism import only_unreal, region_of_worst, said_of_worst
from scenewright.graphs.strategies.words import clauses, failed, instruction, listed, phrases


class Inpaint:
    """Draws the places of what failed anew from noise, and keeps the rest of the best picture.

    With nothing but realism to repair it draws the object anew that looks least real, in its place.
    """

    name = "inpaint"
    about = "Draw only the places of what failed anew, keep the rest of the best picture."
    stops_when_satisfied = True

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Starting from a picture."""
        return None if features.edit else "it cannot start from a picture"

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """The places of the objects that failed facts speak of, or that of one object that does
        not look real."""
        lacking = self.unsupported_reason(round_context.features)
        if only_unreal(round_context) and not lacking:
            return self._of_worst(round_context)
        if lacking:
            return RepairPlan(self.name, "draws the prompt again from another seed", lacking)
        regions = self._regions(round_context)
        if regions is None:
            does = "draws the whole picture anew from under noise: no places are planned"
        else:
            does = f"draws {len(regions)} of the planned places anew, keeps the rest"
        return RepairPlan(self.name, does, listed(round_context))

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """The best picture to begin with, and a mask of what may change."""
        if self.unsupported_reason(round_context.features):
            return GenerationOverrides()
        options = round_context.options
        regions = (
            self._regions(round_context)
            if repair_plan.object is None
            else _alone(repair_plan.region)
        )
        if regions is None:
            start = Start(image=round_context.best, strength=options.repair_strength)
        else:
            # What is wrong there must not shine through.
            mask = mask_in(round_context, regions)
            start = Start(image=round_context.best, strength=1.0, mask=mask)
        return GenerationOverrides(start=start)

    def _of_worst(self, round_context: RoundContext) -> RepairPlan:
        item, region = round_context.unrealistic[0], region_of_worst(round_context)
        if region is None:
            does = f"draws the whole picture anew from under noise: {item.object} has no place"
        else:
            does = f"draws {item.object} anew in its place, keeps the rest"
        return RepairPlan(
            self.name, does, said_of_worst(round_context), object=item.object, region=region
        )

    def _regions(self, round_context: RoundContext) -> list[Region] | None:
        return regions_of(round_context, objects_of(failed(round_context)))


def _alone(region: Region | None) -> list[Region] | None:
    return None if region is None else [region]


class Edit:
    """Tells an edit model what to change; another model draws the picture again from under noise
    with the words of what failed."""

    name = "edit"
    about = "Tell an edit model what to change in the best picture."
    stops_when_satisfied = True

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Instructions."""
        return None if features.instructions else "it takes no instructions"

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """One instruction for all that failed."""
        features = round_context.features
        if features.instructions:
            return RepairPlan(
                self.name, f"asks for: {instruction(round_context)}", listed(round_context)
            )
        if features.edit:
            does = "draws the best picture again from under noise, with what failed said again"
        else:
            does = "draws again from another seed, with what failed said again"
        return RepairPlan(
            self.name, does, f"{listed(round_context)} ({self.unsupported_reason(features)})"
        )

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """The picture and the instruction."""
        features = round_context.features
        if features.instructions:
            start = Start(image=round_context.best, strength=1.0, instruct=True)
            return GenerationOverrides(start=start, prompt=instruction(round_context))
        said = said_again(round_context)
        if not features.edit:
            return GenerationOverrides(prompt=said)
        strength = round_context.options.repair_strength
        return GenerationOverrides(
            start=Start(image=round_context.best, strength=strength), prompt=said
        )


class Emphasize:
    """Lets the words of what failed weigh more; from the noise of the best picture, so that the
    rest stays much the same, and when that has failed from other noise."""

    name = "emphasis"
    about = "Let the words of what failed weigh more in the prompt."
    stops_when_satisfied = True
    weight, step, most = 1.3, 0.15, 1.9
    """Factor of the embeddings at first, what each failure adds, and where that ends."""

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Weighted words."""
        return None if features.emphasis else "it cannot weigh the words of a prompt"

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """More weight than at the last try."""
        noise = (
            "other noise" if self._seed(round_context) is None else "the noise of the best picture"
        )
        lacking = self.unsupported_reason(round_context.features)
        if lacking:
            does = f"says what failed once more at the end of the prompt; from {noise}"
            return RepairPlan(self.name, does, f"{listed(round_context)} ({lacking})")
        words = self._words(round_context)
        if not words:
            does = f"says what failed once more: the prompt has no words for it; from {noise}"
            return RepairPlan(self.name, does, listed(round_context))
        does = f"weighs {self._weight(round_context):.2f} on: {'; '.join(words)}; from {noise}"
        return RepairPlan(self.name, does, listed(round_context))

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Weights, or other words, and the seed."""
        seed = self._seed(round_context)
        words = self._words(round_context)
        if not words or not round_context.features.emphasis:
            return GenerationOverrides(prompt=said_again(round_context), seed=seed)
        weight = self._weight(round_context)
        return GenerationOverrides(
            emphasis=tuple(Emphasis(text=text, weight=weight) for text in words), seed=seed
        )

    def _words(self, round_context: RoundContext) -> list[str]:
        """The words for what failed that the prompt has; else those of the objects concerned."""
        said = [text for text in phrases(round_context) if text in round_context.prompt]
        if said:
            return said
        items = {item.id: item for item in round_context.scene.objects}
        named = [noun_phrase(items[key]) for key in objects_of(failed(round_context))]
        return [text for text in dict.fromkeys(named) if text in round_context.prompt]

    def _seed(self, round_context: RoundContext) -> int | None:
        """That of the best picture at the first try, on a backend with seeds."""
        first = round_context.features.seeds and not self._failures(round_context)
        return round_context.request.seed if first else None

    def _failures(self, round_context: RoundContext) -> int:
        return round_context.failures_of(self.name)

    def _weight(self, round_context: RoundContext) -> float:
        return min(self.most, self.weight + self.step * self._failures(round_context))


def said_again(round_context: RoundContext) -> str:
    """The prompt of the scene with what failed at its end once more."""
    return f"{round_context.prompt}, with {', '.join(clauses(round_context))}"

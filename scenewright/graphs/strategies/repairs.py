"""Repairs without a reference image: a region drawn anew, an instruction, words that weigh more.

Which object of a picture looks least real, and where it is drawn anew.

Realism is repaired after all that is missing. The object with the least realism comes first; one
that was tried :data:`TRIES` times without gain gives way to the next.

The controls: pictures without feedback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mean

from scenewright.core.facts import Answer, Fact, ScoreCard
from scenewright.core.layout import Region, region_between
from scenewright.core.ports.backend import BackendFeatures, Emphasis, Reference, Start
from scenewright.core.questions import noun_phrase
from scenewright.core.scene import SceneGraph
from scenewright.graphs.strategies.base import (
    Attempt,
    GenerationOverrides,
    RepairPlan,
    RoundContext,
    UnrealisticObject,
    absent_objects,
    clauses,
    failed_facts,
    failed_regions,
    failure_line,
    instruction,
    mask_in,
    objects_of,
    phrases,
    planned,
    start_within,
)

TRIES = 2
"""Rounds in a row that may fail at one object."""
MARGIN = 0.1
"""What is drawn anew around an object, as a share of the sides of its box: its outline may move."""


def unrealistic_objects(
    facts: Sequence[Fact],
    card: ScoreCard,
    answers: Iterable[Answer],
    size: tuple[int, int],
    tried: Sequence[Attempt] = (),
) -> tuple[UnrealisticObject, ...]:
    """Return the objects that ``card`` finds there and not real, the next one to repair first.

    ``answers`` are the judges' of the same picture, of ``size`` (width, height) in pixels; an
    object's region is the median of those that they give. ``tried`` are earlier rounds.
    """
    verdicts = {verdict.fact_id: verdict for verdict in card.verdicts}
    seen: dict[str, list[tuple[float, float, float, float]]] = {}
    for answer in answers:
        if answer.region is not None and answer.state in ("yes", "no"):
            seen.setdefault(answer.fact_id, []).append(answer.region)
    asked: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.kind == "realism":
            asked.setdefault(fact.subject, []).append(fact)
    found: list[UnrealisticObject] = []
    for name, mine in asked.items():
        judged = [(fact, verdicts[fact.id]) for fact in mine if fact.id in verdicts]
        lacking = tuple((fact.key or "", v.likelihood) for fact, v in judged if v.state == "no")
        if not lacking:
            continue
        boxes = [box for fact in mine for box in seen.get(fact.id, ())]
        found.append(
            UnrealisticObject(
                object=name,
                lacking=lacking,
                realism=mean(v.likelihood for _, v in judged if v.state in ("yes", "no")),
                region=region_between(boxes, size),
                tries=_tries(name, tried),
            )
        )
    return tuple(sorted(found, key=lambda item: (item.tries // TRIES, item.realism)))


def only_unreal(round_context: RoundContext) -> bool:
    """Whether nothing is known to be missing, and objects do not look real."""
    return bool(round_context.unrealistic) and not round_context.missing


def region_of_worst(round_context: RoundContext) -> Region | None:
    """Return where the object to repair next is drawn anew.

    Where the judges saw it, or else where it was planned, a little wider; None if neither is known.
    """
    item = round_context.unrealistic[0]
    places: Mapping[str, Region] = {} if item.region is not None else planned(round_context)
    region = item.region or places.get(item.object)
    return None if region is None else _wider(region)


def worst_object_line(round_context: RoundContext) -> str:
    """Return ``dog.1 does not look real.

    Shape .22``: the object to repair next, with the probability of each aspect that was judged no.
    """
    item = round_context.unrealistic[0]
    aspects = ", ".join(
        f"{aspect} {likely:.2f}".replace(" 0.", " .") for aspect, likely in item.lacking
    )
    more = round_context.unrealistic[1:]
    others = f"; nor do {len(more)} others" if len(more) > 1 else ""
    if len(more) == 1:
        others = f"; nor does {more[0].object}"
    return f"{item.object} does not look real: {aspects}{others}"


def _tries(name: str, tried: Sequence[Attempt]) -> int:
    """Return the number of attempts at this object since the last gain.

    A gain is one of an attempt at this object or at the whole picture.
    """
    count = 0
    for attempt in tried:
        if attempt.better and attempt.object in (name, None):
            count = 0
        elif attempt.object == name:
            count += 1
    return count


def _wider(region: Region) -> Region:
    across = MARGIN * (region.right - region.left)
    down = MARGIN * (region.bottom - region.top)
    return Region(
        max(0.0, region.left - across),
        max(0.0, region.top - down),
        min(1.0, region.right + across),
        min(1.0, region.bottom + down),
    )


class Inpaint:
    """Draws the places of what failed anew from noise, and keeps the rest of the best picture.

    With nothing but realism to repair it draws the object anew that looks least real, in its place.
    """

    name = "inpaint"
    about = "Draw only the places of what failed anew, keep the rest of the best picture."
    stops_when_satisfied = True

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Report missing support for starting from a picture."""
        return None if features.edit else "it cannot start from a picture"

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """Plan to redraw the places of failed facts, or of one unrealistic object."""
        lacking = self.unsupported_reason(round_context.features)
        if only_unreal(round_context) and not lacking:
            return self._of_worst(round_context)
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
        regions = (
            failed_regions(round_context)
            if repair_plan.object is None
            else _alone(repair_plan.region)
        )
        if regions is None:
            start = Start(image=round_context.best, strength=options.repair_strength)
        else:
            # What is wrong there must not shine through.
            mask = mask_in(round_context, regions)
            start = start_within(round_context, round_context.best, 1.0, mask)
        return GenerationOverrides(start=start)

    def _of_worst(self, round_context: RoundContext) -> RepairPlan:
        item, region = round_context.unrealistic[0], region_of_worst(round_context)
        if region is None:
            does = f"draws the whole picture anew from under noise: {item.object} has no place"
        else:
            does = f"draws {item.object} anew in its place, keeps the rest"
        return RepairPlan(
            self.name, does, worst_object_line(round_context), object=item.object, region=region
        )


def _alone(region: Region | None) -> list[Region] | None:
    return None if region is None else [region]


class Edit:
    """Tells an edit model what to change.

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


class Emphasize:
    """Lets the words of what failed weigh more.

    From the noise of the best picture, so that the rest stays much the same, and when that has
    failed from other noise.
    """

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
            return RepairPlan(self.name, does, f"{failure_line(round_context)} ({lacking})")
        words = self._words(round_context)
        if not words:
            does = f"says what failed once more: the prompt has no words for it; from {noise}"
            return RepairPlan(self.name, does, failure_line(round_context))
        does = f"weighs {self._weight(round_context):.2f} on: {'; '.join(words)}; from {noise}"
        return RepairPlan(self.name, does, failure_line(round_context))

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Weights, or other words, and the seed."""
        seed = self._seed(round_context)
        words = self._words(round_context)
        if not words or not round_context.features.emphasis:
            return GenerationOverrides(prompt=repeat_failures(round_context), seed=seed)
        weight = self._weight(round_context)
        return GenerationOverrides(
            emphasis=tuple(Emphasis(text=text, weight=weight) for text in words), seed=seed
        )

    def _words(self, round_context: RoundContext) -> list[str]:
        """Return the words for what failed that the prompt has.

        Else those of the objects concerned.
        """
        said = [text for text in phrases(round_context) if text in round_context.prompt]
        if said:
            return said
        items = {item.id: item for item in round_context.scene.objects}
        named = [noun_phrase(items[key]) for key in objects_of(failed_facts(round_context))]
        return [text for text in dict.fromkeys(named) if text in round_context.prompt]

    def _seed(self, round_context: RoundContext) -> int | None:
        """Return the best picture's seed at the first try, on a backend with seeds."""
        first = round_context.features.seeds and not self._failures(round_context)
        return round_context.request.seed if first else None

    def _failures(self, round_context: RoundContext) -> int:
        return round_context.failures_of(self.name)

    def _weight(self, round_context: RoundContext) -> float:
        return min(self.most, self.weight + self.step * self._failures(round_context))


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
        why = (
            worst_object_line(round_context)
            if only_unreal(round_context)
            else "it looks at no feedback"
        )
        return RepairPlan(self.name, "draws the same prompt from another seed", why)

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

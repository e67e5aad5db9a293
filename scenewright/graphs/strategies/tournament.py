"""A tournament: several repairs of every place of what is missing, of which the best is pasted.

The missing facts are grouped into places (:mod:`scenewright.graphs.strategies.places`). In each
heat of a round every place that has no sure winner gets proposals, all drawn in one batch and each
judged on the facts that its place can change; the first heat draws :data:`FIRST`, the second what
is left of ``proposals``. Then the best proposal of each place is pasted, if the odds are two to one
that it gained a fact and lost none (:mod:`scenewright.agents.panel.change`).
``graphs/nodes/tournament.py`` draws, judges and pastes; this module plans how each place is
redrawn.

A backend that keeps parts of a picture draws the place anew: from noise, after a picture of what is
missing where it takes references, or as an instruction says. For another one, and where
nothing is left but places that were tried in vain, the whole picture is the place.

A round that gained nothing is followed by one that plans the scene anew: the whole picture from
other seeds, with its objects in other places where the composer plans them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from PIL import Image

from scenewright.core.facts import Fact
from scenewright.core.layout import Region, crop_around, mask_of, region_within
from scenewright.core.ports.backend import BackendFeatures, Reference, Start
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import Place
from scenewright.graphs.state import round_seed
from scenewright.graphs.strategies.base import (
    GenerationOverrides,
    RepairPlan,
    RoundContext,
    edit_instruction,
    failure_line,
    mask_in,
    planned_regions_by_object,
    start_within,
)
from scenewright.graphs.strategies.places import overlap, places_of

FIRST = 2
"""Proposals of every place in the first heat."""
ROOM = 16
"""Sides of crops are multiples of this many pixels, for the estimate of work."""
VARIED = ((0.5, 1.0), (0.5, 1.0), (0.375, 1.5), (0.75, 1.0), (1.0, 1.0))
"""Factors of ``repair_strength`` and λ1, proposal by proposal: what was pasted is mostly kept at
first, which is cheap as well, and later drawn anew more freely."""
MOST_WEIGHT = 4.0
"""Largest weight of a reference."""
COVERED = 0.3
"""An object of whose place this share lies in another place is in the prompt of its crop."""


class Tournament:
    """Repairs every place of what is missing by the best of several proposals."""

    name = "tournament"
    about = "Draw several repairs of each place of what failed, paste the best that loses nothing."
    stops_when_satisfied = True
    uses_detector = True
    """Whether the profile's detector is to tell where objects stand."""

    def unsupported_reason(self, features: BackendFeatures) -> str | None:
        """Report missing support for keeping a part of a picture."""
        return None if keeps_parts(features) else "it cannot keep a part of a picture"

    def plan_repair(self, round_context: RoundContext) -> RepairPlan:
        """Plan proposals for every place of what failed."""
        features, options = round_context.features, round_context.options
        places = places_of(round_context, self.name)
        if gained_nothing(round_context, self.name):
            return self._plan_anew(round_context, places)
        whole = not places[0].regions
        if (lacking := self.unsupported_reason(features)) is not None and not whole:
            places = (_whole(places, round_context),)
            whole = True
        left = round_context.images_left
        reference = None
        if shows_missing(round_context) and (left is None or left >= 2):
            reference = _shown(places, round_context)
        work = _work(places, round_context)
        shown = [0.0] * options.proposals
        if reference is not None and pastes(features) and not whole:
            one = reference_work(round_context)
            shown = [one * after_missing(round_context, at) for at in range(options.proposals)]
        work = [of_place + of_shown for of_place, of_shown in zip(work, shown, strict=True)]
        what = "the whole picture" if whole else f"{_count(len(places), 'place')} of what failed"
        why = failure_line(round_context)
        if lacking is not None:
            why += f" ({lacking})"
        elif whole:
            tries = places[0].tries
            said = f"tried in vain {tries} times" if tries else "not all places are known"
            why += f" ({said})"
        return self._plan(
            round_context, places, work, f"draws {{}} proposals for {what}", why, reference
        )

    def _plan_anew(self, round_context: RoundContext, places: Sequence[Place]) -> RepairPlan:
        place = _whole(places, round_context)
        does = "plans the scene anew and draws {} whole pictures of it"
        why = f"{failure_line(round_context)} (nothing was gained in places)"
        plan = self._plan(round_context, (place,), _work((place,), round_context), does, why)
        seed = round_seed(round_context.options.seed, round_context.round, "candidate")
        planned = round_context.composer.places(round_context.scene, seed)
        return replace(plan, layout=round_context.round if planned else None)

    def _plan(
        self,
        round_context: RoundContext,
        places: tuple[Place, ...],
        work: Sequence[float],
        does: str,
        why: str,
        reference: SceneGraph | None = None,
    ) -> RepairPlan:
        most, calls = round_context.options.proposals, round_context.judges * len(places)
        first = min(FIRST, most)
        spent, asked = (sum(work[:first]), sum(work)), (first * calls, most * calls)
        does = (
            f"{does.format(first)}, up to {most} where none wins: "
            f"{spent[0]:.0f} to {spent[1]:.0f} steps of work, {asked[0]} to {asked[1]} judge calls"
        )
        return RepairPlan(
            self.name, does, why, reference, places=places, work=spent, judge_calls=asked
        )

    def redraw(
        self, round_context: RoundContext, repair_plan: RepairPlan, shown: str | None
    ) -> GenerationOverrides:
        """Return the first proposal of the first place, for hosts that draw one picture a round."""
        first, _ = self.proposal(round_context, repair_plan.places[0], shown, 0, 0)
        return replace(first, seed=None)

    def proposal(
        self,
        round_context: RoundContext,
        place: Place,
        shown: str | None,
        number: int,
        seed: int,
    ) -> tuple[GenerationOverrides, str]:
        """Return the changes of proposal ``number`` of ``place``, and what it does in words.

        ``shown`` is the content hash of the picture of what is missing, if there is one.
        """
        if not place.regions and gained_nothing(round_context, self.name):
            changes, does = _anew(_Asked(round_context, place, None, number))
            return replace(changes, seed=seed), does
        placed = bool(place.regions)
        turn = number
        if placed and _draws_crops(round_context):
            turn //= 2
            if not after_missing(round_context, number):
                changes, does = _noise(_Asked(round_context, place, None, turn))
                return replace(changes, seed=seed), does
        ways = _ways(round_context.features, shown is not None, placed)
        changes, does = ways[turn % len(ways)](_Asked(round_context, place, shown, turn))
        return replace(changes, seed=seed), does


@dataclass(frozen=True, slots=True)
class _Asked:
    """A proposal that is asked for."""

    round_context: RoundContext
    place: Place
    shown: str | None
    """Content hash of the picture of what is missing."""
    number: int
    """Which of those that are drawn in this way, from 0."""

    @property
    def regions(self) -> list[Region]:
        return [Region(*region) for region in self.place.regions]


_Way = Callable[[_Asked], tuple[GenerationOverrides, str]]
"""Returns the changes of a proposal but for its seed, and what it does in words."""


def _pasted(asked: _Asked) -> tuple[GenerationOverrides, str]:
    round_context = asked.round_context
    shown = asked.shown
    options, images, best = round_context.options, round_context.images, round_context.best
    assert shown is not None
    picture = images.get(best)
    mask = mask_of(asked.regions, picture.size)
    inside = images.put(mask)
    pasted = images.put(Image.composite(images.get(shown).resize(picture.size), picture, mask))
    softer, stronger = VARIED[asked.number % len(VARIED)]
    weight = min(MOST_WEIGHT, options.weight_missing * stronger)
    strength = options.repair_strength * softer
    new = Reference(
        image=shown,
        weight=weight,
        mask=inside if round_context.features.masks else None,
    )
    start = start_within(round_context, pasted, strength, inside)
    return (
        GenerationOverrides(references=(new,), start=start),
        f"after a picture of what is missing, weight {weight:g}, strength {strength:g}",
    )


def _noise(asked: _Asked) -> tuple[GenerationOverrides, str]:
    round_context = asked.round_context
    mask = mask_in(round_context, asked.regions)
    start = start_within(round_context, round_context.best, 1.0, mask)
    return GenerationOverrides(start=start), "from noise"


def _instructed(asked: _Asked) -> tuple[GenerationOverrides, str]:
    round_context = asked.round_context
    shown = asked.shown
    start = Start(image=round_context.best, strength=1.0, instruct=True)
    if asked.place.regions:
        mask = mask_in(round_context, asked.regions)
        start = start_within(round_context, round_context.best, 1.0, mask, instruct=True)
    if not round_context.features.edit_references:
        shown = None
    order = edit_instruction(
        round_context.scene, facts_in(round_context, asked.place), shown is not None
    )
    references = () if shown is None else (Reference(image=shown, weight=1.0),)
    return (
        GenerationOverrides(references=references, start=start, prompt=order),
        f"asks for: {order}",
    )


def _guided(asked: _Asked) -> tuple[GenerationOverrides, str]:
    round_context = asked.round_context
    shown = asked.shown
    options = round_context.options
    kept = Reference(image=round_context.best, weight=options.weight_best)
    both: tuple[Reference, ...] = (kept,)
    if shown is not None:
        both = (*both, Reference(image=shown, weight=options.weight_missing))
    both = both[-round_context.features.references :]
    weights = ", ".join(f"weight {reference.weight:g}" for reference in both)
    return (
        GenerationOverrides(references=both),
        f"the whole picture with references, {weights}",
    )


def _anew(asked: _Asked) -> tuple[GenerationOverrides, str]:
    return GenerationOverrides(), "the whole picture from another seed"


def gained_nothing(round_context: RoundContext, strategy: str) -> bool:
    """Return whether ``strategy`` has tried to repair the best picture, and nothing was gained."""
    tried = round_context.tried
    since = max((at for at, attempt in enumerate(tried, 1) if attempt.better), default=0)
    return any(attempt.strategy == strategy for attempt in tried[since:])


def keeps_parts(features: BackendFeatures) -> bool:
    """Whether a backend can draw a part of a picture anew and keep the rest."""
    return features.edit or features.instructions


def shows_missing(round_context: RoundContext) -> bool:
    """Whether proposals of the round need a picture of what is missing."""
    features = round_context.features
    takes = features.references or features.edit_references
    return bool(takes) and round_context.options.weight_missing != 0


def pastes(features: BackendFeatures) -> bool:
    """Whether a backend draws a place after a picture of what is missing that is pasted there."""
    return features.edit and (
        features.start_references or (features.references > 0 and features.masks)
    )


def shown_in_crop(
    place: Place, round_context: RoundContext
) -> tuple[SceneGraph, dict[str, Region]] | None:
    """Return the part of the scene that stands in ``place``, and where in its crop.

    Places are in shares of the crop, by object id. None where no crop is drawn.
    """
    box = _crop(place, round_context)
    if box is None:
        return None
    width, height = _size(round_context)
    crop = Region(box[0] / width, box[1] / height, box[2] / width, box[3] / height)
    where = planned_regions_by_object(round_context)
    if len(place.objects) == 1:
        # Where it is drawn, planned or not.
        where = {place.objects[0]: _around(place), **where}
    shown = _standing_in(place, round_context)
    part = _part(round_context.scene, shown)
    return part, {
        name: region_within(region, crop) for name, region in where.items() if name in shown
    }


def _around(place: Place) -> Region:
    left, top, right, bottom = zip(*place.regions, strict=True)
    return Region(min(left), min(top), max(right), max(bottom))


def _shown(places: Sequence[Place], round_context: RoundContext) -> SceneGraph:
    """Return what a picture of what is missing is drawn of.

    Where it is pasted, it also shows what stands in the same places, which would be lost.
    """
    if not pastes(round_context.features):
        return round_context.missing
    shown = {item.id for item in round_context.missing.objects}
    for place in places:
        shown |= _standing_in(place, round_context)
    return _part(round_context.scene, shown)


def _standing_in(place: Place, round_context: RoundContext) -> set[str]:
    """Ids of the objects of ``place``, and of others whose planned places it covers enough."""
    regions = [Region(*region) for region in place.regions]
    return set(place.objects) | {
        name
        for name, mine in planned_regions_by_object(round_context).items()
        if any(overlap(mine, region) > COVERED for region in regions)
    }


def _part(scene: SceneGraph, objects: Collection[str]) -> SceneGraph:
    return scene.subgraph(
        objects, [r for r in scene.relations if r.source in objects and r.target in objects]
    )


def reference_work(round_context: RoundContext) -> float:
    """Estimate the full-picture steps of the denoiser that a picture of what is missing takes."""
    features, options = round_context.features, round_context.options
    whole = options.steps or features.default_steps
    return _step_work(round_context) * whole


def _step_work(round_context: RoundContext) -> float:
    """Return the work of a step of a whole picture of the run's size."""
    features, options = round_context.features, round_context.options
    usual = features.default_size
    pixels = (options.width or usual[0]) * (options.height or usual[1])
    return pixels / (usual[0] * usual[1])


def facts_in(round_context: RoundContext, place: Place) -> Sequence[Fact]:
    """Return the facts that ``place`` is to gain."""
    return [fact for fact in round_context.facts if fact.id in place.missing]


def _work(places: Sequence[Place], round_context: RoundContext) -> list[float]:
    """Return the work of each proposal, one of every place together."""
    return [
        sum(proposal_work(place, number, round_context) for place in places)
        for number in range(round_context.options.proposals)
    ]


def proposal_work(place: Place, number: int, round_context: RoundContext) -> float:
    """Estimate the full-picture steps of the denoiser of proposal ``number`` of ``place``."""
    features, options = round_context.features, round_context.options
    steps, share = options.steps or features.default_steps, 1.0
    if place.regions:
        shown = shows_missing(round_context) and after_missing(round_context, number)
        if features.strengths and shown:
            turn = number // 2 if _draws_crops(round_context) else number
            softer, _ = VARIED[turn % len(VARIED)]
            steps = max(1, math.floor(steps * options.repair_strength * softer))
        box = _crop(place, round_context)
        if box is not None:
            size = _size(round_context)
            width, height = box[2] - box[0], box[3] - box[1]
            share = width * height / (size[0] * size[1])
    return _step_work(round_context) * steps * share


def _size(round_context: RoundContext) -> tuple[int, int]:
    """Return the width and height of the run's pictures."""
    options, usual = round_context.options, round_context.features.default_size
    return options.width or usual[0], options.height or usual[1]


def _crop(place: Place, round_context: RoundContext) -> tuple[int, int, int, int] | None:
    """Return left, top, right and bottom of the crop of ``place``; None where none is drawn."""
    options, features = round_context.options, round_context.features
    if not (place.regions and options.crop and features.crops):
        return None
    mask = mask_of((Region(*region) for region in place.regions), _size(round_context))
    return crop_around(mask, ROOM, features.default_size)


def _ways(features: BackendFeatures, shown: bool, placed: bool) -> list[_Way]:
    """Return how proposals may be drawn, the most promising way first.

    ``shown``: after a picture of what is missing, if they can be.
    """
    if placed:
        found: list[_Way] = [_pasted] if shown and pastes(features) else []
        if features.instructions:
            found.append(_instructed)
        if features.edit and not found:
            found.append(_noise)
        return found
    found = [_instructed] if features.instructions else []
    if features.references:
        found.append(_guided)
    return [*found, _anew]


def after_missing(round_context: RoundContext, number: int) -> bool:
    """Whether proposal ``number`` of a place is drawn after a picture of what is missing.

    The prompt of a crop says what stands there alone, so that every other one does without, which
    begins and is cheaper.
    """
    return number % 2 == 1 or not _draws_crops(round_context)


def _draws_crops(round_context: RoundContext) -> bool:
    features = round_context.features
    return round_context.options.crop and features.crops and features.edit


def _whole(places: Sequence[Place], round_context: RoundContext) -> Place:
    missing = [name for place in places for name in place.missing]
    return Place(
        objects=tuple(dict.fromkeys(name for place in places for name in place.objects)),
        missing=tuple(missing),
        watched=tuple(
            verdict.fact_id
            for verdict in round_context.card.of_graph
            if verdict.state == "yes" and verdict.fact_id not in missing
        ),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

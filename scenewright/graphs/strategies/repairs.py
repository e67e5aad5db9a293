"""Repairs without a reference image: a region drawn anew, an instruction, words that weigh more."""

from __future__ import annotations

from scenewright.core.ports.backend import BackendFeatures, Emphasis, Start
from scenewright.core.questions import noun_phrase
from scenewright.core.regions import Region
from scenewright.graphs.strategies.base import Move, Redrawing, Situation
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

    def lacks(self, features: BackendFeatures) -> str | None:
        """Starting from a picture."""
        return None if features.edit else "it cannot start from a picture"

    def move(self, situation: Situation) -> Move:
        """The places of the objects that failed facts speak of, or that of one object that does
        not look real."""
        lacking = self.lacks(situation.features)
        if only_unreal(situation) and not lacking:
            return self._of_worst(situation)
        if lacking:
            return Move(self.name, "draws the prompt again from another seed", lacking)
        regions = self._regions(situation)
        if regions is None:
            does = "draws the whole picture anew from under noise: no places are planned"
        else:
            does = f"draws {len(regions)} of the planned places anew, keeps the rest"
        return Move(self.name, does, listed(situation))

    def redraw(self, situation: Situation, move: Move, shown: str | None) -> Redrawing:
        """The best picture to begin with, and a mask of what may change."""
        if self.lacks(situation.features):
            return Redrawing()
        options = situation.options
        regions = self._regions(situation) if move.object is None else _alone(move.region)
        if regions is None:
            start = Start(image=situation.best, strength=options.repair_strength)
        else:
            # What is wrong there must not shine through.
            mask = mask_in(situation, regions)
            start = Start(image=situation.best, strength=1.0, mask=mask)
        return Redrawing(start=start)

    def _of_worst(self, situation: Situation) -> Move:
        item, region = situation.unreal[0], region_of_worst(situation)
        if region is None:
            does = f"draws the whole picture anew from under noise: {item.object} has no place"
        else:
            does = f"draws {item.object} anew in its place, keeps the rest"
        return Move(self.name, does, said_of_worst(situation), object=item.object, region=region)

    def _regions(self, situation: Situation) -> list[Region] | None:
        return regions_of(situation, objects_of(failed(situation)))


def _alone(region: Region | None) -> list[Region] | None:
    return None if region is None else [region]


class Edit:
    """Tells an edit model what to change; another model draws the picture again from under noise
    with the words of what failed."""

    name = "edit"
    about = "Tell an edit model what to change in the best picture."
    stops_when_satisfied = True

    def lacks(self, features: BackendFeatures) -> str | None:
        """Instructions."""
        return None if features.instructions else "it takes no instructions"

    def move(self, situation: Situation) -> Move:
        """One instruction for all that failed."""
        features = situation.features
        if features.instructions:
            return Move(self.name, f"asks for: {instruction(situation)}", listed(situation))
        if features.edit:
            does = "draws the best picture again from under noise, with what failed said again"
        else:
            does = "draws again from another seed, with what failed said again"
        return Move(self.name, does, f"{listed(situation)} ({self.lacks(features)})")

    def redraw(self, situation: Situation, move: Move, shown: str | None) -> Redrawing:
        """The picture and the instruction."""
        features = situation.features
        if features.instructions:
            start = Start(image=situation.best, strength=1.0, instruct=True)
            return Redrawing(start=start, prompt=instruction(situation))
        said = said_again(situation)
        if not features.edit:
            return Redrawing(prompt=said)
        strength = situation.options.repair_strength
        return Redrawing(start=Start(image=situation.best, strength=strength), prompt=said)


class Emphasize:
    """Lets the words of what failed weigh more; from the noise of the best picture, so that the
    rest stays much the same, and when that has failed from other noise."""

    name = "emphasis"
    about = "Let the words of what failed weigh more in the prompt."
    stops_when_satisfied = True
    weight, step, most = 1.3, 0.15, 1.9
    """Factor of the embeddings at first, what each failure adds, and where that ends."""

    def lacks(self, features: BackendFeatures) -> str | None:
        """Weighted words."""
        return None if features.emphasis else "it cannot weigh the words of a prompt"

    def move(self, situation: Situation) -> Move:
        """More weight than at the last try."""
        noise = "other noise" if self._seed(situation) is None else "the noise of the best picture"
        lacking = self.lacks(situation.features)
        if lacking:
            does = f"says what failed once more at the end of the prompt; from {noise}"
            return Move(self.name, does, f"{listed(situation)} ({lacking})")
        words = self._words(situation)
        if not words:
            does = f"says what failed once more: the prompt has no words for it; from {noise}"
            return Move(self.name, does, listed(situation))
        does = f"weighs {self._weight(situation):.2f} on: {'; '.join(words)}; from {noise}"
        return Move(self.name, does, listed(situation))

    def redraw(self, situation: Situation, move: Move, shown: str | None) -> Redrawing:
        """Weights, or other words, and the seed."""
        seed = self._seed(situation)
        words = self._words(situation)
        if not words or not situation.features.emphasis:
            return Redrawing(prompt=said_again(situation), seed=seed)
        weight = self._weight(situation)
        return Redrawing(
            emphasis=tuple(Emphasis(text=text, weight=weight) for text in words), seed=seed
        )

    def _words(self, situation: Situation) -> list[str]:
        """The words for what failed that the prompt has; else those of the objects concerned."""
        said = [text for text in phrases(situation) if text in situation.prompt]
        if said:
            return said
        items = {item.id: item for item in situation.scene.objects}
        named = [noun_phrase(items[key]) for key in objects_of(failed(situation))]
        return [text for text in dict.fromkeys(named) if text in situation.prompt]

    def _seed(self, situation: Situation) -> int | None:
        """That of the best picture at the first try, on a backend with seeds."""
        first = situation.features.seeds and not self._failures(situation)
        return situation.request.seed if first else None

    def _failures(self, situation: Situation) -> int:
        return situation.failures_of(self.name)

    def _weight(self, situation: Situation) -> float:
        return min(self.most, self.weight + self.step * self._failures(situation))


def said_again(situation: Situation) -> str:
    """The prompt of the scene with what failed at its end once more."""
    return f"{situation.prompt}, with {', '.join(clauses(situation))}"

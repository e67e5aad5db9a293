"""Facts of a set that the models of an evaluation have no words for, told before it begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenewright.core.facts import Fact
from scenewright.core.ports.backend import ImageBackend
from scenewright.evals.runner.model_setup import EvalModels
from scenewright.runs.coverage import facts_outside

_NAMED = 6


@dataclass(frozen=True, slots=True)
class VocabularyGap:
    """Facts of which some models know nothing."""

    who: str
    """``panel NAME``, ``loop ARM`` or the image model's id."""
    does: str
    """What they cannot do with these facts: ``answer`` or ``draw`` them."""
    facts: int
    """How many facts of the set, in round numbers: they are counted on a sample."""
    of: int
    """Facts of the set, likewise."""
    words: tuple[str, ...]
    """The unknown words, the most frequent first."""

    @property
    def text(self) -> str:
        """The same on one line."""
        more = len(self.words) - _NAMED
        words = ", ".join(self.words[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        fate = "they stay unscored" if self.does == "answer" else "pictures will lack them"
        return (
            f"{self.who} has no words for about {self.facts:,} of {self.of:,} facts ({words}): "
            f"{fate}"
        )


def vocabulary_gaps(
    eval_models: EvalModels, asked: Sequence[Sequence[Fact]], share: float
) -> tuple[VocabularyGap, ...]:
    """What panels, loops and image models of ``eval_models`` do not know of the facts ``asked``,
    one list an item; ``share``: items of the set by those listed."""
    return tuple(_found(eval_models, asked, share))


def _found(
    eval_models: EvalModels, asked: Sequence[Sequence[Fact]], share: float
) -> Iterator[VocabularyGap]:
    total = round(share * sum(map(len, asked)))
    judges = [
        (
            f"panel {judge_panel.name}",
            [j.caps.vocabulary for j in judge_panel.judges],
            judge_panel.panel.quorum,
        )
        for judge_panel in eval_models.judge_panels
    ]
    backends: dict[str, ImageBackend] = {}
    for arm in eval_models.arms:
        generator = eval_models.generators[arm.name]
        if generator is not None:
            backends[generator.backend.id] = generator.backend
            if arm.loops:
                words = [judge.caps.vocabulary for judge in generator.judges]
                judges.append((f"loop {arm.name}", words, arm.profile.quorum))
    groups = [
        (who, "answer", [facts_outside(facts, words, quorum) for facts in asked])
        for who, words, quorum in judges
    ]
    for who, backend in backends.items():
        words = [backend.features.vocabulary]
        groups.append((who, "draw", [facts_outside(facts, words, worded=False) for facts in asked]))
    for who, does, found in groups:
        count = sum(map(len, found))
        said = Counter(str(one) for each in found for unknown in each.values() for one in unknown)
        if count:
            names = tuple(word for word, _ in said.most_common())
            yield VocabularyGap(who, does, max(1, round(share * count)), total, names)
